"""The table of where each service stands with the autoscaler."""

from __future__ import annotations

import sqlalchemy as sa

from fleetwarden.store.schema_parts import integer, table, text

__all__ = ["autoscale_rows"]

autoscale_rows = table(
    "autoscale_rows",
    sa.Column("service", sa.Text(), primary_key=True),
    integer("at"),
    text("reason"),
    text("body"),
)
