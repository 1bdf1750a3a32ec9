"""Approvals: a person's yes becomes work, and the work asks everything again.

A grant names one exact request.  It skips what the person was asked about and nothing else, so the step that carries
it out looks at the service and asks policy anew; what changed meanwhile ends the approval and says so, or waits.  The
approval row is never the work itself.  No self-approval, no second answer by one person, no answer after the end.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

import msgspec
import structlog

from fleetwarden.controllers.gate import Gate, busy_reason, file_approval, rule_on, stale_reason
from fleetwarden.controllers.intent_moves import approval_ended, approval_granted, is_intents
from fleetwarden.controllers.open_questions import evidence_gone
from fleetwarden.controllers.recheck import end_approval
from fleetwarden.controllers.sightings import Sightings
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.controllers.wishes import as_asked
from fleetwarden.controllers.worker import Step, still_ours
from fleetwarden.domain.actions import PROPOSALS, ActionApproval, ActionRequest, Evidence, LeaseFence, Verdict, Vote
from fleetwarden.domain.convergence import facts, still_needed, undecidable
from fleetwarden.domain.errors import Conflict, Refused
from fleetwarden.domain.fleet import ObservedService, Service
from fleetwarden.domain.identifiers import rfc3339
from fleetwarden.domain.lifecycles import OPEN_RECORDS, ApprovalState, IntentState
from fleetwarden.domain.outside import carried_out_elsewhere
from fleetwarden.domain.policy import Ruling
from fleetwarden.domain.question_evidence import Patience, closed
from fleetwarden.ports.configuration import Configuration, ConfigurationSource
from fleetwarden.ports.stores import DecisionDraft, Store, Tx, WorkDraft, WorkItem
from fleetwarden.ports.system import IdSource

__all__ = ["WORK_KIND", "ApprovalDesk", "Voiced"]

log = structlog.get_logger(__name__)
WORK_KIND = "approved_action"
_Seen: TypeAlias = tuple[Service | None, ObservedService | None]  # one look, and the declaration that it went by
RETRY_S = 5.0  # while something temporary (freeze, rate, another action) holds a granted request


class Voiced(StrEnum):
    """What a person's answer led to."""

    GRANTED = "granted"
    REJECTED = "rejected"
    NOTED = "noted"  # a vote among several that are needed
    VOIDED = "voided"  # granted, and refused at once: policy forbids it or it is not needed any more


class ApprovalDesk:
    """Takes answers, ends what expired, turns grants into work, and carries out that work's step."""

    def __init__(
        self,
        ids: IdSource,
        store: Store,
        configuration: ConfigurationSource,
        sightings: Sightings,
        gate: Gate,
        wakes: Wakes,
        *,
        patience: Patience | None = None,
    ) -> None:
        self._ids = ids
        self._store = store
        self._configuration = configuration
        self._sightings = sightings
        self._gate = gate
        self._wakes = wakes
        self._patience = patience or Patience()

    def grant(
        self, seq: int, *, by: str, reason: str, teams: tuple[str, ...] = ()
    ) -> tuple[Voiced, ActionApproval, str]:
        """Say yes.  Returns what it led to, the approval as it stands, and a sentence.

        `teams` are the person's.  Raises NotFound, Conflict (already ended, already answered by this person,
        or load does not ask for it now: then nothing is written, and it can be granted when load asks again), Refused
        (own request, or in none of the teams that are needed).
        """
        approval = self._store.read(lambda tx: tx.approvals.get(seq))
        seen = self._look(approval.request)
        freeze_file = self._configuration.freeze_file()

        def run(tx: Tx) -> tuple[Voiced, ActionApproval, str]:
            tx.lock_admission(exclusive=True)
            configuration = as_asked(tx, self._configuration.current())
            now = self._answerable(tx, seq, by)
            if now.request.requested_by == by and not configuration.policy.options.allow_self_approval:
                raise Refused(
                    f"{by} asked for {now.id} and cannot approve it",
                    code="self_approval",
                    hint="another approver grants it, or the policy sets options.allow_self_approval",
                )
            self._still_wanted(tx, now)
            voted = tx.approvals.vote(seq, Vote(by=by, decision="approved", reason=reason, at=tx.now(), teams=teams))
            yes = sum(vote.decision == "approved" for vote in voted.votes)
            self._note(tx, voted, by, "granted", reason)
            if yes < voted.needed.count:
                return Voiced.NOTED, voted, f"{yes} of {voted.needed.count} needed have granted {voted.id}"
            granted = tx.approvals.move(seq, came_from=ApprovalState.PENDING, to=ApprovalState.GRANTED)
            ruling = rule_on(tx, configuration, freeze_file, granted.request, waives=frozenset(granted.waives))
            if (why := _ends_it(granted, ruling, seen, configuration)) is not None:
                approval_ended(tx, granted, why)
                end_approval(tx, granted, ApprovalState.VOIDED, f"not carried out: {why}")
                return Voiced.VOIDED, tx.approvals.get(seq), why
            tx.after_commit(self._wakes.waker("fleet_reconciler"))
            next_ = "may be claimed" if carried_out_elsewhere(granted.request) else "carried out on the next pass"
            waits = f"; it waits: {ruling.reason}" if ruling.verdict is Verdict.DENY else f": {next_}"
            return Voiced.GRANTED, granted, f"{granted.id} is granted{waits}"

        return self._store.transact("grant", run)

    def _still_wanted(self, tx: Tx, approval: ActionApproval) -> None:
        """Raises Conflict where the evidence of a question about load is gone, or too old."""
        if not is_intents(approval):
            return
        if (why := evidence_gone(tx, tx.intents.by_approval(approval.seq), self._patience)) is not None:
            raise Conflict(
                f"{approval.id} is not granted: {why}",
                code="evidence_gone",
                hint=f"grant it when load asks for it again (fleetwarden explain {approval.request.target}); "
                "if load does not, it is withdrawn by itself",
            )

    def show(self, seq: int) -> ActionApproval:
        """The approval as it stands.  Raises NotFound."""
        return self._store.read(lambda tx: tx.approvals.get(seq))

    def reject(self, seq: int, *, by: str, reason: str, teams: tuple[str, ...] = ()) -> ActionApproval:
        """Say no: one is enough, of whatever team.  Also takes back a grant that has not begun.

        Raises NotFound, Conflict.
        """

        def run(tx: Tx) -> ActionApproval:
            tx.lock_admission(exclusive=True)
            now = tx.approvals.get(seq)
            if now.status is ApprovalState.PENDING:
                now = self._answerable(tx, seq, by)
                tx.approvals.vote(seq, Vote(by=by, decision="denied", reason=reason, at=tx.now(), teams=teams))
            elif now.status is not ApprovalState.GRANTED or _begun(tx, now):
                raise Conflict(f"{now.id} is {_told(now)}: it can no longer be rejected", code="already_decided")
            self._note(tx, now, by, "rejected", reason)
            _drop_prepared(tx, now, f"{now.id} was rejected by {by}")
            note = f"rejected by {by}" + (f": {reason}" if reason else "")
            approval_ended(tx, now, f"{now.id} was {note}")
            return tx.approvals.move(seq, came_from=now.status, to=ApprovalState.REJECTED, note=note)

        return self._store.transact("reject", run)

    def expire_due(self, fence: LeaseFence | None = None) -> int:
        """End what nobody answered, and grants that could not be carried out in time; returns how many.

        An approval whose action has begun cannot expire.  `fence`: the lease of the pass that asks, checked with each.
        """
        read = self._store.read(
            lambda tx: (tx.now(), tx.approvals.in_state(ApprovalState.PENDING, ApprovalState.GRANTED))
        )
        due = [one for one in read[1] if one.expires_at <= read[0]]
        return sum(self._expire(one.seq, fence) for one in due)

    def _expire(self, seq: int, fence: LeaseFence | None) -> int:
        def run(tx: Tx) -> int:
            if fence is not None:
                tx.leases.check(fence)
            now = tx.approvals.get(seq)
            if now.status not in (ApprovalState.PENDING, ApprovalState.GRANTED) or now.expires_at > tx.now():
                return 0
            if _begun(tx, now):
                return 0
            _drop_prepared(tx, now, f"{now.id} expired")
            note = (
                "nobody answered in time" if now.status is ApprovalState.PENDING else "granted, but not begun in time"
            )
            approval_ended(tx, now, f"{now.id} expired: {note}")
            tx.approvals.move(seq, came_from=now.status, to=ApprovalState.EXPIRED, note=note)
            tx.journal.write(
                topic="notice",
                actor="gate",
                subject=now.request.target,
                severity="warning",
                summary=f"approval {now.id} ({now.request.kind} {now.request.target}) expired: {note}",
                detail={"approval": now.id},
            )
            return 1

        return self._store.transact("expire", run)

    def drain(
        self, most: int, fence: LeaseFence | None = None, unready: Callable[[str], str | None] = lambda _: None
    ) -> int:
        """Make at most `most` granted approvals into work; returns how many were new.  Raises Fenced.

        `unready`: why nothing may be done with a service now, so that its grants stay what they are.
        """
        granted = self._store.read(lambda tx: tx.approvals.in_state(ApprovalState.GRANTED))
        granted = [one for one in granted if not carried_out_elsewhere(one.request)]  # whoever asked claims it
        granted = [one for one in granted if unready(one.request.target) is None]

        def run(tx: Tx) -> int:
            if fence is not None:
                tx.leases.check(fence)
            made = 0
            for approval in granted:
                if made >= most:
                    break
                if is_intents(approval):
                    made += self._accept_intent(tx, approval.seq)
                    continue
                draft = WorkDraft(
                    kind=WORK_KIND,
                    key=f"{WORK_KIND}:{approval.seq}",
                    payload={"approval": approval.seq},
                    deadline=approval.expires_at,
                    target=approval.request.target,
                )
                item = tx.work.enqueue(draft)
                made += item.attempts == 0 and item.created_at == tx.now()
            tx.after_commit(self._wakes.waker("worker"))
            return made

        return self._store.transact("drain", run) if granted else 0

    def _accept_intent(self, tx: Tx, seq: int) -> int:
        """A grant of what follows load makes its intent acceptable; the reconciler carries that out, not a step."""
        now = tx.approvals.get(seq)
        if now.status is not ApprovalState.GRANTED:
            return 0
        row = tx.intents.by_approval(seq)
        if row is not None and row.state in (IntentState.INTENT_ACCEPTED, IntentState.RECOVERY_PENDING):
            return 0
        if approval_granted(tx, now) is None:
            end_approval(tx, now, ApprovalState.VOIDED, "not carried out: another count is wanted by now")
            return 0
        tx.after_commit(self._wakes.waker("fleet_reconciler"))
        return 1

    def carry_out(self, item: WorkItem) -> Step:
        """One step of an approved action: admit it again, or say why not; repeated until the approval has ended."""
        seq = int(item.payload["approval"])
        approval = self._store.read(lambda tx: tx.approvals.get(seq))
        if approval.status is not ApprovalState.GRANTED:
            return Step.done(f"{approval.id} is {_told(approval)}")
        seen = self._look(approval.request)
        freeze_file = self._configuration.freeze_file()

        def run(tx: Tx) -> Step:
            tx.lock_admission(exclusive=True)
            configuration = as_asked(tx, self._configuration.current())
            now = tx.approvals.get(seq)
            still_ours(tx, item)
            if now.status is not ApprovalState.GRANTED:
                return Step.done(f"{now.id} is {_told(now)}")
            self._gate.texts.keep(tx, configuration)
            if now.request.kind in PROPOSALS:  # nothing is carried out: the grant says that somebody took it up
                tx.approvals.move(seq, came_from=now.status, to=ApprovalState.CLOSED, note="taken up by a person")
                return Step.done(f"{now.id} is taken up by a person")
            if tx.outbox.by_approval(seq) is not None:
                return Step.later(RETRY_S, "begun; its outcome ends the approval")
            asked = msgspec.structs.replace(now.request, evidence=_evidence(now, seen[1]))
            ruling = rule_on(tx, configuration, freeze_file, asked, waives=frozenset(now.waives))
            if (why := _ends_it(now, ruling, seen, configuration)) is not None:
                end_approval(tx, now, ApprovalState.VOIDED, f"not carried out: {why}")
                return Step.done(why)
            if (why := _holds_it(tx, now, seen, configuration)) is not None:
                return Step.later(RETRY_S, why)
            return self._admit_again(tx, now, ruling, seen)

        return self._store.transact("admit_grant", run)

    def _admit_again(self, tx: Tx, approval: ActionApproval, ruling: Ruling, seen: _Seen) -> Step:
        if ruling.verdict is Verdict.DENY:
            return Step.later(RETRY_S, ruling.reason)
        request = msgspec.structs.replace(
            approval.request, key=f"{approval.request.key}.{self._ids.new()}", evidence=_evidence(approval, seen[1])
        )
        decision = tx.decisions.append(
            DecisionDraft(
                request=request,
                verdict=ruling.verdict,
                code="grant" if ruling.verdict is not Verdict.QUEUE_APPROVAL else ruling.code,
                reason=f"granted with {approval.id}: {ruling.reason}",
                rule=ruling.rule,
                rule_source=ruling.rule_source,
                policy_digest=ruling.policy_digest,
                numbers=ruling.numbers,
                waives=approval.waives,
                approval_seq=approval.seq if ruling.verdict is not Verdict.QUEUE_APPROVAL else None,
            )
        )
        if ruling.verdict is Verdict.QUEUE_APPROVAL:
            return self._ask_again(tx, approval, decision.seq, ruling)
        self._gate.prepare(tx, decision, approval)
        return Step.later(RETRY_S, "authorised")

    def _ask_again(self, tx: Tx, approval: ActionApproval, decision_seq: int, ruling: Ruling) -> Step:
        """Something else asks for a person by now than what was granted: ask about that too, visibly."""
        waives = tuple(sorted({*approval.waives, *ruling.queued_by}))
        tx.approvals.move(
            approval.seq,
            came_from=ApprovalState.GRANTED,
            to=ApprovalState.SUPERSEDED,
            note=f"asked again, since by now: {ruling.reason}",
        )
        new = file_approval(
            tx, self._configuration.current(), tx.decisions.get(decision_seq), ruling.reason, waives, ruling.approvers
        )
        tx.approvals.replaced(approval.seq, new.seq)
        return Step.done(f"asked again as {new.id}: {ruling.reason}")

    def _answerable(self, tx: Tx, seq: int, by: str) -> ActionApproval:
        now = tx.approvals.get(seq)
        if now.status is not ApprovalState.PENDING:
            raise Conflict(f"{now.id} is {_told(now)}", code="already_decided")
        if now.expires_at <= tx.now():
            raise Conflict(f"{now.id} expired at {rfc3339(now.expires_at)}", code="expired")
        if any(vote.by == by for vote in now.votes):
            yes = sum(vote.decision == "approved" for vote in now.votes)
            raise Conflict(
                f"{by} has answered {now.id} already: {yes} of {now.needed.count} needed have granted it",
                code="already_voted",
                hint="somebody else has to answer",
            )
        return now

    @staticmethod
    def _note(tx: Tx, approval: ActionApproval, by: str, what: str, reason: str) -> None:
        tx.journal.write(
            topic="approval",
            actor=by,
            subject=approval.request.target,
            summary=f"{by} {what} {approval.id} ({approval.request.kind} {approval.request.target})",
            detail={"approval": approval.id, "reason": reason, "digest": approval.digest},
        )

    def _look(self, request: ActionRequest) -> _Seen:
        asked = self._store.read(lambda tx: as_asked(tx, self._configuration.current()))
        service = asked.fleet.services.get(request.target)
        return service, None if service is None else self._sightings.look_at(service)


def _ends_it(approval: ActionApproval, ruling: Ruling, seen: _Seen, configuration: Configuration) -> str | None:
    """What makes a grant void for good: the target is gone, not needed any more, or forbidden by now.

    A registry that cannot be read, or a service that nobody can judge now, proves nothing and ends nothing.
    """
    if ruling.verdict is Verdict.DENY and ruling.code in ("structure", "tier"):
        return ruling.reason
    if configuration.fleet.error or approval.request.kind in PROPOSALS or carried_out_elsewhere(approval.request):
        return None
    service = configuration.fleet.services.get(approval.request.target)
    if service is None:
        return f"{approval.request.target} is no longer in the registry"
    if is_intents(approval) and (why := closed(service)) is not None:
        return why
    if service != seen[0] or undecidable(approval.request, seen[1]) is not None:
        return None
    return still_needed(approval.request, service, seen[1])


def _holds_it(tx: Tx, approval: ActionApproval, seen: _Seen, configuration: Configuration) -> str | None:
    """What waiting may cure."""
    request = msgspec.structs.replace(approval.request, evidence=_evidence(approval, seen[1]))
    if configuration.fleet.error:
        return f"the registry cannot be read: {configuration.fleet.error}"
    if configuration.fleet.services.get(request.target) != seen[0]:
        return f"{request.target} was declared anew a moment ago"
    return undecidable(request, seen[1]) or busy_reason(tx, request) or stale_reason(tx, request)


def _begun(tx: Tx, approval: ActionApproval) -> bool:
    record = tx.outbox.by_approval(approval.seq)
    return record is not None and record.state in OPEN_RECORDS and record.started_at is not None


def _drop_prepared(tx: Tx, approval: ActionApproval, why: str) -> None:
    record = tx.outbox.by_approval(approval.seq)
    if record is not None and record.started_at is None:
        tx.outbox.abandon(record.seq, why)


def _evidence(approval: ActionApproval, observed: ObservedService | None) -> Evidence:
    if observed is None:
        return approval.request.evidence
    return Evidence(observed_at=observed.observed_at, reason=approval.request.evidence.reason, facts=facts(observed))


def _told(approval: ActionApproval) -> str:
    words = approval.status.value
    return f"{words} ({approval.note})" if approval.note else words
