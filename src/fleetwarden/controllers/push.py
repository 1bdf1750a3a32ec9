"""What a substrate tells by itself (an instance has ended) becomes a targeted pass of those services only.

Whoever tells is never kept waiting: a name is noted and a thread woken.  Names that come while a pass runs make one
further pass, however many they are.  A name is no evidence: the pass looks at everything it acts upon, and what is
forgotten here is found by the next whole pass.  Where another plane leads, it is left to the wake-up of the whole pass,
which reaches that plane.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from fleetwarden.controllers.reconciler import CADENCE as RECONCILER
from fleetwarden.controllers.reconciler import Reconciler
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.domain.actions import LeaseFence

__all__ = ["CADENCE", "Push"]

CADENCE = "push"
NAMES_MAX = 1_000  # beyond this the whole fleet is looked at instead


class Push:
    """`lease`: the reconciler's lease if this plane holds or gets it, else None; a targeted pass runs under it."""

    def __init__(self, reconciler: Reconciler, wakes: Wakes, lease: Callable[[], LeaseFence | None]) -> None:
        self._reconciler = reconciler
        self._wakes = wakes
        self._lease = lease
        self._lock = Lock()
        self._names: set[str] = set()

    def ended(self, service: str) -> None:
        """An instance of that service ended.  Called from the substrate's own thread."""
        with self._lock:
            self._names.add(service)
        self._wakes.event(CADENCE).set()

    def waiting(self) -> frozenset[str]:
        """Names that no pass has taken yet."""
        with self._lock:
            return frozenset(self._names)

    def run(self) -> int:
        """One targeted pass over everything that was told since the last one; returns how many services it looked at.

        What it raises (Fenced, StoreUnavailable) leaves the names for the next try.
        """
        with self._lock:
            names, self._names = self._names, set()
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
