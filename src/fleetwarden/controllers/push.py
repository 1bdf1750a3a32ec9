"""What a substrate tells by itself (an instance has ended) becomes a targeted pass of those services only.

Whoever tells is never kept waiting: a name is noted and a thread woken.  Names that come while a pass runs make one
further pass, however many they are.  What ends again and again is looked at after growing pauses, so that a program
that cannot live does not spend its whole budget in seconds.  A name is no evidence: the pass looks at everything it
acts upon, and what is forgotten here is found by the next whole pass.  Where another plane leads, it is left to the
wake-up of the whole pass, which reaches that plane.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from fleetwarden.controllers.reconciler import CADENCE as RECONCILER
from fleetwarden.controllers.reconciler import Reconciler
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.ports.system import Clock

__all__ = ["CADENCE", "Push"]

CADENCE = "push"
NAMES_MAX = 1_000  # beyond this the whole fleet is looked at instead
FREE = 3  # ends in a row that are looked at at once
ROW_S = 10.0  # an end this soon after the one before continues the row
PAUSE_MAX_S = 60.0


def _pause(count: int) -> float:
    """Seconds before the end that makes a row of `count` is looked at."""
    return 0.0 if count <= FREE else min(2.0 ** min(count - FREE - 1, 10), PAUSE_MAX_S)


class Push:
    """`lease`: the reconciler's lease if this plane holds or gets it, else None; a targeted pass runs under it."""

    def __init__(
        self, clock: Clock, reconciler: Reconciler, wakes: Wakes, lease: Callable[[], LeaseFence | None]
    ) -> None:
        self._clock = clock
        self._reconciler = reconciler
        self._wakes = wakes
        self._lease = lease
        self._lock = Lock()
        self._names: set[str] = set()
        self._falls: dict[str, tuple[int, float]] = {}  # by service: ends in a short row, and when the last one was
        self._due: dict[str, float] = {}  # names that rest, and until when (monotonic)

    def ended(self, service: str) -> None:
        """An instance of that service ended.  Called from the substrate's own thread."""
        with self._lock:
            pause = self._pause_of(service)
            if pause > 0:
                self._due.setdefault(service, self._clock.monotonic() + pause)
                return
            self._names.add(service)
        self._wakes.event(CADENCE).set()

    def told(self, service: str) -> None:
        """Somebody says that something is wrong with that service: a pass looks.  It counts as no end."""
        with self._lock:
            self._names.add(service)
        self._wakes.event(CADENCE).set()

    def _pause_of(self, service: str) -> float:
        """How long this end waits before a pass looks at it: the first few not at all."""
        now = self._clock.monotonic()
        count, last = self._falls.get(service, (0, -ROW_S))
        pause = _pause(count)
        count = count + 1 if now - last < ROW_S + pause else 1
        if len(self._falls) > NAMES_MAX:
            self._falls = {name: one for name, one in self._falls.items() if now - one[1] < ROW_S + PAUSE_MAX_S}
        self._falls[service] = (count, now)
        return _pause(count)

    def waiting(self) -> frozenset[str]:
        """Names that no pass has taken yet."""
        with self._lock:
            return frozenset(self._names | self._due.keys())

    def run(self) -> int:
        """One targeted pass over everything that was told since the last one; returns how many services it looked at.

        What it raises (Fenced, StoreUnavailable) leaves the names for the next try.
        """
        with self._lock:
            now = self._clock.monotonic()
            rested = {name for name, at in self._due.items() if at <= now}
            self._due = {name: at for name, at in self._due.items() if name not in rested}
            names, self._names = self._names | rested, set()
        if not names:
            return 0
        try:
            fence = self._lease() if len(names) <= NAMES_MAX else None
            if fence is None:
                self._wakes.wake(RECONCILER)
                return 0
            report = self._reconciler.run_for(names, fence)
        except BaseException:
            with self._lock:
                self._names |= names
            raise
        return 0 if report is None else report.services
