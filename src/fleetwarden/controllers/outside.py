"""Outside actions in the store: taking an authorisation up, and writing how it ended, each exactly once.

A claim is the commit 1 of whoever acts: policy, freeze, budgets and the grant are asked again in its transaction, and
its record stands before anything happens.  A claim that is never answered becomes an unknown outcome, which its
claimant or another person ends; it is never taken up again.  Nothing is carried out here.
"""

from __future__ import annotations

import msgspec

from fleetwarden.controllers.gate import draft_of, held_until, rule_on
from fleetwarden.controllers.recheck import end_approval
from fleetwarden.controllers.settlement import end_record, outbox_end
from fleetwarden.controllers.texts import KeptTexts
from fleetwarden.controllers.wishes import as_asked
from fleetwarden.domain.actions import (
    ActionApproval,
    ActionDecision,
    ActionRequest,
    LeaseFence,
    OutboxRecord,
    Outcome,
    Record,
    Verdict,
)
from fleetwarden.domain.errors import Conflict, FleetError, NotFound, Refused
from fleetwarden.domain.identifiers import rfc3339, show_id
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.domain.outside import (
    CADENCE,
    OutsideLimits,
    OutsideState,
    Stage,
    carried_out_elsewhere,
    stage_of,
)
from fleetwarden.domain.policy import Ruling
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.stores import DecisionDraft, OutboxDraft, Store, Tx

__all__ = ["OutsideAction", "OutsideDesk", "read_outside"]

_ALLOWED = frozenset({Verdict.ALLOW, Verdict.ALLOW_NOTIFY})
_OPEN = frozenset({OutsideState.RUNNING, OutsideState.RECOVERY_PENDING})


class OutsideAction(Record):
    """One outside action, as it stands: the decision that was first given, what a person said, and its record."""

    decision: ActionDecision
    approval: ActionApproval | None
    record: OutboxRecord | None
    stage: Stage

    @property
    def request(self) -> ActionRequest:
        return self.decision.request


def read_outside(tx: Tx, decision_seq: int, limits: OutsideLimits) -> OutsideAction:
    """The outside action of this decision.  Raises NotFound, also for a decision about something else."""
    decision = tx.decisions.get(decision_seq)
    if not carried_out_elsewhere(decision.request):
        raise NotFound(f"{decision.id} is about no outside action", hint=f"decisions show {decision.id}")
    approval = None if decision.approval_seq is None else tx.approvals.get(decision.approval_seq)
    if approval is not None and approval.decision_seq != decision_seq:  # the decision of its claim
        decision = tx.decisions.get(approval.decision_seq)
    record = None if approval is None else tx.outbox.by_approval(approval.seq)
    if record is None and approval is None:
        record = tx.outbox.by_key(decision.request.key)
    stage = stage_of(decision, approval, record, tx.now(), limits)
    return OutsideAction(decision=decision, approval=approval, record=record, stage=stage)


class OutsideDesk:
    """Claims and results.  `limits`: how long each may take."""

    def __init__(
        self, store: Store, configuration: ConfigurationSource, texts: KeptTexts, *, limits: OutsideLimits
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._texts = texts
        self.limits = limits

    def show(self, decision_seq: int) -> OutsideAction:
        """The action as it stands; `authorised` means that a claim would be taken now.

        Raises NotFound, StoreUnavailable.
        """
        freeze_file = self._configuration.freeze_file()

        def run(tx: Tx) -> OutsideAction:
            action = read_outside(tx, decision_seq, self.limits)
            if action.stage.state is not OutsideState.AUTHORISED:
                return action
            why = _busy_with(tx, action.request)
            if why is None:
                ruling = self._ruling(tx, action, freeze_file)
                why = None if ruling.verdict in _ALLOWED else ruling.reason
            if why is None:
                return action
            held = Stage(state=OutsideState.HELD, reason=why, until=action.stage.until)
            return msgspec.structs.replace(action, stage=held)

        return self._store.read(run)

    def claim(self, decision_seq: int, *, by: str) -> OutsideAction:
        """Take the authorisation up, right before acting.

        Raises NotFound; Conflict (code `not_authorised`: it waits, ended, or was claimed before; `target_busy`);
        Refused (code `claim_refused`: policy says no by now).  Whatever is raised, nothing was claimed.
        """
        freeze_file = self._configuration.freeze_file()

        def run(tx: Tx) -> OutsideAction | FleetError:
            tx.lock_admission(exclusive=True)
            action = read_outside(tx, decision_seq, self.limits)
            if isinstance(refused := self.take_up(tx, action, by=by, freeze_file=freeze_file), FleetError):
                return refused
            return read_outside(tx, decision_seq, self.limits)

        claimed = self._store.transact("claim", run)
        if isinstance(claimed, FleetError):  # raised here, so that a grant that it made void stays so
            raise claimed
        return claimed

    def take_up(self, tx: Tx, action: OutsideAction, *, by: str, freeze_file: str) -> OutboxRecord | FleetError:
        """Fence the action in the caller's transaction, under the exclusive admission lock; or why not.

        A grant that policy has overtaken for good is void from here on.
        """
        if (refused := _not_authorised(action)) is not None:
            return refused
        if (busy := _busy(tx, action.request)) is not None:
            return busy
        ruling = self._ruling(tx, action, freeze_file)
        if ruling.verdict not in _ALLOWED:
            return _refused(tx, action, ruling)
        record = self._begin(tx, action, ruling, by)
        if ruling.verdict is Verdict.ALLOW_NOTIFY:
            _tell(tx, record, by)
        return record

    def _ruling(self, tx: Tx, action: OutsideAction, freeze_file: str) -> Ruling:
        """What policy says of it now; what a person was asked about is not asked again."""
        return rule_on(
            tx,
            as_asked(tx, self._configuration.current()),
            freeze_file,
            action.request,
            waives=frozenset() if action.approval is None else frozenset(action.approval.waives),
            exclude_decision=action.decision.seq,
        )

    def _begin(self, tx: Tx, action: OutsideAction, ruling: Ruling | None, by: str) -> OutboxRecord:
        """Prepared and running in one transaction: nobody else ever sees it between the two."""
        decision = action.decision
        if action.approval is not None:
            decision = self._grant_decision(tx, action.approval, ruling, action.decision)
        record = tx.outbox.prepare(
            OutboxDraft(
                request=decision.request,
                decision_seq=decision.seq,
                approval_seq=None if action.approval is None else action.approval.seq,
                policy_digest=decision.policy_digest,
                expires_at=tx.now() + self.limits.start_us,
            )
        )
        if decision.action_seq is None:
            tx.decisions.link(decision.seq, action_seq=record.seq)
        if action.decision.seq != decision.seq and action.decision.action_seq is None:
            tx.decisions.link(action.decision.seq, action_seq=record.seq)
        return tx.outbox.start(
            record.seq,
            fence=LeaseFence(cadence=CADENCE, shard="0", holder=by, token=record.seq),
            horizon_at=tx.now() + self.limits.run_us,
            final_if_acknowledged=True,
            negatives_by_person=True,
            request=decision.request,
        )

    def _grant_decision(
        self, tx: Tx, approval: ActionApproval, ruling: Ruling | None, first: ActionDecision
    ) -> ActionDecision:
        request = msgspec.structs.replace(approval.request, key=f"{approval.request.key}.{approval.seq}")
        if ruling is None:  # told afterwards: what was first decided is all that there is
            base = DecisionDraft(
                request=request,
                verdict=Verdict.ALLOW,
                code="grant",
                reason="",
                rule=first.rule,
                rule_source=first.rule_source,
                policy_digest=first.policy_digest,
            )
            why = "carried out before it was claimed"
        else:
            self._texts.keep(tx, self._configuration.current())
            base, why = draft_of(request, ruling), ruling.reason
        return tx.decisions.append(
            msgspec.structs.replace(
                base,
                code="grant",
                reason=f"granted with {approval.id}: {why}",
                waives=approval.waives,
                approval_seq=approval.seq,
            )
        )

    def report(self, decision_seq: int, *, by: str, outcome: Outcome) -> OutsideAction:
        """Write how it ended, once; a grant is closed with it.

        What was not claimed before is claimed by this: it was done, so policy is not asked again.  Raises NotFound,
        Conflict (code `already_reported`, `not_authorised`, `target_busy`), Refused (code `claimed_by_another`).
        """

        def run(tx: Tx) -> OutsideAction:
            tx.lock_admission(exclusive=True)
            action = read_outside(tx, decision_seq, self.limits)
            record = action.record
            if record is None or action.stage.state not in _OPEN:
                if (refused := _not_authorised(action, reporting=True)) is not None:
                    raise refused
                if (busy := _busy(tx, action.request)) is not None:
                    raise busy
                record = self._begin(tx, action, None, by)
            self.end(tx, record, outcome, by=by)
            return read_outside(tx, decision_seq, self.limits)

        return self._store.transact("report", run)

    def end(self, tx: Tx, record: OutboxRecord, outcome: Outcome, *, by: str) -> OutboxRecord:
        """End a claimed record, in the caller's transaction."""
        holder = "" if record.fence is None else record.fence.holder
        if holder != by:
            raise Refused(
                f"{record.id} was claimed by {holder}, who says how it ended",
                code="claimed_by_another",
                hint=f"once its outcome is unknown, a person settles it: recover settle {record.id}",
            )
        late = record.state is OutboxState.RECOVERY_PENDING
        return end_record(
            tx,
            record,
            outbox_end(outcome),
            outcome,
            settled_by=by if late else "",
            note="told late" if late else "",
            watch_window_s=0,
        )

    def sweep(self, fence: LeaseFence | None = None) -> int:
        """Mark claims without a result in time as unknown; returns how many.  Raises Fenced, StoreUnavailable."""
        running, now = self._store.read(lambda tx: (tx.outbox.in_state(OutboxState.RUNNING), tx.now()))
        late = [one.seq for one in running if carried_out_elsewhere(one.request) and _overdue(one, now)]
        return sum(self._store.transact("mark_late", lambda tx, seq=seq: _mark(tx, seq, fence)) for seq in late)  # type: ignore[misc]


def _mark(tx: Tx, seq: int, fence: LeaseFence | None) -> int:
    if fence is not None:
        tx.leases.check(fence)
    record = tx.outbox.get(seq)
    if record.state is not OutboxState.RUNNING or not _overdue(record, tx.now()):
        return 0
    holder = "" if record.fence is None else record.fence.holder
    told = f"{holder} has not said until {rfc3339(record.horizon_at)} how it ended"
    unknown = Outcome(ok=False, unknown_outcome=True, code="no_result", detail=told)
    end_record(tx, record, OutboxState.RECOVERY_PENDING, unknown, watch_window_s=0)
    return 1


def _overdue(record: OutboxRecord, now: int) -> bool:
    return record.horizon_at is not None and now >= record.horizon_at


def _not_authorised(action: OutsideAction, *, reporting: bool = False) -> Conflict | None:
    """Why it cannot be taken up in the state that it is in."""
    state, decision = action.stage.state, action.decision
    if state is OutsideState.AUTHORISED:
        return None
    if action.record is not None and (reporting or state in (OutsideState.SUCCEEDED, OutsideState.FAILED)):
        ended = f"{decision.id} has ended already ({action.record.id} is {state.value})"
        return Conflict(ended, code="already_reported", hint="a new request needs a new key")
    if action.record is not None:
        holder = "" if action.record.fence is None else action.record.fence.holder
        told = f"{decision.id} was claimed before, by {holder} ({action.record.id})"
        return Conflict(told, code="not_authorised", hint="an authorisation is taken up once")
    return Conflict(f"{decision.id} is {state.value}: {action.stage.reason}", code="not_authorised")


def _busy_with(tx: Tx, request: ActionRequest) -> str | None:
    """Why nothing may begin on its target now: one at a time, whoever does it."""
    if (record := tx.outbox.open_of(request.target)) is not None:
        return f"{record.id} ({record.request.kind}) of {request.target} is {record.state.value}"
    return held_until(tx, request.target)


def _busy(tx: Tx, request: ActionRequest) -> Conflict | None:
    if (why := _busy_with(tx, request)) is None:
        return None
    return Conflict(f"nothing was claimed: {why}", code="target_busy", hint="try again later")


def _tell(tx: Tx, record: OutboxRecord, by: str) -> None:
    """The notice of a tier that acts and tells, written with the claim."""
    request = record.request
    tx.journal.write(
        topic="notice",
        actor=by,
        subject=request.target,
        summary=f"{request.kind} {request.target} goes ahead, carried out by {by}: {request.reason}",
        detail={"decision": show_id("D", record.decision_seq), "action": record.id},
    )


def _refused(tx: Tx, action: OutsideAction, ruling: Ruling) -> Refused:
    """Policy says no by now.  What waiting cannot cure makes a grant void, so that it can be asked for anew."""
    lasting = ruling.verdict is Verdict.QUEUE_APPROVAL or ruling.code in ("structure", "tier")
    approval = action.approval
    if lasting and approval is not None and approval.status is ApprovalState.GRANTED:
        end_approval(tx, approval, ApprovalState.VOIDED, f"not carried out: {ruling.reason}")
    named = show_id("D", action.decision.seq)
    return Refused(
        f"{named} cannot be claimed now: {ruling.reason}",
        code="claim_refused",
        hint="ask again" if lasting else "claim it again later",
    )
