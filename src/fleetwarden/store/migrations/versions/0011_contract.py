"""0011: what elastic units take of their pools.

The changes as they were then, written out.  Revision 0011, down_revision 0010.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

METADATA = sa.MetaData()
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

allocations = sa.Table(
    "allocations",
    METADATA,
    sa.Column("service", sa.Text(), primary_key=True),
    sa.Column("units", _BIG, nullable=False),
    sa.Column("at", _BIG, nullable=False),
    sqlite_strict=True,
)


def upgrade() -> None:
    """A new table; nothing that stands is touched."""
    METADATA.create_all(op.get_bind(), checkfirst=False)
