"""Requests, drafts and whole actions with sensible defaults, so that a test names only what it is about."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from fleetwarden.domain.actions import (
    ActionApproval,
    ActionDecision,
    ActionRequest,
    LeaseFence,
    Needed,
    OutboxRecord,
    Outcome,
    Verdict,
    Vote,
)
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.ports.stores import ApprovalDraft, DecisionDraft, OutboxDraft, Tx

HOUR = 3_600_000_000
FENCE = LeaseFence(cadence="executor", shard="0", holder="plane-1", token=1)
DONE = Outcome(ok=True, detail="restarted")
_NUMBERS = itertools.count(1)


def request(target: str = "web", kind: str = "restart_service", **changed: Any) -> ActionRequest:
    """A request of the reconciler's, with a key of its own."""
    values: dict[str, Any] = {
        "kind": kind,
        "target": target,
        "source": "reconciler",
        "requested_by": "reconciler",
        "key": f"key-{next(_NUMBERS)}",
    }
    return ActionRequest(**{**values, **changed})


def decision_draft(
    asked: ActionRequest | None = None, verdict: Verdict = Verdict.ALLOW, **changed: Any
) -> DecisionDraft:
    values: dict[str, Any] = {
        "request": asked or request(),
        "verdict": verdict,
        "code": "ok",
        "reason": "rule 1",
        "rule": "restart_service web auto",
        "rule_source": "policy.yml:4",
        "policy_digest": "sha256:0",
    }
    return DecisionDraft(**{**values, **changed})


def decide(
    tx: Tx, asked: ActionRequest | None = None, verdict: Verdict = Verdict.ALLOW, **changed: Any
) -> ActionDecision:
    return tx.decisions.append(decision_draft(asked, verdict, **changed))


def prepare(
    tx: Tx, asked: ActionRequest | None = None, decision: ActionDecision | None = None, **changed: Any
) -> OutboxRecord:
    """A prepared record, with its decision unless one is given."""
    asked = asked or (decision.request if decision is not None else request())
    decision = decision or decide(tx, asked)
    values: dict[str, Any] = {"policy_digest": "sha256:0", "expires_at": tx.now() + HOUR}
    return tx.outbox.prepare(OutboxDraft(request=asked, decision_seq=decision.seq, **{**values, **changed}))


def start(tx: Tx, record: OutboxRecord, **changed: Any) -> OutboxRecord:
    values: dict[str, Any] = {
        "fence": FENCE,
        "horizon_at": tx.now() + HOUR,
        "final_if_acknowledged": True,
        "negatives_by_person": False,
        "request": record.request,
    }
    return tx.outbox.start(record.seq, **{**values, **changed})


def finish(tx: Tx, record: OutboxRecord, to: OutboxState = OutboxState.SUCCEEDED, **changed: Any) -> OutboxRecord:
    values: dict[str, Any] = {"came_from": record.state, "to": to, "outcome": DONE}
    return tx.outbox.finish(record.seq, **{**values, **changed})


def carried_out(tx: Tx, asked: ActionRequest | None = None, to: OutboxState = OutboxState.SUCCEEDED) -> OutboxRecord:
    """A whole action, decided, prepared, fenced and ended."""
    return finish(tx, start(tx, prepare(tx, asked)), to)


def file_approval(
    tx: Tx,
    asked: ActionRequest | None = None,
    *,
    needed: int = 1,
    teams: tuple[str, ...] = (),
    nobody: bool = False,
    **changed: Any,
) -> ActionApproval:
    asked = asked or request()
    decision = decide(tx, asked, Verdict.QUEUE_APPROVAL)
    values: dict[str, Any] = {"reason": "no rule", "waives": ("tier",), "expires_at": tx.now() + HOUR}
    return tx.approvals.file(
        ApprovalDraft(
            request=asked,
            digest=asked.digest(),
            decision_seq=decision.seq,
            needed=Needed(count=needed, teams=teams, nobody=nobody),
            **{**values, **changed},
        )
    )


def vote(by: str = "ann", decision: str = "approved", teams: tuple[str, ...] = ()) -> Vote:
    return Vote(by=by, decision=decision, reason="fine", at=0, teams=teams)


def grant(tx: Tx, approval: ActionApproval, by: str = "ann", teams: tuple[str, ...] = ()) -> ActionApproval:
    tx.approvals.vote(approval.seq, vote(by, teams=teams))
    return tx.approvals.move(approval.seq, came_from=ApprovalState.PENDING, to=ApprovalState.GRANTED)


def prepare_granted(tx: Tx, approval: ActionApproval) -> OutboxRecord:
    """The record that a grant leads to, with the decision that admits it again."""
    asked = msgspec.structs.replace(approval.request, key=f"{approval.request.key}.again")
    decision = decide(tx, asked, approval_seq=approval.seq, code="grant")
    return prepare(tx, asked, decision, approval_seq=approval.seq)
