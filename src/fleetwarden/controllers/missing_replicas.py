"""Replicas that were asked for and are not there: held against more of them elsewhere, and told to people here, once.

What lasts a moment, as every change does, is only remembered; what lasts is written down, so that neither the time nor
the telling begins anew with a restart.  A look that shows nothing neither begins nor ends it.  Where an executed intent
is still being watched, that watch tells; nobody hears of one thing twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.errors import FleetError
from fleetwarden.domain.fleet import Mode, Service
from fleetwarden.domain.identifiers import SECOND, Micros, rfc3339, seconds
from fleetwarden.domain.lifecycles import IntentState
from fleetwarden.domain.scaling import NATIVE
from fleetwarden.domain.tracking_columns import BlockTable, Reason, Seen, Words
from fleetwarden.domain.tracking_memory import Ints
from fleetwarden.ports.intents import IntentRow
from fleetwarden.ports.missing_replicas import MissingRow
from fleetwarden.ports.stores import Store, Tx

__all__ = ["MissingWatch"]

KEPT_AFTER: Micros = 60 * SECOND  # an ordinary change is over by then, and writes nothing
TOLD_AFTER: Micros = 600 * SECOND
AT_ONCE: Final = 64  # services that are written in one transaction, and told of in one tick

_OTHERS = (Reason.SKIP_STOPPED, Reason.SKIP_ROLLOUT, Reason.SKIP_INVALID)  # nothing is missing, or somebody is at it
_WATCHED = (IntentState.EXECUTED, IntentState.OBSERVED)
Bools = NDArray[np.bool_]


class MissingWatch:
    """Looks at each tick's columns, under the autoscaler's lease."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._table: BlockTable | None = None
        self._since: Ints = np.zeros(0, np.int64)  # by row; 0: all are there
        self._ours: Bools = np.zeros(0, np.bool_)  # rows whose count is ours to bring about
        self._after = ""  # the last service that was served: the next tick begins behind it
        self._kept: dict[str, MissingRow] | None = None  # what is stored; None: not read yet

    def forget(self) -> None:
        """Another plane ticked meanwhile: what is stored is read anew."""
        self._table, self._kept = None, None

    def note(
        self, table: BlockTable, services: Mapping[str, Service], columns: Seen, at: Micros, fence: LeaseFence
    ) -> int:
        """Judge one tick's look; returns how many services people were told of.  Raises Fenced, StoreUnavailable."""
        try:
            if table is not self._table:
                self._compile(table, services)
            gone, due = self._judge(table, columns, at)
            return self._write(table, columns, gone, due, at, fence) if gone or due else 0
        except FleetError:
            self.forget()  # what is remembered and what is stored may differ now
            raise

    def _compile(self, table: BlockTable, services: Mapping[str, Service]) -> None:
        """The rows of this table; what is remembered is carried over by name, else it is what is stored."""
        before = {} if self._table is None else {
            self._table.names[int(row)]: int(self._since[row]) for row in np.flatnonzero(self._since)
        }  # fmt: skip
        if self._kept is None:
            self._kept = dict(self._store.read(lambda tx: tx.missing_replicas.all()))
        before = {name: one.since for name, one in self._kept.items()} | before
        self._since = np.array([before.get(name, 0) for name in table.names], np.int64)
        self._ours = np.array(
            [
                (one := services.get(name)) is not None
                and one.mode is Mode.LIVE
                and one.scaling is not None
                and one.scaling.controller_mode == NATIVE
                for name in table.names
            ],
            np.bool_,
        )
        self._table = table

    def _judge(self, table: BlockTable, columns: Seen, at: Micros) -> tuple[list[str], list[int]]:
        """Whose rows are over, and the rows that are due to be written or told of."""
        assert self._kept is not None
        watched = self._ours & ~np.isin(columns.reason, _OTHERS)
        seen = (columns.status != Words.UNOBSERVED) & (columns.status != Words.UNKNOWN)
        short = (columns.ready < columns.current) | (columns.existing < columns.current)
        begins = watched & seen & short & (self._since == 0)
        over = (self._since > 0) & (~watched | (seen & ~short))
        self._since[begins] = at
        self._since[over] = 0
        names = table.index
        gone = [name for name in self._kept if name not in names or self._since[names[name]] == 0]
        lasting = np.flatnonzero((self._since > 0) & (self._since <= at - KEPT_AFTER) & seen)
        due = [int(row) for row in lasting if self._is_due(table.names[int(row)], int(self._since[row]), at)]
        due.sort(key=lambda row: (table.names[row] <= self._after, row))  # rows are in the order of their names
        due = due[:AT_ONCE]
        if due:
            self._after = table.names[due[-1]]
        return gone, due

    def _is_due(self, name: str, since: Micros, at: Micros) -> bool:
        assert self._kept is not None
        kept = self._kept.get(name)
        return kept is None or (kept.told_at is None and at - since >= TOLD_AFTER)

    def _write(
        self, table: BlockTable, columns: Seen, gone: Sequence[str], due: Sequence[int], at: Micros, fence: LeaseFence
    ) -> int:
        shorts = [
            _Short(
                row=MissingRow(service=table.names[row], since=int(self._since[row])),
                ready=int(columns.ready[row]),
                existing=int(columns.existing[row]),
                wanted=int(columns.current[row]),
            )
            for row in due
        ]
        kept, told = self._store.transact("missing_replicas", partial(_keep, fence, gone, shorts, at))
        assert self._kept is not None
        for name in gone:
            self._kept.pop(name, None)
        self._kept |= {one.service: one for one in kept}
        return told


class _Short:
    """One service with fewer replicas than were asked for."""

    __slots__ = ("existing", "ready", "row", "wanted")

    def __init__(self, row: MissingRow, *, ready: int, existing: int, wanted: int) -> None:
        self.row = row
        self.ready = ready
        self.existing = existing
        self.wanted = wanted


def _keep(
    fence: LeaseFence, gone: Sequence[str], shorts: Sequence[_Short], at: Micros, tx: Tx
) -> tuple[list[MissingRow], int]:
    """Write it; returns the rows as they are now, and how many services people were told of."""
    tx.leases.check(fence)
    tx.missing_replicas.forget(gone)
    latest = tx.intents.latest_of([one.row.service for one in shorts])
    kept, told = [], 0
    for one in shorts:
        row, intent = one.row, latest.get(one.row.service)
        late = at - row.since >= TOLD_AFTER
        if late and intent is not None and intent.state in _WATCHED:
            late = False  # its own watch tells, if it comes to that
        if late:
            row = MissingRow(service=row.service, since=row.since, told_at=at)
            if not _told_already(intent, row.since):
                _tell(tx, one, at)
                told += 1
        tx.missing_replicas.put(row)
        kept.append(row)
    return kept, told


def _told_already(intent: IntentRow | None, since: Micros) -> bool:
    """Whether the watch of the last change has said so: it ended at its deadline, unseen, in this very time."""
    if intent is None or intent.state is not IntentState.FAILED:
        return False
    deadline = intent.convergence.deadline
    return deadline is not None and intent.moved_at >= max(deadline, since)


def _tell(tx: Tx, one: _Short, at: Micros) -> None:
    minutes = int(seconds(at - one.row.since) // 60)
    tx.journal.write(
        topic="notice",
        actor="autoscaler",
        subject=one.row.service,
        severity="error",
        summary=f"{one.row.service}: {one.ready} of the {one.wanted} replicas that were asked for are ready, for "
        f"{minutes} minutes (since {rfc3339(one.row.since)}); no more are asked for before these are there",
        detail={
            "incident": "not_placed",
            "wanted": one.wanted,
            "ready": one.ready,
            "existing": one.existing,
            "since": rfc3339(one.row.since),
        },
    )
