"""Tables of several planes side by side: where services belong, who answers for a host, and what it last saw there.

A row of `host_sightings` whose `observed_at` is null was seen as it stands by its host's latest look: a fleet in which
nothing changes costs one row per look.
"""

from __future__ import annotations

import sqlalchemy as sa

from fleetwarden.store.schema_parts import integer, table, text

__all__ = ["host_sightings", "hosts", "placements"]

placements = table(
    "placements",
    sa.Column("service", sa.Text(), primary_key=True),
    text("host"),
    integer("at"),
)

hosts = table(
    "hosts",
    sa.Column("host", sa.Text(), primary_key=True),
    text("folder"),  # the id of the data folder that its processes are kept in
    text("holder"),  # the plane that looked last
    integer("looked_at", null=True),
)

host_sightings = table(
    "host_sightings",
    sa.Column("host", sa.Text(), primary_key=True),
    sa.Column("service", sa.Text(), primary_key=True),
    integer("observed_at", null=True),
    text("body"),
)
