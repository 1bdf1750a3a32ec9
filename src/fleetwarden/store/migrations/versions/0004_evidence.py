"""0004: what was seen of a target before it was touched, and the versions it ran.

The changes as they were then, written out.  Revision 0004, down_revision 0003.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

METADATA = sa.MetaData()
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

captures = sa.Table(
    "captures",
    METADATA,
    sa.Column("action_seq", _BIG, primary_key=True, autoincrement=False),
    sa.Column("at", _BIG, nullable=False),
    sa.Column("digest", sa.Text(), nullable=False),
    sa.Column("body", sa.Text(), nullable=False),
    sa.Index("captures_at", "at"),
    sqlite_strict=True,
)

ran_versions = sa.Table(
    "ran_versions",
    METADATA,
    sa.Column("seq", _BIG, sa.Identity(), primary_key=True),
    sa.Column("service", sa.Text(), nullable=False),
    sa.Column("version", sa.Text(), nullable=False),
    sa.Column("before", sa.Text(), nullable=False),
    sa.Column("kind", sa.Text(), nullable=False),
    sa.Column("complete", _BIG, nullable=False),
    sa.Column("action_seq", _BIG, nullable=False),
    sa.Column("at", _BIG, nullable=False),
    sa.Index("ran_versions_of_service", "service", "seq"),
    sa.Index("ran_versions_of_action", "action_seq", unique=True),
    sqlite_strict=True,
)


def upgrade() -> None:
    """New tables; nothing is known of what ran before them."""
    METADATA.create_all(op.get_bind(), checkfirst=False)
