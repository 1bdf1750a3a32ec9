"""Tables of watches, and of versions that failed one."""

from __future__ import annotations

from fleetwarden.store.schema_parts import index, integer, seq, table, text

__all__ = ["deploy_watches", "quarantines"]

deploy_watches = table(
    "deploy_watches",
    seq(),
    text("service"),
    integer("action_seq", null=True),
    text("kind"),
    text("source"),
    text("version"),
    text("from_version"),
    integer("from_replicas", null=True),
    text("definition"),
    text("replica"),
    integer("changes_version"),
    text("on_fail"),
    text("status"),
    integer("started"),
    integer("settled"),
    integer("grace_until"),
    integer("deadline"),
    integer("poll"),
    integer("made"),
    integer("usable"),
    integer("healthy"),
    integer("last_at", null=True),
    text("probes"),
    text("judged"),
    integer("proven"),
    text("reason"),
    integer("ended_at", null=True),
    integer("replaced_by", null=True),
    text("follow_up"),
    index("deploy_watches_running", "service", where="status = 'running'", unique=True),
    index("deploy_watches_of_action", "action_seq", where="action_seq IS NOT NULL", unique=True),
    index("deploy_watches_of_service", "service", "seq"),
    index(
        "deploy_watches_of_versions",
        "service",
        "seq",
        where="proven = 1 OR (changes_version = 1 AND status = 'failed')",
    ),
    index("deploy_watches_of_changes", "service", "seq", where="changes_version = 1"),
)

quarantines = table(
    "quarantines",
    seq(),
    text("service"),
    text("version"),
    integer("watch_seq"),
    text("reason"),
    integer("at"),
    integer("cleared_at", null=True),
    text("cleared_by"),
    text("note"),
    index("quarantines_standing", "service", "version", where="cleared_at IS NULL", unique=True),
    index("quarantines_of_service", "service", "seq"),
)
