"""How a scale intent moves when something that it stands beside moves: its approval, its record, a person's override.

Each function is part of the transaction that makes the other move, so that the two can never be told apart by a crash.
None of them decides anything; they only keep what belongs together, together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fleetwarden.domain.actions import ActionApproval, OutboxRecord
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.intent_requests import stands_for_intent
from fleetwarden.domain.lifecycles import ApprovalState, IntentState, OutboxState
from fleetwarden.ports.intents import IntentRow
from fleetwarden.ports.stores import Tx

__all__ = [
    "DEADLINE_S",
    "approval_ended",
    "approval_granted",
    "approval_withdrawn",
    "is_intents",
    "record_ended",
    "reject",
    "supersede",
    "under_way",
]

_FOLLOWS: Final[Mapping[OutboxState, IntentState]] = {
    OutboxState.SUCCEEDED: IntentState.EXECUTED,
    OutboxState.FAILED: IntentState.FAILED,
    OutboxState.SIMULATED: IntentState.SIMULATED,
    OutboxState.RECOVERY_PENDING: IntentState.RECOVERY_PENDING,
}
_WAITING = (IntentState.PROPOSED, IntentState.INTENT_ACCEPTED)
DEADLINE_S = 600.0


def is_intents(approval: ActionApproval) -> bool:
    """Whether an intent stands behind this approval: what the autoscaler asks for never becomes work of its own."""
    return stands_for_intent(approval.request)


def under_way(tx: Tx, row: IntentRow) -> bool:
    """Whether its side effect may be happening, or may have happened: then nothing takes its place."""
    if row.state is IntentState.RECOVERY_PENDING:
        return True
    if row.action_seq is None:
        return False
    return tx.outbox.get(row.action_seq).state in (OutboxState.RUNNING, OutboxState.RECOVERY_PENDING)


def supersede(tx: Tx, row: IntentRow, why: str) -> IntentRow:
    """End a proposed or accepted intent because another wish takes its place, with its approval and its authorisation.

    The caller has made sure that it is not under way.
    """
    _drop_authorisation(tx, row, why)
    if row.approval_seq is not None:
        approval = tx.approvals.get(row.approval_seq)
        if approval.status in (ApprovalState.PENDING, ApprovalState.GRANTED):
            tx.approvals.move(approval.seq, came_from=approval.status, to=ApprovalState.SUPERSEDED, note=why)
    return tx.intents.move(row, IntentState.SUPERSEDED, note=why)


def reject(tx: Tx, row: IntentRow, why: str) -> IntentRow:
    """End a proposed or accepted intent that is refused for good; a grant for it is voided with it."""
    _drop_authorisation(tx, row, why)
    if row.approval_seq is not None:
        approval = tx.approvals.get(row.approval_seq)
        if approval.status is ApprovalState.GRANTED:
            tx.approvals.move(
                approval.seq, came_from=ApprovalState.GRANTED, to=ApprovalState.VOIDED, note=f"not carried out: {why}"
            )
            _tell(tx, row, f"approval {approval.id} was not carried out: {why}")
        elif approval.status is ApprovalState.PENDING:
            tx.approvals.move(approval.seq, came_from=ApprovalState.PENDING, to=ApprovalState.SUPERSEDED, note=why)
    return tx.intents.move(row, IntentState.REJECTED, note=why)


def approval_granted(tx: Tx, approval: ActionApproval) -> IntentRow | None:
    """Accept the proposed intent that this grant is for; None if there is none that still waits for it."""
    row = tx.intents.by_approval(approval.seq)
    if row is None or row.state is not IntentState.PROPOSED:
        return None
    latest = tx.intents.latest(row.intent.service)
    if latest is None or latest.seq != row.seq:
        return None
    return tx.intents.move(row, IntentState.INTENT_ACCEPTED, note=f"granted with {approval.id}")


def approval_ended(tx: Tx, approval: ActionApproval, why: str) -> None:
    """Reject the intent whose approval was rejected or has expired, unless it has moved on."""
    row = tx.intents.by_approval(approval.seq)
    if row is not None and row.state in _WAITING:
        tx.intents.move(row, IntentState.REJECTED, note=why)


def approval_withdrawn(tx: Tx, approval: ActionApproval, why: str) -> None:
    """Supersede the intent whose approval another request takes the place of, unless it has moved on."""
    row = tx.intents.by_approval(approval.seq)
    if row is not None and row.state in _WAITING:
        _drop_authorisation(tx, row, why)
        tx.intents.move(row, IntentState.SUPERSEDED, note=why)


def record_ended(tx: Tx, record: OutboxRecord, to: OutboxState, *, deadline_s: float = DEADLINE_S) -> IntentRow | None:
    """Move the intent that this record carries out as the record moves; None if it carries out none.

    An executed one gets the deadline until which observers have to see it hold.
    """
    row = tx.intents.by_action(record.seq)
    if row is None:
        return None
    state = _FOLLOWS[to]
    if row.state is state:
        return row  # recovery_pending is written by whoever notices first
    convergence = row.convergence
    if state is IntentState.EXECUTED:
        convergence = msgspec.structs.replace(convergence, deadline=tx.now() + int(deadline_s * SECOND))
    return tx.intents.move(row, state, note=_words(record, to), convergence=convergence)


def _words(record: OutboxRecord, to: OutboxState) -> str:
    if to is OutboxState.RECOVERY_PENDING:
        return f"the outcome of {record.id} is unknown"
    return f"{record.id} {to.value}"


def _drop_authorisation(tx: Tx, row: IntentRow, why: str) -> None:
    if row.action_seq is not None and (record := tx.outbox.get(row.action_seq)).state is OutboxState.PREPARED:
        tx.outbox.abandon(record.seq, why)


def _tell(tx: Tx, row: IntentRow, summary: str) -> None:
    tx.journal.write(
        topic="notice",
        actor="gate",
        subject=row.intent.service,
        severity="warning",
        summary=summary,
        detail={"intent": row.id},
    )
