"""The lifecycle records of one revision, and what makes them no chain."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fleetwarden.domain.actions import LeaseFence, Verdict
from fleetwarden.domain.contract.lifecycle import (
    ExecutionPhase,
    IntentOperation,
    ObservedOutcome,
    OutcomeEvidence,
    OutcomeStatus,
    RollbackEvidence,
    ScaleDecision,
    ScaleExecution,
    ScaleIntent,
    SignalSummaryRef,
    chain_problems,
    intent_id,
)

FENCE = LeaseFence(cadence="fleet_autoscaler", shard="0", holder="plane-a", token=7)
OTHER = LeaseFence(cadence="fleet_autoscaler", shard="0", holder="plane-b", token=8)


def intent(**over: Any) -> ScaleIntent:
    name = intent_id("web", "native", 2, "scale", 4)
    base: dict[str, Any] = {
        "service": "web",
        "unit": "web",
        "controller_mode": "native",
        "intent_id": name,
        "idempotency_key": name,
        "expected_revision": 2,
        "revision": 3,
        "operation": IntentOperation.SCALE,
        "desired_replicas": 4,
        "observed_replicas": 3,
        "signal": SignalSummaryRef(digest="sha256:0", window_start=1, window_end=2),
        "fence": FENCE,
        "decision_id": "D-9",
        "created_at": 5,
    }
    return ScaleIntent(**{**base, **over})


def decision(**over: Any) -> ScaleDecision:
    base: dict[str, Any] = {"intent_id": intent().intent_id, "revision": 3, "verdict": Verdict.ALLOW}
    return ScaleDecision(**{**base, "decision_id": "D-9", "fence": FENCE, **over})


def execution(**over: Any) -> ScaleExecution:
    base: dict[str, Any] = {"intent_id": intent().intent_id, "revision": 3, "phase": ExecutionPhase.SUCCEEDED}
    return ScaleExecution(**{**base, "outbox_key": "k", "fence": FENCE, "completed_at": 9, **over})


def look(at: int) -> OutcomeEvidence:
    return OutcomeEvidence(observed_at=at, ready=4, total=4, source="process")


def outcome(**over: Any) -> ObservedOutcome:
    base: dict[str, Any] = {"intent_id": intent().intent_id, "revision": 3, "status": OutcomeStatus.CONVERGED}
    return ObservedOutcome(**{**base, "fence": FENCE, "evidence": (look(10), look(11)), **over})


@pytest.mark.req("CON-10", "CON-13")
def test_one_chain_holds_and_any_other_fence_or_revision_breaks_it() -> None:
    assert chain_problems(intent(), decision(), execution(), outcome()) == ()
    assert chain_problems(intent(), decision(fence=OTHER)) == (
        "the decision carries another lease fence than the intent",
    )
    assert chain_problems(intent(), execution=execution(revision=2)) == (
        "the execution is of revision 2, the intent is revision 3",
    )
    assert chain_problems(intent(), execution=execution(), outcome=outcome(fence=OTHER)) == (
        "the outcome carries another lease fence than the intent",
    )
    assert "the decision is not the one that the intent names" in chain_problems(intent(), decision(decision_id="D-8"))
    assert "an outcome without an execution" in chain_problems(intent(), decision(), None, outcome())
    assert "the decision belongs to another intent" in chain_problems(intent(), decision(intent_id="sha256:1"))


@pytest.mark.req("CON-14")
def test_what_is_only_observed_is_never_executed() -> None:
    assert chain_problems(intent(), decision(observe_only=True), execution()) == (
        "an observation-only decision can have no execution",
    )


@pytest.mark.req("CON-9")
@pytest.mark.parametrize(
    ("over", "field"),
    [
        ({"completed_at": None}, "completed_at"),
        ({"phase": ExecutionPhase.SIMULATED}, "completed_at"),
        ({"phase": ExecutionPhase.FAILED}, "failure_code"),
        ({"phase": ExecutionPhase.RECOVERY_PENDING, "completed_at": None}, "failure_code"),
        ({"failure_code": "refused"}, "failure_code"),
        ({"phase": ExecutionPhase.FAILED, "failure_code": "the disk was full"}, "failure_code"),
        ({"operation": IntentOperation.ROLLBACK}, "target_replicas"),
        ({"target_replicas": 3}, "target_replicas"),
    ],
)
def test_an_end_carries_its_evidence_and_nothing_else_does(over: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        execution(**over)


@pytest.mark.req("CON-9")
def test_a_rollback_says_what_it_returns_to_and_its_outcome_keeps_the_evidence() -> None:
    back = intent(operation=IntentOperation.ROLLBACK)
    done = execution(operation=IntentOperation.ROLLBACK, target_replicas=3)
    assert chain_problems(back, decision(), done, outcome()) == (
        "the outcome of a rollback keeps its rollback evidence",
    )
    kept = outcome(rollback=RollbackEvidence(from_replicas=4, to_replicas=3, seen=look(11)))
    assert chain_problems(back, decision(), done, kept) == ()


@pytest.mark.req("CON-13")
def test_converged_takes_two_looks_the_second_strictly_later() -> None:
    with pytest.raises(ValueError, match="two looks"):
        outcome(evidence=(look(10),))
    with pytest.raises(ValueError, match="later than the one before"):
        outcome(evidence=(look(10), look(10)))
    assert outcome(status=OutcomeStatus.PENDING, evidence=()).evidence == ()


@pytest.mark.req("AUT-3")
def test_the_same_wish_on_the_same_revision_is_the_same_intent_and_nothing_else_is() -> None:
    same = intent_id("web", "native", 2, "scale", 4)
    assert same == intent_id("web", "native", 2, "scale", 4)
    others = [
        intent_id("web2", "native", 2, "scale", 4),
        intent_id("web", "external_hpa", 2, "scale", 4),
        intent_id("web", "native", 3, "scale", 4),
        intent_id("web", "native", 2, "rollback", 4),
        intent_id("web", "native", 2, "scale", 5),
    ]
    assert len({same, *others}) == 6


@pytest.mark.req("CON-1")
def test_lifecycle_records_are_closed_and_deeply_immutable() -> None:
    for record in (intent(), decision(), execution(), outcome()):
        body = msgspec.json.encode(record)
        assert msgspec.json.decode(body, type=type(record)) == record
        with pytest.raises(msgspec.ValidationError, match="unknown field"):
            msgspec.json.decode(body[:-1] + b',"colour":"red"}', type=type(record))
        hash(record)


@pytest.mark.req("AUT-3", "CON-10")
@pytest.mark.parametrize(
    ("over", "field"),
    [
        ({"revision": 4}, "revision"),
        ({"expected_revision": -1, "revision": 0}, "revision"),
        ({"desired_replicas": -1}, "desired_replicas"),
        ({"decision_id": ""}, "decision_id"),
        ({"operation": IntentOperation.OVERRIDE}, "decision_id"),
        ({"schema_version": "0"}, "schema_version"),
    ],
)
def test_an_intent_is_valid_or_it_is_not_made(over: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        intent(**over)
