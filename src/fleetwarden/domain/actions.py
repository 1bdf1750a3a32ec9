"""A governed action, from the request to its evidence, as closed immutable records.

The chain is request → decision → (approval) → outbox record → execution.  A request's digest names exactly what a
person or a rule was asked about: kind, target, immutable identity and the parameters that the actuator reads.
Evidence (counts, times, signal values) travels beside it and is never digested, so that a fresher look at the same
request is still the same request.  Records never decide anything and never change: a new state is a new record.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, dataclass_transform

import msgspec

from fleetwarden.domain.identifiers import JsonValue, Micros, digest, show_id
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState

__all__ = [
    "ACTUATED_KINDS",
    "KNOWN_KINDS",
    "OBSERVING_KINDS",
    "PROPOSALS",
    "ActionApproval",
    "ActionDecision",
    "ActionExecution",
    "ActionRequest",
    "Evidence",
    "ExecutionState",
    "Kind",
    "LeaseFence",
    "Needed",
    "OutboxRecord",
    "Outcome",
    "Record",
    "Source",
    "Tier",
    "Verdict",
    "Vote",
]


class Kind(StrEnum):
    """Kinds that the product knows.  An outside requester may use names of its own."""

    RESTART = "restart_service"
    SCALE = "scale_service"
    STOP = "stop_service"
    START = "start_service"
    DEPLOY = "deploy_service"
    ROLLBACK = "rollback_service"
    DIAGNOSE = "diagnose"
    NOTIFY = "notify"
    NOOP = "noop"
    INVESTIGATE = "investigate_resource_pressure"
    FAILURE_GAP = "failure_gap"


ACTUATED_KINDS = frozenset({Kind.RESTART, Kind.SCALE, Kind.STOP, Kind.START, Kind.DEPLOY, Kind.ROLLBACK})
OBSERVING_KINDS = frozenset({Kind.DIAGNOSE, Kind.NOTIFY, Kind.NOOP})  # change nothing
KNOWN_KINDS = frozenset(Kind)
PROPOSALS = frozenset({Kind.INVESTIGATE, Kind.FAILURE_GAP})  # work for people: a grant says that somebody took it up


class Source(StrEnum):
    """Who can ask.  The first four are our controllers; the structural check says which kinds each may ask for."""

    RECONCILER = "reconciler"
    AUTOSCALER = "autoscaler"
    PLAYBOOK = "playbook"
    DEPLOY_WATCH = "deploy_watch"
    OPERATOR = "operator"
    API = "api"


class Tier(StrEnum):
    """How much freedom a rule gives, loosest first."""

    AUTO = "auto"
    AUTO_NOTIFY = "auto_notify"
    APPROVAL_REQUIRED = "approval_required"
    FORBIDDEN = "forbidden"


class Verdict(StrEnum):
    """What policy answers."""

    ALLOW = "allow"
    ALLOW_NOTIFY = "allow_notify"
    QUEUE_APPROVAL = "queue_approval"
    DENY = "deny"


class ExecutionState(StrEnum):
    """What a ledger execution row says."""

    EXECUTED = "executed"
    SIMULATED = "simulated"
    FAILED = "failed"
    RECOVERY_PENDING = "recovery_pending"


class RecordMeta(msgspec.StructMeta):
    """Makes every record keyword only: msgspec itself applies that to the fields of the one class that says so."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> RecordMeta:
        options.setdefault("kw_only", True)
        return super().__new__(mcls, name, bases, namespace, **options)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class Record(msgspec.Struct, metaclass=RecordMeta, frozen=True, forbid_unknown_fields=True):
    """Base of closed records: keyword only, immutable, unknown fields refused.

    Those that are made by the thousand and hold plain values only say `gc=False`: nothing of them can lie in a cycle.
    """


class Evidence(Record, gc=False):
    """What was seen that led to a request.  `observed_at` is by the store's clock, taken before the read began."""

    observed_at: Micros | None = None
    reason: str = ""
    facts: Mapping[str, JsonValue] = {}


class ActionRequest(Record, gc=False):
    """Somebody's wish to change one target.

    `key` is the idempotency key: one key, one effect.  `params` holds what the actuator reads and nothing else.
    `identity` is what makes the target the very same thing (host, uid); deployment-injected, never a caller's.
    """

    kind: str
    target: str
    params: Mapping[str, JsonValue] = {}
    source: str
    requested_by: str
    reason: str = ""
    key: str
    group: str = ""
    substrate: str = ""
    direction: str = ""  # "", "up" or "down": which way a count would move
    identity: Mapping[str, JsonValue] = {}
    dry_run: bool = False
    evidence: Evidence = Evidence()
    holds: bool = False  # a person's wish that stands as desired state once it is carried out
    break_glass: bool = False  # an administrator's: passes freezes and windows, nothing else

    @property
    def asked_by(self) -> str:
        """Who asked, as people are told: a person by name, a controller by what it is."""
        return self.requested_by if self.source in (Source.OPERATOR, Source.API) else self.source

    def digest(self) -> str:
        """Digest of kind, target, identity and params (decision 5): what an approval names."""
        return digest([self.kind, self.target, self.identity, self.params])


class ActionDecision(Record, gc=False):
    """One verdict, as it stands in the ledger.  `numbers` are the figures that decided (budget uses, limits, times)."""

    seq: int
    at: Micros
    request: ActionRequest
    request_digest: str
    verdict: Verdict
    code: str  # which check decided: structure, freeze, tier, rate, storm, min_healthy, blast, window, ok, error, grant
    reason: str
    rule: str  # the rule in words, e.g. "restart_service web-* auto"; "defaults" where none matched
    rule_source: str  # file:line, override:<id>, shipped default
    policy_digest: str
    numbers: Mapping[str, JsonValue] = {}
    waives: tuple[str, ...] = ()
    approval_seq: int | None = None
    action_seq: int | None = None

    @property
    def id(self) -> str:
        return show_id("D", self.seq)


class Vote(Record):
    """One person's answer to an approval."""

    by: str
    decision: str  # approved | denied
    reason: str = ""
    at: Micros
    teams: tuple[str, ...] = ()  # of the voter, when it was cast


class Needed(Record):
    """How many people an approval needs, and of which teams (none named: anybody with the role; `nobody`: no one)."""

    count: int = 1
    teams: tuple[str, ...] = ()
    nobody: bool = False


class ActionApproval(Record):
    """A request that waits for a person, bound to one request digest."""

    seq: int
    status: ApprovalState
    request: ActionRequest
    digest: str
    decision_seq: int
    reason: str
    waives: tuple[str, ...]
    created_at: Micros
    expires_at: Micros
    needed: Needed = Needed()
    votes: tuple[Vote, ...] = ()
    note: str = ""  # why it ended, when it did
    ended_at: Micros | None = None
    superseded_by: int | None = None
    warned_at: Micros | None = None  # when people were told that it will expire soon

    @property
    def id(self) -> str:
        return show_id("A", self.seq)

    @property
    def job_id(self) -> str:
        return f"action_approval:{self.seq}"


class LeaseFence(Record, gc=False):
    """Who may write: the token only ever grows; a write under an older one is refused."""

    cadence: str
    shard: str
    holder: str
    token: int


class Outcome(Record):
    """What an actuator reports.  Exactly one of ok, a refusal (`ok` false) or `unknown_outcome`."""

    ok: bool
    dry_run: bool = False
    detail: str = ""
    code: str = ""  # bounded machine word, at most 64 characters; empty when ok
    unknown_outcome: bool = False
    evidence: Mapping[str, JsonValue] = {}

    def __post_init__(self) -> None:
        if self.ok and self.unknown_outcome:
            raise ValueError("an outcome is known or unknown, not both")
        if len(self.code) > 64:
            raise ValueError(f"outcome code {self.code[:64]!r}… is longer than 64 characters")


class OutboxRecord(Record):
    """The row of one action's side effect.  Its state, and only its state, says whether it may be called."""

    seq: int
    key: str
    state: OutboxState
    request: ActionRequest
    request_digest: str
    decision_seq: int
    approval_seq: int | None
    policy_digest: str
    host: str = ""
    prepared_at: Micros
    expires_at: Micros  # past this a prepared record is abandoned
    fence: LeaseFence | None = None  # written by commit 1
    started_at: Micros | None = None  # commit 1, by the store's clock
    horizon_at: Micros | None = None  # after this the effect can no longer land (PRO)
    final_if_acknowledged: bool = True  # an acknowledged call cannot be delivered again
    negatives_by_person: bool = False  # the adapter knows no lateness bound
    finished_at: Micros | None = None
    outcome: Outcome | None = None
    settled_by: str = ""  # "", "evidence" or the person who settled it
    note: str = ""

    @property
    def id(self) -> str:
        return show_id("X", self.seq)


class ActionExecution(Record):
    """A ledger row: evidence derived from an outbox record.  One row per (action, state)."""

    seq: int
    action_seq: int
    decision_seq: int
    at: Micros  # of the outcome, the evidence or the settlement, never of the call's start
    kind: str
    target: str
    source: str
    state: ExecutionState
    ok: bool
    dry_run: bool
    code: str = ""
    detail: str = ""
    started_at: Micros | None = None
    finished_at: Micros | None = None
    evidence: Mapping[str, JsonValue] = {}

    @property
    def id(self) -> str:
        return show_id("X", self.action_seq)
