"""0014: events of monitoring systems, and where each of their alerts stands.

The changes as they were then, written out.  Revision 0014, down_revision 0013.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

METADATA = sa.MetaData()
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_OUTAGE = sa.text("class = 'down' AND phase = 'firing'")
_FIRING = sa.text("firing = 1")
_DOWN = sa.text("class = 'down'")


def _integer(name: str, *, null: bool = False) -> sa.Column[int]:
    return sa.Column(name, _BIG, nullable=null)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


events = sa.Table(
    "events",
    METADATA,
    sa.Column("seq", _BIG, sa.Identity(), primary_key=True),
    _integer("at"),
    _text("key"),
    _text("source"),
    _text("severity"),
    _text("phase"),
    _text("class"),
    _text("service"),
    _text("body"),
    _integer("seen_at"),
    _integer("repeats"),
    _integer("repeat_of", null=True),
    _integer("flap"),
    _integer("late"),
    _integer("closes", null=True),
    _integer("ended_at", null=True),
    _integer("ended_by", null=True),
    _text("remediation_status"),
    _text("remediation_log"),
    sa.Index("events_key", "key", unique=True),
    sa.Index("events_of_service", "service", "seq"),
    sa.Index("events_outages", "service", "at", sqlite_where=_OUTAGE, postgresql_where=_OUTAGE),
    sa.Index("events_seen", "seen_at"),
    sa.Index(
        "events_repeats",
        "repeat_of",
        sqlite_where=sa.text("repeat_of IS NOT NULL"),
        postgresql_where=sa.text("repeat_of IS NOT NULL"),
    ),
    sqlite_strict=True,
    sqlite_autoincrement=True,
)

alerts = sa.Table(
    "alerts",
    METADATA,
    sa.Column("alert", sa.Text(), primary_key=True),
    _text("service"),
    _integer("firing"),
    _text("class"),
    _text("severity"),
    _integer("starts_at", null=True),
    _integer("changed_at"),
    _integer("seen_at"),
    _integer("event_seq"),
    _text("origin"),
    sa.Index("alerts_of_service", "service", sqlite_where=_DOWN, postgresql_where=_DOWN),
    sa.Index("alerts_firing", "origin", sqlite_where=_FIRING, postgresql_where=_FIRING),
    sa.Index("alerts_seen", "seen_at"),
    sqlite_strict=True,
)


def upgrade() -> None:
    """New tables; nothing that stands is touched."""
    METADATA.create_all(op.get_bind(), checkfirst=False)
