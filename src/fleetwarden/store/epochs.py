"""Epochs: a beginning is written down, and everything that could be mistaken for something older is moved out of reach.

Numbers jump: what was given out by a part of the history that is lost (an action's number in somebody's notes, a work
item that a stopped process still holds) must never name something else later.  PostgreSQL's own counters are moved by
the transfer, which alone can; on SQLite every insert looks at the floor that is written here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from fleetwarden.domain.errors import Conflict, NotFound
from fleetwarden.domain.identifiers import JsonValue, Micros, show_id
from fleetwarden.ports.epochs import Epoch
from fleetwarden.store import columns, schema
from fleetwarden.store.columns import document, text
from fleetwarden.store.facts import PUT_FACT
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Row, Statement, param, write

__all__ = ["ARRIVING", "MOVED", "StoredEpochs"]

_E, _N, _O = schema.epochs, schema.number_floors, schema.outbox
_FREEZES, _FACTS = schema.freezes, schema.facts
MOVED, ARRIVING = "store.moved_to", "store.arriving"
_MARKS: list[sa.ColumnElement[str]] = [sa.literal_column(f"'{name}'") for name in (MOVED, ARRIVING)]
_HOLDS = sa.and_(_E.c.freeze_seq.is_not(None), _E.c.released_at.is_(None))


def _above(column: sa.Column[int]) -> sa.ColumnElement[int]:
    """One more than the higher one of a token and the floor."""
    floor = param("floor")
    return sa.case((column > floor, column), else_=floor) + sa.literal_column("1")


_INSERT = Statement(write(_E).returning(*_E.c))
_GET = Statement(sa.select(*_E.c).where(_E.c.seq == param("of")))
_ALL = Statement(sa.select(*_E.c).order_by(_E.c.seq))
_HOLDING = Statement(sa.select(*_E.c).where(_HOLDS).order_by(_E.c.seq))
_RELEASE = Statement(
    sa.update(_E)
    .values(released_at=param("now"), released_by=param("by", str), reason=param("why", str))
    .where(_E.c.seq == param("of"), _HOLDS)
    .returning(*_E.c)
)
_LIFT = Statement(
    sa.update(_FREEZES)
    .values(lifted_at=param("now"), lifted_by=param("by", str))
    .where(_FREEZES.c.seq == param("of"), _FREEZES.c.lifted_at.is_(None))
    .returning(_FREEZES.c.seq)
)
_LEASES = Statement(
    sa.update(schema.leases)
    .values(holder=sa.literal_column("''"), expires_at=param("now"), token=_above(schema.leases.c.token))
    .returning(schema.leases.c.token)
)
_WORK = Statement(
    sa.update(schema.work_items)
    .values(token=_above(schema.work_items.c.token))
    .where(schema.work_items.c.state.in_([sa.literal_column("'ready'"), sa.literal_column("'leased'")]))
    .returning(schema.work_items.c.token)
)
_UNMARK = Statement(sa.delete(_FACTS).where(_FACTS.c.name.in_(_MARKS)).returning(_FACTS.c.name))
_CALLED = Statement(
    sa.update(_O)
    .values(state=sa.literal_column("'running'"), started_at=_O.c.prepared_at)
    .where(_O.c.state == sa.literal_column("'prepared'"))
    .returning(_O.c.seq)
)
_UNSURE = Statement(
    sa.update(_O)
    .values(
        negatives_by_person=sa.literal_column("1"),
        horizon_at=sa.case(
            (_O.c.horizon_at.is_(None), param("horizon")),
            (_O.c.horizon_at < param("horizon"), param("horizon")),
            else_=_O.c.horizon_at,
        ),
    )
    .where(_O.c.state.in_([sa.literal_column("'running'"), sa.literal_column("'recovery_pending'")]))
    .returning(_O.c.seq)
)


def _put_floor() -> Statement:
    wanted = write(_N)
    higher = sa.case((wanted.excluded.floor > _N.c.floor, wanted.excluded.floor), else_=_N.c.floor)
    return Statement(wanted.on_conflict_do_update(index_elements=["name"], set_={"floor": higher}).returning(_N.c.name))


_PUT_FLOOR = _put_floor()
_NUMBERED = tuple(table for table in schema.METADATA.sorted_tables if "seq" in table.c)
_QUOTED = (
    schema.approvals,
    schema.freezes,
    schema.service_overrides,
    schema.foreign_changes,
    schema.quarantines,
    schema.epochs,
)  # rows that people make or are asked about, far fewer than one a second
_MARK = Statement(sa.select(_FACTS.c.value).where(_FACTS.c.name == param("name", str)))
_HIGHEST = {
    table.name: Statement(sa.select(sa.func.coalesce(sa.func.max(table.c.seq), sa.literal_column("0"))))
    for table in _NUMBERED
}


@columns.reading("epoch")
def _epoch(row: Row) -> Epoch:
    seq, kind, at, origin, freeze_seq, released_at, released_by, reason = row
    return Epoch(
        seq=seq,
        kind=kind,
        at=at,
        origin=columns.plain_json(origin),
        freeze_seq=freeze_seq,
        released_at=released_at,
        released_by=released_by,
        reason=reason,
    )


class StoredEpochs:
    """Implements `ports.epochs.Epochs`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def jump(self, *, floor: int, leap: int, given: Mapping[str, int]) -> None:
        now = self._session.now()
        self._session.change(_LEASES, now=now, floor=floor)
        self._session.change(_WORK, floor=floor)
        self._session.change(_UNMARK)
        for table in _NUMBERED:
            [(highest,)] = self._session.rows(_HIGHEST[table.name])
            quoted = max(highest, given.get(table.name, 0)) + leap
            own = quoted if table in _QUOTED else max(highest, floor)
            self._session.change(_PUT_FLOOR, name=table.name, floor=own)

    def begin(self, kind: str, origin: Mapping[str, JsonValue], *, freeze_seq: int | None) -> Epoch:
        now = self._session.now()
        [row] = self._session.change(
            _INSERT,
            kind=text("epoch.kind", kind),
            at=now,
            origin=document("epoch.origin", dict(origin)),
            freeze_seq=freeze_seq,
            released_at=None,
            released_by="",
            reason="",
        )
        return _epoch(row)

    def unsure(self, horizon_at: Micros) -> int:
        self._session.change(_CALLED)
        return len(self._session.change(_UNSURE, horizon=horizon_at))

    def release(self, seq: int, *, by: str, reason: str) -> Epoch:
        now = self._session.now()
        rows = self._session.change(
            _RELEASE, of=seq, now=now, by=text("epoch.released_by", by), why=text("epoch.reason", reason)
        )
        if not rows:
            there = self._session.row(_GET, of=seq)
            if there is None:
                raise NotFound(f"there is no epoch {show_id('E', seq)}")
            raise Conflict(f"epoch {show_id('E', seq)} holds nothing, or was released already")
        epoch = _epoch(rows[0])
        self._session.change(_LIFT, of=epoch.freeze_seq, now=now, by=text("freeze.lifted_by", by))
        return epoch

    def all(self) -> Sequence[Epoch]:
        return [_epoch(row) for row in self._session.rows(_ALL)]

    def holding(self) -> Sequence[Epoch]:
        return [_epoch(row) for row in self._session.rows(_HOLDING)]

    def move_away(self, to: str) -> None:
        body = document("fact.value", text("epoch.moved_to", to))
        self._session.change(PUT_FACT, name=MOVED, value=body, at=self._session.now())

    def moved_to(self) -> str:
        return str(self._mark(MOVED) or "")

    def arriving(self) -> bool:
        return self._mark(ARRIVING) is not None

    def _mark(self, name: str) -> JsonValue | None:
        row = self._session.row(_MARK, name=name)
        return None if row is None else columns.plain_json(row[0])
