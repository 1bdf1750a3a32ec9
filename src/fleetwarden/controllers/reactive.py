"""The reactive path: changes of the work queue wake an ordinary tick, at most every few seconds.

A cursor over the feed of work says what is new; nothing new costs one small read.  Whatever is new wakes one pass with
all its gates, however much it is.  A wake-up carries no data, so that a lost one costs time and nothing else.
"""

from __future__ import annotations

from threading import Lock

from fleetwarden.controllers.wakes import Wakes
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.ports.stores import Store

__all__ = ["CADENCE", "Reactive"]

CADENCE = "fleet_autoscale_reactive"
AUTOSCALER = "fleet_autoscaler"
PACE: Micros = 5 * SECOND


class Reactive:
    """Wakes the autoscaler when work was enqueued or claimed, or a sample was pushed."""

    def __init__(self, store: Store, wakes: Wakes) -> None:
        self._store = store
        self._wakes = wakes
        self._lock = Lock()
        self._mark: tuple[int, Micros] | None = None
        self._woken_at: Micros = 0
        self._pushed = False

    def pushed(self) -> None:
        """A sample came in: the next run wakes a tick.  In memory only."""
        with self._lock:
            self._pushed = True
        self._wakes.wake(CADENCE)

    def run(self) -> bool:
        """Whether a tick was woken.  Raises StoreUnavailable."""
        mark, now = self._store.read(lambda tx: (tx.work.mark(), tx.now()))
        with self._lock:
            changed = self._pushed or (self._mark is not None and mark != self._mark)
            if self._mark is None:
                self._mark = mark
            if not changed or now - self._woken_at < PACE:
                return False
            self._pushed, self._mark, self._woken_at = False, mark, now
        self._wakes.wake(AUTOSCALER)
        return True
