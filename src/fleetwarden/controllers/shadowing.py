"""Shadow: keeps what the autoscaler would ask for where another controller writes the count, or nobody may act.

A verdict that is as it was writes nothing, so that a fleet at rest costs a comparison of a few arrays, and one small
mark every few minutes by which a run that lasts is known to have lasted.  A verdict from before a long silence is never
stretched over it.  Nothing here asks for anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.errors import FleetError
from fleetwarden.domain.fleet import Mode, Service
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.domain.recommendation import with_rates
from fleetwarden.domain.scaling import NATIVE
from fleetwarden.domain.shadow import ShadowRun
from fleetwarden.domain.tracking_columns import BlockTable, Reason, Seen, Verdicts
from fleetwarden.domain.tracking_memory import Ints
from fleetwarden.ports.shadows import SHADOW_KEPT
from fleetwarden.ports.stores import Store, Tx

__all__ = ["SEEN_FACT", "Shadowing", "in_shadow", "last_seen", "prune"]

SEEN_FACT: Final = "shadow.seen"
MARK_EVERY: Micros = 300 * SECOND
CHUNK: Final = 500  # services that are written in one transaction
SILENCE_MAX: Micros = 900 * SECOND  # a longer time without an evaluation belongs to no run

_REASONS = {one.code: int(one) for one in Reason}
_ALIKE = np.array([_REASONS[one.code] for one in Reason], np.int64)  # two reasons may share a word: then one number
_Verdict = tuple[int, int, int, int]  # current, desired, raw, reason


def in_shadow(service: Service) -> bool:
    """Whether its block is evaluated and nothing follows from that."""
    return service.scaling is not None and (service.mode is Mode.OBSERVE or service.scaling.controller_mode != NATIVE)


def last_seen(tx: Tx) -> Micros:
    """Until when the runs that last are known to hold; 0 if that was never noted."""
    known = tx.facts.get(SEEN_FACT)
    return known if isinstance(known, int) else 0


class Shadowing:
    """Notes one tick after the other, under the autoscaler's lease."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._table: BlockTable | None = None
        self._rows: Ints = np.zeros(0, np.int64)
        self._last: Ints = np.zeros((4, 0), np.int64)
        self._known: dict[str, _Verdict] | None = None  # None: what is stored was not read yet
        self._marked: Micros = 0
        self.seen: Micros = 0  # the last tick that was noted in this life

    def forget(self) -> None:
        """Another plane ticked meanwhile: what is stored is read anew."""
        self._table, self._known, self.seen = None, None, 0

    def note(
        self,
        table: BlockTable,
        services: Mapping[str, Service],
        columns: Seen,
        verdicts: Verdicts,
        at: Micros,
        fence: LeaseFence,
    ) -> int:
        """Keep what changed; returns how many runs began.  Raises Fenced, StoreUnavailable."""
        try:
            return self._note(table, services, columns, verdicts, at, fence)
        except FleetError:
            self.forget()  # what is remembered and what is stored may differ now
            raise

    def _note(
        self,
        table: BlockTable,
        services: Mapping[str, Service],
        columns: Seen,
        verdicts: Verdicts,
        at: Micros,
        fence: LeaseFence,
    ) -> int:
        ended: dict[str, Micros] = {}
        if self._known is None:
            self._load()
        if self.seen and at - self.seen > SILENCE_MAX:
            ended = self._silenced()
        if table is not self._table:
            ended |= self._compile(table, services, at)
        if not len(self._rows) and not ended:
            return 0
        now = self._now(table, columns, verdicts)
        silent = np.isin(now[3], (Reason.NOT_ASKED, Reason.NO_NEWS))  # nothing new is known: what was said stands
        changed = np.flatnonzero((now != self._last).any(axis=0) & ~silent)
        begun = [self._run(table.names[int(self._rows[place])], now[:, place], at) for place in changed]
        known = self._known
        assert known is not None
        ended |= {one.service: at for one in begun if one.service in known and one.service not in ended}
        if begun or ended or at - self._marked >= MARK_EVERY:
            self._keep(ended, begun, at, fence)
        for name in ended:
            known.pop(name, None)
        for one, place in zip(begun, changed, strict=True):
            known[one.service] = _verdict(now[:, place])
        self._last[:, changed] = now[:, changed]
        self.seen = at
        return len(begun)

    def _keep(self, ended: Mapping[str, Micros], begun: Sequence[ShadowRun], at: Micros, fence: LeaseFence) -> None:
        """Write it, some services a transaction, so that nobody waits long behind a fleet that moves as a whole."""
        starts = {one.service: one for one in begun}
        names = [*ended, *(name for name in starts if name not in ended)]
        for first in range(0, max(len(names), 1), CHUNK):
            chunk = names[first : first + CHUNK]
            self._store.transact("shadow", partial(_write, fence, chunk, ended, starts, at))
        self._marked = at

    def _load(self) -> None:
        """What another life left: its runs go on from where it was last seen."""
        runs, self.seen = self._store.read(lambda tx: (tx.shadows.open(), last_seen(tx)))
        self._marked, self._table = self.seen, None
        self._known = {
            name: (one.current, one.desired, one.raw, _REASONS.get(one.reason, -1)) for name, one in runs.items()
        }

    def _silenced(self) -> dict[str, Micros]:
        """Nobody evaluated for so long that no run is known to have lasted."""
        assert self._known is not None
        self._last[:] = -1
        ended = dict.fromkeys(self._known, self.seen)
        self._known = {}
        return ended

    def _compile(self, table: BlockTable, services: Mapping[str, Service], at: Micros) -> dict[str, Micros]:
        """The rows in shadow now; the runs of what is not any more end."""
        assert self._known is not None
        names = [name for name in table.names if name in services and in_shadow(services[name])]
        self._table = table
        self._rows = np.array([table.index[name] for name in names], np.int64)
        unknown: _Verdict = (-1, -1, -1, -1)
        before = [self._known.get(name, unknown) for name in names]
        self._last = np.array(before, np.int64).reshape(len(names), 4).T.copy()
        return dict.fromkeys(self._known.keys() - set(names), at)

    def _now(self, table: BlockTable, columns: Seen, verdicts: Verdicts) -> Ints:
        """This tick's verdicts of the rows in shadow: current, desired, raw, reason."""
        rows = self._rows
        found: Ints = np.stack(
            [columns.current[rows], verdicts.desired[rows], verdicts.raw[rows], _ALIKE[verdicts.reason[rows]]]
        )
        moving = (found[3] <= Reason.SCALE_DOWN) & table.with_behavior[rows]
        for place in np.flatnonzero(moving):
            current, desired, _, reason = _verdict(found[:, place])
            block = table.blocks[int(rows[place])]
            found[1, place], found[3, place] = with_rates(block, current, desired, Reason(reason), ())
        return found

    @staticmethod
    def _run(name: str, verdict: Ints, at: Micros) -> ShadowRun:
        current, desired, raw, reason = _verdict(verdict)
        return ShadowRun(service=name, at=at, current=current, desired=desired, raw=raw, reason=Reason(reason).code)


def prune(store: Store) -> int:
    """Delete runs that were kept for their time, some thousands at a time; an idle pass only reads.

    Raises StoreUnavailable.
    """
    due = store.read(_due)
    return store.transact("prune_shadow", lambda tx: tx.shadows.prune(tx.now() - SHADOW_KEPT)) if due else 0


def _due(tx: Tx) -> bool:
    oldest = tx.shadows.oldest()
    return oldest is not None and oldest < tx.now() - SHADOW_KEPT


def _verdict(column: Ints) -> _Verdict:
    current, desired, raw, reason = (int(value) for value in column)
    return current, desired, raw, reason


def _write(
    fence: LeaseFence,
    names: Sequence[str],
    ended: Mapping[str, Micros],
    starts: Mapping[str, ShadowRun],
    at: Micros,
    tx: Tx,
) -> None:
    tx.leases.check(fence)
    for name in names:
        if name in ended:
            tx.shadows.end(name, ended[name])
        if name in starts:
            tx.shadows.begin(starts[name])
    tx.facts.put(SEEN_FACT, at)
