"""The lifecycle records of the scaling contract: what is wanted for one unit, and by what evidence.

One ScaleIntent type exists, and this is it.  It is written once, with its decision, and never changes: where it stands
is its row's state.  No record carries raw samples or the text of a query.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise

from fleetwarden.domain.actions import LeaseFence, Record, Verdict
from fleetwarden.domain.identifiers import Micros, digest

__all__ = [
    "FAILURE_CODES",
    "SCHEMA_VERSION",
    "ExecutionPhase",
    "IntentOperation",
    "ObservedOutcome",
    "OutcomeEvidence",
    "OutcomeStatus",
    "RollbackEvidence",
    "ScaleDecision",
    "ScaleExecution",
    "ScaleIntent",
    "SignalSummaryRef",
    "chain_problems",
    "intent_id",
]

SCHEMA_VERSION = "1"
FAILURE_CODES = frozenset(
    {
        "refused",  # the substrate said no, or could not do it
        "not_called",  # the call was never begun
        "conflict",  # the substrate's object had changed
        "timed_out",
        "exception",
        "unknown",  # the outcome is not known
        "not_converged",  # done, and never seen to hold
        "settled_failed",  # settled by evidence or by a person
    }
)
_TERMINAL_FAILURES = frozenset({"failed", "recovery_pending"})


class IntentOperation(StrEnum):
    """Why a count changes: to follow load, back to where a failed change began, or because a person says so.

    An `override` is a person's: it takes a revision so that nobody's older read can be put over it, and it is never
    executed as an intent (the override itself is desired state).
    """

    SCALE = "scale"
    ROLLBACK = "rollback"
    OVERRIDE = "override"


class SignalSummaryRef(Record, gc=False):
    """A bounded pointer to what the signals said: a digest and its window, never samples or query text.

    `digest` is of the canonical JSON of the signals' summary (name, value, aggregation, unit, observed_at, source).
    """

    schema_version: str = SCHEMA_VERSION
    digest: str
    window_start: Micros
    window_end: Micros
    signals: int = 1  # how many signals it sums up, 0 for a person's override


class ScaleIntent(Record, gc=False):
    """One revision of the count that a unit should have.  `revision` is `expected_revision` + 1; 0 = none before."""

    schema_version: str = SCHEMA_VERSION
    service: str
    unit: str
    controller_mode: str
    intent_id: str
    idempotency_key: str
    expected_revision: int
    revision: int
    operation: IntentOperation
    desired_replicas: int
    observed_replicas: int
    signal: SignalSummaryRef
    fence: LeaseFence
    decision_id: str  # "" only for an override, which is decided when it is carried out
    created_at: Micros

    def __post_init__(self) -> None:
        if self.schema_version != SCHEMA_VERSION:
            raise ValueError(f"schema_version: {self.schema_version!r} is not known, this release reads '1'")
        if self.expected_revision < 0 or self.revision != self.expected_revision + 1:
            raise ValueError(f"revision: {self.revision} does not follow expected_revision {self.expected_revision}")
        if min(self.desired_replicas, self.observed_replicas) < 0:
            raise ValueError("desired_replicas, observed_replicas: counts are 0 or more")
        if (self.operation is IntentOperation.OVERRIDE) != (not self.decision_id):
            raise ValueError("decision_id: only an override has none")


def intent_id(service: str, controller_mode: str, expected_revision: int, operation: str, desired_replicas: int) -> str:
    """The intent's identity: equal wishes on the same revision are the same intent, whoever has them.

    Evidence, times and lease holders are left out on purpose, so that a second controller's equal put is a re-put.
    """
    return digest([service, controller_mode, expected_revision, operation, desired_replicas])


class ScaleDecision(Record):
    """What policy said about one revision.  `observe_only`: a delegated unit, for which nothing can be executed."""

    schema_version: str = SCHEMA_VERSION
    intent_id: str
    revision: int
    verdict: Verdict
    decision_id: str
    fence: LeaseFence
    observe_only: bool = False


class ExecutionPhase(StrEnum):
    """How far a revision's side effect has come."""

    PREPARED = "prepared"
    SIMULATED = "simulated"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RECOVERY_PENDING = "recovery_pending"


class ScaleExecution(Record):
    """One revision's side effect.

    `completed_at` belongs to succeeded and failed, and to nothing else: a simulated one completed nothing.
    `failure_code`, of the closed set, belongs to failed and recovery_pending.  `target_replicas` is what a rollback
    returns to.
    """

    schema_version: str = SCHEMA_VERSION
    intent_id: str
    revision: int
    phase: ExecutionPhase
    outbox_key: str
    fence: LeaseFence
    operation: IntentOperation = IntentOperation.SCALE
    target_replicas: int | None = None
    completed_at: Micros | None = None
    failure_code: str = ""

    def __post_init__(self) -> None:
        ended = self.phase in (ExecutionPhase.SUCCEEDED, ExecutionPhase.FAILED)
        if ended != (self.completed_at is not None):
            raise ValueError(
                f"completed_at: {self.phase.value} {'needs the time of its end' if ended else 'has not completed'}"
            )
        failed = self.phase.value in _TERMINAL_FAILURES
        if failed != bool(self.failure_code):
            raise ValueError(f"failure_code: {self.phase.value} {'needs one' if failed else 'has none'}")
        if self.failure_code and self.failure_code not in FAILURE_CODES:
            raise ValueError(f"failure_code: {self.failure_code[:64]!r} is none of {', '.join(sorted(FAILURE_CODES))}")
        if (self.operation is IntentOperation.ROLLBACK) != (self.target_replicas is not None):
            raise ValueError("target_replicas: a rollback says what it returns to, and nothing else does")


class OutcomeStatus(StrEnum):
    CONVERGED = "converged"
    PENDING = "pending"
    FAILED = "failed"


class OutcomeEvidence(Record):
    """One look at a unit: its counts, who looked, and when the look began."""

    observed_at: Micros
    ready: int
    total: int
    source: str


class RollbackEvidence(Record):
    """What a rollback returned from and to, and the look that shows it (None: none has yet)."""

    from_replicas: int
    to_replicas: int
    seen: OutcomeEvidence | None = None


class ObservedOutcome(Record):
    """What observers say about one executed revision.  `converged` takes two looks, the second strictly later."""

    schema_version: str = SCHEMA_VERSION
    intent_id: str
    revision: int
    status: OutcomeStatus
    fence: LeaseFence
    evidence: tuple[OutcomeEvidence, ...] = ()
    rollback: RollbackEvidence | None = None

    def __post_init__(self) -> None:
        times = [one.observed_at for one in self.evidence]
        if any(later <= earlier for earlier, later in pairwise(times)):
            raise ValueError("evidence: looks are told oldest first, each later than the one before")
        if self.status is OutcomeStatus.CONVERGED and len(times) < 2:
            raise ValueError("evidence: converged needs two looks that agree")


def chain_problems(
    intent: ScaleIntent,
    decision: ScaleDecision | None = None,
    execution: ScaleExecution | None = None,
    outcome: ObservedOutcome | None = None,
) -> tuple[str, ...]:
    """Why these records are not one chain: another intent, a stale revision, or another fence anywhere in it.

    A chain is rejected as a whole, never merged.  Who recovers a revision may hold a newer lease; that lease stands in
    the outbox, and the chain keeps the one that the intent was put under.
    """
    found = []
    for name, one in (("decision", decision), ("execution", execution), ("outcome", outcome)):
        if one is None:
            continue
        if one.intent_id != intent.intent_id:
            found.append(f"the {name} belongs to another intent")
        if one.revision != intent.revision:
            found.append(f"the {name} is of revision {one.revision}, the intent is revision {intent.revision}")
        if one.fence != intent.fence:
            found.append(f"the {name} carries another lease fence than the intent")
    if decision is not None and decision.decision_id != intent.decision_id:
        found.append("the decision is not the one that the intent names")
    if decision is not None and decision.observe_only and execution is not None:
        found.append("an observation-only decision can have no execution")
    if outcome is not None and execution is None:
        found.append("an outcome without an execution")
    if outcome is not None and intent.operation is IntentOperation.ROLLBACK and outcome.rollback is None:
        found.append("the outcome of a rollback keeps its rollback evidence")
    return tuple(found)
