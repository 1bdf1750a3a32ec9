"""Tables of what was seen before a target was touched, and of the versions that it ran."""

from __future__ import annotations

import sqlalchemy as sa

from fleetwarden.store.schema_parts import index, integer, seq, table, text

__all__ = ["captures", "ran_versions"]

captures = table(
    "captures",
    sa.Column(
        "action_seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=False
    ),
    integer("at"),
    text("digest"),
    text("body"),
    index("captures_at", "at"),
)

ran_versions = table(
    "ran_versions",
    seq(),
    text("service"),
    text("version"),
    text("before"),
    text("kind"),
    integer("complete"),
    integer("action_seq"),
    integer("at"),
    index("ran_versions_of_service", "service", "seq"),
    index("ran_versions_of_action", "action_seq", unique=True),
)
