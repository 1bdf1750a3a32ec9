"""What stands in a wish's way, what policy says, and the revision that comes of it.

Everything that a wish is held against is read once for the whole list, in the list's own transaction.  Each is ruled on
in its turn, with all before it counted; what is to be written of them is written together.  A wish that is refused
leaves no revision; one that a person is asked about leaves it proposed.  A request that waits for a person is not
replaced by every next reading of a signal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

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
from fleetwarden.ports.intents import IntentDraft, IntentRow
from fleetwarden.ports.stores import Tx

__all__ = ["Put", "PutAnswer", "Putting", "Wanted"]

TOGETHER_MAX: Final = 500  # wishes that are written in one go


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


class Put(Record, gc=False):
    """The desk's answer to one wish, with what it wrote."""

    service: str
    answer: PutAnswer
    reason: str
    row: IntentRow | None = None
    decision: ActionDecision | None = None
    approval: ActionApproval | None = None
    until: Micros | None = None


class _Ruled(NamedTuple):
    """One wish as it was ruled on, before anything of it is written."""

    place: int
    wish: Wanted
    request: ActionRequest
    latest: IntentRow | None
    ruling: Ruling
    refused: UnitRefusal | None = None  # it waits for its unit's window
    open_one: ActionApproval | None = None  # what people are asked about already

    @property
    def asks(self) -> bool:
        return self.ruling.verdict is Verdict.QUEUE_APPROVAL


class Putting:
    """One transaction's wishes."""

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
        self._wishes = wishes
        self._ruled: dict[str, _Ruled] = {}  # by service, not yet written
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

    def run(self, most: int | None) -> list[Put]:
        """What comes of the wishes, in their order.  At most `most` are accepted or proposed, the rest DEFERRED."""
        spent, answers = 0, dict[int, Put]()
        for place, wish in enumerate(self._wishes):
            name = wish.service.name
            if most is not None and spent >= most:
                answers[place] = _answer(wish, PutAnswer.DEFERRED, "this pass has done enough")
                continue
            if name in self._ruled or len(self._ruled) >= TOGETHER_MAX:
                answers.update(self._write())
            found = self._rule(place, wish)
            if isinstance(found, Put):
                answers[place] = found
                continue
            self._ruled[name] = found
            if found.ruling.verdict is not Verdict.DENY:
                spent += 1
                self._standing.note(found.request, found.ruling.verdict)
        answers.update(self._write())
        return [answers[place] for place in range(len(self._wishes))]

    def _rule(self, place: int, wish: Wanted) -> Put | _Ruled:
        latest = self._latest.get(wish.service.name)
        held = (
            self._declared_otherwise(wish)
            or self._other_revision(wish, latest)
            or self._said_already(wish, latest)
            or self._busy(wish, latest)
            or self._cooling(wish)
        )
        if held is not None:
            return held
        request = msgspec.structs.replace(
            wish.request,
            key=intent_id(wish.service.name, NATIVE, wish.expected_revision, wish.operation.value, wish.desired),
        )
        refused = unit_refusal(self._tx, self._configuration.fleet, request, current=wish.observed, room=self._room)
        if refused is not None and refused.queues_until is None:
            return Put(service=wish.service.name, answer=PutAnswer.UNIT, reason=refused.reason)
        return self._decide(_Ruled(place, wish, request, latest, self._ruling(request), refused))

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

    def _ruling(self, request: ActionRequest) -> Ruling:
        return rule_on(self._tx, self._configuration, self._freeze_file, request, standing=self._standing)

    def _decide(self, one: _Ruled) -> Put | _Ruled:
        """What is to be written of it, or why nothing is."""
        if one.ruling.verdict is Verdict.DENY:
            return self._denied(one)
        if not one.asks:
            return one
        wish, latest = one.wish, one.latest
        open_one = self._approvals.get((one.request.kind, one.request.target))
        if open_one is not None and (latest is None or latest.approval_seq != open_one.seq):
            who = open_one.request.requested_by
            return _answer(wish, PutAnswer.WAITING, f"{who} has asked for another count: approval {open_one.id}")
        if (until := self._too_soon(wish, latest)) is not None:
            reason = "people were asked about it anew a moment ago: the next question waits"
            return _answer(wish, PutAnswer.WAITING, reason, row=latest, until=until)
        return one._replace(open_one=open_one)

    def _write(self) -> dict[int, Put]:
        """Write what was ruled on since the last time; the answers by the wishes' places."""
        if not self._ruled:
            return {}
        tx, ruled = self._tx, list(self._ruled.values())
        self._ruled = {}
        answers: dict[int, Put] = {}
        decided = tx.decisions.append_many([draft_of(one.request, one.ruling) for one in ruled])
        drafts: list[IntentDraft] = []
        put: list[tuple[_Ruled, ActionDecision, ActionApproval | None]] = []
        for one, decision in zip(ruled, decided, strict=True):
            if one.ruling.verdict is Verdict.DENY:
                answers[one.place] = _answer(one.wish, PutAnswer.DENIED, one.ruling.reason, decision=decision)
                continue
            draft, approval = self._draft(one, decision)
            drafts.append(draft)
            put.append((one, decision, approval))
        rows = tx.intents.put_many(drafts)
        for (one, decision, approval), draft, row in zip(put, drafts, rows, strict=True):
            waits, refused = draft.state is IntentState.PROPOSED, one.refused
            answers[one.place] = Put(
                service=one.wish.service.name,
                answer=PutAnswer.PROPOSED if waits else PutAnswer.ACCEPTED,
                reason=one.ruling.reason if refused is None or one.asks else refused.reason,
                row=row,
                decision=decision,
                approval=approval,
                until=None if refused is None else refused.queues_until,
            )
        return answers

    def _draft(self, one: _Ruled, decision: ActionDecision) -> tuple[IntentDraft, ActionApproval | None]:
        """The revision to put, with whatever it takes the place of put aside and people asked where they are to be."""
        tx, wish, latest, ruling = self._tx, one.wish, one.latest, one.ruling
        if latest is not None and latest.state in (IntentState.PROPOSED, IntentState.INTENT_ACCEPTED):
            latest = supersede(tx, latest, f"{wish.desired} is wanted by now ({decision.id})")
        approval = None
        if one.asks:
            waives = tuple(sorted(ruling.queued_by))
            approval = file_approval(tx, self._configuration, decision, ruling.reason, waives, ruling.approvers)
            if one.open_one is not None:
                tx.approvals.replaced(one.open_one.seq, approval.seq)
            self._approvals[one.request.kind, one.request.target] = approval
        draft = IntentDraft(
            intent=self._intent(wish, one.request, decision),
            state=IntentState.PROPOSED if one.asks or one.refused is not None else IntentState.INTENT_ACCEPTED,
            decision_seq=decision.seq,
            approval_seq=None if approval is None else approval.seq,
            latest=latest,
        )
        return draft, approval

    def _too_soon(self, wish: Wanted, latest: IntentRow | None) -> Micros | None:
        """Until when no person is asked; a question that has left the bounds is replaced at once all the same."""
        block = wish.service.scaling
        assert block is not None
        open_one = latest is not None and latest.state is IntentState.PROPOSED
        if latest is not None and open_one and not block.min <= latest.intent.desired_replicas <= block.max:
            return None
        return asks_too_soon(self._tx, wish.service.name, self._patience)

    def _denied(self, one: _Ruled) -> Put | _Ruled:
        """An unchanged denial is not written down again for a while."""
        request, ruling = one.request, one.ruling
        last = self._tx.decisions.latest(request.kind, request.target, request.source)
        if (
            last is not None
            and (last.verdict, last.code, last.rule, last.rule_source, last.policy_digest, last.request_digest)
            == (ruling.verdict, ruling.code, ruling.rule, ruling.rule_source, ruling.policy_digest, request.digest())
            and self._tx.now() - last.at < REPEAT_AFTER
        ):
            return _answer(one.wish, PutAnswer.REPEATED, ruling.reason, decision=last)
        return one

    def _intent(self, wish: Wanted, request: ActionRequest, decision: ActionDecision) -> ScaleIntent:
        return ScaleIntent(
            service=wish.service.name,
            unit=wish.service.name,
            controller_mode=NATIVE,
            intent_id=request.key,
            idempotency_key=request.key,
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
