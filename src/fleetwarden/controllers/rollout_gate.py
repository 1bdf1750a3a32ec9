"""A gate of somebody else's rollout: open or shut, asked again and again, and answered from the ledger.

Whoever asks this way only waits for a yes: it claims nothing and never says how it ended.  So the first yes for a
revision is one decision, or one grant that is closed by being used; later questions about the same revision spend
nothing more, but policy and freezes are asked every time.  An unchanged no is not written down again.  It never opens
because something could not be read.
"""

from __future__ import annotations

from fleetwarden.controllers.gate import REPEAT_AFTER, Admission, Answer, Gate, rule_on
from fleetwarden.controllers.outside import OutsideDesk, read_outside
from fleetwarden.controllers.wishes import as_asked
from fleetwarden.domain.actions import ActionApproval, ActionDecision, ActionRequest, Outcome, Record, Source, Verdict
from fleetwarden.domain.errors import FleetError
from fleetwarden.domain.identifiers import Micros, rfc3339
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.domain.policy import Ruling
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.stores import Store, Tx

__all__ = ["GateAnswer", "RolloutGate"]

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
        known = self._store.transact("gate", lambda tx: self._known(tx, request, freeze_file))
        if known is not None:
            return known
        [admission] = self._gate.admit([request], fence=None)
        return _answer(admission)

    def _known(self, tx: Tx, request: ActionRequest, freeze_file: str) -> GateAnswer | None:
        """What the last decision about this revision still says, or None: it has to be decided."""
        tx.lock_admission(exclusive=True)
        last = tx.decisions.latest(request.kind, request.target, Source.API)
        if last is None or last.request_digest != request.digest():
            return None
        if last.verdict is Verdict.DENY:
            return self._denied_still(tx, request, freeze_file, last)
        if last.approval_seq is None:
            return self._open_still(tx, request, freeze_file, last, last.at) if last.verdict in _YES else None
        approval = tx.approvals.get(last.approval_seq)
        if approval.status is ApprovalState.PENDING and tx.now() < approval.expires_at:
            told = f"{approval.id} waits for an answer: {approval.reason}"
            return GateAnswer(go=False, reason=told, decision=last, approval=approval)
        if approval.status is ApprovalState.GRANTED and tx.now() < approval.expires_at:
            return self._use(tx, approval, request, freeze_file)
        if approval.status is ApprovalState.CLOSED and approval.ended_at is not None:
            return self._open_still(tx, request, freeze_file, last, approval.ended_at, approval)
        if approval.status is ApprovalState.REJECTED and approval.ended_at is not None:
            until = approval.ended_at + self._rejected
            if tx.now() < until:
                told = f"{approval.id} was rejected ({approval.note}); asked again from {rfc3339(until)} on"
                return GateAnswer(go=False, reason=told, decision=last, approval=approval)
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
        since: Micros,
        approval: ActionApproval | None = None,
    ) -> GateAnswer | None:
        """A gate that was opened for this revision stays open, unless policy says otherwise by now."""
        if tx.now() - since >= self._pass:
            return None
        if approval is not None:
            record = tx.outbox.by_approval(approval.seq)
            if record is None or record.state is not OutboxState.SUCCEEDED:
                return None  # closed without having been used for this
        now = self._ruling(tx, request, freeze_file, last, approval)
        if now.verdict in _YES:
            told = f"open since {rfc3339(since)} ({last.id})"
            return GateAnswer(go=True, reason=told, decision=last, approval=approval)
        if approval is not None and now.verdict is Verdict.DENY and now.code not in ("structure", "tier"):
            return GateAnswer(go=False, reason=now.reason, decision=last, approval=approval)  # what waiting may cure
        return None

    def _use(self, tx: Tx, approval: ActionApproval, request: ActionRequest, freeze_file: str) -> GateAnswer:
        """A grant opens the gate, and is closed by that."""
        action = read_outside(tx, approval.decision_seq, self._desk.limits)
        by = request.requested_by
        taken = self._desk.take_up(tx, action, by=by, freeze_file=freeze_file)
        if isinstance(taken, FleetError):
            return GateAnswer(go=False, reason=taken.message, decision=action.decision, approval=approval)
        told = f"the gate is open for this revision, granted with {approval.id}"
        self._desk.end(tx, taken, Outcome(ok=True, detail=told), by=by)
        decision = tx.decisions.get(taken.decision_seq)
        return GateAnswer(go=True, reason=told, decision=decision, approval=tx.approvals.get(approval.seq), fresh=True)


def _answer(admission: Admission) -> GateAnswer:
    return GateAnswer(
        go=admission.answer is Answer.ALLOWED,
        reason=admission.reason,
        decision=admission.decision,
        approval=admission.approval,
        fresh=admission.decision is not None,
    )
