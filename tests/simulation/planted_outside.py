"""The promises about actions that others carry out, broken one by one, as `planted` does it for the protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import sqlalchemy as sa

from fleetwarden.controllers import outside
from fleetwarden.controllers.outside import OutsideAction, OutsideDesk
from fleetwarden.controllers.settlement import end_record
from fleetwarden.domain.actions import LeaseFence, OutboxRecord, Tier, Verdict
from fleetwarden.domain.errors import Conflict
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.domain.outside import OutsideLimits, OutsideState, Stage, stage_of
from fleetwarden.domain.policy import Ruling
from fleetwarden.ports.stores import Tx
from fleetwarden.store import schema
from fleetwarden.store.outbox import StoredOutbox
from fleetwarden.store.statements import Statement, param
from tests.simulation.planted import Planted, ignore

if TYPE_CHECKING:
    from tests.simulation.history import History

__all__ = ["OUTSIDE"]


_OVER = Statement(
    sa.update(schema.outbox)
    .values(state=param("state", str))
    .where(schema.outbox.c.seq == param("of"))
    .returning(schema.outbox.c.seq)
)


class OnOutsiders(Planted):
    """In every history other systems ask for actions of their own, and policy lets them."""

    tilt: ClassVar[Mapping[str, Any]] = {
        "outsiders": True,
        "tier": Tier.AUTO,
        "rate": (9, 30),
        "blast": (9, 30),
        "world": 0.2,
        "people": 0.0,
        "people_share": 0.0,
        "crash": 0.0,
        "store_fault": 0.0,
        "rough_steps": 400,
    }


class ClaimedTwice(OnOutsiders):
    name = "whoever claims what is claimed is told to go ahead, too"

    def into(self, history: History) -> None:
        take_up = OutsideDesk.take_up

        def again(self: OutsideDesk, tx: Tx, action: OutsideAction, **how: Any) -> Any:
            return action.record or take_up(self, tx, action, **how)

        self.replace(OutsideDesk, "take_up", again)


class UnknownIsHandedOut(OnOutsiders):
    name = "a claim that nobody ever answered is handed out anew"

    def into(self, history: History) -> None:
        take_up = OutsideDesk.take_up

        def anew(self: OutsideDesk, tx: Tx, action: OutsideAction, **how: Any) -> Any:
            if action.record is not None and action.record.state is OutboxState.RECOVERY_PENDING:
                return action.record
            return take_up(self, tx, action, **how)

        self.replace(OutsideDesk, "take_up", anew)


class NoPolicyAtTheClaim(OnOutsiders):
    name = "policy is not asked again at a claim"
    tilt: ClassVar[Mapping[str, Any]] = {**OnOutsiders.tilt, "people": 0.1, "people_share": 0.3}

    def into(self, history: History) -> None:
        allowed = Ruling(verdict=Verdict.ALLOW, code="ok", reason="", rule="", rule_source="", policy_digest="")
        self.replace(OutsideDesk, "_ruling", lambda *_: allowed)


class LapsedIsClaimed(OnOutsiders):
    name = "what was allowed may be claimed at any later time"

    def into(self, history: History) -> None:
        def patient(decision: Any, approval: Any, record: Any, now: Any, limits: OutsideLimits) -> Stage:
            longer = msgspec.structs.replace(limits, start_us=100 * limits.start_us)
            return stage_of(decision, approval, record, now, longer)

        self.replace(outside, "stage_of", patient)


class ClaimedUnasked(OnOutsiders):
    name = "what waits for a person may be claimed (stage and store)"
    tilt: ClassVar[Mapping[str, Any]] = {**OnOutsiders.tilt, "tier": Tier.APPROVAL_REQUIRED}

    def into(self, history: History) -> None:
        def eager(decision: Any, approval: Any, *rest: Any) -> Stage:
            stage = stage_of(decision, approval, *rest)
            if stage.state is not OutsideState.WAITING or approval.status is not ApprovalState.PENDING:
                return stage
            return Stage(state=OutsideState.AUTHORISED, reason="somebody will say yes", until=stage.until)

        self.replace(outside, "stage_of", eager)
        self.replace(StoredOutbox, "_refuse_unless_granted", ignore)


class UnheardIsFailed(OnOutsiders):
    name = "a claim without a result in time is written as failed"

    def into(self, history: History) -> None:
        def failed(tx: Tx, record: OutboxRecord, _: OutboxState, outcome: Any, **more: Any) -> OutboxRecord:
            told = msgspec.structs.replace(outcome, unknown_outcome=False)
            return end_record(tx, record, OutboxState.FAILED, told, **more)

        mark = outside._mark

        def gone(tx: Tx, seq: int, fence: LeaseFence | None) -> int:
            self.replace(outside, "end_record", failed)
            try:
                return mark(tx, seq, fence)
            finally:
                self._patches.pop().stop()

        self.replace(outside, "_mark", gone)


class TheLastWordCounts(OnOutsiders):
    name = "how an action ended may be told once more, and otherwise"
    tilt: ClassVar[Mapping[str, Any]] = {**OnOutsiders.tilt, "rough_steps": 500}

    def into(self, history: History) -> None:
        report = OutsideDesk.report

        def once_more(desk: OutsideDesk, decision_seq: int, *, by: str, outcome: Any) -> OutsideAction:
            try:
                return report(desk, decision_seq, by=by, outcome=outcome)
            except Conflict as error:
                if error.code != "already_reported":
                    raise

            def over(tx: Tx) -> OutsideAction:
                known = outside.read_outside(tx, decision_seq, desk.limits)
                assert known.record is not None
                assert isinstance(tx.outbox, StoredOutbox)
                tx.outbox._session.change(_OVER, state="succeeded" if outcome.ok else "failed", of=known.record.seq)
                return outside.read_outside(tx, decision_seq, desk.limits)

            return desk._store.transact("report", over)

        self.replace(OutsideDesk, "report", once_more)


OUTSIDE: Sequence[Callable[[], Planted]] = (
    ClaimedTwice,
    UnknownIsHandedOut,
    NoPolicyAtTheClaim,
    LapsedIsClaimed,
    ClaimedUnasked,
    UnheardIsFailed,
    TheLastWordCounts,
)
