"""The fences around what follows load, taken away one by one, as `planted` does it for the protocol.

Each plays in histories in which services follow load.  Where the product has two fences for one danger, both go.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar
from unittest.mock import patch

import msgspec

from fleetwarden.controllers import (
    approvals,
    autoscaler,
    autoscaler_sight,
    autoscaler_wishes,
    convergence_watch,
    gate,
    intent_authorising,
    intent_desk,
    intent_moves,
    intent_putting,
    intent_recheck,
    open_questions,
    recheck,
)
from fleetwarden.domain import convergence
from fleetwarden.domain.actions import ActionApproval, Tier
from fleetwarden.domain.cooldown import CooldownState, CooldownView
from fleetwarden.domain.fleet import Mode
from fleetwarden.domain.lifecycles import ApprovalState, IntentState
from fleetwarden.domain.scaling_block import ScalingBlock, Step
from fleetwarden.domain.signal_rules import check
from fleetwarden.domain.signals import NoSample, Reading, Sample
from fleetwarden.domain.tracking_columns import BlockTable, compile_blocks
from fleetwarden.ports.intents import IntentRow, NextRevision
from fleetwarden.ports.stores import Tx
from fleetwarden.store.intents import StoredIntents
from tests.simulation import load
from tests.simulation.load import declared, with_load
from tests.simulation.plan import Plan
from tests.simulation.plane import SimStore
from tests.simulation.planted import Planted, Through, ignore, unfenced

if TYPE_CHECKING:
    from tests.simulation.history import History

__all__ = ["INTENTS", "OnLoad"]


class OnLoad(Planted):
    """Every history has live services that follow load, and policy lets them, unless the tilt says otherwise."""

    tilt: ClassVar[Mapping[str, Any]] = {
        "tier": Tier.AUTO,
        "rate": (9, 30),
        "blast": (9, 30),
        "world": 0.12,
        "people": 0.01,
        "trouble": 0.1,
        "crash": 0.0,
        "stall": 0.0,
        "store_fault": 0.0,
        "rough_steps": 300,
    }
    change: ClassVar[Mapping[str, Any]] = {}  # of every block
    trouble: ClassVar[float] = 0.1  # of a sample
    acts: ClassVar[tuple[str, ...]] = ()  # that are likelier
    slow: ClassVar[Mapping[str, float]] = {}  # transactions before which a thread often stands still, so many seconds

    def into(self, history: History) -> None:
        history.load.chance = 0.8
        history.load.acts += self.acts
        history.load.trouble = self.trouble
        self.baton, self.chance = history.baton, Random(history.plan.seed)
        self.weaken(history)

    def weaken(self, history: History) -> None:
        """Take the fence away."""

    def accepted(self, history: History) -> list[str]:
        """The services of which an intent waits to be carried out."""
        rows = history.engine.read(lambda tx: tx.intents.in_state(IntentState.INTENT_ACCEPTED))
        return [one.intent.service for one in rows if one.action_seq is None]

    def before(self, name: str, store: SimStore) -> None:
        if name in self.slow and self.chance.random() < 0.5:
            self.baton.stall(self.baton.current, self.slow[name])

    def plan(self, plan: Plan) -> Plan:
        tilted = super().plan(plan)
        bare = tuple(msgspec.structs.replace(one, scaling=None, mode=Mode.LIVE) for one in tilted.services)
        services = tuple(
            one
            if one.scaling is None
            else msgspec.structs.replace(one, scaling=msgspec.structs.replace(one.scaling, **self.change))
            for one in with_load(plan.seed, bare, always=True)
        )
        return dataclasses.replace(tilted, services=services)


TWO_PLANES = {"planes": 2, "lease_ttl_s": 5.0, "poll_s": 6.0, "rough_steps": 400}
RESTLESS = {
    "cooldown_up_s": 0.0,
    "cooldown_down_s": 0.0,
    "window_s": 0.0,
    "down_samples": 1,
    "min": 1,
    "max": 6,
    "up_step": Step(amount=5),
    "down_step": Step(amount=5),
}
ASKED = {**OnLoad.tilt, "tier": Tier.APPROVAL_REQUIRED, "people": 0.08, "people_share": 0.5, "rough_steps": 400}


# -------------------------------------------------------------------------------------------------- the put
class PutUnderAnOldLease(OnLoad):
    name = "the lease is not checked where an intent is put"
    tilt: ClassVar[Mapping[str, Any]] = {**OnLoad.tilt, **TWO_PLANES}
    trouble = 0.5
    slow: ClassVar[Mapping[str, float]] = {"put_intents": 70.0}

    def tx(self, name: str, tx: Tx) -> Tx:
        return unfenced(tx) if name == "put_intents" else tx


class PutOverAnyRevision(PutUnderAnOldLease):
    name = "an intent is put whatever the latest revision is (compare, swap, indexes and lease)"
    spoils_engine = True

    def weaken(self, history: History) -> None:
        for index in ("intents_revision", "intents_identity"):
            history.engine._connection.execute(f"DROP INDEX {index}")
        self.replace(intent_putting.Putting, "_other_revision", ignore)
        self.replace(intent_putting.Putting, "_said_already", ignore)
        put, latest = StoredIntents.put, StoredIntents.latest

        def over(self: StoredIntents, intent: Any, **more: Any) -> IntentRow:
            def as_expected(_: StoredIntents, service: str) -> IntentRow | None:
                known = latest(self, service)
                if known is None:
                    return None
                told = msgspec.structs.replace(known.intent, revision=intent.expected_revision, intent_id="")
                return msgspec.structs.replace(known, intent=told)

            with patch.object(StoredIntents, "latest", as_expected):
                return put(self, intent, **more)

        self.replace(StoredIntents, "put", over)
        accept_many = StoredIntents.accept_many

        def over_them(self: StoredIntents, revisions: Sequence[NextRevision]) -> Sequence[IntentRow]:
            return accept_many(self, [with_latest_as_expected(self, one) for one in revisions])

        def with_latest_as_expected(self: StoredIntents, one: NextRevision) -> NextRevision:
            known = latest(self, one.intent.service)
            if known is not None:
                told = msgspec.structs.replace(known.intent, revision=one.intent.expected_revision, intent_id="")
                known = msgspec.structs.replace(known, intent=told)
            return msgspec.structs.replace(one, latest=known)

        self.replace(StoredIntents, "accept_many", over_them)


class PutOverWhatRuns(OnLoad):
    name = "a newer intent is put while the latest one is carried out or unknown (autoscaler, desk and store)"
    tilt: ClassVar[Mapping[str, Any]] = {**OnLoad.tilt, "trouble": 0.8, "rough_steps": 400}
    change: ClassVar[Mapping[str, Any]] = {"cooldown_up_s": 0.0, "cooldown_down_s": 0.0}

    def weaken(self, history: History) -> None:
        self.replace(autoscaler_wishes, "cooldown", over)
        self.replace(intent_putting.Putting, "_busy", ignore)
        self.replace(StoredIntents, "_refuse_if_under_way", ignore)


class PutLater(OnLoad):
    name = "the decision and its intent are written in two transactions"

    def weaken(self, history: History) -> None:
        self.history = history

    def tx(self, name: str, tx: Tx) -> Tx:
        if name != "put_intents":
            return tx
        store = self.history.planes[0].store

        def later(intent: Any, **more: Any) -> None:
            tx.after_commit(lambda: store.transact("late_put", lambda again: ignore(again.intents.put(intent, **more))))

        def all_later(revisions: Sequence[NextRevision]) -> Sequence[None]:
            tx.after_commit(
                lambda: store.transact("late_put", lambda again: ignore(again.intents.accept_many(revisions)))
            )
            return [None for _ in revisions]

        return Through(tx, intents=Through(tx.intents, put=later, accept_many=all_later))


class AcceptedUnasked(OnLoad):
    name = "an intent that waits for a person is accepted without one"
    tilt: ClassVar[Mapping[str, Any]] = {**ASKED, "people": 0.0, "people_share": 0.0}

    def weaken(self, history: History) -> None:
        def accept(_: Any, tx: Tx, __: Any, seq: int, ___: float) -> int:
            row = tx.intents.get(seq)
            if row.state is not IntentState.PROPOSED:
                return 0
            tx.intents.move(row, IntentState.INTENT_ACCEPTED)
            return 1

        self.replace(intent_desk.IntentDesk, "_tend_one", accept)


# -------------------------------------------------------------------------------------------------- commit 1
class StaleIntentAtCommit1(OnLoad):
    name = "commit 1 does not read the latest intent again (nor is what was superseded taken back)"
    tilt: ClassVar[Mapping[str, Any]] = {**OnLoad.tilt, "planes": 1, "lease_ttl_s": 600.0, "rough_steps": 400}
    slow: ClassVar[Mapping[str, float]] = {"commit_1": 30.0}
    change = RESTLESS
    acts: ClassVar[tuple[str, ...]] = ("jump", "drop") * 10
    trouble = 0.0

    def weaken(self, history: History) -> None:
        self.replace(intent_moves, "_drop_authorisation", ignore)

    def tx(self, name: str, tx: Tx) -> Tx:
        return self._blind(tx) if name == "commit_1" else tx

    @staticmethod
    def _blind(tx: Tx) -> Tx:
        by_action = tx.intents.by_action
        told: list[IntentRow] = []

        def remembered(seq: int) -> IntentRow | None:
            row = by_action(seq)
            told[:] = [] if row is None else [msgspec.structs.replace(row, state=IntentState.INTENT_ACCEPTED)]
            return row

        return Through(tx, intents=Through(tx.intents, by_action=remembered, latest=lambda _: told[0]))


class IntentBesideCommit1(StaleIntentAtCommit1):
    name = "the latest intent is read before commit 1's transaction, not in it"

    def weaken(self, history: History) -> None:
        super().weaken(history)
        self.engine = history.engine
        self.read: dict[str, Mapping[str, IntentRow]] = {}
        self.names = [one.name for one in history.plan.services]

    def before(self, name: str, store: SimStore) -> None:
        super().before(name, store)
        if name == "commit_1":
            latest = self.engine.read(lambda tx: tx.intents.latest_of(self.names))
            self.read[self.baton.current.name] = latest

    def tx(self, name: str, tx: Tx) -> Tx:
        if name != "commit_1":
            return tx
        read = self.read[self.baton.current.name]
        by_action = tx.intents.by_action

        def remembered(seq: int) -> IntentRow | None:
            row = by_action(seq)
            return None if row is None else next((one for one in read.values() if one.seq == row.seq), row)

        return Through(tx, intents=Through(tx.intents, by_action=remembered, latest=read.get))


class NoCooldownAtCommit1(OnLoad):
    name = "the cooldown is asked where an intent is put, and not again"
    change: ClassVar[Mapping[str, Any]] = {**RESTLESS, "cooldown_up_s": 150.0, "cooldown_down_s": 150.0}
    slow: ClassVar[Mapping[str, float]] = {"authorise_intents": 8.0}

    def weaken(self, history: History) -> None:
        self.history = history
        self.replace(intent_recheck, "cooldown", over)

    def before(self, name: str, store: SimStore) -> None:
        """Somebody sets the count by hand between the two."""
        super().before(name, store)
        history = self.history
        if name == "authorise_intents" and not history.calm:
            for service in self.accepted(history):
                plane = self.chance.choice(history.planes)
                history.people.spawn(plane, "scale", partial(history.people.scale, plane, service, 2))


class NoCooldown(OnLoad):
    name = "nobody asks for the cooldown (three places)"

    def weaken(self, history: History) -> None:
        for owner in (autoscaler_wishes, intent_putting, intent_recheck):
            self.replace(owner, "cooldown", over)


def over(*_: Any, **__: Any) -> CooldownView:
    return CooldownView(state=CooldownState.OVER)


class NoBoundsAtCommit1(OnLoad):
    name = "the bounds are asked where an intent is put, and not again"
    slow: ClassVar[Mapping[str, float]] = {"authorise_intents": 15.0}
    acts: ClassVar[tuple[str, ...]] = ("declare",) * 8
    tilt: ClassVar[Mapping[str, Any]] = {**OnLoad.tilt, "rough_steps": 400}

    def weaken(self, history: History) -> None:
        self.replace(intent_recheck, "unit_refusal", ignore)


class PausedIsScaled(OnLoad):
    name = "scaling that is paused meanwhile is carried out"
    change = RESTLESS

    def weaken(self, history: History) -> None:
        self.history = history
        needed = convergence._scale_still_needed

        def heedless(request: Any, service: Any, observed: Any) -> str | None:
            block = service.scaling and msgspec.structs.replace(service.scaling, paused=False)
            return needed(request, msgspec.structs.replace(service, scaling=block), observed)

        self.replace(convergence, "_scale_still_needed", heedless)
        self.replace(intent_recheck, "closed", ignore)

    def before(self, name: str, store: SimStore) -> None:
        """Somebody pauses what is about to be carried out."""
        load = self.history.load
        if name == "authorise_intents" and not self.history.calm:
            for service in self.accepted(self.history):
                if not load.blocks[service].paused:
                    load.declare(service, "pause")


class Unanswered(OnLoad):
    """People are asked, and answer only what a fault has them answer; load jumps and drops, and tells the truth."""

    tilt: ClassVar[Mapping[str, Any]] = {**ASKED, "people": 0.0, "people_share": 0.0, "world": 0.3}
    change = RESTLESS
    acts: ClassVar[tuple[str, ...]] = ("jump", "drop") * 10
    trouble = 0.0


class LateYes(Unanswered):
    name = "a yes counts although load does not ask for it any more (grant and re-check)"

    def weaken(self, history: History) -> None:
        self.history = history
        for owner in (approvals, intent_recheck):
            self.replace(owner, "evidence_gone", ignore)

    def before(self, name: str, store: SimStore) -> None:
        """Somebody says yes to what load does not ask any more."""
        super().before(name, store)
        history = self.history
        if name == "commit_1" or history.calm:
            return
        for row in questions(history):
            want = row.convergence.want
            if row.approval_seq is not None and want is not None and want.against_since is not None:
                seq = row.approval_seq
                approval = approval_of(history, seq)
                if approval.status is ApprovalState.PENDING and self.chance.random() < 0.3:
                    plane = self.chance.choice(history.planes)
                    history.people.spawn(plane, "grant", partial(history.people.grant, plane, approval, "carol"))


class WithdrawnIsCarriedOut(Unanswered):
    name = "a withdrawn question leaves its approval open"

    def weaken(self, history: History) -> None:
        self.history = history

        def forgetful(tx: Tx, row: IntentRow, why: str) -> IntentRow:
            return tx.intents.move(row, IntentState.SUPERSEDED, note=why)

        self.replace(open_questions, "supersede", forgetful)

    def before(self, name: str, store: SimStore) -> None:
        """Somebody pauses what a person is asked about."""
        super().before(name, store)
        load = self.history.load
        if name == "put_intents" and not self.history.calm:
            for row in questions(self.history):
                if not load.blocks[row.intent.service].paused:
                    load.declare(row.intent.service, "pause")


def questions(history: History) -> Sequence[IntentRow]:
    """What waits for a person."""
    return history.engine.read(lambda tx: tx.intents.in_state(IntentState.PROPOSED))


def approval_of(history: History, seq: int) -> ActionApproval:
    return history.engine.read(lambda tx: tx.approvals.get(seq))


# -------------------------------------------------------------------------------------------------- its end
class RefusedStaysAccepted(OnLoad):
    name = "an accepted intent that policy refuses is not ended (by the re-check, or by its age)"
    tilt: ClassVar[Mapping[str, Any]] = {**OnLoad.tilt, "last_tier": Tier.FORBIDDEN}

    def weaken(self, history: History) -> None:
        for owner in (intent_authorising, recheck):
            self.replace(owner, "end_intent", ignore)
        self.replace(intent_desk, "_end_if_old", lambda *_: 0)


class EndsWithoutItsApproval(OnLoad):
    name = "an intent that ends leaves the grant for it open"
    tilt: ClassVar[Mapping[str, Any]] = {**ASKED, "world": 0.2}

    def tx(self, name: str, tx: Tx) -> Tx:
        if name not in ("put_intents", "authorise_intents", "commit_1", "tend_intents", "put_service_override"):
            return tx
        move = tx.approvals.move

        def unless_granted(seq: int, *, came_from: ApprovalState, to: ApprovalState, **more: Any) -> Any:
            return None if came_from is ApprovalState.GRANTED else move(seq, came_from=came_from, to=to, **more)

        return Through(tx, approvals=Through(tx.approvals, move=unless_granted))


class WithdrawnWithoutItsIntent(OnLoad):
    name = "a question that another request takes the place of leaves its intent waiting"
    acts: ClassVar[tuple[str, ...]] = ("by hand",) * 4
    tilt: ClassVar[Mapping[str, Any]] = ASKED

    def weaken(self, history: History) -> None:
        self.replace(gate, "approval_withdrawn", ignore)


class SeenBefore(OnLoad):
    name = "a look from before the execution counts as evidence of it"

    def weaken(self, history: History) -> None:
        self.replace(convergence_watch, "_newer", lambda row, observed: observed is not None)
        judge = convergence_watch.ConvergenceWatch._judge
        memory: dict[str, Any] = {}

        def older(self: Any, tx: Tx, seq: int, observed: Any) -> int:
            told = memory.get(observed.name, observed) if observed is not None else None
            if observed is not None:
                memory[observed.name] = observed
            return judge(self, tx, seq, told)

        self.replace(convergence_watch.ConvergenceWatch, "_judge", older)


# -------------------------------------------------------------------------------------------------- signals
class BadSamplesCount(OnLoad):
    name = "a sample is believed whatever is wrong with it"
    trouble = 0.4

    def weaken(self, history: History) -> None:
        def believe(pair: Any, reading: Reading | None, *_: Any) -> Reading:
            return check(pair, None, None, 0, 0) if reading is None else reading

        self.replace(autoscaler_sight, "check", believe)


class MissingIsZero(OnLoad):
    name = "a sample that is missing counts as none to do"
    trouble = 0.4

    def weaken(self, history: History) -> None:
        def zero(pair: Any, reading: Reading | None, definition: Any, now: int, last: int) -> Reading:
            judged = check(pair, reading, definition, now, last)
            if not isinstance(judged, NoSample):
                return judged
            kind = declared("", pair.signal)
            return Sample(
                service=pair.service,
                signal=pair.signal,
                value=0.0,
                source="nobody",
                aggregation=kind.aggregation,
                unit=kind.unit,
                scope=kind.scope,
                observed_at=now,
            )

        self.replace(autoscaler_sight, "check", zero)


class ReplaysCount(OnLoad):
    name = "a sample counts again when it is offered again"
    change: ClassVar[Mapping[str, Any]] = {"down_samples": 1}
    trouble = 0.5

    def weaken(self, history: History) -> None:
        self.replace(load, "BAD", ("replayed",))
        self.replace(
            autoscaler_sight,
            "check",
            lambda pair, reading, kind, now, _: check(pair, reading, kind, now, 0),
        )


class OneSampleIsEnough(OnLoad):
    name = "the first sample that asks for fewer is believed"
    change: ClassVar[Mapping[str, Any]] = {"down_samples": 3}

    def weaken(self, history: History) -> None:
        compiled = compile_blocks

        def hasty(blocks: Sequence[tuple[str, ScalingBlock]]) -> BlockTable:
            return compiled([(name, msgspec.structs.replace(one, down_samples=1)) for name, one in blocks])

        self.replace(autoscaler, "compile_blocks", hasty)


# -------------------------------------------------------------------------------------------------- writers
class DeclaredCountPutBack(OnLoad):
    name = "the reconciler puts back the declared count of what follows load"

    def weaken(self, history: History) -> None:
        count = convergence._count
        self.replace(convergence, "_count", lambda one, *more: count(msgspec.structs.replace(one, scaling=None), *more))


class ExternalIsStopped(OnLoad):
    name = "what another controller writes is stopped and started all the same (need and gate)"
    change: ClassVar[Mapping[str, Any]] = {"controller_mode": "external_hpa"}
    tilt: ClassVar[Mapping[str, Any]] = {**OnLoad.tilt, "people": 0.1, "people_share": 0.5}

    def weaken(self, history: History) -> None:
        for owner in (convergence, gate):
            self.replace(owner, "not_ours", ignore)


class ExternalIsScaled(OnLoad):
    name = "an intent is put for what another controller writes (autoscaler, gate and contract)"
    change: ClassVar[Mapping[str, Any]] = {"controller_mode": "external_hpa"}

    def weaken(self, history: History) -> None:
        self.replace(autoscaler_wishes, "NATIVE", "external_hpa")
        self.replace(gate, "not_ours", ignore)
        self.replace(intent_putting, "unit_refusal", ignore)


INTENTS: Sequence[Callable[[], Planted]] = (
    PutUnderAnOldLease,
    PutOverAnyRevision,
    PutOverWhatRuns,
    PutLater,
    AcceptedUnasked,
    StaleIntentAtCommit1,
    IntentBesideCommit1,
    NoCooldownAtCommit1,
    NoCooldown,
    NoBoundsAtCommit1,
    PausedIsScaled,
    LateYes,
    WithdrawnIsCarriedOut,
    RefusedStaysAccepted,
    EndsWithoutItsApproval,
    WithdrawnWithoutItsIntent,
    SeenBefore,
    BadSamplesCount,
    MissingIsZero,
    ReplaysCount,
    OneSampleIsEnough,
    DeclaredCountPutBack,
    ExternalIsStopped,
    ExternalIsScaled,
)
