"""How long events are kept: a number of days after their last delivery, and never more than a number of them.

A little at a time, so that a pass never holds the writer for long.  The steps that events led to are records of their
own and are not touched.
"""

from __future__ import annotations

from typing import Final

from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.identifiers import Micros
from fleetwarden.ports.stores import Store, Tx

__all__ = ["CADENCE", "EventKeeping"]

CADENCE: Final = "event_keeping"
AT_ONCE: Final = 1_000
PASSES_MAX: Final = 20  # transactions of one pass


class EventKeeping:
    """Prunes events.  `kept`: how long; `events_max`: how many."""

    def __init__(self, store: Store, *, kept: Micros, events_max: int) -> None:
        self._store = store
        self._kept = kept
        self._events_max = events_max

    def run(self, fence: LeaseFence | None = None) -> int:
        """Delete what is too old or too much, at most PASSES_MAX times AT_ONCE; returns how many events went."""
        gone = 0
        for _ in range(PASSES_MAX):
            oldest, now, number = self._store.read(lambda tx: (tx.events.oldest(), tx.now(), tx.events.number()))
            over = max(0, number - self._events_max)
            before = now - self._kept
            if oldest is None or (oldest >= before and not over):
                break
            went = self._store.transact("prune_events", lambda tx, over=over: self._prune(tx, fence, over))  # type: ignore[misc]
            gone += went
            if went < AT_ONCE:
                break
        return gone

    def _prune(self, tx: Tx, fence: LeaseFence | None, over: int) -> int:
        if fence is not None:
            tx.leases.check(fence)
        went = tx.events.prune(tx.now() - self._kept, limit=AT_ONCE)
        if went == 0 and over:
            went = tx.events.prune(tx.now(), limit=min(over, AT_ONCE))
        return went
