"""The fences of the product, taken away one by one: each weaker product must be caught by the auditor.

A fault is planted from outside, by replacing one function or by what one transaction gets to see; the product has no
hooks for it.  Where the product has two fences for one danger, both go, and the fault says so.  `tilt` makes the
weather that the fault needs likelier; it changes nothing else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from unittest.mock import patch

import msgspec

from fleetwarden.controllers import approvals, executor, gate, recheck, recovery, restraint, settlement
from fleetwarden.controllers.sightings import Look, Sightings
from fleetwarden.domain import recovery as evidence
from fleetwarden.domain.actions import ActionRequest, LeaseFence, OutboxRecord, Outcome, Tier, Verdict
from fleetwarden.domain.budgets import Use
from fleetwarden.domain.convergence import Need, converge
from fleetwarden.domain.fleet import Mode
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.domain.policy import Ruling
from fleetwarden.domain.recovery import Judgement
from fleetwarden.ports.actuation import ActuationCall
from fleetwarden.ports.configuration import Configuration
from fleetwarden.ports.stores import Tx
from fleetwarden.store.approvals import StoredApprovals
from fleetwarden.store.outbox import StoredOutbox
from tests.simulation.plan import Nature, Plan
from tests.simulation.plane import SimPlane, SimStore
from tests.simulation.weather import NO_WEATHER

if TYPE_CHECKING:
    from tests.simulation.history import History

__all__ = ["FAULTS", "Planted", "Through"]

FAR = 1 << 60
ALONE = {"alerts": False, "event_age_s": 900, "storm_least": 3, "outsiders": False, **NO_WEATHER}


class Planted:
    """One fault, for one history at a time; this one is none.  `undo` takes it out again."""

    name = "none"
    tilt: ClassVar[Mapping[str, Any]] = {}
    spoils_engine = False

    def __init__(self) -> None:
        self._patches: list[Any] = []

    def plan(self, plan: Plan) -> Plan:
        """With the weather that the fault needs; alerts and other systems only where it is about them."""
        return plan if type(self) is Planted else dataclasses.replace(plan, **{**ALONE, **self.tilt})

    def into(self, history: History) -> None:
        """Called before the first plane is built."""

    def into_plane(self, plane: SimPlane) -> None:
        """Called for each plane before it starts."""

    def before(self, name: str, store: SimStore) -> None:
        """Called before a transaction, while others may still run."""

    def tx(self, name: str, tx: Tx) -> Tx:
        """What a transaction of that name gets to see."""
        return tx

    def after(self, name: str) -> None:
        """Called when the transaction is over."""

    def undo(self) -> None:
        while self._patches:
            self._patches.pop().stop()

    def replace(self, owner: Any, attribute: str, new: Any) -> None:
        one = patch.object(owner, attribute, new)
        one.start()
        self._patches.append(one)


class Remote(Planted):
    """Every service is on the remote substrate, whose requests may arrive late and, if not final, twice."""

    lateness_s: ClassVar[float | None] = 20.0
    final = False

    def plan(self, plan: Plan) -> Plan:
        services = tuple(msgspec.structs.replace(one, process=None, mode=Mode.LIVE) for one in plan.services)
        nature = Nature(in_process=False, lateness_s=self.lateness_s, final=self.final, start_s=1.0)
        tilted = dataclasses.replace(plan, services=services, natures={**plan.natures, "": nature})
        return super().plan(tilted)


class Through:
    """Somebody else, but for a few attributes."""

    def __init__(self, target: Any, **changed: Any) -> None:
        self._target, self._changed = target, changed

    def __getattr__(self, name: str) -> Any:
        return self._changed[name] if name in self._changed else getattr(self._target, name)


def ignore(*_: Any, **__: Any) -> None:
    return None


# -------------------------------------------------------------------------------------------------- commit 1
class NoPolicyAtCommit1(Planted):
    name = "policy is not asked again at commit 1"

    def into(self, history: History) -> None:
        allowed = Ruling(verdict=Verdict.ALLOW, code="ok", reason="", rule="", rule_source="", policy_digest="")
        self.replace(recheck, "_policy_again", lambda *_: allowed)


class PolicyBesideCommit1(Planted):
    name = "policy is asked again before commit 1's transaction, not in it"

    def into(self, history: History) -> None:
        self.told: dict[str, Any] = {}
        self.history = history
        self.replace(recheck, "rule_on", lambda tx, c, f, request, **_: self.told[request.key])

    def into_plane(self, plane: SimPlane) -> None:
        carry_out = plane.executor.execute

        def execute(record: OutboxRecord, fence: LeaseFence) -> Any:
            files = self.history.files

            def ask(tx: Tx) -> Any:
                approval = None if record.approval_seq is None else tx.approvals.get(record.approval_seq)
                waives = frozenset(approval.waives if approval else ())
                return gate.rule_on(
                    tx, files.current(), files.freeze_file(), record.request, waives=waives,
                    exclude_decision=record.decision_seq,
                )  # fmt: skip

            self.told[record.key] = plane.store.read(ask)
            return carry_out(record, fence)

        self.replace(plane.executor, "execute", execute)


class NoFreezeAtCommit1(Planted):
    name = "freezes are not read at commit 1"

    def into(self, history: History) -> None:
        def blind(tx: Tx, configuration: Any, _: str, request: ActionRequest, **more: Any) -> Any:
            unfrozen = Through(tx, freezes=Through(tx.freezes, active=tuple))
            return gate.rule_on(unfrozen, configuration, "", request, **more)

        self.replace(recheck, "rule_on", blind)


class FilesBesideTransactions(Planted):
    name = "the policy file is read before the transaction, not in it"
    tilt: ClassVar[Mapping[str, Any]] = {"tier": Tier.AUTO, "people": 0.2, "people_share": 0.7, "rough_steps": 400}

    def into(self, history: History) -> None:
        self.files = history.files
        self.read: dict[str, Configuration] = {}
        self.inside: list[Configuration] = []
        self.current = current = history.files.current
        self.replace(history.files, "current", lambda: self.inside[0] if self.inside else current())
        self.baton = history.baton

    def before(self, name: str, store: SimStore) -> None:
        self.read[self.baton.current.name] = self.current()

    def tx(self, name: str, tx: Tx) -> Tx:
        if name in ("admit", "commit_1"):
            self.inside.append(self.read[self.baton.current.name])
        return tx

    def after(self, name: str) -> None:
        self.inside.clear()


class NoLeaseAtCommit1(Planted):
    name = "the lease is not checked at commit 1"
    tilt: ClassVar[Mapping[str, Any]] = {
        "planes": 2,
        "lease_ttl_s": 5.0,
        "poll_s": 6.0,
        "stall": 0.04,
        "world": 0.2,
        "tier": Tier.AUTO,
        "rough_steps": 500,
    }

    def tx(self, name: str, tx: Tx) -> Tx:
        return unfenced(tx) if name == "commit_1" else tx


class NoLeaseAtCommit2(NoLeaseAtCommit1):
    name = "the lease is not checked at commit 2"

    def tx(self, name: str, tx: Tx) -> Tx:
        return unfenced(tx) if name == "commit_2" else tx


def unfenced(tx: Tx) -> Tx:
    checked: Any = Through(tx, leases=Through(tx.leases, check=lambda _: FAR))
    return checked


class LapsedAuthorisation(Planted):
    name = "an authorisation does not lapse"
    tilt: ClassVar[Mapping[str, Any]] = {"stall": 0.02}

    def tx(self, name: str, tx: Tx) -> Tx:
        if name != "commit_1":
            return tx
        get = tx.outbox.get
        lasting = Through(tx.outbox, get=lambda seq: msgspec.structs.replace(get(seq), expires_at=FAR))
        return Through(tx, outbox=lasting)


class NotNeededAnyMore(Planted):
    name = "nobody asks at commit 1 whether the action is still needed"
    tilt: ClassVar[Mapping[str, Any]] = {"tier": Tier.AUTO, "world": 0.25, "stall": 0.01, "rough_steps": 400}

    def into(self, history: History) -> None:
        self.replace(recheck, "still_needed", ignore)


class NoFreshLook(Planted):
    name = "commit 1 goes by the last look, and nobody compares its age (two fences)"

    def into(self, history: History) -> None:
        self.replace(recheck, "stale_reason", ignore)
        self.replace(gate, "stale_reason", ignore)
        self.replace(Sightings, "look_at", lambda self, service: self.last().get(service.name))


class NoHoldUntilHorizon(Remote):
    name = "a target is not held until its last call's horizon"
    tilt: ClassVar[Mapping[str, Any]] = {"tier": Tier.AUTO}

    def into(self, history: History) -> None:
        self.replace(gate, "held_until", ignore)
        self.replace(recheck, "held_until", ignore)


class NoPauses(Planted):
    name = "what failed three times in a row is tried again at once"
    tilt: ClassVar[Mapping[str, Any]] = {
        "tier": Tier.AUTO,
        "rate": (99, 30),
        "blast": (9, 30),
        "stubborn": "api",
        "rough_steps": 260,
        "world": 0.08,
    }

    def into(self, history: History) -> None:
        self.replace(restraint, "next_try_at", ignore)


class TwoOpenRecords(Planted):
    name = "a target may have several open records (index and check)"
    spoils_engine = True

    def into(self, history: History) -> None:
        history.engine._connection.execute("DROP INDEX outbox_open_target")
        self.replace(gate, "busy_reason", ignore)
        self.replace(approvals, "busy_reason", ignore)


# -------------------------------------------------------------------------------------------------- the call
class CallBeforeTheFence(Planted):
    name = "the actuator is called before commit 1"

    def into_plane(self, plane: SimPlane) -> None:
        carry_out, history = plane.executor.execute, plane.history

        def execute(record: OutboxRecord, fence: LeaseFence) -> Any:
            call_again(history, record)
            return carry_out(record, fence)

        self.replace(plane.executor, "execute", execute)


class NoStartWindow(Planted):
    name = "a call may begin at any time after its fence"
    tilt: ClassVar[Mapping[str, Any]] = {"stall": 0.02}

    def into_plane(self, plane: SimPlane) -> None:
        call = plane.executor._call

        def whenever(record: Any, service: Any, observed: Any, actuator: Any, sent: float, plan: Any) -> Outcome:
            return call(record, service, observed, actuator, plane.history.clock.monotonic(), plan)

        self.replace(plane.executor, "_call", whenever)


class NoFreezeFileBeforeTheCall(Planted):
    name = "a FREEZE file that appears after commit 1 is not looked for"
    tilt: ClassVar[Mapping[str, Any]] = {"people": 0.15}

    def into_plane(self, plane: SimPlane) -> None:
        call = plane.executor._call

        def heedless(*given: Any) -> Outcome:
            with patch.object(plane.history.files, "freeze_file", str):
                return call(*given)

        self.replace(plane.executor, "_call", heedless)


class CalledAgain(Planted):
    name = "an unknown outcome is tried again under its key"

    def into_plane(self, plane: SimPlane) -> None:
        settle = plane.recovery._settle

        def retry(seq: int, fence: LeaseFence) -> int:
            record = plane.store.read(lambda tx: tx.outbox.get(seq))
            if record.state is OutboxState.RECOVERY_PENDING and not record.request.dry_run:
                call_again(plane.history, record)
            return settle(seq, fence)

        self.replace(plane.recovery, "_settle", retry)


def call_again(history: History, record: OutboxRecord) -> None:
    service = history.files.current().last_good_fleet.services[record.request.target]
    history.substrates[service.substrate].actuate(
        ActuationCall(
            key=record.key,
            request=record.request,
            service=service,
            observed=None,
            deadline=history.clock.monotonic() + 5,
        )
    )


# -------------------------------------------------------------------------------------------------- outcomes
class UnknownIsFailed(Planted):
    name = "an unknown outcome is written as failed"

    def into(self, history: History) -> None:
        end = settlement.outbox_end
        self.replace(executor, "outbox_end", lambda told: OutboxState.FAILED if told.unknown_outcome else end(told))


class OldEvidence(Planted):
    name = "an unknown outcome is judged by the last look, whenever that was"

    def into_plane(self, plane: SimPlane) -> None:
        def by_memory(record: OutboxRecord) -> Judgement:
            seen = plane.sightings.last().get(record.request.target)
            now = plane.store.read(lambda tx: tx.now())
            return evidence.judge(record, None if seen is None else msgspec.structs.replace(seen, observed_at=now))

        self.replace(plane.recovery, "_judge", by_memory)


class StampedAtArrival(Remote):
    name = "an observation is dated when it arrives"
    tilt: ClassVar[Mapping[str, Any]] = {
        "poll_s": 6.0,
        "stall": 0.03,
        "tier": Tier.AUTO,
        "trouble": 0.9,
        "rough_steps": 500,
    }

    def into(self, history: History) -> None:
        look = Sightings.look

        def late(self: Sightings, services: Sequence[Any]) -> Look:
            seen = look(self, services)
            at = self._store.read(lambda tx: tx.now())
            dated = {name: msgspec.structs.replace(one, observed_at=at) for name, one in seen.seen.items()}
            return Look(at, dated, seen.failed)

        self.replace(Sightings, "look", late)


class NegativeBeforeHorizon(Planted):
    name = "absence counts before the horizon"

    def into(self, history: History) -> None:
        self.replace(evidence, "after_horizon", lambda *_: True)


class PersonBeforeHorizon(Remote):
    name = "a person may settle as failed before the horizon"
    tilt: ClassVar[Mapping[str, Any]] = {"people": 0.1, "people_share": 0.6, "trouble": 0.9, "rough_steps": 400}

    def into(self, history: History) -> None:
        self.replace(recovery, "after_horizon", lambda *_: True)


class OwnOrphansIgnored(Planted):
    name = "a running record under one's own token is never marked"
    tilt: ClassVar[Mapping[str, Any]] = {"planes": 1, "lease_ttl_s": 600.0, "store_fault": 0.15}

    def into(self, history: History) -> None:
        self.replace(
            recovery.Recovery,
            "_orphan",
            staticmethod(lambda record, fence: record.fence is not None and record.fence.token < fence.token),
        )


class OthersOrphansIgnored(Planted):
    name = "a running record of an earlier holder is never marked"

    def into(self, history: History) -> None:
        self.replace(
            recovery.Recovery,
            "_orphan",
            staticmethod(lambda record, fence: record.fence is not None and record.fence.token == fence.token),
        )


class LiveThreadsMarked(Planted):
    name = "a record that a thread of the same plane carries out is marked"

    def into_plane(self, plane: SimPlane) -> None:
        self.replace(plane.recovery, "_executing", frozenset)


class DatedByTheCall(Planted):
    name = "a settled execution carries the time of the call"

    def tx(self, name: str, tx: Tx) -> Tx:
        if name not in ("settle", "settle_by_person"):
            return tx
        append = tx.executions.append
        dated = Through(
            tx.executions, append=lambda draft: append(msgspec.structs.replace(draft, at=draft.started_at or draft.at))
        )
        return Through(tx, executions=dated)


# -------------------------------------------------------------------------------------------------- approvals
class OpenAfterCommit2(Planted):
    name = "commit 2 does not close the approval"
    names: ClassVar[tuple[str, ...]] = ("commit_2",)
    tilt: ClassVar[Mapping[str, Any]] = {"tier": Tier.APPROVAL_REQUIRED}

    def tx(self, name: str, tx: Tx) -> Tx:
        if name not in self.names:
            return tx
        move = tx.approvals.move

        def unless_closed(seq: int, *, to: ApprovalState, **more: Any) -> Any:
            return None if to is ApprovalState.CLOSED else move(seq, to=to, **more)

        return Through(tx, approvals=Through(tx.approvals, move=unless_closed))


class OpenAfterSettlement(OpenAfterCommit2):
    name = "settling an unknown outcome does not close the approval"
    tilt: ClassVar[Mapping[str, Any]] = {"tier": Tier.APPROVAL_REQUIRED, "trouble": 0.9, "rough_steps": 400}
    names = ("settle", "settle_by_person")


class ExpiresWhileRunning(Remote):
    name = "an approval can expire or be rejected while its action runs (controller and store)"
    lateness_s = None
    final = True
    tilt: ClassVar[Mapping[str, Any]] = {
        "tier": Tier.APPROVAL_REQUIRED,
        "people_share": 0.5,
        "approval_s": 40,
        "trouble": 0.9,
        "crash": 0.0,
        "stall": 0.0,
        "rough_steps": 500,
    }

    def into(self, history: History) -> None:
        self.replace(approvals, "_begun", lambda *_: False)
        self.replace(StoredApprovals, "_refuse_if_under_way", ignore)


class RejectedRuns(Planted):
    name = "a grant that was taken back is carried out all the same (three fences)"
    tilt: ClassVar[Mapping[str, Any]] = {
        "tier": Tier.APPROVAL_REQUIRED,
        "approval_s": 40,
        "people": 0.1,
        "stall": 0.02,
        "rough_steps": 500,
    }

    def into(self, history: History) -> None:
        self.replace(approvals, "_drop_prepared", ignore)
        self.replace(recheck, "_never", lambda record, approval, service, plan: plan.refusal)
        self.replace(StoredOutbox, "_refuse_unless_granted", ignore)


class GrantForWhatIsNeededNow(Planted):
    name = "a grant carries out what is needed now instead of what was asked"
    tilt: ClassVar[Mapping[str, Any]] = {"tier": Tier.APPROVAL_REQUIRED}

    def into_plane(self, plane: SimPlane) -> None:
        again = plane.desk._admit_again

        def anew(tx: Tx, approval: Any, ruling: Any, seen: Any) -> Any:
            need = converge(*seen)
            if isinstance(need, Need):
                wanted = msgspec.structs.replace(approval.request, kind=need.kind, params=need.params)
                approval = msgspec.structs.replace(approval, request=wanted)
            return again(tx, approval, ruling, seen)

        self.replace(plane.desk, "_admit_again", anew)


# -------------------------------------------------------------------------------------------------- budgets
class BudgetBeside(Planted):
    name = "budgets are read before the transaction that spends them"
    tilt: ClassVar[Mapping[str, Any]] = {"tier": Tier.AUTO, "blast": (1, 60), "people": 0.1}

    def into(self, history: History) -> None:
        self.history = history
        self.seen: dict[str, dict[str, list[Use]]] = {}

    def before(self, name: str, store: SimStore) -> None:
        if name not in ("admit", "admit_grant", "commit_1"):
            return

        def read(tx: Tx) -> dict[str, list[Use]]:
            return {
                kind: [
                    use
                    for service in self.history.plan.services
                    for use in tx.decisions.uses(kind, service.name, 0, dry_run=False, limit=1000)
                ]
                for kind in ("restart_service", "scale_service", "stop_service", "start_service")
            }

        self.seen[self.history.baton.current.name] = self.history.engine.read(read)

    def tx(self, name: str, tx: Tx) -> Tx:
        if name not in ("admit", "admit_grant", "commit_1"):
            return tx
        remembered = self.seen[self.history.baton.current.name]

        def uses(kind: str, target: str, since: int, *, dry_run: bool, limit: int) -> Sequence[Use]:
            if dry_run:
                return tx.decisions.uses(kind, target, since, dry_run=True, limit=limit)
            return [one for one in remembered.get(kind, []) if one.target == target and one.at > since][:limit]

        def targets(kind: str, since: int, *, dry_run: bool) -> Sequence[Use]:
            if dry_run:
                return tx.decisions.targets(kind, since, dry_run=True)
            newest = {one.target: one for one in reversed(remembered.get(kind, [])) if one.at > since}
            return list(newest.values())

        return Through(tx, decisions=Through(tx.decisions, uses=uses, targets=targets))


class PreparedLater(Planted):
    name = "the decision and its record are written in two transactions"
    tilt: ClassVar[Mapping[str, Any]] = {"crash": 0.03, "tier": Tier.AUTO}

    def into_plane(self, plane: SimPlane) -> None:
        prepare = plane.gate.prepare

        def later(tx: Tx, decision: Any, approval: Any) -> gate.Admission:
            tx.after_commit(
                lambda: plane.store.transact("late_prepare", lambda again: ignore(prepare(again, decision, approval)))
            )
            return gate.Admission(request=decision.request, answer=gate.Answer.PREPARED, reason="soon")

        self.replace(plane.gate, "prepare", later)


# -------------------------------------------------------------------------------------------------- the store
class ToldThoughRolledBack(Planted):
    name = "a caller whose transaction was rolled back at its end is told that it was committed"
    tilt: ClassVar[Mapping[str, Any]] = {"store_fault": 0.15, "tier": Tier.AUTO}

    def into(self, history: History) -> None:
        self.replace(SimStore, "_tell_full", lambda self, value: value)


class StaleFirstRun(Planted):
    name = "a transaction that has to run again answers with what its first run found"
    tilt: ClassVar[Mapping[str, Any]] = {"store_fault": 0.3, "tier": Tier.AUTO, "people": 0.2, "rough_steps": 500}

    def into(self, history: History) -> None:
        again = SimStore._rolled_back
        at_once = SimStore._at_once
        first: dict[tuple[str, str], Any] = {}

        def remember(self: SimStore, name: str, fn: Callable[[Tx], Any]) -> Any:
            value = first[self._plane, name] = again(self, name, fn)
            return value

        def answer(self: SimStore, name: str, fn: Callable[[Tx], Any]) -> Any:
            value = at_once(self, name, fn)
            return first.pop((self._plane, name), value)

        self.replace(SimStore, "_rolled_back", remember)
        self.replace(SimStore, "_at_once", answer)


FAULTS: Sequence[Callable[[], Planted]] = (
    NoPolicyAtCommit1,
    PolicyBesideCommit1,
    NoFreezeAtCommit1,
    FilesBesideTransactions,
    NoLeaseAtCommit1,
    NoLeaseAtCommit2,
    LapsedAuthorisation,
    NotNeededAnyMore,
    NoFreshLook,
    NoHoldUntilHorizon,
    NoPauses,
    TwoOpenRecords,
    CallBeforeTheFence,
    NoStartWindow,
    NoFreezeFileBeforeTheCall,
    CalledAgain,
    UnknownIsFailed,
    OldEvidence,
    StampedAtArrival,
    NegativeBeforeHorizon,
    PersonBeforeHorizon,
    OwnOrphansIgnored,
    OthersOrphansIgnored,
    LiveThreadsMarked,
    DatedByTheCall,
    OpenAfterCommit2,
    OpenAfterSettlement,
    ExpiresWhileRunning,
    RejectedRuns,
    GrantForWhatIsNeededNow,
    BudgetBeside,
    PreparedLater,
    ToldThoughRolledBack,
    StaleFirstRun,
)
