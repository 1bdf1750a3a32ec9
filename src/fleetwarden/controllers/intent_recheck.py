"""What an accepted intent is asked again, before it is authorised and in commit 1: one list of questions for both.

The latest revision is read in the caller's transaction and nothing lies between that and the fence.  Whatever may pass
by itself lets the intent wait; what policy refuses for good rejects it; what another wish has overtaken supersedes it.
Nothing here spends a budget slot, files an approval or decides anew.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from fleetwarden.controllers.gate import rule_on
from fleetwarden.controllers.intent_moves import reject, supersede
from fleetwarden.controllers.open_questions import evidence_gone
from fleetwarden.controllers.unit_recheck import unit_refusal
from fleetwarden.domain.actions import ActionRequest, Record, Verdict
from fleetwarden.domain.contract.capacity import Room
from fleetwarden.domain.convergence import still_needed
from fleetwarden.domain.cooldown import CooldownState, cooldown
from fleetwarden.domain.fleet import ObservedService, Service
from fleetwarden.domain.identifiers import SECOND, Micros, seconds
from fleetwarden.domain.lifecycles import ApprovalState, IntentState
from fleetwarden.domain.question_evidence import Patience, closed
from fleetwarden.ports.configuration import Configuration
from fleetwarden.ports.intents import IntentRow
from fleetwarden.ports.stores import Tx

__all__ = ["IntentFate", "IntentLimits", "Questioned", "end_intent", "question"]


class IntentLimits(Record):
    """`max_age_s`: how long an accepted intent may wait; `skew_s`: how far ahead a ledger's time may lie;
    `patience`: how old the evidence of a question may be."""

    max_age_s: float = 300.0
    skew_s: float = 5.0
    patience: Patience = Patience()


class IntentFate(StrEnum):
    GOES = "goes"
    WAITS = "waits"  # asked again on a later pass
    REJECTED = "rejected"
    SUPERSEDED = "superseded"  # not wanted any more
    GONE = "gone"  # another revision or state than was read


class Questioned(Record):
    """`until`: when it may go, where that is a matter of time."""

    fate: IntentFate
    reason: str = ""
    until: Micros | None = None


def question(
    tx: Tx,
    row: IntentRow,
    request: ActionRequest,
    *,
    service: Service | None,
    observed: ObservedService | None,
    configuration: Configuration,
    freeze_file: str,
    limits: IntentLimits,
    room: Callable[[], Room] | None = None,
) -> Questioned:
    """Whether this intent may be carried out now.

    `request`: the decided one, with the evidence of the look that `observed` is; `service` is as asked for now.
    """
    latest = tx.intents.latest(row.intent.service)
    if latest is None or (latest.seq, latest.intent.intent_id, latest.intent.revision) != (
        row.seq,
        row.intent.intent_id,
        row.intent.revision,
    ):
        return Questioned(fate=IntentFate.GONE, reason=f"{row.id} is not the latest revision of {row.intent.service}")
    if latest.state is not IntentState.INTENT_ACCEPTED:
        return Questioned(fate=IntentFate.GONE, reason=f"{row.id} is {latest.state.value}")
    if request.params.get("replicas") != latest.intent.desired_replicas or request.target != latest.intent.service:
        return Questioned(fate=IntentFate.GONE, reason=f"the request is not what {row.id} asks for")
    if configuration.fleet.error:
        return Questioned(fate=IntentFate.WAITS, reason=f"the registry cannot be read: {configuration.fleet.error}")
    if service is None:
        return Questioned(fate=IntentFate.SUPERSEDED, reason=f"{row.intent.service} is no longer in the registry")
    if observed is None:
        return Questioned(fate=IntentFate.WAITS, reason=f"{service.name} cannot be observed now")
    if (why := still_needed(request, service, observed) or closed(service)) is not None:
        return Questioned(fate=IntentFate.SUPERSEDED, reason=why)
    if (old := _age(tx, latest, limits)) is not None:
        return old
    if (why := evidence_gone(tx, latest, limits.patience)) is not None:
        return Questioned(fate=IntentFate.WAITS, reason=why)
    return _limits(tx, latest, request, service, observed, configuration, freeze_file, limits, room)


def end_intent(tx: Tx, row: IntentRow, found: Questioned) -> None:
    """Carry out a final answer: the intent, its authorisation and its approval end together."""
    if found.fate is IntentFate.REJECTED:
        reject(tx, row, found.reason)
    elif found.fate is IntentFate.SUPERSEDED:
        supersede(tx, row, found.reason)


def _age(tx: Tx, row: IntentRow, limits: IntentLimits) -> Questioned | None:
    age = tx.now() - (row.accepted_at or row.moved_at)
    if age < int(limits.max_age_s * SECOND):
        return None
    reason = f"accepted {seconds(age):.0f} s ago and not carried out: its signals say nothing about now"
    return Questioned(fate=IntentFate.REJECTED, reason=reason)


def _limits(
    tx: Tx,
    row: IntentRow,
    request: ActionRequest,
    service: Service,
    observed: ObservedService,
    configuration: Configuration,
    freeze_file: str,
    limits: IntentLimits,
    room: Callable[[], Room] | None,
) -> Questioned:
    """Cooldown, contract, policy: in this order, because the first two need no policy to be read."""
    assert service.scaling is not None
    pause = service.scaling.cooldown_s(up=request.direction == "up")
    last = tx.cooldowns.last_scales([service.name]).get(service.name)
    found = cooldown(last, tx.now(), pause, skew_s=limits.skew_s)
    if found.state is not CooldownState.OVER:
        return Questioned(fate=IntentFate.WAITS, reason=found.reason, until=found.until)
    refused = unit_refusal(tx, configuration.fleet, request, current=observed.total, room=room)
    if refused is not None:
        fate = IntentFate.REJECTED if refused.lasting else IntentFate.WAITS
        return Questioned(fate=fate, reason=refused.reason, until=refused.queues_until)
    approval = None if row.approval_seq is None else tx.approvals.get(row.approval_seq)
    if approval is not None and approval.status is not ApprovalState.GRANTED:
        return Questioned(fate=IntentFate.REJECTED, reason=f"approval {approval.id} is {approval.status.value}")
    waives = frozenset(approval.waives) if approval is not None else frozenset[str]()
    ruling = rule_on(tx, configuration, freeze_file, request, waives=waives, exclude_decision=row.decision_seq)
    if ruling.verdict in (Verdict.ALLOW, Verdict.ALLOW_NOTIFY):
        return Questioned(fate=IntentFate.GOES, reason=ruling.reason)
    forbidden = ruling.verdict is Verdict.DENY and ruling.code in ("structure", "tier")
    unasked = ruling.verdict is Verdict.QUEUE_APPROVAL and "tier" in ruling.queued_by
    fate = IntentFate.REJECTED if forbidden or unasked else IntentFate.WAITS
    return Questioned(fate=fate, reason=f"refused at the last check: {ruling.reason}")
