"""0007: epochs: what a restore or a copy begins, and which numbers may have been used before it.

The changes as they were then, written out.  Revision 0007, down_revision 0006.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

METADATA = sa.MetaData()
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

epochs = sa.Table(
    "epochs",
    METADATA,
    sa.Column("seq", _BIG, sa.Identity(), primary_key=True),
    sa.Column("kind", sa.Text(), nullable=False),
    sa.Column("at", _BIG, nullable=False),
    sa.Column("origin", sa.Text(), nullable=False),
    sa.Column("freeze_seq", _BIG, nullable=True),
    sa.Column("released_at", _BIG, nullable=True),
    sa.Column("released_by", sa.Text(), nullable=False),
    sa.Column("reason", sa.Text(), nullable=False),
    sqlite_strict=True,
)

number_floors = sa.Table(
    "number_floors",
    METADATA,
    sa.Column("name", sa.Text(), primary_key=True),
    sa.Column("floor", _BIG, nullable=False),
    sqlite_strict=True,
)


def upgrade() -> None:
    """New tables; nothing that stands is touched."""
    METADATA.create_all(op.get_bind(), checkfirst=False)
