"""The machine's own clock and randomness behind the ports that everybody else is given.

The only place, with its fellow adapters, where the product reads the time or draws a number.  `monotonic` measures
durations and never goes back; `now` follows the machine's clock, may step, and is for people and for the store, which
alone decides what time a rule reads.
"""

from __future__ import annotations

import secrets
import time
from threading import TIMEOUT_MAX, Event

from fleetwarden.domain.identifiers import Micros

__all__ = ["SystemClock", "SystemIds"]

_FRACTION_BITS = 53  # as many as a float holds exactly


class SystemClock:
    """Clock port over this machine."""

    def now(self) -> Micros:
        """Microseconds since the epoch; exact, without a detour over floats."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Seconds since some fixed moment; unaffected by steps of the wall clock."""
        return time.monotonic()

    def wait(self, event: Event, timeout_s: float) -> bool:
        """Wait until `event` is set or `timeout_s` (≥ 0) passed; returns whether it is set."""
        return event.wait(min(max(0.0, timeout_s), TIMEOUT_MAX))


class SystemIds:
    """IdSource port over the operating system's random numbers."""

    def new(self) -> str:
        """16 hex digits (64 random bits)."""
        return secrets.token_hex(8)

    def fraction(self) -> float:
        """A number in [0, 1)."""
        return secrets.randbits(_FRACTION_BITS) / (1 << _FRACTION_BITS)
