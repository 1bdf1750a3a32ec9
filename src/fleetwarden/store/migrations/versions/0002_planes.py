"""0002: which plane and host does what, and in what order rows became visible.

The changes as they were then, written out.  Revision 0002, down_revision 0001.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

METADATA = sa.MetaData()
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

placements = sa.Table(
    "placements",
    METADATA,
    sa.Column("service", sa.Text(), primary_key=True),
    sa.Column("host", sa.Text(), nullable=False),
    sa.Column("at", _BIG, nullable=False),
    sqlite_strict=True,
)

hosts = sa.Table(
    "hosts",
    METADATA,
    sa.Column("host", sa.Text(), primary_key=True),
    sa.Column("folder", sa.Text(), nullable=False),
    sa.Column("holder", sa.Text(), nullable=False),
    sa.Column("looked_at", _BIG, nullable=True),
    sqlite_strict=True,
)

host_sightings = sa.Table(
    "host_sightings",
    METADATA,
    sa.Column("host", sa.Text(), primary_key=True),
    sa.Column("service", sa.Text(), primary_key=True),
    sa.Column("observed_at", _BIG, nullable=True),
    sa.Column("body", sa.Text(), nullable=False),
    sqlite_strict=True,
)


def upgrade() -> None:
    """New tables, and the journal's order of commits: what stands in it already was committed before all that come."""
    METADATA.create_all(op.get_bind(), checkfirst=False)
    op.add_column("journal", sa.Column("xact", _BIG, server_default="0", nullable=False))
    op.create_index("journal_feed", "journal", ["topic", "xact", "seq"])
