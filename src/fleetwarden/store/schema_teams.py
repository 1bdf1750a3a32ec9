"""The table behind quorums: one row per person and approval, whoever asks and however many tokens that person has."""

from __future__ import annotations

import sqlalchemy as sa

from fleetwarden.store.schema_parts import index, integer, seq, table, text

__all__ = ["votes"]

votes = table(
    "votes",
    seq(),
    integer("approval_seq", sa.ForeignKey("approvals.seq")),
    text("person"),
    text("decision"),
    text("reason"),
    text("teams"),
    integer("at"),
    index("votes_of_person", "approval_seq", "person", unique=True),
)
