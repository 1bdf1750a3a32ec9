"""0003: what people ask for besides the files, and what others changed.

The changes as they were then, written out.  Revision 0003, down_revision 0002.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

METADATA = sa.MetaData()
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


service_overrides = sa.Table(
    "service_overrides",
    METADATA,
    sa.Column("seq", _BIG, sa.Identity(), primary_key=True),
    sa.Column("service", sa.Text(), nullable=False),
    sa.Column("replicas", _BIG, nullable=True),
    sa.Column("state", sa.Text(), nullable=True),
    sa.Column("reason", sa.Text(), nullable=False),
    sa.Column("written_by", sa.Text(), nullable=False),
    sa.Column("at", _BIG, nullable=False),
    sa.Column("until", _BIG, nullable=True),
    sa.Column("ended_at", _BIG, nullable=True),
    sa.Column("ended_by", sa.Text(), nullable=False),
    sa.Column("ended_how", sa.Text(), nullable=False),
    sa.Index("service_overrides_standing", "service", unique=True, **_where("ended_at IS NULL")),
    sa.Index("service_overrides_of_service", "service", "seq"),
    sqlite_strict=True,
)

foreign_changes = sa.Table(
    "foreign_changes",
    METADATA,
    sa.Column("seq", _BIG, sa.Identity(), primary_key=True),
    sa.Column("service", sa.Text(), nullable=False),
    sa.Column("field", sa.Text(), nullable=False),
    sa.Column("before", sa.Text(), nullable=False),
    sa.Column("after", sa.Text(), nullable=False),
    sa.Column("writer", sa.Text(), nullable=False),
    sa.Column("at", _BIG, nullable=False),
    sa.Column("hold_until", _BIG, nullable=True),
    sa.Column("pauses", _BIG, nullable=False),
    sa.Column("status", sa.Text(), nullable=False),
    sa.Column("ended_at", _BIG, nullable=True),
    sa.Column("ended_by", sa.Text(), nullable=False),
    sa.Column("note", sa.Text(), nullable=False),
    sa.Index("foreign_changes_standing", "seq", **_where("status IN ('held', 'adopted')")),
    sa.Index("foreign_changes_of_service", "service", "seq"),
    sqlite_strict=True,
)

baselines = sa.Table(
    "baselines",
    METADATA,
    sa.Column("service", sa.Text(), primary_key=True),
    sa.Column("replicas", _BIG, nullable=True),
    sa.Column("version", sa.Text(), nullable=True),
    sa.Column("stopped", _BIG, nullable=True),
    sa.Column("at", _BIG, nullable=False),
    sqlite_strict=True,
)


def upgrade() -> None:
    """New tables.  What stands on the substrates when they are made is taken as ours by the first look."""
    METADATA.create_all(op.get_bind(), checkfirst=False)
