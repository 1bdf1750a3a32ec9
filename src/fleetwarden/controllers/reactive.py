"""The reactive path: changes of the work queue wake an ordinary tick, at most every few seconds.

A cursor over the feed of work says what is new; nothing new costs one small read.  Whatever is new wakes one pass with
all its gates, however much it is.  The cursor is stored and moves on when a pass has run, so that neither a restart nor
a change of leader loses a change.  A pushed sample is rung in every plane, and is never written down for it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from fleetwarden.controllers.wakes import Wakes
from fleetwarden.domain.identifiers import SECOND, JsonValue, Micros
from fleetwarden.ports.stores import Store

__all__ = ["CADENCE", "NEWS", "Reactive"]

CADENCE = "fleet_autoscale_reactive"
AUTOSCALER = "fleet_autoscaler"
NEWS = "fleet_signal_pushed"  # what is rung for a pushed sample
CURSOR = "autoscaler.reactive_cursor"  # the fact that keeps the cursor
PACE: Micros = 5 * SECOND

Mark = tuple[int, Micros]


class Reactive:
    """Wakes the autoscaler when work was enqueued or claimed, or a sample was pushed, here or to another plane.

    `ticks`: how many ticks this plane's autoscaler has run.  Without it, a tick that is woken counts as run.
    """

    def __init__(self, store: Store, wakes: Wakes, *, ticks: Callable[[], int] | None = None) -> None:
        self._store = store
        self._wakes = wakes
        self._ticks = ticks
        self._lock = Lock()
        self._woken_at: Micros = 0
        self._pushed = False
        self._asked: tuple[Mark, int] | None = None  # the changes that a tick was woken for, and the ticks before it

    def pushed(self) -> None:
        """A sample came in: the next run wakes a tick, in the plane that leads.  In memory only."""
        self._wakes.everywhere(NEWS)
        self._wakes.wake(CADENCE)

    def run(self) -> bool:
        """Whether a tick was woken.  Raises StoreUnavailable."""
        mark, kept, now = self._store.read(lambda tx: (tx.work.mark(), _mark(tx.facts.get(CURSOR)), tx.now()))
        news = self._wakes.event(NEWS)
        with self._lock:
            if news.is_set():
                news.clear()
                self._pushed = True
            done = kept if kept is not None else mark  # a store that never had a cursor begins where its queue is
            if self._asked is not None and (self._ticks is None or self._ticks() > self._asked[1]):
                done, self._asked = self._asked[0], None
            woken = (self._pushed or mark != done) and now - self._woken_at >= PACE
            if woken:
                self._pushed, self._woken_at = False, now
                self._asked = mark, 0 if self._ticks is None else self._ticks()
        if woken:
            self._wakes.wake(AUTOSCALER)
        if done != kept:
            self._store.transact("reactive_cursor", lambda tx: tx.facts.put(CURSOR, list(done)))
        return woken


def _mark(fact: JsonValue) -> Mark | None:
    match fact:
        case [int(seq), int(at)]:
            return seq, at
    return None
