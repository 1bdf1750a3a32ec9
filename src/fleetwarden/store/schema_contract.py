"""The table of what elastic units take of their pools."""

from __future__ import annotations

import sqlalchemy as sa

from fleetwarden.store.schema_parts import integer, table

__all__ = ["allocations"]

allocations = table(
    "allocations",
    sa.Column("service", sa.Text(), primary_key=True),
    integer("units"),
    integer("at"),
)
