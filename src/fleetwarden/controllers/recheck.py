"""Commit 1: the last look, and the fence, in one transaction.

Everything that made an action right is asked again here, under the admission lock and the locked lease, against the
freshest observation: state, expiry, declaration, need, horizon of the last call, policy, freeze, budgets, the grant.
Either the record becomes `running`, or it ends here, or it waits; the side effect itself is begun elsewhere, after the
commit.  A refusal never costs a budget slot, and says what it does to the approval behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from fleetwarden.controllers.dependencies import dependency_wait
from fleetwarden.controllers.foreign import touched
from fleetwarden.controllers.gate import held_until, rule_on, stale_reason
from fleetwarden.controllers.holding import hold
from fleetwarden.controllers.intent_moves import reject
from fleetwarden.controllers.intent_recheck import IntentFate, IntentLimits, end_intent, question
from fleetwarden.controllers.watch_again import follow_again
from fleetwarden.domain.actions import ActionApproval, ActionRequest, LeaseFence, OutboxRecord, Record, Source, Verdict
from fleetwarden.domain.convergence import facts, still_needed, undecidable
from fleetwarden.domain.fleet import ObservedService, Service
from fleetwarden.domain.identifiers import Micros, show_id
from fleetwarden.domain.intent_requests import stands_for_intent
from fleetwarden.domain.lifecycles import ApprovalState, IntentState, OutboxState
from fleetwarden.domain.policy import Ruling
from fleetwarden.ports.configuration import Configuration
from fleetwarden.ports.stores import Tx

__all__ = ["CallPlan", "Fate", "Recheck", "commit_one", "end_approval"]


_LIMITS = IntentLimits()
_NOTHING_BESIDE: Mapping[str, ObservedService] = {}


class Fate(StrEnum):
    RUNNING = "running"  # fenced: the call may begin now
    ENDED = "ended"  # abandoned; `reason` says why
    WAITS = "waits"  # still prepared; asked again on a later pass
    GONE = "gone"  # no longer prepared: somebody else has it


class CallPlan(Record):
    """What the adapter declares about the call, in microseconds."""

    gap_us: Micros
    deadline_us: Micros
    lateness_us: Micros | None
    final_if_acknowledged: bool
    refusal: str | None = None  # why the adapter can never carry it out
    unready: str | None = None  # why nothing may be begun on its substrate now


class Recheck(Record):
    fate: Fate
    reason: str = ""
    record: OutboxRecord | None = None


def commit_one(
    tx: Tx,
    seq: int,
    *,
    fence: LeaseFence,
    service: Service | None,
    observed: ObservedService | None,
    plan: CallPlan,
    configuration: Configuration,
    freeze_file: str,
    limits: IntentLimits = _LIMITS,
    beside: Mapping[str, ObservedService] = _NOTHING_BESIDE,
) -> Recheck:
    """Re-check one prepared record and fence it.  Raises Fenced if the lease is no longer ours.

    `service`, `observed` and `plan` belong together and are from right before this transaction, as is
    `beside`: what the service depends on.  `configuration` is what holds now, read inside it, so that whatever was
    declared before commit 1 counts.
    """
    # Exclusive: a grant takes its budget slot right here, and two that run side by side must see each other's.
    tx.lock_admission(exclusive=True)
    lease_until = tx.leases.check(fence)
    record = tx.outbox.get(seq)
    if record.state is not OutboxState.PREPARED:
        return Recheck(fate=Fate.GONE, reason=f"{record.id} is {record.state.value}", record=record)
    approval = None if record.approval_seq is None else tx.approvals.get(record.approval_seq)
    if tx.now() > record.expires_at:
        return _end(tx, record, approval, "the authorisation lapsed before it was begun", void=False)
    if (why := _declared_anew(record.request, service, configuration)) is not None:
        return Recheck(fate=Fate.WAITS, reason=why, record=record)
    if (why := _never(record, approval, service, plan)) is not None:
        if (row := tx.intents.by_action(seq)) is not None and row.state is IntentState.INTENT_ACCEPTED:
            reject(tx, row, why)
            return Recheck(fate=Fate.ENDED, reason=why, record=tx.outbox.get(seq))
        return _end(tx, record, approval, why, void=True)
    assert service is not None
    fleet = configuration.fleet.services
    why = _not_now(tx, record, observed, plan, lease_until) or dependency_wait(
        tx, record.request, service, fleet, beside
    )
    if why is not None:
        return Recheck(fate=Fate.WAITS, reason=why, record=record)
    if stands_for_intent(record.request):
        return _intent_again(tx, record, service, observed, plan, configuration, freeze_file, fence, limits)
    controllers = record.request.source not in (Source.OPERATOR, Source.API)
    if controllers and observed is not None and (why := touched(tx, service, observed)) is not None:
        return _end(tx, record, approval, why, void=False)
    if (why := still_needed(record.request, service, observed)) is not None:
        return _end(tx, record, approval, why, void=True)
    request = record.request if observed is None else _with_evidence(record.request, observed)
    ruling = _policy_again(tx, record, request, approval, configuration, freeze_file)
    if ruling.verdict not in (Verdict.ALLOW, Verdict.ALLOW_NOTIFY):
        lasting = ruling.verdict is Verdict.DENY and ruling.code in ("structure", "tier")
        return _end(tx, record, approval, f"refused at the last check: {ruling.reason}", void=lasting)
    started = _start(tx, record, request, plan, fence)
    hold(tx, request, service)
    if ruling.verdict is Verdict.ALLOW_NOTIFY:
        _tell(tx, started)
    return Recheck(fate=Fate.RUNNING, record=started)


def _start(tx: Tx, record: OutboxRecord, request: ActionRequest, plan: CallPlan, fence: LeaseFence) -> OutboxRecord:
    return tx.outbox.start(
        record.seq,
        fence=fence,
        horizon_at=tx.now() + plan.gap_us + plan.deadline_us + (plan.lateness_us or 0),
        final_if_acknowledged=plan.final_if_acknowledged,
        negatives_by_person=plan.lateness_us is None,
        request=request,
    )


def _intent_again(
    tx: Tx,
    record: OutboxRecord,
    service: Service,
    observed: ObservedService | None,
    plan: CallPlan,
    configuration: Configuration,
    freeze_file: str,
    fence: LeaseFence,
    limits: IntentLimits,
) -> Recheck:
    """A native scale goes if its intent is still the latest and accepted, and nothing that it rests on has moved."""
    row = tx.intents.by_action(record.seq)
    if row is None:
        return _end(tx, record, None, "no intent stands behind it", void=False)
    request = record.request if observed is None else _with_evidence(record.request, observed)
    found = question(
        tx,
        row,
        request,
        service=service,
        observed=observed,
        configuration=configuration,
        freeze_file=freeze_file,
        limits=limits,
    )
    if found.fate is IntentFate.GOES:
        started = _start(tx, record, request, plan, fence)
        if tx.decisions.get(record.decision_seq).verdict is Verdict.ALLOW_NOTIFY:
            _tell(tx, started)
        return Recheck(fate=Fate.RUNNING, record=started)
    if found.fate is IntentFate.WAITS:
        return Recheck(fate=Fate.WAITS, reason=found.reason, record=record)
    if found.fate is IntentFate.GONE:
        return _end(tx, record, None, found.reason, void=False)
    end_intent(tx, row, found)
    return Recheck(fate=Fate.ENDED, reason=found.reason, record=tx.outbox.get(record.seq))


def _declared_anew(request: ActionRequest, service: Service | None, configuration: Configuration) -> str | None:
    """Whether the look that this check rests on went by another declaration than holds now, or none can be read."""
    if configuration.fleet.error:
        return f"the registry cannot be read: {configuration.fleet.error}"
    if configuration.fleet.services.get(request.target) != service:
        return f"{request.target} was declared anew a moment ago"
    return None


def _never(
    record: OutboxRecord, approval: ActionApproval | None, service: Service | None, plan: CallPlan
) -> str | None:
    """What will not become right by waiting."""
    if service is None:
        return f"{record.request.target} is no longer in the registry"
    if record.request.digest() != record.request_digest:
        return "the stored request does not match its digest"
    if approval is not None and approval.status is not ApprovalState.GRANTED:
        return f"approval {approval.id} is {approval.status.value}"
    return plan.refusal


def _not_now(
    tx: Tx, record: OutboxRecord, observed: ObservedService | None, plan: CallPlan, lease_until: Micros
) -> str | None:
    """What waiting may cure."""
    if plan.unready is not None:
        return plan.unready
    if (why := undecidable(record.request, observed)) is not None:
        return why
    assert observed is not None
    request = _with_evidence(record.request, observed)
    if lease_until < tx.now() + plan.gap_us + plan.deadline_us:
        return "the lease would end before the call does"
    return held_until(tx, request.target) or stale_reason(tx, request)


def _policy_again(
    tx: Tx,
    record: OutboxRecord,
    request: ActionRequest,
    approval: ActionApproval | None,
    configuration: Configuration,
    freeze_file: str,
) -> Ruling:
    waives = frozenset(approval.waives) if approval is not None else frozenset[str]()
    return rule_on(tx, configuration, freeze_file, request, waives=waives, exclude_decision=record.decision_seq)


def _tell(tx: Tx, record: OutboxRecord) -> None:
    """The notice of a tier that acts and tells, written with the fence: what is never begun is never announced."""
    request = record.request
    would = "would go ahead" if request.dry_run else "goes ahead"
    tx.journal.write(
        topic="notice",
        actor=request.asked_by,
        subject=request.target,
        summary=f"{request.kind} {request.target} {would}: {request.reason}",
        detail={"decision": show_id("D", record.decision_seq), "action": record.id},
    )


def _end(tx: Tx, record: OutboxRecord, approval: ActionApproval | None, why: str, *, void: bool) -> Recheck:
    ended = tx.outbox.abandon(record.seq, why)
    if not void:
        follow_again(tx, ended)
    if void and approval is not None and approval.status is ApprovalState.GRANTED:
        end_approval(tx, approval, ApprovalState.VOIDED, f"not carried out: {why}")
    return Recheck(fate=Fate.ENDED, reason=why, record=ended)


def end_approval(tx: Tx, approval: ActionApproval, to: ApprovalState, note: str) -> None:
    """End a granted approval, with a line in the journal when it was not carried out."""
    tx.approvals.move(approval.seq, came_from=approval.status, to=to, note=note)
    if to is ApprovalState.VOIDED:
        tx.journal.write(
            topic="notice",
            actor="gate",
            subject=approval.request.target,
            severity="warning",
            summary=f"approval {approval.id} ({approval.request.kind} {approval.request.target}) was {note}",
            detail={"approval": approval.id},
        )


def _with_evidence(request: ActionRequest, observed: ObservedService) -> ActionRequest:
    """The same request with the look that commit 1 rests on."""
    kept = {name: value for name, value in request.evidence.facts.items() if name == "scaling"}
    evidence = type(request.evidence)(
        observed_at=observed.observed_at, reason=request.evidence.reason, facts={**facts(observed), **kept}
    )
    return msgspec.structs.replace(request, evidence=evidence)
