"""One wish at a time: what stands in its way, what policy says, and the revision that comes of it.

Everything that a wish is held against is read once for the whole list, in the list's own transaction.  A wish that is
refused leaves no revision; one that a person is asked about leaves it proposed.  A request that waits for a person is
not replaced by every next reading of a signal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial

import msgspec

from fleetwarden.controllers.gate import REPEAT_AFTER, draft_of, file_approval, rule_on
from fleetwarden.controllers.intent_moves import supersede, under_way
from fleetwarden.controllers.open_questions import asks_too_soon
from fleetwarden.controllers.standing import Standing
from fleetwarden.controllers.unit_recheck import Roomy, unit_refusal
from fleetwarden.domain.actions import (
    ActionApproval,
    ActionDecision,
    ActionRequest,
    LeaseFence,
    OutboxRecord,
    Record,
    Verdict,
)
from fleetwarden.domain.contract.capacity import UnitRefusal
from fleetwarden.domain.contract.lifecycle import IntentOperation, ScaleIntent, SignalSummaryRef, intent_id
from fleetwarden.domain.cooldown import CooldownState, cooldown
from fleetwarden.domain.fleet import DesiredState, Service
from fleetwarden.domain.identifiers import SECOND, Micros, seconds
from fleetwarden.domain.lifecycles import OPEN_APPROVALS, IntentState, OutboxState
from fleetwarden.domain.policy import Ruling
from fleetwarden.domain.question_evidence import Patience
from fleetwarden.domain.scaling import NATIVE
from fleetwarden.ports.configuration import Configuration
from fleetwarden.ports.intents import IntentRow, NextRevision
from fleetwarden.ports.stores import DecisionDraft, Tx

__all__ = ["Put", "PutAnswer", "Putting", "Wanted"]


class PutAnswer(StrEnum):
    """What became of one wish."""

    ACCEPTED = "accepted"
    PROPOSED = "proposed"  # a person is asked, or a maintenance window has to open
    SAME = "same"  # the latest revision says so already
    WAITING = "waiting"  # a person was asked for another count a moment ago
    DENIED = "denied"
    REPEATED = "repeated"  # denied as before; nothing was written
    STALE = "stale"  # another revision, or another declaration, than the wish rests on
    BUSY = "busy"  # an action of the service is under way
    COOLDOWN = "cooldown"
    UNKNOWN_COOLDOWN = "unknown_cooldown"
    UNIT = "unit"  # the scaling contract
    SUSPENDED = "suspended"  # an override or a stop holds the count
    DEFERRED = "deferred"  # this pass has done enough


class Wanted(Record):
    """One wish.  `request` is complete but for its key, which is the intent's identity.  `query_text`: of the signals'
    queries, which its evidence names by digest; "": it rests on none."""

    service: Service
    expected_revision: int
    desired: int
    observed: int
    signal: SignalSummaryRef
    request: ActionRequest
    cooldown_s: float = 0.0
    operation: IntentOperation = IntentOperation.SCALE
    query_text: str = ""


class Put(Record):
    """The desk's answer to one wish, with what it wrote."""

    service: str
    answer: PutAnswer
    reason: str
    row: IntentRow | None = None
    decision: ActionDecision | None = None
    approval: ActionApproval | None = None
    until: Micros | None = None


class _Plain(Record):
    """An accepted wish that nothing else hangs on: its decision and its revision are written with others."""

    place: int
    wish: Wanted
    draft: DecisionDraft
    latest: IntentRow | None


class Putting:
    """One transaction's wishes.

    Those that are simply accepted wait, counted in every budget, and are written together: before anything else is
    written, so that the ledger keeps the order of the list, and at its end.
    """

    def __init__(
        self,
        tx: Tx,
        configuration: Configuration,
        freeze_file: str,
        fence: LeaseFence,
        wishes: Sequence[Wanted],
        *,
        skew_s: float,
        patience: Patience,
    ) -> None:
        names = [one.service.name for one in wishes]
        self._tx = tx
        self._configuration = configuration
        self._freeze_file = freeze_file
        self._standing = Standing(tx, freeze_file, names)
        self._fence = fence
        self._skew_s = skew_s
        self._patience = patience
        self._room = Roomy(tx, configuration.fleet)
        self._latest = tx.intents.latest_of(names)
        self._last_scales = tx.cooldowns.last_scales(names)
        states = (OutboxState.PREPARED, OutboxState.RUNNING, OutboxState.RECOVERY_PENDING)
        self._records: Mapping[str, OutboxRecord] = {one.request.target: one for one in tx.outbox.in_state(*states)}
        self._approvals: dict[tuple[str, str], ActionApproval] = {
            (one.request.kind, one.request.target): one for one in tx.approvals.in_state(*OPEN_APPROVALS)
        }
        self._answers: list[Put] = []
        self._plain: dict[str, _Plain] = {}  # not written yet, by service

    def put(self, wish: Wanted) -> PutAnswer:
        """Decide one wish, in the list's transaction."""
        if wish.service.name in self._plain:
            self._write()
        self._answers.append(self._weigh(wish))
        return self._answers[-1].answer

    def defer(self, wish: Wanted, reason: str) -> None:
        """Answer one wish without deciding it."""
        self._answers.append(_answer(wish, PutAnswer.DEFERRED, reason))

    def answers(self) -> list[Put]:
        """What came of every wish, in order, with what was written."""
        self._write()
        return self._answers

    def _write(self) -> None:
        """Write what waits: all decisions, then all revisions."""
        waiting = list(self._plain.values())
        self._plain.clear()
        if not waiting:
            return
        decisions = self._tx.decisions.append_many([one.draft for one in waiting])
        rows = self._tx.intents.accept_many(
            [
                NextRevision(intent=self._intent(one.wish, decision), decision_seq=decision.seq, latest=one.latest)
                for one, decision in zip(waiting, decisions, strict=True)
            ]
        )
        for one, decision, row in zip(waiting, decisions, rows, strict=True):
            self._answers[one.place] = Put(
                service=one.wish.service.name,
                answer=PutAnswer.ACCEPTED,
                reason=decision.reason,
                row=row,
                decision=decision,
            )

    def _weigh(self, wish: Wanted) -> Put:
        latest = self._latest.get(wish.service.name)
        checks: tuple[Callable[[], Put | None], ...] = (
            partial(self._declared_otherwise, wish),
            partial(self._other_revision, wish, latest),
            partial(self._said_already, wish, latest),
            partial(self._busy, wish, latest),
            partial(self._cooling, wish),
        )
        for check in checks:
            if (held := check()) is not None:
                return held
        request = msgspec.structs.replace(
            wish.request,
            key=intent_id(wish.service.name, NATIVE, wish.expected_revision, wish.operation.value, wish.desired),
        )
        refused = unit_refusal(self._tx, self._configuration.fleet, request, current=wish.observed, room=self._room)
        if refused is not None and refused.queues_until is None:
            return Put(service=wish.service.name, answer=PutAnswer.UNIT, reason=refused.reason)
        return self._decide(wish, request, latest, refused)

    def _declared_otherwise(self, wish: Wanted) -> Put | None:
        now = self._configuration.fleet.services.get(wish.service.name)
        if self._configuration.fleet.error or now is None or now.scaling is None:
            return _answer(wish, PutAnswer.STALE, "its declaration cannot be read, or is gone, a moment later")
        if now.count_wish is not None or now.desired is DesiredState.STOPPED:
            why = "it is to be stopped" if now.count_wish is None else f"its count is held by {now.count_wish.words}"
            return _answer(wish, PutAnswer.SUSPENDED, why)
        if now != wish.service:
            return _answer(wish, PutAnswer.STALE, "it was declared anew a moment ago")
        return None

    def _other_revision(self, wish: Wanted, latest: IntentRow | None) -> Put | None:
        newest = 0 if latest is None else latest.intent.revision
        if newest == wish.expected_revision:
            return None
        return _answer(
            wish, PutAnswer.STALE, f"revision {wish.expected_revision} is not the latest any more: {newest} is"
        )

    def _said_already(self, wish: Wanted, latest: IntentRow | None) -> Put | None:
        """The same count again makes no new revision; another one has to wait where a person has just been asked."""
        if latest is None:
            return None
        same = latest.intent.desired_replicas == wish.desired
        if same and latest.state in (IntentState.PROPOSED, IntentState.INTENT_ACCEPTED):
            return _answer(wish, PutAnswer.SAME, f"{latest.id} asks for {wish.desired} already", row=latest)
        if same and latest.state is IntentState.SIMULATED and wish.request.dry_run:
            return _answer(wish, PutAnswer.SAME, f"{latest.id} was simulated already", row=latest)
        wait = int(wish.cooldown_s * SECOND)
        since = self._tx.now() - latest.moved_at
        if latest.state is IntentState.REJECTED and since < wait:
            reason = f"{latest.id} was rejected {seconds(since):.0f} s ago ({latest.note})"
            return _answer(wish, PutAnswer.COOLDOWN, reason, row=latest, until=latest.moved_at + wait)
        if latest.state is not IntentState.PROPOSED or latest.approval_seq is None:
            return None
        wait = max(wait, int(self._patience.floor_s * SECOND))
        if since >= wait or self._overtaken(wish, latest):
            return None
        asked = self._tx.approvals.get(latest.approval_seq)
        return _answer(
            wish, PutAnswer.WAITING, f"waiting for approval {asked.id} of {latest.intent.desired_replicas}", row=latest
        )

    @staticmethod
    def _overtaken(wish: Wanted, latest: IntentRow) -> bool:
        """Whether what a person was asked about makes no sense any more: the other way, or out of bounds by now."""
        before = latest.intent.desired_replicas - latest.intent.observed_replicas
        if before * (wish.desired - wish.observed) < 0:
            return True
        block = wish.service.scaling
        assert block is not None
        return not block.min <= latest.intent.desired_replicas <= block.max

    def _busy(self, wish: Wanted, latest: IntentRow | None) -> Put | None:
        record = self._records.get(wish.service.name)
        ours = record is not None and latest is not None and latest.action_seq == record.seq
        if record is not None and not (ours and record.state is OutboxState.PREPARED):
            return _answer(wish, PutAnswer.BUSY, f"{record.id} ({record.request.kind}) of it is under way")
        if latest is not None and under_way(self._tx, latest):
            return _answer(wish, PutAnswer.BUSY, f"the outcome of {latest.id} is unknown")
        return None

    def _cooling(self, wish: Wanted) -> Put | None:
        name = wish.service.name
        found = cooldown(self._last_scales.get(name), self._tx.now(), wish.cooldown_s, skew_s=self._skew_s)
        if found.state is CooldownState.OVER:
            return None
        running = found.state is CooldownState.RUNNING
        answer = PutAnswer.COOLDOWN if running else PutAnswer.UNKNOWN_COOLDOWN
        return _answer(wish, answer, found.reason, until=found.until)

    def _decide(
        self, wish: Wanted, request: ActionRequest, latest: IntentRow | None, refused: UnitRefusal | None
    ) -> Put:
        tx = self._tx
        ruling = rule_on(tx, self._configuration, self._freeze_file, request, standing=self._standing)
        if ruling.verdict is Verdict.DENY:
            return self._deny(wish, request, ruling)
        open_one = self._approvals.get((request.kind, request.target))
        asks = ruling.verdict is Verdict.QUEUE_APPROVAL
        if asks and open_one is not None and (latest is None or latest.approval_seq != open_one.seq):
            who = open_one.request.requested_by
            return _answer(wish, PutAnswer.WAITING, f"{who} has asked for another count: approval {open_one.id}")
        if asks and (until := self._too_soon(wish, latest)) is not None:
            reason = "people were asked about it anew a moment ago: the next question waits"
            return _answer(wish, PutAnswer.WAITING, reason, row=latest, until=until)
        draft = draft_of(request, ruling)
        replaces = latest is not None and latest.state in (IntentState.PROPOSED, IntentState.INTENT_ACCEPTED)
        if not (asks or replaces or refused is not None):
            self._standing.note(draft)
            name, place = wish.service.name, len(self._answers)
            self._plain[name] = _Plain(place=place, wish=wish, draft=draft, latest=latest)
            return _answer(wish, PutAnswer.ACCEPTED, ruling.reason)
        self._write()
        decision = tx.decisions.append(draft)
        self._standing.note(draft)
        if latest is not None and latest.state in (IntentState.PROPOSED, IntentState.INTENT_ACCEPTED):
            latest = supersede(tx, latest, f"{wish.desired} is wanted by now ({decision.id})")
        approval = None
        if asks:
            waives = tuple(sorted(ruling.queued_by))
            approval = file_approval(tx, self._configuration, decision, ruling.reason, waives, ruling.approvers)
            if open_one is not None:
                tx.approvals.replaced(open_one.seq, approval.seq)
            self._approvals[request.kind, request.target] = approval
        waits = asks or refused is not None
        row = tx.intents.put(
            self._intent(wish, decision),
            state=IntentState.PROPOSED if waits else IntentState.INTENT_ACCEPTED,
            decision_seq=decision.seq,
            approval_seq=None if approval is None else approval.seq,
            latest=latest,
        )
        return Put(
            service=wish.service.name,
            answer=PutAnswer.PROPOSED if waits else PutAnswer.ACCEPTED,
            reason=ruling.reason if refused is None or asks else refused.reason,
            row=row,
            decision=decision,
            approval=approval,
            until=None if refused is None else refused.queues_until,
        )

    def _too_soon(self, wish: Wanted, latest: IntentRow | None) -> Micros | None:
        """Until when no person is asked; a question that has left the bounds is replaced at once all the same."""
        block = wish.service.scaling
        assert block is not None
        open_one = latest is not None and latest.state is IntentState.PROPOSED
        if latest is not None and open_one and not block.min <= latest.intent.desired_replicas <= block.max:
            return None
        return asks_too_soon(self._tx, wish.service.name, self._patience)

    def _deny(self, wish: Wanted, request: ActionRequest, ruling: Ruling) -> Put:
        last = self._tx.decisions.latest(request.kind, request.target, request.source)
        if (
            last is not None
            and (last.verdict, last.code, last.rule, last.rule_source, last.policy_digest, last.request_digest)
            == (ruling.verdict, ruling.code, ruling.rule, ruling.rule_source, ruling.policy_digest, request.digest())
            and self._tx.now() - last.at < REPEAT_AFTER
        ):
            return _answer(wish, PutAnswer.REPEATED, ruling.reason, decision=last)
        self._write()
        decision = self._tx.decisions.append(draft_of(request, ruling))
        return _answer(wish, PutAnswer.DENIED, ruling.reason, decision=decision)

    def _intent(self, wish: Wanted, decision: ActionDecision) -> ScaleIntent:
        key = decision.request.key
        return ScaleIntent(
            service=wish.service.name,
            unit=wish.service.name,
            controller_mode=NATIVE,
            intent_id=key,
            idempotency_key=key,
            expected_revision=wish.expected_revision,
            revision=wish.expected_revision + 1,
            operation=wish.operation,
            desired_replicas=wish.desired,
            observed_replicas=wish.observed,
            signal=wish.signal,
            fence=self._fence,
            decision_id=decision.id,
            created_at=self._tx.now(),
        )


def _answer(
    wish: Wanted,
    answer: PutAnswer,
    reason: str,
    *,
    row: IntentRow | None = None,
    decision: ActionDecision | None = None,
    until: Micros | None = None,
) -> Put:
    return Put(service=wish.service.name, answer=answer, reason=reason, row=row, decision=decision, until=until)
