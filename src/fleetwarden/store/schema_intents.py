"""The table of scale intents: one sequence of revisions per service.

That two rows can never have the same revision, nor the same intent, is a constraint and not a check in code.
"""

from __future__ import annotations

import sqlalchemy as sa

from fleetwarden.store.schema_parts import index, integer, seq, table, text

__all__ = ["intents"]

_MOVING = "state IN ('proposed', 'intent_accepted', 'recovery_pending', 'executed', 'observed')"

intents = table(
    "intents",
    seq(),
    text("service"),
    integer("revision"),
    text("intent_id"),
    text("state"),
    text("operation"),
    integer("desired"),
    text("intent"),
    integer("decision_seq", sa.ForeignKey("decisions.seq"), null=True),
    integer("approval_seq", sa.ForeignKey("approvals.seq"), null=True),
    integer("action_seq", sa.ForeignKey("outbox.seq"), null=True),
    integer("created_at"),
    integer("accepted_at", null=True),
    integer("moved_at"),
    text("note"),
    text("convergence"),
    index("intents_revision", "service", "revision", unique=True),
    index("intents_identity", "intent_id", unique=True),
    index("intents_moving", "state", "seq", where=_MOVING),
    index("intents_in_state", "state", "seq"),
    index("intents_of_service", "service", "seq"),
    index("intents_of_approval", "approval_seq", where="approval_seq IS NOT NULL"),
    index("intents_of_action", "action_seq", where="action_seq IS NOT NULL"),
)
