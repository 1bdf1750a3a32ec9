"""Tables of events that monitoring systems sent, and of where each of their alerts stands."""

from __future__ import annotations

import sqlalchemy as sa

from fleetwarden.store.schema_parts import index, integer, seq, table, text

__all__ = ["alerts", "events"]

events = table(
    "events",
    seq(),
    integer("at"),
    text("key"),
    text("source"),
    text("severity"),
    text("phase"),
    text("class"),
    text("service"),  # empty: none that is known
    text("body"),
    integer("seen_at"),
    integer("repeats"),
    integer("repeat_of", null=True),
    integer("flap"),
    integer("late"),
    integer("closes", null=True),
    integer("ended_at", null=True),
    integer("ended_by", null=True),
    text("remediation_status"),
    text("remediation_log"),
    index("events_key", "key", unique=True),
    index("events_of_service", "service", "seq"),
    index("events_outages", "service", "at", where="class = 'down' AND phase = 'firing'"),
    index("events_seen", "seen_at"),
    index("events_repeats", "repeat_of", where="repeat_of IS NOT NULL"),
    keep_ids=True,  # old events are pruned
)

alerts = table(
    "alerts",
    sa.Column("alert", sa.Text(), primary_key=True),
    text("service"),
    integer("firing"),
    text("class"),
    text("severity"),
    integer("starts_at", null=True),
    integer("changed_at"),
    integer("seen_at"),
    integer("event_seq"),
    text("origin"),
    index("alerts_of_service", "service", where="class = 'down'"),
    index("alerts_firing", "origin", where="firing = 1"),
    index("alerts_seen", "seen_at"),
)
