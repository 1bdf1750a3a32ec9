"""The one schema, for both databases.

Columns are integers (times in microseconds, flags 0 or 1), text, and JSON as text, so that a row means the same on
SQLite and PostgreSQL and no driver has to convert anything.  What a rule depends on is a constraint here and not only
a check in code: one open record per target, one live record per key and per decision, one pending approval per kind
and target, one open work item per key, one execution per action and state.

Every query of a rule has its index (a test reads the query plans).  A change here needs a new revision in
`migrations/versions` and its name at the end of `REVISIONS`; a test compares a fresh schema with a migrated one.
"""

from __future__ import annotations

import sqlalchemy as sa

from fleetwarden.store import schema_planes as _planes
from fleetwarden.store.schema_autoscaling import autoscale_rows
from fleetwarden.store.schema_contract import allocations
from fleetwarden.store.schema_desired import baselines, foreign_changes, service_overrides
from fleetwarden.store.schema_epochs import epochs, number_floors
from fleetwarden.store.schema_events import alerts, events
from fleetwarden.store.schema_evidence import captures, ran_versions
from fleetwarden.store.schema_intents import intents
from fleetwarden.store.schema_notices import blocked_services, deliveries
from fleetwarden.store.schema_parts import METADATA
from fleetwarden.store.schema_parts import index as _index
from fleetwarden.store.schema_parts import integer as _integer
from fleetwarden.store.schema_parts import seq as _seq
from fleetwarden.store.schema_parts import table as _table
from fleetwarden.store.schema_parts import text as _text
from fleetwarden.store.schema_seals import ledger, ledger_events, seals, texts
from fleetwarden.store.schema_shadow import missing_replicas, shadow_runs
from fleetwarden.store.schema_signals import pushed_samples, signal_marks
from fleetwarden.store.schema_teams import votes
from fleetwarden.store.schema_watches import deploy_watches, quarantines

__all__ = [
    "METADATA",
    "REVISIONS",
    "VERSION_TABLE",
    "alerts",
    "allocations",
    "approvals",
    "autoscale_rows",
    "baselines",
    "blocked_services",
    "captures",
    "decisions",
    "deliveries",
    "deploy_watches",
    "epochs",
    "events",
    "executions",
    "facts",
    "foreign_changes",
    "freezes",
    "host_sightings",
    "hosts",
    "intents",
    "journal",
    "leases",
    "ledger",
    "ledger_events",
    "missing_replicas",
    "number_floors",
    "outbox",
    "overrides",
    "placements",
    "pushed_samples",
    "quarantines",
    "ran_versions",
    "reports",
    "seals",
    "service_overrides",
    "shadow_runs",
    "signal_marks",
    "texts",
    "tokens",
    "version_table",
    "votes",
    "work_items",
]

REVISIONS = (
    *("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010", "0011", "0012"),
    *("0013", "0014", "0015"),
)
VERSION_TABLE = "fleetwarden_schema"

_ALLOWED = "verdict IN ('allow', 'allow_notify') AND approval_seq IS NULL"
_SCALED = "kind = 'scale_service' AND state = 'executed' AND ok = 1 AND dry_run = 0"
_OPEN = "state IN ('prepared', 'running', 'recovery_pending')"

decisions = _table(
    "decisions",
    _seq(),
    _integer("at"),
    _text("kind"),
    _text("target"),
    _text("source"),
    _text("key"),
    _integer("dry_run"),
    _text("request"),
    _text("request_digest"),
    _text("verdict"),
    _text("code"),
    _text("reason"),
    _text("rule"),
    _text("rule_source"),
    _text("policy_digest"),
    _text("numbers"),
    _text("waives"),
    _integer("approval_seq", null=True),  # no foreign keys: these two links are set after their rows are written
    _integer("action_seq", null=True),
    _index("decisions_of_key", "key"),
    _index("decisions_of_target", "target", "seq"),
    _index("decisions_of_target_kind", "target", "kind", "seq"),
    _index("decisions_uses", "target", "kind", "dry_run", "at", where=_ALLOWED),
    _index("decisions_targets", "kind", "dry_run", "at", "target", where=_ALLOWED),
)

approvals = _table(
    "approvals",
    _seq(),
    _text("status"),
    _text("kind"),
    _text("target"),
    _text("request"),
    _text("digest"),
    _integer("decision_seq", sa.ForeignKey("decisions.seq")),
    _text("reason"),
    _text("waives"),
    _integer("created_at"),
    _integer("expires_at"),
    _text("needed"),
    _text("votes"),
    _text("note"),
    _integer("ended_at", null=True),
    _integer("superseded_by", null=True),
    _integer("warned_at", null=True),  # when people were told that it will expire soon
    _index("approvals_pending", "kind", "target", where="status = 'pending'", unique=True),
    _index("approvals_open", "target", "seq", where="status IN ('pending', 'granted')"),
    _index("approvals_in_status", "status", "seq"),
    _index("approvals_of_target", "target", "seq"),
)

outbox = _table(
    "outbox",
    _seq(),
    _text("key"),
    _text("state"),
    _text("kind"),
    _text("target"),
    _integer("dry_run"),
    _text("request"),
    _text("request_digest"),
    _integer("decision_seq", sa.ForeignKey("decisions.seq")),
    _integer("approval_seq", sa.ForeignKey("approvals.seq"), null=True),
    _text("policy_digest"),
    _text("host"),
    _integer("prepared_at"),
    _integer("expires_at"),
    _text("fence", null=True),
    _integer("started_at", null=True),
    _integer("horizon_at", null=True),
    _integer("final_if_acknowledged"),
    _integer("negatives_by_person"),
    _integer("finished_at", null=True),
    _text("outcome", null=True),
    _text("settled_by"),
    _text("note"),
    _index("outbox_open_target", "target", where=_OPEN, unique=True),
    _index("outbox_live_key", "key", where="state <> 'abandoned'", unique=True),
    _index("outbox_abandoned_key", "key", "seq", where="state = 'abandoned'"),
    _index("outbox_live_decision", "decision_seq", where="state <> 'abandoned'", unique=True),
    _index("outbox_abandoned_decision", "decision_seq", where="state = 'abandoned'"),
    _index("outbox_in_state", "state", "seq"),
    _index("outbox_of_target", "target", "seq"),
    _index("outbox_called", "target", "started_at", where="started_at IS NOT NULL"),
    _index("outbox_of_approval", "approval_seq", "seq", where="approval_seq IS NOT NULL"),
    _index("outbox_grants", "kind", "dry_run", "started_at", "target", where="approval_seq IS NOT NULL"),
    _index("outbox_finished", "finished_at", where="finished_at IS NOT NULL"),
)

executions = _table(
    "executions",
    _seq(),
    _integer("action_seq", sa.ForeignKey("outbox.seq")),
    _integer("decision_seq", sa.ForeignKey("decisions.seq")),
    _integer("at"),
    _text("kind"),
    _text("target"),
    _text("source"),
    _text("state"),
    _integer("ok"),
    _integer("dry_run"),
    _text("code"),
    _text("detail"),
    _integer("started_at", null=True),
    _integer("finished_at", null=True),
    _text("evidence"),
    _index("executions_of_action", "action_seq", "state", unique=True),
    _index("executions_ended", "target", "at", "seq", where="state <> 'recovery_pending'"),
    _index("executions_of_target", "target", "seq"),
    _index("executions_in_state", "state", "seq"),
    _index("executions_scales", "target", "at", where=_SCALED),
)

work_items = _table(
    "work_items",
    _seq(),
    _text("kind"),
    _text("key"),
    _text("payload"),
    _text("state"),
    _integer("attempts"),
    _integer("max_attempts"),
    _integer("not_before"),
    _integer("deadline", null=True),
    _text("target"),
    _text("host"),
    _integer("token"),
    _text("holder"),
    _integer("lease_until", null=True),
    _integer("due_at", null=True),  # when it can be claimed: not_before, the end of its lease, or never
    _integer("created_at"),
    _integer("updated_at"),
    _text("error"),
    _text("result"),
    _index("work_items_open_key", "key", where="state IN ('ready', 'leased')", unique=True),
    _index("work_items_due", "due_at", "seq", where="due_at IS NOT NULL"),
    _index("work_items_in_state", "state", "seq"),
    _index("work_items_of_target", "target", "seq"),
    _index("work_items_changed", "updated_at"),
    keep_ids=True,  # finished items may be pruned one day
)

leases = _table(
    "leases",
    sa.Column("cadence", sa.Text(), primary_key=True),
    sa.Column("shard", sa.Text(), primary_key=True),
    _text("holder"),  # empty: given up
    _integer("token"),
    _integer("acquired_at"),
    _integer("expires_at"),
)

freezes = _table(
    "freezes",
    _seq(),
    _text("scope"),
    _text("value"),
    _text("owner"),
    _text("reason"),
    _integer("at"),
    _integer("until", null=True),
    _integer("lifted_at", null=True),
    _text("lifted_by"),
    _integer("told_at", null=True),  # when it was written down that it ended by itself
    _index("freezes_standing", "seq", where="lifted_at IS NULL"),
)

overrides = _table(
    "policy_overrides",
    sa.Column("id", sa.Text(), primary_key=True),
    _text("rule"),
    _integer("active"),
    _text("written_by"),
    _integer("at"),
)

tokens = _table(
    "tokens",
    _seq(),
    _text("name"),
    _text("live_name", null=True),  # the name while this row holds it, else null: two live tokens never share one
    _text("secret_digest"),
    _text("roles"),
    _text("person"),
    _integer("created_at"),
    _integer("expires_at", null=True),
    _integer("revoked_at", null=True),
    sa.Column("teams", sa.Text(), nullable=False, server_default="[]"),
    _index("tokens_live_name", "live_name", unique=True),
    _index("tokens_digest", "secret_digest", unique=True),
)

journal = _table(
    "journal",
    _seq(),
    _integer("at"),
    _text("topic"),
    _text("actor"),
    _text("subject"),
    _text("severity"),
    _text("summary"),
    _text("detail"),
    # PostgreSQL: the transaction that wrote it, for readers that must skip nothing; 0 on SQLite and from before
    _integer("xact", default="0"),
    _index("journal_of_topic", "topic", "seq"),
    _index("journal_of_subject", "subject", "seq"),
    _index("journal_feed", "topic", "xact", "seq"),
)

reports = _table(
    "reports",
    _seq(),
    _integer("at"),
    _text("kind"),
    _text("body"),
    _index("reports_of_kind", "kind", "seq"),
    keep_ids=True,  # old reports may be pruned one day
)

facts = _table(
    "facts",
    sa.Column("name", sa.Text(), primary_key=True),
    _text("value"),
    _integer("at"),
)

placements, hosts, host_sightings = _planes.placements, _planes.hosts, _planes.host_sightings

# What Alembic would make for itself.  It is no part of METADATA: it says which METADATA stands in the database.
version_table = sa.Table(
    VERSION_TABLE,
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)
