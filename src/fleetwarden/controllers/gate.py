"""The gate: the only place where a request becomes an authorisation.

`admit` is one transaction under the fleet's admission lock: it reads budgets, overrides and freezes, appends each
decision, and by verdict writes a `prepared` outbox row, a pending approval, or nothing.  The authorisation is that row;
nothing is handed over in memory.  The gate never observes, never acts, and never answers yes because something could
not be read: whatever fails inside a decision is a denial, on record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

import msgspec

from fleetwarden.controllers import quarantining
from fleetwarden.controllers.group_health import shortfall
from fleetwarden.controllers.intent_moves import approval_withdrawn
from fleetwarden.controllers.rehearsal import rehearsed
from fleetwarden.controllers.standing import Standing
from fleetwarden.controllers.texts import KeptTexts
from fleetwarden.controllers.unit_recheck import unit_refusal
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.domain import policy as policies
from fleetwarden.domain import versions
from fleetwarden.domain.actions import (
    ACTUATED_KINDS,
    ActionApproval,
    ActionDecision,
    ActionRequest,
    Kind,
    LeaseFence,
    OutboxRecord,
    Record,
    Source,
    Verdict,
)
from fleetwarden.domain.approvers import Approvers, needed_for
from fleetwarden.domain.count_owner import not_ours
from fleetwarden.domain.errors import Misconfigured, OutboxConflict
from fleetwarden.domain.identifiers import SECOND, Micros, canonical_json, seconds
from fleetwarden.domain.intent_requests import stands_for_intent
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.domain.outside import carried_out_elsewhere
from fleetwarden.ports.configuration import Configuration, ConfigurationSource
from fleetwarden.ports.stores import ApprovalDraft, DecisionDraft, OutboxDraft, Store, Tx

__all__ = [
    "REBUILD_SPAN",
    "REPEAT_AFTER",
    "Admission",
    "Answer",
    "Gate",
    "draft_of",
    "file_approval",
    "held_until",
    "rule_on",
]

REPEAT_AFTER: Micros = 3600 * SECOND  # an unchanged denial is written down again after this long, not on every pass
BROKEN_GLASS = frozenset({"window"})  # besides freezes; what a rule forbids, limits or asks a person about stands
REBUILD_SPAN: Micros = 86_400 * SECOND  # how far back a lost execution row could still hold an action up


class Answer(StrEnum):
    """What became of a request at the gate."""

    PREPARED = "prepared"  # authorised: an outbox row waits for the executor
    ALLOWED = "allowed"  # authorised, and there is nothing for our executor to do
    QUEUED = "queued"  # a person is asked
    WAITING = "waiting"  # a person was asked before; nothing was written
    DENIED = "denied"
    REPEATED = "repeated"  # denied as before, for the same reason; nothing was written
    BUSY = "busy"  # another action of the target is open, or its last call may still land
    STALE = "stale"  # the evidence is older than the target's last settled action
    DEFERRED = "deferred"  # this pass has done enough


class Admission(Record):
    """The gate's answer to one request, with what it wrote."""

    request: ActionRequest
    answer: Answer
    reason: str
    decision: ActionDecision | None = None
    approval: ActionApproval | None = None
    record: OutboxRecord | None = None


class Gate:
    """Admits requests.

    `prepared_ttl_s`: how long an authorisation waits for the executor before it lapses.  `claim`: makes what a request
    rests on last (whose host a service is), in the same transaction, or says why it does not hold by now.
    """

    def __init__(
        self,
        store: Store,
        configuration: ConfigurationSource,
        wakes: Wakes,
        *,
        prepared_ttl_s: float,
        claim: Callable[[Tx, ActionRequest], str | None] | None = None,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._wakes = wakes
        self._ttl = int(prepared_ttl_s * SECOND)
        self.texts = KeptTexts()
        self._claim = claim

    def admit(
        self,
        requests: Sequence[ActionRequest],
        *,
        fence: LeaseFence | None,
        most: int | None = None,
        still: Callable[[Tx], object] | None = None,
    ) -> list[Admission]:
        """Decide these requests, in order, in one transaction.

        `fence` is the asking controller's lease (None for a person); `still` raises Fenced where it is not the asker's
        turn any more.  At most `most` of them are prepared or queued; the rest are DEFERRED and get no decision.
        Raises Fenced, StoreUnavailable, OutboxConflict.
        """
        if not requests:
            return []
        return self._store.transact("admit", self._admission(requests, fence, most, still))

    def rehearse(self, requests: Sequence[ActionRequest], *, most: int | None = None) -> list[Admission]:
        """What `admit` would answer now: the very same transaction, taken back at its end.

        What the answers name (decisions, records, approvals) does not exist.  Raises StoreUnavailable.
        """
        return rehearsed(self._store, self._admission(requests, None, most)) if requests else []

    def _admission(
        self,
        requests: Sequence[ActionRequest],
        fence: LeaseFence | None,
        most: int | None,
        still: Callable[[Tx], object] | None = None,
    ) -> Callable[[Tx], list[Admission]]:
        freeze_file = self._configuration.freeze_file()

        def run(tx: Tx) -> list[Admission]:
            tx.lock_admission(exclusive=True)
            configuration = self._configuration.current()  # here, so that a rule declared before this one counts
            if fence is not None:
                tx.leases.check(fence)
            if still is not None:
                still(tx)
            tx.executions.rebuild(tx.now() - REBUILD_SPAN)
            self.texts.keep(tx, configuration)
            spent, answers = 0, []
            for request in requests:
                if most is not None and spent >= most:
                    answers.append(
                        Admission(request=request, answer=Answer.DEFERRED, reason="this pass has done enough")
                    )
                    continue
                one = self._admit_one(tx, configuration, freeze_file, request)
                spent += one.answer in (Answer.PREPARED, Answer.QUEUED)
                answers.append(one)
            return answers

        return run

    def _admit_one(self, tx: Tx, configuration: Configuration, freeze_file: str, request: ActionRequest) -> Admission:
        before = tx.decisions.by_key(request.key)
        if before is not None:
            return self._redelivered(tx, before, request)
        if (busy := busy_reason(tx, request)) is not None:
            return Admission(request=request, answer=Answer.BUSY, reason=busy)
        if (stale := stale_reason(tx, request)) is not None:
            return Admission(request=request, answer=Answer.STALE, reason=stale)
        if (done := simulated_already(tx, configuration, request)) is not None:
            return Admission(request=request, answer=Answer.REPEATED, reason=done)
        ruling = rule_on(tx, configuration, freeze_file, request)
        waiting = _asked(tx, request)
        if ruling.verdict is Verdict.DENY:
            return self._deny(tx, request, ruling)
        if ruling.verdict is Verdict.QUEUE_APPROVAL and waiting and not _replaces(request, waiting[-1]):
            reason = f"waiting for approval {waiting[-1].id}"
            return Admission(request=request, answer=Answer.WAITING, reason=reason, approval=waiting[-1])
        if self._claim is not None and (moved := self._claim(tx, request)) is not None:
            return Admission(request=request, answer=Answer.STALE, reason=moved)
        decision = tx.decisions.append(draft_of(request, ruling))
        _tell_of_broken_glass(tx, decision)
        if ruling.verdict is Verdict.QUEUE_APPROVAL:
            return self._queue(tx, configuration, decision, ruling, waiting)
        for old in waiting:
            if not _claimed(tx, old):
                withdraw(tx, old, f"no longer needed: {decision.id} allows it without a person", None)
        if request.kind not in ACTUATED_KINDS:
            return Admission(request=request, answer=Answer.ALLOWED, reason=ruling.reason, decision=decision)
        return self.prepare(tx, decision, None)

    def _redelivered(self, tx: Tx, before: ActionDecision, request: ActionRequest) -> Admission:
        """The same key again: the stored answer for the same request, a conflict for another."""
        if before.request_digest != request.digest() or before.request.break_glass != request.break_glass:
            raise OutboxConflict(f"key {request.key} was used for another request ({before.id})")
        record = tx.outbox.by_key(request.key)
        approval = None if before.approval_seq is None else tx.approvals.get(before.approval_seq)
        answer = {Verdict.DENY: Answer.DENIED, Verdict.QUEUE_APPROVAL: Answer.QUEUED}.get(
            before.verdict, Answer.ALLOWED
        )
        if record is not None:
            answer = Answer.PREPARED
        return Admission(
            request=request, answer=answer, reason=before.reason, decision=before, approval=approval, record=record
        )

    def _deny(self, tx: Tx, request: ActionRequest, ruling: policies.Ruling) -> Admission:
        last = tx.decisions.latest(request.kind, request.target, request.source)
        if (
            last is not None
            and request.source not in (Source.OPERATOR, Source.API)
            and (last.verdict, last.code, last.rule, last.rule_source, last.policy_digest, last.request_digest)
            == (ruling.verdict, ruling.code, ruling.rule, ruling.rule_source, ruling.policy_digest, request.digest())
            and tx.now() - last.at < REPEAT_AFTER
        ):
            return Admission(request=request, answer=Answer.REPEATED, reason=ruling.reason, decision=last)
        decision = tx.decisions.append(draft_of(request, ruling))
        _tell_of_broken_glass(tx, decision)
        return Admission(request=request, answer=Answer.DENIED, reason=ruling.reason, decision=decision)

    def _queue(
        self,
        tx: Tx,
        configuration: Configuration,
        decision: ActionDecision,
        ruling: policies.Ruling,
        waiting: Sequence[ActionApproval],
    ) -> Admission:
        for old in waiting:  # the pending row must go first: there is one per kind and target
            withdraw(tx, old, f"replaced by another request ({decision.id})", None)
        waives = tuple(sorted(ruling.queued_by))
        approval = file_approval(tx, configuration, decision, ruling.reason, waives, ruling.approvers)
        for old in waiting:
            tx.approvals.replaced(old.seq, approval.seq)
        return Admission(
            request=decision.request, answer=Answer.QUEUED, reason=ruling.reason, decision=decision, approval=approval
        )

    def prepare(self, tx: Tx, decision: ActionDecision, approval: ActionApproval | None) -> Admission:
        """Write the authorisation of an allowed decision.  Part of the caller's transaction."""
        record = tx.outbox.prepare(
            OutboxDraft(
                request=decision.request,
                decision_seq=decision.seq,
                approval_seq=None if approval is None else approval.seq,
                policy_digest=decision.policy_digest,
                host=str(decision.request.identity.get("host", "")),
                expires_at=tx.now() + self._ttl,
            )
        )
        if decision.action_seq is None:  # an intent that is authorised anew shows its newest record itself
            tx.decisions.link(decision.seq, action_seq=record.seq)
        tx.after_commit(self._wakes.waker("action_executor"))
        return Admission(
            request=decision.request,
            answer=Answer.PREPARED,
            reason=decision.reason,
            decision=decision,
            approval=approval,
            record=record,
        )


def rule_on(
    tx: Tx,
    configuration: Configuration,
    freeze_file: str,
    request: ActionRequest,
    *,
    waives: frozenset[str] = frozenset(),
    exclude_decision: int | None = None,
    standing: Standing | None = None,
) -> policies.Ruling:
    """The policy's answer now, with budgets, overrides and freezes read in this transaction, and what the target's
    quota, pool and maintenance window leave of it.  `standing`: for many requests of one transaction."""
    declared = configuration.last_good_fleet.services.get(request.target)
    if declared is not None and (why := not_ours(declared, request.kind)) is not None:
        return policies.refuse(configuration.policy, "structure", why, rule="one writer of a count")
    if why := quarantining.refused(tx, request, declared):
        return policies.refuse(configuration.policy, "structure", why, rule="quarantine")
    standing = standing or Standing(tx, freeze_file)
    situation = standing.situation(request)
    if marked := versions.irreversible(request, configuration.fleet.services.get(request.target)):
        situation = msgspec.structs.replace(situation, irreversible=marked)
    if too_few := shortfall(tx, configuration.last_good_fleet, request):
        situation = msgspec.structs.replace(situation, min_healthy=too_few)
    if request.break_glass:
        waives |= BROKEN_GLASS
    try:
        rules = standing.rules
    except Misconfigured as error:
        return policies.refuse(configuration.policy, "error", f"a stored policy override cannot be read: {error}")
    ruling = policies.decide(
        configuration.policy,
        rules,
        request,
        standing,
        situation,
        tx.now(),
        waives=waives,
        exclude_decision=exclude_decision,
    )
    if ruling.verdict is Verdict.DENY or stands_for_intent(request):
        return ruling  # an intent's own steps ask the same of the contract, and let it wait for its window
    total = request.evidence.facts.get("total")
    current = total if type(total) is int else 0
    refused = unit_refusal(tx, configuration.last_good_fleet, request, current=current)
    if refused is None:
        return ruling
    return policies.refuse(configuration.policy, refused.code, refused.reason, rule="scaling contract")


def simulated_already(tx: Tx, configuration: Configuration, request: ActionRequest) -> str | None:
    """Whether a controller's dry run would only repeat the last one: same request, same policy, same sight.

    Nothing is changed by a dry run, so its need stays; asking a person or writing rows on every pass would be noise.
    """
    if not request.dry_run or request.source in (Source.OPERATOR, Source.API):
        return None
    last = tx.decisions.latest(request.kind, request.target, request.source)
    if last is None or last.action_seq is None or last.policy_digest != configuration.policy.digest:
        return None
    if last.request_digest != request.digest() or tx.now() - last.at >= REPEAT_AFTER:
        return None
    record = tx.outbox.get(last.action_seq)
    same = canonical_json(record.request.evidence.facts) == canonical_json(request.evidence.facts)
    return f"simulated already ({record.id})" if same and record.state is OutboxState.SIMULATED else None


def busy_reason(tx: Tx, request: ActionRequest) -> str | None:
    """Why nothing may be authorised for this target now: an open record, or a call that may still land."""
    if request.kind not in ACTUATED_KINDS:
        return None  # somebody else's own kinds are asked this when they are claimed
    if (record := tx.outbox.open_of(request.target)) is not None:
        return f"{record.id} ({record.request.kind}) of {request.target} is {_words(record)}"
    return held_until(tx, request.target)


def held_until(tx: Tx, target: str) -> str | None:
    """Whether the last call's effect may still land (its horizon), unless an acknowledged call is final."""
    last = tx.outbox.last_called(target)
    if last is None or last.horizon_at is None or tx.now() > last.horizon_at:
        return None
    acknowledged = last.outcome is not None and not last.outcome.unknown_outcome and not last.settled_by
    if last.final_if_acknowledged and acknowledged:
        return None
    left = seconds(last.horizon_at - tx.now())
    return f"the effect of {last.id} on {target} may still land for {left:.1f} s"


def stale_reason(tx: Tx, request: ActionRequest) -> str | None:
    """Evidence from before the target's last settled action proves nothing about now."""
    seen = request.evidence.observed_at
    last = None if seen is None else tx.executions.latest_of_target(request.target)
    if seen is None or last is None or last.at <= seen:
        return None
    return f"the evidence is older than the last action of {request.target} ({last.id})"


def withdraw(tx: Tx, approval: ActionApproval, note: str, by: int | None) -> ActionApproval:
    """Supersede an open approval, visibly, and the scale intent that waited for it."""
    approval_withdrawn(tx, approval, note)
    return tx.approvals.move(
        approval.seq, came_from=approval.status, to=ApprovalState.SUPERSEDED, note=note, superseded_by=by
    )


def file_approval(
    tx: Tx,
    configuration: Configuration,
    decision: ActionDecision,
    reason: str,
    waives: tuple[str, ...],
    approvers: Approvers | None,
) -> ActionApproval:
    """Ask people about exactly this request: those whom the rule names, or the team that owns the target."""
    ttl = configuration.policy.options.approval_expires_s
    service = configuration.last_good_fleet.services.get(decision.request.target)
    owner = "" if service is None else service.owner
    approval = tx.approvals.file(
        ApprovalDraft(
            request=decision.request,
            digest=decision.request_digest,
            decision_seq=decision.seq,
            reason=reason,
            waives=waives,
            expires_at=tx.now() + int(ttl * SECOND),
            needed=needed_for(approvers, owner),
        )
    )
    tx.decisions.link(decision.seq, approval_seq=approval.seq)
    tx.journal.write(
        topic="notice",
        actor=decision.request.asked_by,
        subject=decision.request.target,
        severity="warning",
        summary=f"{decision.request.kind} {decision.request.target} waits for approval {approval.id}: {reason}",
        detail={"approval": approval.id, "decision": decision.id},
    )
    return approval


def _asked(tx: Tx, request: ActionRequest) -> Sequence[ActionApproval]:
    """What people were asked about this kind and target.  Nothing takes the place of what is claimed elsewhere: the
    same request again is that one, and another is asked about beside it."""
    open_ = tx.approvals.open_of(request.target, request.kind)
    begun = [one for one in open_ if _claimed(tx, one)]
    return [one for one in begun if one.digest == request.digest()] or [one for one in open_ if one not in begun]


def _claimed(tx: Tx, approval: ActionApproval) -> bool:
    return carried_out_elsewhere(approval.request) and tx.outbox.by_approval(approval.seq) is not None


def _replaces(request: ActionRequest, pending: ActionApproval) -> bool:
    """Whether another request takes a pending one's place: a person's own always, a controller's only if the pending
    one became invalid (declared differently) or the direction turned."""
    if pending.digest == request.digest():
        return False
    if request.source in (Source.OPERATOR, Source.API):
        return True
    old = pending.request
    return old.identity != request.identity or old.direction != request.direction or old.kind == Kind.SCALE


def draft_of(request: ActionRequest, ruling: policies.Ruling) -> DecisionDraft:
    """The decision that this ruling is, before it is numbered and dated."""
    return DecisionDraft(
        request=request,
        verdict=ruling.verdict,
        code=ruling.code,
        reason=ruling.reason,
        rule=ruling.rule,
        rule_source=ruling.rule_source,
        policy_digest=ruling.policy_digest,
        numbers=ruling.numbers,
        waives=tuple(sorted(ruling.queued_by)),
    )


def _tell_of_broken_glass(tx: Tx, decision: ActionDecision) -> None:
    request = decision.request
    if request.break_glass:
        tx.journal.write(
            topic="notice",
            actor=request.requested_by,
            subject=request.target,
            severity="critical",
            summary=f"{request.requested_by} broke the glass for {request.kind} {request.target}"
            f" ({decision.verdict.value}): {request.reason}",
            detail={"decision": decision.id, "passes": ["freeze", "window"]},
        )


def _words(record: OutboxRecord) -> str:
    return {"recovery_pending": "outcome unknown", "prepared": "about to begin"}.get(record.state, record.state.value)
