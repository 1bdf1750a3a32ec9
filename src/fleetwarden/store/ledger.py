"""The sealed ledger: rows are entered where they are written, and sealed in ranges afterwards.

`enter` is called by the modules that write rows of the ledger, in the same transaction, with what they wrote.  Only
columns that never change are digested; what changes later (an approval's status, an action's start) is entered as an
event of its own, so that the change is sealed and not the row that shows it.  An entry is never changed but for its
position, which its seal gives it, once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from fleetwarden.domain import sealing
from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.domain.sealing import Leaf, Seal
from fleetwarden.ports.ledger import LedgerItem
from fleetwarden.store import columns, feed, schema
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Row, Statement, param, write

__all__ = ["CHANGING", "SEALED", "StoredLedger", "enter", "enter_event", "enter_events"]

_L, _EVENTS, _SEALS = schema.ledger, schema.ledger_events, schema.seals
_APPROVALS, _VOTES = schema.approvals, schema.votes

# Columns of the ledger's tables that may change after the row was written, and are therefore not in its digest.
# `xact` counts one server's own transactions and is left behind when a store is copied.
CHANGING: Mapping[str, frozenset[str]] = {
    "decisions": frozenset({"approval_seq", "action_seq"}),
    "executions": frozenset(),
    "journal": frozenset({"xact"}),
    "approvals": frozenset({"status", "votes", "note", "ended_at", "superseded_by", "warned_at"}),
    "votes": frozenset(),
    "ledger_events": frozenset(),
}
_TABLES = {name: schema.METADATA.tables[name] for name in CHANGING}
SEALED: Mapping[str, tuple[str, ...]] = {
    name: tuple(column.name for column in table.c if column.name not in CHANGING[name])
    for name, table in _TABLES.items()
}

_ENTER = Statement(write(_L, given=["kind", "ref", "digest"]).values(xact=feed.ThisTransaction()))
_EVENT = Statement(write(_EVENTS).returning(*_EVENTS.c))
_EVENT_NUMBERED = Statement(write(_EVENTS, given=_EVENTS.c.keys()))
_OPEN = _L.c.position.is_(None)
_DUE = Statement(sa.select(_L.c.seq).where(_OPEN, feed.finished(_L.c.xact)).order_by(_L.c.xact, _L.c.seq).limit(1))
_TIP = Statement(
    sa.select(*_SEALS.c).where(_SEALS.c.number > sa.literal_column("0")).order_by(_SEALS.c.number.desc()).limit(1)
)
_INSERT_SEAL = Statement(write(_SEALS).returning(_SEALS.c.number))
_NEXT = Statement(
    sa.select(_L.c.position).where(_L.c.position > param("after")).order_by(_L.c.position).limit(1),
)
_SEALS_BETWEEN = Statement(
    sa.select(*_SEALS.c)
    .where(_SEALS.c.last > param("after"), _SEALS.c.last <= param("upto"))
    .order_by(_SEALS.c.last, _SEALS.c.number)
)
_STATES = Statement(
    sa.select(
        *(_APPROVALS.c[name] for name in ("seq", "status", "note", "ended_at", "superseded_by", "votes")),
        sa.select(sa.func.max(_EVENTS.c.seq))
        .where(_EVENTS.c.topic == sa.literal_column("'approval'"), _EVENTS.c.ref == _APPROVALS.c.seq)
        .scalar_subquery(),
        sa.select(sa.func.max(_VOTES.c.seq)).where(_VOTES.c.approval_seq == _APPROVALS.c.seq).scalar_subquery(),
    )
    .where(_APPROVALS.c.seq > param("after"))
    .order_by(_APPROVALS.c.seq)
    .limit(param("limit"))
)
_STATE = ("approval", "status", "note", "ended_at", "superseded_by", "votes", "event", "vote")


def _position() -> Statement:
    """Give the oldest finished entries their positions from `base` on, in the order in which they became visible."""
    oldest = (
        sa.select(_L.c.seq, _L.c.xact)
        .where(_OPEN, feed.finished(_L.c.xact))
        .order_by(_L.c.xact, _L.c.seq)
        .limit(param("most"))
        .subquery("oldest")
    )
    rank = sa.func.row_number().over(order_by=(oldest.c.xact, oldest.c.seq)).label("place")
    due = sa.select(oldest.c.seq, rank).subquery("due")
    return Statement(
        sa.update(_L)
        .values(position=param("base") + due.c.place)
        .where(_L.c.seq == due.c.seq, _OPEN)
        .returning(_L.c.position, _L.c.kind, _L.c.ref, _L.c.digest)
    )


def _joined(kind: str, table: sa.Table) -> sa.Select[Any]:
    content = [table.c[name].label(f"row_{name}") for name in SEALED[kind]]
    joined = _L.outerjoin(table, table.c.seq == _L.c.ref)
    chosen = sa.select(_L.c.position, _L.c.seq, _L.c.ref, _L.c.digest, *content).select_from(joined)
    of_kind = sa.func.coalesce(_L.c.kind, sa.literal_column("''"))  # keeps to the index of the range, not of the kind
    return chosen.where(of_kind == sa.literal_column(f"'{kind}'"))


def _strays(kind: str, table: sa.Table) -> Statement:
    some = sa.select(table.c.seq).where(table.c.seq > param("after")).order_by(table.c.seq).limit(param("limit"))
    rows = some.subquery("rows")
    entered = _L.c.kind == sa.literal_column(f"'{kind}'")
    return Statement(
        sa.select(rows.c.seq, _L.c.seq).select_from(rows.outerjoin(_L, sa.and_(entered, _L.c.ref == rows.c.seq)))
    )


def _seqs(unsealed: sa.ColumnElement[bool]) -> Statement:
    """Found by the index of what is open or that of positions, not by a walk along the whole ledger."""
    seq = _L.c.seq + sa.literal_column("0")
    return Statement(
        sa.select(_L.c.seq).where(unsealed, seq > param("after")).order_by(seq).limit(param("limit")),
    )


_POSITION = _position()
_ENTRIES = {
    kind: Statement(_joined(kind, table).where(_L.c.position > param("after"), _L.c.position <= param("upto")))
    for kind, table in _TABLES.items()
}
_TAIL = {
    kind: Statement(
        _joined(kind, table)
        .where(_L.c.seq > param("after"), _L.c.seq <= param("upto"))
        .where(sa.or_(_OPEN, _L.c.position > param("sealed_to")))
    )
    for kind, table in _TABLES.items()
}
_OPEN_SEQS = _seqs(_OPEN)
_SEALED_SINCE_SEQS = _seqs(_L.c.position > param("sealed_to"))
_UNKNOWN = Statement(
    sa.select(_L.c.position, _L.c.seq, _L.c.ref, _L.c.digest, _L.c.kind)
    .where(_L.c.kind.not_in([sa.literal_column(f"'{kind}'") for kind in CHANGING]))
    .where(_L.c.position > param("after"), _L.c.position <= param("upto"))
)
_STRAYS = {kind: _strays(kind, table) for kind, table in _TABLES.items()}


def enter(session: Session, table: str, row: Mapping[str, Any]) -> None:
    """Enter a row that this transaction has written; the entry itself is written right before the commit.

    `row`: all its columns as they were written, and `seq`.
    """
    content = {name: row[name] for name in SEALED[table]}
    session.later(_ENTER, kind=table, ref=row["seq"], digest=sealing.content_digest(table, content))


def enter_event(session: Session, topic: str, ref: int, body: Mapping[str, JsonValue]) -> None:
    """Write down and enter a change of a row that is not sealed itself.  `ref`: the number of what changed."""
    written = columns.document("event.body", dict(body))
    [row] = session.change(_EVENT, at=session.now(), topic=topic, ref=ref, body=written)
    enter(session, "ledger_events", dict(zip(_EVENTS.c.keys(), row, strict=True)))


def enter_events(session: Session, topic: str, changes: Sequence[tuple[int, Mapping[str, JsonValue]]]) -> None:
    """As `enter_event`, for many changes of one topic: what changed by its number, in order."""
    at, numbers = session.now(), session.take_numbers(_EVENTS.name, len(changes))
    rows = [
        {"seq": seq, "at": at, "topic": topic, "ref": ref, "body": columns.document("event.body", dict(body))}
        for seq, (ref, body) in zip(numbers, changes, strict=True)
    ]
    session.change_many(_EVENT_NUMBERED, rows)
    for row in rows:
        enter(session, "ledger_events", row)


@columns.reading("seal")
def _seal(row: Row) -> Seal:
    return Seal(**dict(zip(_SEALS.c.keys(), row, strict=True)))


class StoredLedger:
    """Implements `ports.ledger.Ledger`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def _rows(self, statement: Statement, **values: Any) -> list[Row]:
        self._session.flush()
        return self._session.rows(statement, **values)

    def _row(self, statement: Statement, **values: Any) -> Row | None:
        found = self._rows(statement, **values)
        return found[0] if found else None

    def due(self) -> bool:
        return self._row(_DUE) is not None

    def seal(self, most: int) -> Seal | None:
        before = self.tip()
        base = 0 if before is None else before.last
        self._session.flush()
        rows = self._session.change(_POSITION, base=base, most=most)
        if not rows:
            return None
        leaves = [Leaf(position=position, kind=kind, ref=ref, digest=told) for position, kind, ref, told in rows]
        leaves.sort(key=lambda leaf: leaf.position)
        made = sealing.sealed(leaves, before, self._session.now())
        values = {name: getattr(made, name) for name in _SEALS.c.keys()}  # noqa: SIM118 -- columns, not a dict
        self._session.change(_INSERT_SEAL, **values)
        return made

    def tip(self) -> Seal | None:
        row = self._row(_TIP)
        return None if row is None else _seal(row)

    def entries(self, after: int, upto: int) -> Sequence[LedgerItem]:
        found = [item for kind in CHANGING for item in self._items(kind, _ENTRIES[kind], after=after, upto=upto)]
        for position, seq, ref, told, kind in self._rows(_UNKNOWN, after=after, upto=upto):
            found.append(_item(kind, position, seq, ref, told, None))
        return sorted(found, key=lambda item: (item["position"], item["entry"]))

    def _items(self, kind: str, statement: Statement, **values: int) -> list[dict[str, JsonValue]]:
        items = []
        for position, seq, ref, told, *content in self._rows(statement, **values):
            row = dict(zip(SEALED[kind], content, strict=True))
            items.append(_item(kind, position, seq, ref, told, None if row["seq"] is None else row))
        return items

    def next_position(self, after: int) -> int | None:
        row = self._row(_NEXT, after=after)
        return None if row is None else int(row[0])

    def seals(self, after: int, upto: int) -> Sequence[Seal]:
        return [_seal(row) for row in self._rows(_SEALS_BETWEEN, after=after, upto=upto)]

    def tail(self, sealed_to: int, after: int, limit: int) -> Sequence[LedgerItem]:
        rows = self._rows(_OPEN_SEQS, after=after, limit=limit)
        rows += self._rows(_SEALED_SINCE_SEQS, after=after, sealed_to=sealed_to, limit=limit)
        seqs = sorted(seq for (seq,) in rows)[:limit]
        if not seqs:
            return []
        now = self.tip()
        covered = sealed_to if now is None else max(sealed_to, now.last)
        among = {"after": after, "upto": seqs[-1], "sealed_to": sealed_to}
        found = [item for kind in CHANGING for item in self._items(kind, _TAIL[kind], **among)]
        for item in found:
            if item["position"] is not None and item["position"] <= covered:
                item["position"] = None  # sealed since the export began
        return sorted(found, key=lambda item: item["entry"])

    def kinds(self) -> Sequence[str]:
        return list(CHANGING)

    def strays(self, kind: str, after: int, limit: int) -> tuple[Sequence[int], int | None]:
        rows = self._rows(_STRAYS[kind], after=after, limit=limit)
        lost = sorted(seq for seq, entry in rows if entry is None)
        return lost, max(seq for seq, _ in rows) if len(rows) == limit else None

    def states(self, after: int, limit: int) -> Sequence[LedgerItem]:
        rows = self._rows(_STATES, after=after, limit=limit)
        return [dict(zip(_STATE, row, strict=True)) for row in rows]


def _item(
    kind: str, position: int | None, seq: int, ref: int, told: str, row: Mapping[str, Any] | None
) -> dict[str, JsonValue]:
    return {"position": position, "entry": seq, "kind": kind, "ref": ref, "digest": told, "row": row}
