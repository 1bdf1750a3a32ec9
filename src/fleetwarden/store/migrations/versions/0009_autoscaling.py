"""0009: where each service stands with the autoscaler.

The changes as they were then, written out.  Revision 0009, down_revision 0008.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

METADATA = sa.MetaData()
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

autoscale_rows = sa.Table(
    "autoscale_rows",
    METADATA,
    sa.Column("service", sa.Text(), primary_key=True),
    sa.Column("at", _BIG, nullable=False),
    sa.Column("reason", sa.Text(), nullable=False),
    sa.Column("body", sa.Text(), nullable=False),
    sqlite_strict=True,
)


def upgrade() -> None:
    """A new table and an index for who follows changes of the work queue; no row that stands is touched."""
    METADATA.create_all(op.get_bind(), checkfirst=False)
    op.create_index("work_items_changed", "work_items", ["updated_at"])
