"""Commit 2 and every other end of a begun action, so that all of them leave the same traces.

Outcome, ledger row, the approval behind it, the watch that follows and the notice all belong to one transaction.  An
execution carries the time of its outcome, evidence or settlement, never of the call's start.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleetwarden.controllers.capturing import CAPTURED
from fleetwarden.controllers.escalation import escalate
from fleetwarden.controllers.foreign import remember_left
from fleetwarden.controllers.intent_moves import DEADLINE_S, record_ended
from fleetwarden.controllers.rollouts import note_version
from fleetwarden.controllers.unit_recheck import note_allocation
from fleetwarden.controllers.watch_again import follow_again
from fleetwarden.controllers.watch_opening import begin_watch, fail_rollout, is_watched, on_trial
from fleetwarden.domain.actions import ExecutionState, OutboxRecord, Outcome
from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.domain.versions import not_up
from fleetwarden.ports.stores import ExecutionDraft, Tx

__all__ = ["end_record", "outbox_end"]

_EXECUTION = {
    OutboxState.SUCCEEDED: ExecutionState.EXECUTED,
    OutboxState.FAILED: ExecutionState.FAILED,
    OutboxState.SIMULATED: ExecutionState.SIMULATED,
    OutboxState.RECOVERY_PENDING: ExecutionState.RECOVERY_PENDING,
}


def outbox_end(outcome: Outcome) -> OutboxState:
    """The state that an outcome leads to."""
    if outcome.unknown_outcome:
        return OutboxState.RECOVERY_PENDING
    if outcome.ok:
        return OutboxState.SIMULATED if outcome.dry_run else OutboxState.SUCCEEDED
    return OutboxState.FAILED


def end_record(
    tx: Tx,
    record: OutboxRecord,
    to: OutboxState,
    outcome: Outcome,
    *,
    settled_by: str = "",
    note: str = "",
    watch_window_s: float,
    watch_scale_down: bool = False,
    converge_s: float = DEADLINE_S,
) -> OutboxRecord:
    """Move a running or recovery_pending record to `to` and write everything that belongs to it."""
    ended = tx.outbox.finish(
        record.seq, came_from=record.state, to=to, outcome=outcome, settled_by=settled_by, note=note
    )
    request = record.request
    tx.executions.append(
        ExecutionDraft(
            action_seq=record.seq,
            decision_seq=record.decision_seq,
            at=tx.now(),
            kind=request.kind,
            target=request.target,
            source=request.source,
            state=_EXECUTION[to],
            ok=outcome.ok,
            dry_run=outcome.dry_run or request.dry_run,
            code=outcome.code,
            detail=outcome.detail,
            started_at=record.started_at,
            finished_at=tx.now(),
            evidence=_evidence(tx, record, outcome, settled_by),
        )
    )
    if to is not OutboxState.RECOVERY_PENDING and record.approval_seq is not None:
        approval = tx.approvals.get(record.approval_seq)
        if approval.status is ApprovalState.GRANTED:
            done = f"{'settled as ' if settled_by else ''}{to.value}: {record.id}"
            tx.approvals.move(approval.seq, came_from=ApprovalState.GRANTED, to=ApprovalState.CLOSED, note=done)
    if to is OutboxState.FAILED and not_up(request.kind, outcome):
        fail_rollout(tx, record, outcome, watch_window_s)
    elif on_trial(request, to, outcome) or (
        to is OutboxState.SUCCEEDED and is_watched(request, down_too=watch_scale_down)
    ):
        begin_watch(tx, record, outcome, watch_window_s)
    remember_left(tx, record, to, outcome, settled_by=settled_by)
    note_version(tx, record, to, outcome)
    note_allocation(tx, record, to)
    record_ended(tx, record, to, deadline_s=converge_s)
    _tell(tx, record, to, outcome, settled_by)
    if to is OutboxState.FAILED and not (outcome.dry_run or request.dry_run):
        escalate(tx, record, outcome)
        follow_again(tx, ended)
    return ended


def _evidence(tx: Tx, record: OutboxRecord, outcome: Outcome, settled_by: str) -> Mapping[str, JsonValue]:
    told: dict[str, JsonValue] = {"before": dict(record.request.evidence.facts), **outcome.evidence}
    captured = tx.captures.digest_of(record.seq) if record.request.kind in CAPTURED else None
    if captured is not None:
        told["captured"] = captured
    if settled_by:
        told["settled_by"] = settled_by
    return told


def _tell(tx: Tx, record: OutboxRecord, to: OutboxState, outcome: Outcome, settled_by: str) -> None:
    request = record.request
    severity, words = {
        OutboxState.SUCCEEDED: ("info", "done"),
        OutboxState.SIMULATED: ("info", "simulated: nothing was changed"),
        OutboxState.FAILED: ("error", "failed"),
        OutboxState.RECOVERY_PENDING: (
            "critical",
            "outcome unknown: it is not repeated, evidence or a person settles it",
        ),
    }[to]
    told = f" ({outcome.detail})" if outcome.detail else ""
    tx.journal.write(
        topic="recovery" if settled_by else "notice",
        actor=settled_by or request.asked_by,
        subject=request.target,
        severity=severity,
        summary=f"{request.kind} {request.target} ({record.id}): {words}{told}",
        detail={"action": record.id, "code": outcome.code, "state": to.value},
    )
