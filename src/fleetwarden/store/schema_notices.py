"""Tables of messages to people, and of services whose repair is held up."""

from __future__ import annotations

import sqlalchemy as sa

from fleetwarden.store.schema_parts import index, integer, seq, table, text

__all__ = ["blocked_services", "deliveries"]

deliveries = table(
    "deliveries",
    seq(),
    integer("at"),
    text("target"),
    text("kind"),
    text("subject"),
    text("severity"),
    text("lines"),
    integer("count"),
    integer("first_entry"),
    integer("last_entry"),
    text("state"),
    integer("attempts"),
    integer("not_before"),
    integer("claimed_until", null=True),
    text("error"),
    integer("ended_at", null=True),
    index("deliveries_open", "target", "seq", where="state IN ('waiting', 'sending')"),
    index("deliveries_made", "target", "at"),
    index("deliveries_ended", "ended_at", where="ended_at IS NOT NULL"),
    keep_ids=True,  # old messages are pruned
)

blocked_services = table(
    "blocked_services",
    sa.Column("service", sa.Text(), primary_key=True),
    integer("since"),
    text("code"),
    text("reason"),
    integer("told_at", null=True),
    integer("times"),
)
