"""0008: scale intents, and the index by which cooldowns are read.

The changes as they were then, written out.  Revision 0008, down_revision 0007.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

METADATA = sa.MetaData()
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_MOVING = sa.text("state IN ('proposed', 'intent_accepted', 'recovery_pending', 'executed', 'observed')")

for _name in ("decisions", "approvals", "outbox"):  # only so that the new table can refer to them
    sa.Table(_name, METADATA, sa.Column("seq", _BIG, primary_key=True))

intents = sa.Table(
    "intents",
    METADATA,
    sa.Column("seq", _BIG, sa.Identity(), primary_key=True),
    sa.Column("service", sa.Text(), nullable=False),
    sa.Column("revision", _BIG, nullable=False),
    sa.Column("intent_id", sa.Text(), nullable=False),
    sa.Column("state", sa.Text(), nullable=False),
    sa.Column("operation", sa.Text(), nullable=False),
    sa.Column("desired", _BIG, nullable=False),
    sa.Column("intent", sa.Text(), nullable=False),
    sa.Column("decision_seq", _BIG, sa.ForeignKey("decisions.seq"), nullable=True),
    sa.Column("approval_seq", _BIG, sa.ForeignKey("approvals.seq"), nullable=True),
    sa.Column("action_seq", _BIG, sa.ForeignKey("outbox.seq"), nullable=True),
    sa.Column("created_at", _BIG, nullable=False),
    sa.Column("accepted_at", _BIG, nullable=True),
    sa.Column("moved_at", _BIG, nullable=False),
    sa.Column("note", sa.Text(), nullable=False),
    sa.Column("convergence", sa.Text(), nullable=False),
    sa.Index("intents_revision", "service", "revision", unique=True),
    sa.Index("intents_identity", "intent_id", unique=True),
    sa.Index("intents_moving", "state", "seq", sqlite_where=_MOVING, postgresql_where=_MOVING),
    sa.Index("intents_in_state", "state", "seq"),
    sa.Index("intents_of_service", "service", "seq"),
    sa.Index(
        "intents_of_approval",
        "approval_seq",
        sqlite_where=sa.text("approval_seq IS NOT NULL"),
        postgresql_where=sa.text("approval_seq IS NOT NULL"),
    ),
    sa.Index(
        "intents_of_action",
        "action_seq",
        sqlite_where=sa.text("action_seq IS NOT NULL"),
        postgresql_where=sa.text("action_seq IS NOT NULL"),
    ),
    sqlite_strict=True,
)


_SCALED = sa.text("kind = 'scale_service' AND state = 'executed' AND ok = 1 AND dry_run = 0")


def upgrade() -> None:
    """A new table and a new index; no row that stands is touched."""
    METADATA.create_all(op.get_bind(), tables=[intents], checkfirst=False)
    op.create_index("executions_scales", "executions", ["target", "at"], sqlite_where=_SCALED, postgresql_where=_SCALED)
