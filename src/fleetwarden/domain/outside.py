"""Actions that somebody else carries out: another system asks, and acts by itself once it is allowed to.

Policy decides them like any other.  What differs is the second half: nobody here makes the call, so whoever asked takes
the authorisation up (a claim, which is its commit 1) and says how it ended (its commit 2).  An authorisation is taken
up once.  Nothing here reads a store, and nothing here ever turns what is not known into a yes.
"""

from __future__ import annotations

from enum import StrEnum

from fleetwarden.domain.actions import (
    ACTUATED_KINDS,
    KNOWN_KINDS,
    OBSERVING_KINDS,
    ActionApproval,
    ActionDecision,
    ActionRequest,
    OutboxRecord,
    Record,
    Source,
    Verdict,
)
from fleetwarden.domain.identifiers import SECOND, Micros, rfc3339
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.domain.structure import OWN_KIND

__all__ = ["CADENCE", "OutsideLimits", "OutsideState", "Stage", "carried_out_elsewhere", "kind_problem", "stage_of"]

CADENCE = "outside"  # the fence of a claim: who has it, under the number of its record


class OutsideState(StrEnum):
    """How far an outside action is.  From `running` on these are the states of its record."""

    WAITING = "waiting"  # a person has not answered yet
    AUTHORISED = "authorised"  # it may be claimed now
    HELD = "held"  # it would be authorised, but for a freeze, the policy by now, or another action of the target
    RUNNING = "running"  # claimed, and no result yet
    RECOVERY_PENDING = "recovery_pending"  # claimed, and no result in time: outcome unknown
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DENIED = "denied"
    REJECTED = "rejected"
    EXPIRED = "expired"  # nobody answered in time, or the grant was not taken up in time
    SUPERSEDED = "superseded"  # another request took its place
    VOIDED = "voided"  # granted, and forbidden by now
    LAPSED = "lapsed"  # allowed, and not claimed in time


LASTING = frozenset({"freeze", "storm"})  # codes of denials that end by themselves or by a person's hand


class OutsideLimits(Record):
    """`start_us`: how long an allowed action may be claimed; `run_us`: how long a claimed one may take."""

    start_us: Micros = 300 * SECOND
    run_us: Micros = 3600 * SECOND


class Stage(Record):
    """Where an outside action stands, in a word and a sentence.  `until`: when that ends by itself."""

    state: OutsideState
    reason: str
    until: Micros | None = None


_OF_APPROVAL = {
    ApprovalState.REJECTED: OutsideState.REJECTED,
    ApprovalState.EXPIRED: OutsideState.EXPIRED,
    ApprovalState.SUPERSEDED: OutsideState.SUPERSEDED,
    ApprovalState.VOIDED: OutsideState.VOIDED,
    ApprovalState.CLOSED: OutsideState.VOIDED,  # closed without a record: there is nothing left to take up
}


def carried_out_elsewhere(request: ActionRequest) -> bool:
    """Whether whoever asked carries it out: no actuator of ours is ever called for it."""
    return request.source == Source.API and request.kind not in ACTUATED_KINDS


def kind_problem(kind: str) -> str | None:
    """Why `kind` cannot be an outside system's own, or None: ours are ours, and a name is bounded."""
    if kind in ACTUATED_KINDS or (kind in KNOWN_KINDS and kind not in OBSERVING_KINDS):
        return f"{kind} is a kind of fleetwarden's own, which nobody else carries out"
    if not OWN_KIND.fullmatch(kind):
        return f"{kind[:80]!r} is no kind: a letter, then at most 63 letters, digits or any of _ . : / -"
    return None


def stage_of(
    decision: ActionDecision,
    approval: ActionApproval | None,
    record: OutboxRecord | None,
    now: Micros,
    limits: OutsideLimits,
) -> Stage:
    """Where the action of this decision stands.  `record`: of its claim, if it was claimed."""
    if record is not None and record.state is not OutboxState.ABANDONED:
        told = "" if record.outcome is None else record.outcome.detail
        until = record.horizon_at if record.state is OutboxState.RUNNING else None
        return Stage(state=OutsideState(record.state.value), reason=told or f"claimed as {record.id}", until=until)
    if decision.verdict is Verdict.DENY:
        return Stage(state=OutsideState.DENIED, reason=decision.reason)
    if approval is not None:
        return _asked(approval, now)
    if decision.verdict is Verdict.QUEUE_APPROVAL:
        return Stage(state=OutsideState.DENIED, reason="a person had to be asked, and none was")
    until = decision.at + limits.start_us
    if now >= until:
        return Stage(state=OutsideState.LAPSED, reason=f"allowed, and not claimed until {rfc3339(until)}: ask again")
    return Stage(state=OutsideState.AUTHORISED, reason=decision.reason, until=until)


def _asked(approval: ActionApproval, now: Micros) -> Stage:
    open_still = approval.status in (ApprovalState.PENDING, ApprovalState.GRANTED)
    if open_still and now >= approval.expires_at:
        told = f"{approval.id} expired at {rfc3339(approval.expires_at)}"
        return Stage(state=OutsideState.EXPIRED, reason=told)
    if approval.status is ApprovalState.PENDING:
        told = f"{approval.id} waits for an answer: {approval.reason}"
        return Stage(state=OutsideState.WAITING, reason=told, until=approval.expires_at)
    if approval.status is ApprovalState.GRANTED:
        return Stage(state=OutsideState.AUTHORISED, reason=f"granted with {approval.id}", until=approval.expires_at)
    said = f" ({approval.note})" if approval.note else ""
    return Stage(state=_OF_APPROVAL[approval.status], reason=f"{approval.id} is {approval.status.value}{said}")
