"""What people do in a history: answer approvals, freeze and thaw, change the rules, ask for things, settle.

Each act is a thread of its own that belongs to the plane it talks to, and dies with it.  A refusal is an answer like
any other.  People know the truth where the product cannot (they look at the substrate), and are otherwise careless.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import msgspec

from fleetwarden.domain.actions import ActionApproval, Kind, OutboxRecord, Source, Tier
from fleetwarden.domain.errors import FleetError
from fleetwarden.domain.fleet import DesiredState, Mode
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.ports.stores import Page, Tx
from fleetwarden.testing import a_request
from tests.simulation.plane import SimPlane

if TYPE_CHECKING:
    from tests.simulation.history import History

__all__ = ["People"]

NAMES = ("alice", "bob", "olga")
FORBIDDEN, ALLOWED = Tier.FORBIDDEN.value, Tier.AUTO.value


class People:
    """Acts are drawn by weight.  `calm` people only help the fleet to come to rest."""

    def __init__(self, history: History, rng: Random) -> None:
        self._history, self._rng = history, rng
        self._keys: list[str] = []
        self._count = 0
        self._acts: list[Callable[[SimPlane], object]] = [
            *[self.answer] * 10,
            *[self.answer_twice] * 2,
            *[self.reject] * 2,
            *[self.propose] * 4,
            *[self.settle] * 2,
            self.freeze,
            *[self.thaw] * 2,
            self.override,
            *[self.lift_override] * 2,
        ]

    def act(self) -> None:
        """Somebody does something; as often as not a thing that needs no plane."""
        rng = self._rng
        if rng.random() < 0.25:
            rng.choice((self.change_rules, self.change_rules, self.touch_freeze_file, self.declare, self.break_files))()
            return
        if self._history.files.freeze_file() and rng.random() < 0.3:
            self.touch_freeze_file()
        plane, act = rng.choice(self._history.planes), rng.choice(self._acts)
        self.spawn(plane, act.__name__, lambda: act(plane))

    def spawn(self, plane: SimPlane, what: str, act: Callable[[], object]) -> None:
        self._count += 1
        self._history.baton.spawn(f"{plane.name}:person-{self._count}-{what}", plane.name, lambda: self.attempt(act))

    def attempt(self, act: Callable[[], object]) -> None:
        try:
            act()
        except FleetError as error:
            self._history.journal.line(f"a person is told: {error}")

    # ---------------------------------------------------------------------------------------- approvals
    def answer(self, plane: SimPlane) -> None:
        """Grant something that is on the list, or was on it a moment ago."""
        approval = self._an_approval(ApprovalState.PENDING)
        if approval is not None:
            self.grant(plane, approval, self._rng.choice(NAMES))

    def answer_twice(self, plane: SimPlane) -> None:
        """Two people press the button at once; or one does, twice."""
        approval = self._an_approval(ApprovalState.PENDING)
        if approval is not None:
            first, second = self._rng.choice(NAMES), self._rng.choice(NAMES)
            self.spawn(plane, "grant", lambda: self.grant(plane, approval, first))
            self.spawn(plane, "grant", lambda: self.grant(plane, approval, second))

    def grant(self, plane: SimPlane, approval: ActionApproval, by: str) -> None:
        self._history.journal.event("yes", approval=approval.seq, by=by, digest=approval.digest)
        teams = self._history.voters.teams(by)
        answer, _, why = plane.desk.grant(approval.seq, by=by, reason="it is needed", teams=teams)
        if self._history.voters.busy:
            self._history.journal.event("heard", approval=approval.seq, by=by, what=answer.value)
        self._history.journal.line(f"{by} granted {approval.id}: {answer.value}, {why}")

    def reject(self, plane: SimPlane) -> None:
        approval = self._an_approval(ApprovalState.PENDING, ApprovalState.GRANTED)
        if approval is not None:
            self.say_no(plane, approval, self._rng.choice(NAMES))

    def say_no(self, plane: SimPlane, approval: ActionApproval, by: str) -> None:
        self._history.journal.event("no", approval=approval.seq, by=by)
        plane.desk.reject(approval.seq, by=by, reason="not now", teams=self._history.voters.teams(by))

    def _an_approval(self, *states: ApprovalState) -> ActionApproval | None:
        engine, rng = self._history.engine, self._rng
        found = list(engine.read(lambda tx: tx.approvals.in_state(*states)))
        if not found or rng.random() < 0.1:
            found = list(engine.read(lambda tx: tx.approvals.list(Page(limit=5))))
        return rng.choice(found) if found else None

    # ---------------------------------------------------------------------------------------- requests
    def propose(self, plane: SimPlane) -> None:
        """Ask for an action; at times with a key that was used before, for the same thing or for another."""
        rng, fleet = self._rng, self._history.files.current().last_good_fleet
        service = rng.choice(list(fleet.services.values()))
        if service.mode is Mode.OBSERVE:
            return
        kind = rng.choice((Kind.RESTART, Kind.RESTART, Kind.SCALE, Kind.STOP, Kind.START))
        params: dict[str, int] = {}
        if kind in (Kind.SCALE, Kind.START):
            params["replicas"] = rng.randint(1, 4)
        elif kind is Kind.RESTART and rng.random() < 0.5:
            params["replica"] = rng.randint(0, service.replicas)
        if self._keys and rng.random() < 0.15:
            key = rng.choice(self._keys)
        else:
            key = plane.ids.new()
            self._keys.append(key)
        by = rng.choice(NAMES)
        request = a_request(
            service, kind=kind, params=params, key=key, source=Source.OPERATOR, requested_by=by, reason="a wish"
        )
        [answer] = plane.gate.admit([request], fence=None)
        self._history.journal.line(f"{by} asked for {kind} {service.name}: {answer.answer.value}, {answer.reason}")

    def scale(self, plane: SimPlane, name: str, count: int) -> None:
        """A person sets the count of a service that follows load, once and by hand."""
        service = self._history.files.current().last_good_fleet.services[name]
        if service.mode is Mode.OBSERVE:
            return
        request = a_request(
            service,
            kind=Kind.SCALE,
            params={"replicas": count},
            key=plane.ids.new(),
            source=Source.OPERATOR,
            requested_by="olga",
            reason="by hand",
        )
        [answer] = plane.gate.admit([request], fence=None)
        self._history.journal.line(f"olga scales {name} to {count}: {answer.answer.value}, {answer.reason}")

    # ---------------------------------------------------------------------------------------- unknown outcomes
    def settle(self, plane: SimPlane) -> None:
        """Settle an unknown outcome by the truth, as far as anybody can know it; perhaps too early."""
        found = self._history.engine.read(lambda tx: tx.outbox.in_state(OutboxState.RECOVERY_PENDING))
        if found:
            self.settle_one(plane, self._rng.choice(list(found)))

    def settle_one(self, plane: SimPlane, record: OutboxRecord) -> None:
        history = self._history
        happened = record.key in history.landed
        if not happened and record.negatives_by_person and history.on_its_way(record.key):
            return  # no bound is known, and it can be seen to be on its way
        plane.recovery.settle_by_person(record.seq, succeeded=happened, reason="I looked", by="alice")

    # ---------------------------------------------------------------------------------------- rules
    def freeze(self, plane: SimPlane) -> None:
        for_s = self._rng.choice((None, 5, 5, 30))

        def run(tx: Tx) -> None:
            tx.lock_admission(exclusive=True)
            until = None if for_s is None else tx.now() + for_s * SECOND
            tx.freezes.add(owner="alice", reason="wait", until=until)

        plane.store.transact("freeze_on", run)

    def thaw(self, plane: SimPlane) -> None:
        def run(tx: Tx) -> None:
            tx.lock_admission(exclusive=True)
            for one in tx.freezes.active():
                tx.freezes.lift(one.seq, "alice")

        plane.store.transact("freeze_off", run)

    def override(self, plane: SimPlane) -> None:
        """A rule for one service, written at run time."""
        name = self._rng.choice(self._history.plan.services).name
        rule = {"kind": "*", "target": name, "tier": self._rng.choice((FORBIDDEN, ALLOWED))}
        active = self._rng.random() < 0.8

        def run(tx: Tx) -> None:
            tx.lock_admission(exclusive=True)
            tx.overrides.put(f"for-{name}", rule, active=active, by="alice")

        plane.store.transact("put_override", run)

    def lift_override(self, plane: SimPlane) -> None:
        def run(tx: Tx) -> None:
            tx.lock_admission(exclusive=True)
            for one in tx.overrides.all():
                tx.overrides.delete(one.id)

        plane.store.transact("delete_override", run)

    def change_rules(self) -> None:
        """A new policy file: another default, perhaps a rule of its own for one service."""
        rng, plan = self._rng, self._history.plan
        special = {}
        if rng.random() < 0.4:
            special[rng.choice(plan.services).name] = rng.choice(list(Tier))
        self._history.declare_rules(rng.choice((*Tier, plan.tier, plan.tier)), special)

    def touch_freeze_file(self) -> None:
        self._history.freeze_file("" if self._history.files.freeze_file() else "FREEZE")

    def break_files(self) -> None:
        """The registry cannot be read for a while."""
        self._history.registry_error("" if self._history.files.current().fleet.error else "fleet.yml:3 is broken")

    def declare(self) -> None:
        """A service is declared anew: another count, another state, another mode."""
        rng, files = self._rng, self._history.files
        if files.current().fleet.error:
            self._history.registry_error("")
        service = rng.choice(list(files.current().fleet.services.values()))
        change = rng.choice(
            (
                {"replicas": rng.randint(0, 3)},
                {"replicas": rng.randint(1, 3)},
                {"desired": rng.choice(list(DesiredState))},
                {"desired": DesiredState.RUNNING},
                {"mode": rng.choice(list(Mode))},
                {"mode": Mode.LIVE},
                {"version": rng.choice(("", "1", "2"))},
            )
        )
        if "version" in change and service.name in self._history.deploys.names:
            self._history.deploys.declare(service.name, str(change["version"]) or "3")
            return
        files.declare_service(msgspec.structs.replace(service, **change))
        self._history.journal.line(f"{service.name} is declared anew: {change}")
        self._history.wake()
