"""0010: pushed samples and the sequences of their sources.

The changes as they were then, written out.  Revision 0010, down_revision 0009.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

METADATA = sa.MetaData()
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

pushed_samples = sa.Table(
    "pushed_samples",
    METADATA,
    sa.Column("source", sa.Text(), primary_key=True),
    sa.Column("service", sa.Text(), primary_key=True),
    sa.Column("scale_unit", sa.Text(), primary_key=True),
    sa.Column("kind", sa.Text(), primary_key=True),
    sa.Column("sampled_at", _BIG, nullable=False),
    sa.Column("body", sa.Text(), nullable=False),
    sa.Index("pushed_samples_of_service", "service"),
    sqlite_strict=True,
)

signal_marks = sa.Table(
    "signal_marks",
    METADATA,
    sa.Column("source", sa.Text(), primary_key=True),
    sa.Column("sequence", _BIG, nullable=False),
    sa.Column("at", _BIG, nullable=False),
    sqlite_strict=True,
)


def upgrade() -> None:
    """New tables; nothing that stands is touched."""
    METADATA.create_all(op.get_bind(), checkfirst=False)
