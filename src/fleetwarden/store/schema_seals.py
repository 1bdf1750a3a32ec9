"""Tables of the sealed ledger: what was entered, events of rows that change, the seals, and texts by digest.

`ledger` has one row for every row that belongs to the ledger, written in the same transaction.  Its position is null
until it is sealed.  `seals.number` and positions count without a gap, whatever numbers an epoch skips elsewhere.
"""

from __future__ import annotations

import sqlalchemy as sa

from fleetwarden.store.schema_parts import index, integer, seq, table, text

__all__ = ["ledger", "ledger_events", "seals", "texts"]

ledger = table(
    "ledger",
    seq(),
    text("kind"),
    integer("ref"),
    text("digest"),
    integer("xact", default="0"),
    integer("position", null=True),
    index("ledger_of_row", "kind", "ref", unique=True),
    index("ledger_positions", "position", unique=True, where="position IS NOT NULL"),
    index("ledger_open", "xact", "seq", where="position IS NULL"),
)

ledger_events = table(
    "ledger_events",
    seq(),
    integer("at"),
    text("topic"),
    integer("ref"),
    text("body"),
    index("ledger_events_of", "topic", "ref", "seq"),
)

seals = table(
    "seals",
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=False),
    integer("first"),
    integer("last"),
    integer("count"),
    text("root"),
    text("previous"),
    integer("at"),
    text("digest"),
    index("seals_last", "last", unique=True),
)

texts = table(
    "texts",
    sa.Column("digest", sa.Text(), primary_key=True),
    text("kind"),
    text("name"),
    text("body"),
    integer("at"),
)
