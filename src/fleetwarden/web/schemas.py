"""The shapes of answers, for the OpenAPI document.

Answers are written by `app.views`; these models describe them and take no part in making them, so nothing is filtered
out or converted on the way.  A test compares what the routes really answer with what stands here.  Objects are open:
a client has to tolerate fields that it does not know.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, Field

from fleetwarden.domain.actions import ExecutionState, Tier, Verdict
from fleetwarden.domain.fleet import DesiredState, InstanceStatus, Mode, Presence, ServiceStatus
from fleetwarden.domain.health import HealthStatus
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState, WorkState
from fleetwarden.web.schemas_scaling import Evaluation, Intent
from fleetwarden.web.schemas_wishes import ForeignChange, ServiceOverride

__all__ = [
    "Action",
    "Answered",
    "Approval",
    "Decision",
    "Execution",
    "ExecutionWithHistory",
    "Explanation",
    "Freeze",
    "FreezeStatus",
    "Health",
    "Journal",
    "Override",
    "PageOf",
    "Policy",
    "ProblemDetails",
    "Report",
    "Service",
    "Services",
    "Status",
    "Stopping",
    "Token",
    "TokenWithSecret",
    "Work",
]

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Json = dict[str, Any]
T = TypeVar("T", bound=BaseModel)


class PageOf(BaseModel, Generic[T]):
    """One page of a list, newest first.  `next` is the cursor of the page after, or null."""

    items: list[T]
    next: int | None


class KeptText(BaseModel):
    """A text of the configuration; `at`: when it was first in force."""

    digest: str
    kind: Literal["policy", "registry"]
    name: str
    body: str
    at: Time


class LedgerPage(BaseModel):
    """Items of the ledger's export, each with its `type`.  `next` is the cursor of the page after, or null."""

    items: list[dict[str, Any]]
    next: str | None


class Services(BaseModel):
    """All services, by name."""

    items: list[Service]
    next: None


class Finding(BaseModel):
    where: str
    reason: str


class ProblemDetails(BaseModel):
    """A refusal (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str = ""
    errors: list[Finding] = []


class Desired(BaseModel):
    state: DesiredState
    replicas: int
    version: str | None
    source: str


class Observed(BaseModel):
    status: ServiceStatus
    presence: Presence
    ready: int
    existing: int
    total: int
    version: str | None
    observed_at: Time
    since: Time | None
    source: str
    detail: str


class Instance(BaseModel):
    id: str
    pid: int | None
    port: int | None
    status: InstanceStatus
    version: str
    started_at: Time | None
    detail: str


class Decision(BaseModel):
    id: str
    at: Time
    kind: str
    target: str
    params: Json
    verdict: Verdict
    code: str
    rule: str
    rule_source: str
    policy_digest: str
    numbers: Json
    reason: str
    source: str
    requested_by: str
    request_reason: str
    request_digest: str
    dry_run: bool
    evidence: Json
    approval_id: str | None
    action_id: str | None


class DecisionWithRule(Decision):
    """`rule_text`: the rule as it stood in the policy when it decided; null where it has no text of its own."""

    rule_text: str | None


class Needed(BaseModel):
    """`teams` empty: anybody with the role, unless `nobody` can."""

    count: int
    teams: list[str]
    nobody: bool


class Vote(BaseModel):
    by: str
    decision: Literal["approved", "denied"]
    reason: str
    at: Time
    teams: list[str]


class Approval(BaseModel):
    id: str
    job_id: str
    short_id: str
    at: Time
    kind: str
    target: str
    params: Json
    status: ApprovalState
    digest: str
    decision_id: str
    reason: str
    request_reason: str
    waives: list[str]
    requested_by: str
    source: str
    dry_run: bool
    evidence: Json
    expires_at: Time
    needed: Needed
    votes: list[Vote]
    break_glass: bool
    note: str
    ended_at: Time | None
    superseded_by: str | None


class Answered(Approval):
    """An approval after somebody's answer."""

    outcome: Literal["granted", "rejected", "noted"]
    message: str


class Execution(BaseModel):
    id: str
    action_id: str
    at: Time
    decision_id: str
    kind: str
    target: str
    source: str
    state: ExecutionState
    ok: bool
    dry_run: bool
    code: str | None
    detail: str
    started_at: Time | None
    finished_at: Time | None
    evidence: Json


class ExecutionWithHistory(Execution):
    """The newest row of one action, with all of its rows, oldest first, and what was seen right before it."""

    history: list[Execution]
    captured: Json | None


class Action(BaseModel):
    """The record of one side effect."""

    id: str
    action_id: str
    at: Time
    kind: str
    target: str
    params: Json
    state: OutboxState
    key: str
    digest: str
    decision_id: str
    approval_id: str | None
    source: str
    requested_by: str
    dry_run: bool
    prepared_at: Time
    expires_at: Time
    started_at: Time | None
    horizon_at: Time | None
    finished_at: Time | None
    ok: bool | None
    code: str | None
    detail: str
    settled_by: str | None
    note: str


class Work(BaseModel):
    id: str
    at: Time
    kind: str
    target: str
    params: Json
    state: WorkState
    attempts: int
    attempts_max: int
    not_before: Time
    deadline: Time | None
    lease_until: Time | None
    holder: str
    error: str | None
    result: Json


class Report(BaseModel):
    """What one pass did or refused; further fields by kind."""

    id: str
    at: Time
    kind: str


class Freeze(BaseModel):
    """`id` "file" is a FREEZE file: nobody knows since when (`at` null)."""

    id: str
    at: Time | None
    scope: Literal["all", "group", "kind", "service"]
    value: str
    owner: str
    reason: str
    until: Time | None
    lifted_at: Time | None
    lifted_by: str | None


class FreezeStatus(BaseModel):
    """What is frozen, and what runs all the same because it had begun."""

    frozen: bool
    freezes: list[Freeze]
    freeze_file: str | None
    in_flight: list[str]
    in_flight_actions: list[Action]


class Journal(BaseModel):
    id: str
    at: Time
    kind: str
    target: str
    actor: str
    severity: str
    summary: str
    detail: Json


class Service(BaseModel):
    id: str
    at: Time
    name: str
    group: str | None
    owner: str | None
    substrate: str | None
    host: str | None
    mode: Mode
    acts: bool
    controller_mode: str
    desired: Desired
    observed: Observed | None
    status: ServiceStatus
    ready: int
    instances: list[Instance]
    last_decision: Decision | None
    last_action: Execution | None
    open_action: Action | None
    approval: Approval | None
    reason: str
    reason_code: str
    retry_at: Time | None
    depends_on: list[str]
    overrides: ServiceOverride | None
    foreign: list[ForeignChange]
    notes: list[str]
    freeze: list[Freeze] | None
    scaling_warning: str = ""
    scaling_error: Json | None = None
    scaling: Evaluation | None = None
    intent: Intent | None = None


class Explanation(BaseModel):
    """Why a service stands where it stands, and what would change that."""

    service: str
    at: Time
    verdict: Literal["allow", "allow_notify", "queue_approval", "deny", "nothing"]
    reason: str
    status: ServiceStatus
    desired: Desired
    observed: Observed | None
    instances: list[Instance]
    proposed: Json | None
    evidence: list[Json]
    decision: Json | None
    signals: list[Json]
    limits: list[Json]
    would_change_if: list[str]
    overrides: ServiceOverride | None
    foreign: list[ForeignChange]
    notes: list[str]
    last_action: Execution | None
    open_action: Action | None
    approval: Approval | None
    now: Json = {}
    scaling: Evaluation | None = None
    intent: Intent | None = None


class PolicyInShort(BaseModel):
    source: str
    digest: str
    rules: int
    allow_self_approval: bool


class Status(BaseModel):
    """The whole picture; times of the form `…_s` are in seconds."""

    at: Time
    version: str
    store: str
    services_total: int
    services_by_status: dict[str, int]
    acting_on: list[str]
    reconciler: Literal["on", "off"]
    autoscaler: Literal["on", "off"]
    last_pass_s: float | None
    freezes: list[Freeze]
    freeze_file: str | None
    approvals_waiting: int
    outcome_unknown: int
    health: HealthStatus
    policy: PolicyInShort
    warnings: list[str]
    config_dir: str
    data_dir: str
    services: list[Service]


class Override(BaseModel):
    """A policy rule that was written at run time."""

    id: str
    at: Time
    type: Literal["governance_rule"]
    scope: Literal["action_policy"]
    active: bool
    rule: Json
    written_by: str


class Defaults(BaseModel):
    tier: Tier


class Policy(BaseModel):
    """The policy in force, in the file's own shape, and what is wrong with a newer file."""

    digest: str
    source: str
    defaults: Defaults
    rules: list[Json]
    options: Json
    overrides: list[Override]
    error: str | None
    problems: list[str]


class Token(BaseModel):
    id: str
    at: Time
    name: str
    person: str
    roles: list[str]
    teams: list[str]
    expires_at: Time | None
    revoked_at: Time | None


class TokenWithSecret(Token):
    """A new token.  Its secret is shown here and never again."""

    secret: str


class Dependency(BaseModel):
    status: HealthStatus
    checked_at: Time
    last_success_at: Time | None
    freshness_seconds: float | None
    error_class: str
    diagnostics: Annotated[list[str], Field(max_length=4)]


class Health(BaseModel):
    """fleet.health.v1"""

    schema_version: Literal["fleet.health.v1"]
    status: HealthStatus
    ready: bool
    convergence_ready: bool
    autoscaling_ready: bool
    generated_at: Time
    dependencies: dict[str, Dependency]


class Asked(BaseModel):
    service: str
    answer: str
    reason: str
    decision_id: str | None
    approval_id: str | None
    action_id: str | None


class Stopping(BaseModel):
    """What ending the plane led to.  With `services` it stays up, and `running` says what is left to stop."""

    ending: bool
    running: list[str] = []
    asked: list[Asked] = []
    blocked: list[str] = []
