"""A clock that a test moves, and ids that come out the same in every run.

The two scales of the clock are apart on purpose: `step` moves what people call the time and nothing else, as a bad time
server does, while durations go on undisturbed.  Neither may ever wait for real time to pass.
"""

from __future__ import annotations

import hashlib
from threading import Event, Lock

from fleetwarden.domain.identifiers import SECOND, Micros

__all__ = ["START", "FakeClock", "FakeIds"]

START: Micros = 1_800_000_000 * SECOND  # 2027-01-15T08:00:00Z


class FakeClock:
    """A `Clock` whose time passes only when it is told to, or when somebody waits.

    `now` is in microseconds since the epoch, `monotonic` in seconds since this clock was made.
    """

    def __init__(self, now: Micros = START) -> None:
        self._lock = Lock()
        self._elapsed: Micros = 0
        self._base = now

    def now(self) -> Micros:
        with self._lock:
            return self._base + self._elapsed

    def monotonic(self) -> float:
        with self._lock:
            return self._elapsed / SECOND

    def wait(self, event: Event, timeout_s: float) -> bool:
        """Return at once: either the event is set, or the whole time-out has passed on both scales."""
        if not event.is_set():
            self.advance(timeout_s)
        return event.is_set()

    def advance(self, seconds: float) -> None:
        """Let time pass on both scales.  Raises ValueError for a negative span: time does not run backwards."""
        if seconds < 0:
            raise ValueError(f"time cannot advance by {seconds} s; step() sets the wall clock back")
        with self._lock:
            self._elapsed += round(seconds * SECOND)

    def step(self, seconds: float) -> None:
        """Set the wall clock forward or back; durations do not notice."""
        with self._lock:
            self._base += round(seconds * SECOND)


class FakeIds:
    """An `IdSource` that counts: unique within one instance, and the same sequence for the same seed."""

    def __init__(self, seed: str = "") -> None:
        self._seed = seed
        self._lock = Lock()
        self._count = 0

    def new(self) -> str:
        return self._next()[:16]

    def fraction(self) -> float:
        return int(self._next()[:12], 16) / 16**12

    def _next(self) -> str:
        with self._lock:
            self._count += 1
            count = self._count
        return hashlib.sha256(f"{self._seed}:{count}".encode()).hexdigest()
