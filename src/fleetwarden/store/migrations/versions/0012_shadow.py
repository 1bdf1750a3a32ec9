"""0012: shadow evaluations, as runs of equal verdicts, and replicas that are not there.

The changes as they were then, written out.  Revision 0012, down_revision 0011.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

METADATA = sa.MetaData()
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_OPEN = sa.text("until IS NULL")
_ENDED = sa.text("until IS NOT NULL")

shadow_runs = sa.Table(
    "shadow_runs",
    METADATA,
    sa.Column("service", sa.Text(), primary_key=True),
    sa.Column("number", _BIG, primary_key=True),
    sa.Column("at", _BIG, nullable=False),
    sa.Column("until", _BIG, nullable=True),
    sa.Column("current", _BIG, nullable=False),
    sa.Column("desired", _BIG, nullable=False),
    sa.Column("raw", _BIG, nullable=False),
    sa.Column("reason", sa.Text(), nullable=False),
    sa.Index("shadow_runs_open", "service", unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN),
    sa.Index("shadow_runs_ended", "until", sqlite_where=_ENDED, postgresql_where=_ENDED),
    sqlite_strict=True,
)

missing_replicas = sa.Table(
    "missing_replicas",
    METADATA,
    sa.Column("service", sa.Text(), primary_key=True),
    sa.Column("since", _BIG, nullable=False),
    sa.Column("told_at", _BIG, nullable=True),
    sqlite_strict=True,
)


def upgrade() -> None:
    """New tables; nothing that stands is touched."""
    METADATA.create_all(op.get_bind(), checkfirst=False)
