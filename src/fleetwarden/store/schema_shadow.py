"""Tables of shadow evaluations, as runs of equal verdicts, and of replicas that are not there."""

from __future__ import annotations

import sqlalchemy as sa

from fleetwarden.store.schema_parts import index, integer, table, text

__all__ = ["missing_replicas", "shadow_runs"]

shadow_runs = table(
    "shadow_runs",
    sa.Column("service", sa.Text(), primary_key=True),
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
    integer("at"),
    integer("until", null=True),  # null: it lasts
    integer("current"),
    integer("desired"),
    integer("raw"),
    text("reason"),
    index("shadow_runs_open", "service", where="until IS NULL", unique=True),
    index("shadow_runs_ended", "until", where="until IS NOT NULL"),
)

missing_replicas = table(
    "missing_replicas",
    sa.Column("service", sa.Text(), primary_key=True),
    integer("since"),
    integer("told_at", null=True),
)
