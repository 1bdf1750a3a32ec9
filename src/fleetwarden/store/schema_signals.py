"""Tables of pushed samples: the newest of each, and the sequences of their sources."""

from __future__ import annotations

import sqlalchemy as sa

from fleetwarden.store.schema_parts import index, integer, table, text

__all__ = ["pushed_samples", "signal_marks"]

pushed_samples = table(
    "pushed_samples",
    sa.Column("source", sa.Text(), primary_key=True),
    sa.Column("service", sa.Text(), primary_key=True),
    sa.Column("scale_unit", sa.Text(), primary_key=True),
    sa.Column("kind", sa.Text(), primary_key=True),
    integer("sampled_at"),
    text("body"),
    index("pushed_samples_of_service", "service"),
)

signal_marks = table(
    "signal_marks",
    sa.Column("source", sa.Text(), primary_key=True),
    integer("sequence"),
    integer("at"),
)
