"""The heartbeat: leases that live as long as their holder does, whatever its intervals are.

What is held is extended every third of its short life, for as long as the passes under it come on time; what another
let lapse or gave up wakes the controller that waits for it.  It never runs a pass and never takes a lease over itself:
the controller does, and gets its own new token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from fleetwarden.controllers.wakes import Wakes
from fleetwarden.domain.actions import LeaseFence, Record
from fleetwarden.domain.errors import FleetError
from fleetwarden.domain.identifiers import SECOND, Micros, seconds
from fleetwarden.ports.stores import Store, Tx

__all__ = ["Beat", "Heartbeat", "Wanted"]

log = structlog.get_logger(__name__)
BEATS_PER_LIFE = 3
PAUSE_MIN_S = 0.1  # between looks at a lease that lapses right now


class Wanted(Record):
    """A lease that a controller of this plane runs under: its name, its shard, and the fence if it holds it."""

    name: str
    shard: str
    fence: LeaseFence | None


class Beat(Record):
    """What one beat found: fences that were extended, names whose lease is gone, seconds until the next beat."""

    extended: tuple[LeaseFence, ...] = ()
    lost: tuple[str, ...] = ()
    next_s: float


class Heartbeat:
    """Beats for one plane.  `ttl_s`: how long a lease lives without a beat."""

    def __init__(self, store: Store, wakes: Wakes, *, holder: str, ttl_s: float) -> None:
        self._store = store
        self._wakes = wakes
        self._holder = holder
        self._ttl_s = ttl_s

    def beat(self, wanted: Sequence[Wanted]) -> Beat:
        """One beat.  Never raises for a store that cannot be reached: then nothing is extended, and leases lapse."""
        pause = self._ttl_s / BEATS_PER_LIFE
        try:
            extended, lost, others, now = self._store.transact("heartbeat", lambda tx: self._run(tx, wanted))
        except FleetError as error:
            log.warning("no heartbeat", error=str(error))
            return Beat(next_s=pause / 2)
        for one in wanted:
            if one.fence is not None and one.name not in lost:
                continue
            ends = others.get((one.name, one.shard))
            if ends is None or ends <= now:
                self._wakes.wake(one.name)
                pause = min(pause, self._ttl_s / (2 * BEATS_PER_LIFE))
            else:
                pause = min(pause, max(PAUSE_MIN_S, seconds(ends - now)))
        return Beat(extended=tuple(extended), lost=tuple(lost), next_s=pause)

    def _run(
        self, tx: Tx, wanted: Sequence[Wanted]
    ) -> tuple[list[LeaseFence], list[str], Mapping[tuple[str, str], Micros], Micros]:
        extended, lost = [], []
        for one in sorted(wanted, key=lambda each: (each.name, each.shard)):  # in one order, as everybody locks them
            if one.fence is None:
                continue
            held = tx.leases.acquire(one.name, one.shard, self._holder, int(self._ttl_s * SECOND))
            if held == one.fence:
                extended.append(held)
            else:
                lost.append(one.name)
                if held is not None:  # it had lapsed, and nobody took it: the controller takes it under its new token
                    tx.leases.release(held)
        ends = {(each.fence.cadence, each.fence.shard): each.expires_at for each in tx.leases.list()}
        return extended, lost, ends, tx.now()
