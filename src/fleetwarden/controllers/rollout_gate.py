"""A gate of somebody else's rollout: open or shut, asked again and again, and answered from the ledger.

Whoever asks this way only waits for a yes: it claims nothing and never says how it ended.  So the first yes for a
revision is claimed and closed by the answer itself; later questions about the same revision spend
nothing more, but policy and freezes are asked every time.  An unchanged no is not written down again.  It never opens
because something could not be read.
"""

from __future__ import annotations

import msgspec

from fleetwarden.controllers.gate import REPEAT_AFTER, Answer, Gate, rule_on
from fleetwarden.controllers.outside import OutsideDesk, read_outside
from fleetwarden.controllers.wishes import as_asked
from fleetwarden.domain.actions import (
    ActionApproval,
    ActionDecision,
    ActionRequest,
    OutboxRecord,
    Outcome,
    Record,
    Source,
    Verdict,
)
from fleetwarden.domain.errors import FleetError
from fleetwarden.domain.identifiers import JsonValue, Micros, digest, rfc3339
from fleetwarden.domain.lifecycles import OPEN_RECORDS, ApprovalState, OutboxState
from fleetwarden.domain.policy import Ruling
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.stores import Page, Store, Tx

__all__ = ["REVISION", "GateAnswer", "RolloutGate"]

REVISION = "checksum"  # the parameter that tells two revisions of one rollout apart
LOOK_BACK = 100  # decisions about one kind and target; a gate writes few
_YES = frozenset({Verdict.ALLOW, Verdict.ALLOW_NOTIFY})


class GateAnswer(Record):
    """Whether to go on, why, and the rows that say so.  `fresh`: the decision was written now."""

    go: bool
    reason: str
    decision: ActionDecision | None = None
    approval: ActionApproval | None = None
    fresh: bool = False


class RolloutGate:
    """`pass_us`: for how long a gate stays open for one revision; `rejected_us`: how long a person's no stands."""

    def __init__(
        self,
        store: Store,
        configuration: ConfigurationSource,
        gate: Gate,
        desk: OutsideDesk,
        *,
        pass_us: Micros,
        rejected_us: Micros,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._gate = gate
        self._desk = desk
        self._pass = pass_us
        self._rejected = rejected_us

    def ask(self, request: ActionRequest) -> GateAnswer:
        """The answer for this very revision.  Raises StoreUnavailable; then the gate is shut."""
        freeze_file = self._configuration.freeze_file()
        known = self._store.transact("gate", lambda tx: self._known(tx, request, freeze_file) or _key(tx, request))
        if isinstance(known, GateAnswer):
            return known
        request = msgspec.structs.replace(request, key=known)
        [admission] = self._gate.admit([request], fence=None)
        if admission.answer not in (Answer.QUEUED, Answer.DENIED):  # used at once, so that nobody else takes it up
            used = self._store.transact("gate", lambda tx: self._known(tx, request, freeze_file))
            if used is not None:
                return used
        if admission.answer is Answer.ALLOWED:
            return GateAnswer(go=False, reason="what was decided a moment ago does not hold any more")
        return GateAnswer(
            go=False, reason=admission.reason, decision=admission.decision, approval=admission.approval, fresh=True
        )

    def _known(self, tx: Tx, request: ActionRequest, freeze_file: str) -> GateAnswer | None:
        """What the last decision about this revision still says, or None: it has to be decided."""
        tx.lock_admission(exclusive=True)
        last = _last(tx, request)
        if last is None:
            return _of_another(tx, request)
        if last.verdict is Verdict.DENY:
            return self._denied_still(tx, request, freeze_file, last)
        if last.approval_seq is None:
            return self._allowed(tx, request, freeze_file, last) if last.verdict in _YES else None
        approval = tx.approvals.get(last.approval_seq)
        if approval.status is ApprovalState.PENDING and tx.now() < approval.expires_at:
            told = f"{approval.id} waits for an answer: {approval.reason}"
            return GateAnswer(go=False, reason=told, decision=last, approval=approval)
        if approval.status is ApprovalState.GRANTED and tx.now() < approval.expires_at:
            return self._use(tx, last, request, freeze_file)
        if approval.status is ApprovalState.CLOSED and approval.ended_at is not None:
            record = tx.outbox.by_approval(approval.seq)
            return self._open_still(tx, request, freeze_file, last, record, approval)
        if approval.status is ApprovalState.REJECTED and approval.ended_at is not None:
            until = approval.ended_at + self._rejected
            if tx.now() < until:
                told = f"{approval.id} was rejected ({approval.note}); asked again from {rfc3339(until)} on"
                return GateAnswer(go=False, reason=told, decision=last, approval=approval)
        return _of_another(tx, request)

    def _allowed(self, tx: Tx, request: ActionRequest, freeze_file: str, last: ActionDecision) -> GateAnswer | None:
        """What policy allowed without a person: used now, or before."""
        record = tx.outbox.by_key(last.request.key)
        if record is not None:
            return self._open_still(tx, request, freeze_file, last, record)
        if tx.now() < last.at + self._desk.limits.start_us:
            return self._use(tx, last, request, freeze_file)
        return None

    def _ruling(
        self, tx: Tx, request: ActionRequest, freeze_file: str, last: ActionDecision, approval: ActionApproval | None
    ) -> Ruling:
        return rule_on(
            tx,
            as_asked(tx, self._configuration.current()),
            freeze_file,
            request,
            waives=frozenset() if approval is None else frozenset(approval.waives),
            exclude_decision=last.seq,
        )

    def _denied_still(
        self, tx: Tx, request: ActionRequest, freeze_file: str, last: ActionDecision
    ) -> GateAnswer | None:
        if tx.now() - last.at >= REPEAT_AFTER:
            return None
        now = self._ruling(tx, request, freeze_file, last, None)
        same = (now.verdict, now.code, now.rule, now.rule_source, now.policy_digest)
        if same != (last.verdict, last.code, last.rule, last.rule_source, last.policy_digest):
            return None
        return GateAnswer(go=False, reason=now.reason, decision=last)

    def _open_still(
        self,
        tx: Tx,
        request: ActionRequest,
        freeze_file: str,
        last: ActionDecision,
        record: OutboxRecord | None,
        approval: ActionApproval | None = None,
    ) -> GateAnswer | None:
        """A gate that was opened for this revision stays open, unless policy says otherwise by now."""
        if record is not None and record.state in OPEN_RECORDS:
            told = f"{record.id} was claimed elsewhere, and has not ended"
            return GateAnswer(go=False, reason=told, decision=last, approval=approval)
        if record is None or record.state is not OutboxState.SUCCEEDED or record.finished_at is None:
            return None  # it ended without having been used for this
        if tx.now() - record.finished_at >= self._pass or not request.params.get(REVISION):
            return None  # a yes without a revision opened the gate once: the next question may be about another one
        now = self._ruling(tx, request, freeze_file, last, approval)
        if now.verdict in _YES:
            told = f"open since {rfc3339(record.finished_at)} ({last.id})"
            return GateAnswer(go=True, reason=told, decision=last, approval=approval)
        if now.verdict is Verdict.DENY and now.code not in ("structure", "tier"):
            return GateAnswer(go=False, reason=now.reason, decision=last, approval=approval)  # what waiting may cure
        return None

    def _use(self, tx: Tx, last: ActionDecision, request: ActionRequest, freeze_file: str) -> GateAnswer:
        """What is authorised opens the gate, and is closed by that."""
        action = read_outside(tx, last.seq, self._desk.limits)
        by = request.requested_by
        taken = self._desk.take_up(tx, action, by=by, freeze_file=freeze_file)
        if isinstance(taken, FleetError):
            return GateAnswer(go=False, reason=taken.message, decision=action.decision, approval=action.approval)
        how = "allowed" if action.approval is None else f"granted with {action.approval.id}"
        told = f"the gate is open for this revision, {how}"
        self._desk.end(tx, taken, Outcome(ok=True, detail=told), by=by)
        return GateAnswer(
            go=True,
            reason=told,
            decision=tx.decisions.get(taken.decision_seq),
            approval=None if action.approval is None else tx.approvals.get(action.approval.seq),
            fresh=True,
        )


def _last(tx: Tx, request: ActionRequest) -> ActionDecision | None:
    """The newest decision about exactly this revision; rollouts of one name in two places do not hide each other's."""
    wanted = request.digest()
    found = tx.decisions.list(Page(kind=request.kind, target=request.target, limit=LOOK_BACK))
    return next((one for one in found if one.request.source == Source.API and one.request_digest == wanted), None)


def _key(tx: Tx, request: ActionRequest) -> str:
    """Names the question after the last one: asked twice at the same moment, it is decided once."""
    last = _last(tx, request)
    told = digest(["gate", request.requested_by, request.digest(), 0 if last is None else last.seq])
    return f"gate.{told.removeprefix('sha256:')}"


def _of_another(tx: Tx, request: ActionRequest) -> GateAnswer | None:
    """A person answers one question per kind and target: another rollout's is not pushed aside, only an older
    revision's of this one."""
    for one in tx.approvals.open_of(request.target, request.kind):
        if _rollout(one.request) != _rollout(request) and tx.now() < one.expires_at:
            told = f"{one.id} is about another rollout with the target {request.target}: name another target or kind"
            return GateAnswer(go=False, reason=told, approval=one)
    return None


def _rollout(request: ActionRequest) -> dict[str, JsonValue]:
    return {name: value for name, value in request.params.items() if name != REVISION}
