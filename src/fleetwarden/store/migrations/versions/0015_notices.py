"""0015: messages to people with what became of them, and services whose repair is held up.

The changes as they were then, written out.  Revision 0015, down_revision 0014.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

METADATA = sa.MetaData()
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_OPEN = sa.text("state IN ('waiting', 'sending')")
_ENDED = sa.text("ended_at IS NOT NULL")

deliveries = sa.Table(
    "deliveries",
    METADATA,
    sa.Column("seq", _BIG, sa.Identity(), primary_key=True),
    sa.Column("at", _BIG, nullable=False),
    sa.Column("target", sa.Text(), nullable=False),
    sa.Column("kind", sa.Text(), nullable=False),
    sa.Column("subject", sa.Text(), nullable=False),
    sa.Column("severity", sa.Text(), nullable=False),
    sa.Column("lines", sa.Text(), nullable=False),
    sa.Column("count", _BIG, nullable=False),
    sa.Column("first_entry", _BIG, nullable=False),
    sa.Column("last_entry", _BIG, nullable=False),
    sa.Column("state", sa.Text(), nullable=False),
    sa.Column("attempts", _BIG, nullable=False),
    sa.Column("not_before", _BIG, nullable=False),
    sa.Column("claimed_until", _BIG, nullable=True),
    sa.Column("error", sa.Text(), nullable=False),
    sa.Column("ended_at", _BIG, nullable=True),
    sa.Index("deliveries_open", "target", "seq", sqlite_where=_OPEN, postgresql_where=_OPEN),
    sa.Index("deliveries_made", "target", "at"),
    sa.Index("deliveries_ended", "ended_at", sqlite_where=_ENDED, postgresql_where=_ENDED),
    sqlite_strict=True,
    sqlite_autoincrement=True,
)

blocked_services = sa.Table(
    "blocked_services",
    METADATA,
    sa.Column("service", sa.Text(), primary_key=True),
    sa.Column("since", _BIG, nullable=False),
    sa.Column("code", sa.Text(), nullable=False),
    sa.Column("reason", sa.Text(), nullable=False),
    sa.Column("told_at", _BIG, nullable=True),
    sa.Column("times", _BIG, nullable=False),
    sqlite_strict=True,
)


def upgrade() -> None:
    """New tables; nothing that stands is touched."""
    METADATA.create_all(op.get_bind(), checkfirst=False)
