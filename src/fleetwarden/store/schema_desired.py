"""Tables of what people ask for besides the files, and of what others changed.

At most one override of a service has not ended; what stands is found without reading what has ended.
"""

from __future__ import annotations

import sqlalchemy as sa

from fleetwarden.store.schema_parts import index, integer, seq, table, text

__all__ = ["baselines", "foreign_changes", "service_overrides"]

service_overrides = table(
    "service_overrides",
    seq(),
    text("service"),
    integer("replicas", null=True),
    text("state", null=True),
    text("reason"),
    text("written_by"),
    integer("at"),
    integer("until", null=True),
    integer("ended_at", null=True),
    text("ended_by"),
    text("ended_how"),
    index("service_overrides_standing", "service", where="ended_at IS NULL", unique=True),
    index("service_overrides_of_service", "service", "seq"),
)

foreign_changes = table(
    "foreign_changes",
    seq(),
    text("service"),
    text("field"),
    text("before"),
    text("after"),
    text("writer"),
    integer("at"),
    integer("hold_until", null=True),
    integer("pauses"),
    text("status"),
    integer("ended_at", null=True),
    text("ended_by"),
    text("note"),
    index("foreign_changes_standing", "seq", where="status IN ('held', 'adopted')"),
    index("foreign_changes_of_service", "service", "seq"),
)

baselines = table(
    "baselines",
    sa.Column("service", sa.Text(), primary_key=True),
    integer("replicas", null=True),
    text("version", null=True),
    integer("stopped", null=True),
    integer("at"),
)
