"""0005: seals over the ledger, and the texts that decisions cite.

The changes as they were then, written out.  Rows from before are entered as they stand, so that everything from now on
is under seal.  Revision 0005, down_revision 0004.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

METADATA = sa.MetaData()
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # only INTEGER can be SQLite's row id


def _seq() -> sa.Column[int]:
    return sa.Column("seq", _BIG, sa.Identity(), primary_key=True)


def _integer(name: str, *, null: bool = False, default: str | None = None) -> sa.Column[int]:
    return sa.Column(name, _BIG, nullable=null, server_default=default)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


_OPEN, _SEALED = sa.text("position IS NULL"), sa.text("position IS NOT NULL")

ledger = sa.Table(
    "ledger",
    METADATA,
    _seq(),
    _text("kind"),
    _integer("ref"),
    _text("digest"),
    _integer("xact", default="0"),
    _integer("position", null=True),
    sa.Index("ledger_of_row", "kind", "ref", unique=True),
    sa.Index("ledger_positions", "position", unique=True, sqlite_where=_SEALED, postgresql_where=_SEALED),
    sa.Index("ledger_open", "xact", "seq", sqlite_where=_OPEN, postgresql_where=_OPEN),
    sqlite_strict=True,
)

ledger_events = sa.Table(
    "ledger_events",
    METADATA,
    _seq(),
    _integer("at"),
    _text("topic"),
    _integer("ref"),
    _text("body"),
    sa.Index("ledger_events_of", "topic", "ref", "seq"),
    sqlite_strict=True,
)

seals = sa.Table(
    "seals",
    METADATA,
    sa.Column("number", _BIG, primary_key=True, autoincrement=False),
    _integer("first"),
    _integer("last"),
    _integer("count"),
    _text("root"),
    _text("previous"),
    _integer("at"),
    _text("digest"),
    sa.Index("seals_last", "last", unique=True),
    sqlite_strict=True,
)

texts = sa.Table(
    "texts",
    METADATA,
    sa.Column("digest", sa.Text(), primary_key=True),
    _text("kind"),
    _text("name"),
    _text("body"),
    _integer("at"),
    sqlite_strict=True,
)

_DECISION = """seq at kind target source key dry_run request request_digest verdict code reason rule rule_source
    policy_digest numbers waives"""
_EXECUTION = """seq action_seq decision_seq at kind target source state ok dry_run code detail started_at finished_at
    evidence"""
_BEFORE = {
    "decisions": _DECISION,
    "approvals": "seq kind target request digest decision_seq reason waives created_at expires_at needed",
    "executions": _EXECUTION,
    "journal": "seq at topic actor subject severity summary detail",
}
_BATCH = 1000


def upgrade() -> None:
    """New tables, and an entry for every row that belongs to the ledger."""
    connection = op.get_bind()
    METADATA.create_all(connection, checkfirst=False)
    for name, columns in _BEFORE.items():
        _enter_all(connection, name, columns.split())
    _enter_ends(connection)


def _enter_all(connection: sa.Connection, name: str, columns: list[str]) -> None:
    after = 0
    table = sa.table(name, *(sa.column(one) for one in columns))
    while True:
        some = sa.select(table).where(table.c.seq > after).order_by(table.c.seq).limit(_BATCH)
        rows = connection.execute(some).mappings().all()
        if not rows:
            return
        connection.execute(sa.insert(ledger), [_entry(name, dict(row)) for row in rows])
        after = rows[-1]["seq"]


def _enter_ends(connection: sa.Connection) -> None:
    """An approval that is no longer pending is so by an event."""
    names = ("seq", "created_at", "status", "note", "ended_at", "superseded_by")
    table = sa.table("approvals", *(sa.column(one) for one in names))
    some = sa.select(table).where(table.c.status != "pending").order_by(table.c.seq)
    for row in connection.execute(some).mappings().all():
        event = {
            "at": row["ended_at"] or row["created_at"],
            "topic": "approval",
            "ref": row["seq"],
            "body": _canonical({one: row[one] for one in names[2:]}),
        }
        [seq] = connection.execute(sa.insert(ledger_events).values(event).returning(ledger_events.c.seq)).scalars()
        connection.execute(sa.insert(ledger), [_entry("ledger_events", {"seq": seq, **event})])


def _entry(kind: str, row: Mapping[str, object]) -> dict[str, object]:
    body = _canonical({"row": row, "table": kind}).encode()
    return {"kind": kind, "ref": row["seq"], "digest": "sha256:" + hashlib.sha256(body).hexdigest(), "xact": 0}


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
