"""Clock, ids and the notifier: what a controller takes from its surroundings as constructor parameters.

Nobody else in the product reads the time, sleeps, or draws a random number; that is what lets a seeded simulation run
the real code.  An implementation must never block for longer than it was told to.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from typing import Protocol

import msgspec

from fleetwarden.domain.identifiers import JsonValue, Micros

__all__ = ["Clock", "IdSource", "Notice", "Notifier"]


class Clock(Protocol):
    """Time.  `now` may step; `monotonic` never goes back and is for durations only."""

    def now(self) -> Micros:
        """Microseconds since the epoch by this machine's clock.  No rule reads it: rules read `tx.now()`."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment of this process."""

    def wait(self, event: Event, timeout_s: float) -> bool:
        """Wait for the event, at most `timeout_s` (≥ 0); returns whether it is set.  Nobody waits otherwise."""


class IdSource(Protocol):
    """Unique names and jitter."""

    def new(self) -> str:
        """16 hex digits, unique for ever in practice: for idempotency keys and plane names."""

    def fraction(self) -> float:
        """A number in [0, 1), for jitter.  Never for anything that a rule reads."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something to tell people: one sentence, and the ids to look it up."""

    severity: str  # critical | error | warning | info
    subject: str  # a service, or "" for the plane itself
    summary: str
    detail: Mapping[str, JsonValue] = {}


class Notifier(Protocol):
    """Tells people.  Best effort: it must not raise for a delivery that failed, and must not block over 10 s.

    The journal (in the store) is always written by the caller, in the transaction that made the news.
    """

    name: str

    def notify(self, notice: Notice) -> bool:
        """Deliver; returns whether it was delivered."""
