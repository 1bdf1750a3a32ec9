"""One seeded history: planes, people and the world on one engine, then calm, then judgement.

The rough part does what the plan's chances say.  Then the faults end, rules are put right, and people answer what is
asked; a clock that was set back stays so.  In the calm everything has to come to rest, by itself where evidence can do
it.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from threading import Event as Signal

import msgspec

from fleetwarden.domain.actions import Kind, Tier
from fleetwarden.domain.fleet import DesiredState, Mode, Presence, Service
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState, WorkState
from fleetwarden.domain.policy import Policy
from fleetwarden.domain.policy_rules import Rule
from fleetwarden.ports.actuation import ActuationCall
from fleetwarden.ports.stores import Page, Tx
from fleetwarden.testing import (
    Answer,
    Delivery,
    Effect,
    FakeConfiguration,
    FakeSubstrate,
    a_configuration,
    a_fleet,
    a_policy,
)
from tests.simulation import engine, trace
from tests.simulation.alerts import Alerts
from tests.simulation.auditor import Auditor, Event, Setup
from tests.simulation.auditor_of_the_ledger import findings_of_the_ledger
from tests.simulation.baton import Baton, SimClock, Task, on_one_processor
from tests.simulation.deploys import ROLLOUTS, Deploys
from tests.simulation.engine import Engine
from tests.simulation.journal import Journal
from tests.simulation.load import Load, contracted
from tests.simulation.others import Others
from tests.simulation.outsiders import KINDS, START_S, STRANGE, Outsiders
from tests.simulation.people import People
from tests.simulation.plan import Nature, Plan, draw
from tests.simulation.plane import BACK_OFF_S, RECONCILER, START_WINDOW_S, WATCH_S, SimPlane
from tests.simulation.planted import Planted
from tests.simulation.voters import Voters
from tests.simulation.weather import prepared

__all__ = ["History", "Verdict", "run"]

CALL_DEADLINE_S = 5.0
STUBBORN_MAX = 4  # calls that a stubborn service refuses; the calm is longer than the pause after them
CALM_MAX_S = 3600.0
CARE_S = 15.0
LEDGER_EVERY = 2  # histories: the offline verifier costs as much as all other rules together
HOT = frozenset(
    {
        *("extend_lease!", "observed", "commit_1?", "commit_1!", "call", "effect", "sent", "answer", "commit_2?"),
        *("signals", "put_intents?", "put_intents!", "authorise_intents?", "authorise_intents!"),
        *("claim!", "events?", "events!", "playbook_step?", "playbook_step!", "playbook_end!"),
    }
)
HEAT = 8  # how much likelier a crash or a stall is there, where it hurts
OPEN_STATES = (OutboxState.PREPARED, OutboxState.RUNNING, OutboxState.RECOVERY_PENDING)


@dataclass(slots=True)
class Verdict:
    """What came of one seed."""

    seed: int
    findings: list[str]
    digest: str
    lines: list[str]
    figures: dict[str, int] = field(default_factory=dict)


class History:
    """Everything of one history.  `run` runs it to its end."""

    def __init__(self, plan: Plan, borrowed: Engine, planted: Planted, *, whole: bool) -> None:
        self.plan = plan
        self.rng = Random(plan.seed ^ 0x5EED)
        self.clock = SimClock()
        self.journal = Journal(whole=whole)
        self.planted = planted
        self.baton = Baton(
            self.rng,
            self.clock,
            note=self._note,
            between=self._between,
            over=lambda: self.finished,
            idle=self._idle,
        )
        borrowed.begin(self.clock)
        self.path, self.engine = borrowed.path, borrowed.store
        self.files = FakeConfiguration(a_configuration(contracted(a_fleet(*plan.services))))
        self.substrates = {name: self._substrate(name, nature) for name, nature in plan.natures.items()}
        self.planes: list[SimPlane] = []
        self.people = People(self, self.rng)
        self.others = Others(self)
        self.load = Load(self)
        self.alerts = Alerts(self)
        self.outsiders = Outsiders(self)
        self.voters = Voters(self)
        self.deploys = Deploys(self)
        self.actors = (self.others, self.load, self.alerts, self.outsiders, self.voters, self.deploys)
        self.landed: set[str] = set()
        self.refused = 0
        self.calm = False
        self.calm_since: Micros = 0
        self.finished = False
        self.findings: list[str] = []
        self._born = 0
        self._outage_until: Micros = 0

    # ---------------------------------------------------------------------------------------------- its course
    def run(self) -> list[str]:
        """Returns what is wrong; empty if nothing is."""
        self.planted.into(self)
        self.declare_rules(self.plan.tier, {})
        self.load.begin()
        for service, count in zip(self.plan.services, self.plan.started, strict=True):
            self.substrates[service.substrate].boot(service.name, count, key="before")
        self.deploys.begin()
        for _ in range(self.plan.planes):
            self._boot_plane()
        self.baton.run()
        uses = self._product_uses()
        self.findings += self.baton.failures
        auditor = Auditor(
            Setup(
                start_window_s=START_WINDOW_S,
                call_s=CALL_DEADLINE_S,
                substrate_of={one.name: one.substrate for one in self.plan.services},
                pause_s=BACK_OFF_S,
                watch_s=WATCH_S,
                event_age_s=self.plan.event_age_s,
                storm_least=self.plan.storm_least,
                outside_start_s=START_S,
                approval_s=self.plan.approval_s,
                seals=self.plan.seals,
            )
        )
        auditor.walk(self._events())
        if not self.findings:
            auditor.finish(uses=uses, since=0)
        self.findings += auditor.findings
        if self.plan.seals:
            auditor.seals.finish(self.path, auditor.newest_time, at_rest=not auditor.findings)
            self.findings += auditor.findings if not self.findings else []
        if not self.findings and (self.plan.seals or self.plan.seed % LEDGER_EVERY == 0):
            self.findings += findings_of_the_ledger(self.path)
        return self.findings

    def _events(self) -> Iterable[Event]:
        told = [Event(one.step, one.table, one.row, one.what) for one in trace.changes(self.path)]
        return sorted([*told, *self.journal.events], key=lambda event: event.step)

    def _note(self, task: str, point: str) -> None:
        self.journal.line(f"{self.clock.elapsed / SECOND:10.6f} {task} at {point}")

    def _between(self, task: Task, point: str) -> None:
        """Once a step: what is due lands, and perhaps something happens."""
        for one in self.substrates.values():
            one.arrive()
        if self.calm:
            return
        if self.baton.steps > self.plan.rough_steps:
            self._calm_down()
            return
        draw, plan, heat = self.rng.random(), self.plan, HEAT if point in HOT else 1
        for chance, happen in (
            (plan.crash * heat, self._crash),
            (plan.stall * heat, lambda: self._stall(task, point)),
            (plan.world, self._world),
            (plan.people, self.people.act),
            (0.002 if plan.clock_steps else 0.0, self._step_clock),
        ):
            if draw < chance:
                happen()
                return
            draw -= chance

    def _idle(self) -> None:
        """Everybody waits.  In the rough part something mostly happens then: histories are not about waiting."""
        if not self.calm and self.rng.random() < 0.7:
            (self.people.act if self.rng.random() < self.plan.people_share else self._world)()

    # ---------------------------------------------------------------------------------------------- planes
    def _boot_plane(self) -> None:
        self._born += 1
        plane = SimPlane(self, f"P{self._born}")
        self.planted.into_plane(plane)
        if self.plan.planes == 1:  # the file lock proves that nobody else lives
            plane.store._at_once("void_leases", lambda tx: tx.leases.void_all())
        self.planes.append(plane)
        plane.start()

    def _crash(self) -> None:
        plane = self.rng.choice(self.planes)
        self.journal.event("crash", plane=plane.name)
        self.planes.remove(plane)
        self.baton.kill(lambda task: task.owner == plane.name)
        self._boot_plane()

    def _stall(self, task: Task, point: str) -> None:
        """The thread that runs stands still, long enough for leases, windows or horizons to pass."""
        seconds = self.rng.choice((0.5, 3.0, 8.0, 30.0, 100.0))
        self.journal.line(f"{task.name} stalls at {point} for {seconds} s")
        self.baton.stall(task, seconds)

    def store_fault(self, name: str) -> str:
        """ "" or where this transaction fails: before it, at its end ("full"), after its commit; or "again": it is
        rolled back at its end because of others, and run once more."""
        if self.calm or not self.plan.store_fault:
            return ""
        if self.clock.elapsed < self._outage_until:
            return "before"
        chance = self.plan.store_fault * (0.1 if name == "read" else 1.0)
        draw = self.rng.random()
        if draw < chance * 0.4:
            self._outage_until = self.clock.elapsed + int(self.rng.random() * 20 * SECOND)
            return "before"
        for share, fault in ((0.6, "after"), (0.75, "full"), (0.9, "again")):
            if draw < chance * share:
                return fault if name != "read" else ""
        return "before" if draw < chance else ""

    # ---------------------------------------------------------------------------------------------- the world
    def _substrate(self, name: str, nature: Nature) -> FakeSubstrate:
        return FakeSubstrate(
            self.clock,
            name,
            lateness_s=nature.lateness_s,
            acknowledged_is_final=nature.final,
            deadline_s=CALL_DEADLINE_S,
            start_s=nature.start_s,
            deliver=lambda call: self._fate(call, nature),
            at=lambda point: self._port(name, point),
            told=self._told,
        )

    def _fate(self, call: ActuationCall, nature: Nature) -> Delivery:
        """What becomes of a call.  In the calm all is well."""
        rng = self.rng
        if not self.calm and call.request.target == self.plan.stubborn and self.refused < STUBBORN_MAX:
            self.refused += 1
            self.journal.line(f"the call is refused, as before ({self.refused})")
            return Delivery(answer=Answer.REFUSED)
        travel = 0.0 if nature.in_process else rng.uniform(0.05, 1.5)
        if self.calm or rng.random() > self.plan.trouble:
            return Delivery(travel_s=travel)
        lateness = 30.0 if nature.lateness_s is None else nature.lateness_s
        what = rng.choice(("refused", "partial", "lost answer", "lost answer", "lost request", "late", "twice"))
        self.journal.line(f"the call is {what}")
        if what == "refused":
            return Delivery(answer=Answer.REFUSED)
        if what == "partial":
            return Delivery(travel_s=travel, instances=1)
        if what == "lost answer":
            return Delivery(travel_s=travel, answer=Answer.LOST)
        if nature.in_process:
            raise ConnectionResetError("the supervisor went away")
        if what == "lost request":
            return Delivery(lands=False)
        if what == "late" or nature.final:
            return Delivery(travel_s=CALL_DEADLINE_S + rng.random() * lateness)
        return Delivery(travel_s=travel, doubled_s=rng.random() * (lateness + CALL_DEADLINE_S))

    def _port(self, substrate: str, point: str) -> None:
        if point == "observed":  # the truth has been read; the answer is still on its way
            self.journal.event("look", substrate=substrate, at=self.engine._time.read())
        self.baton.pause(point)

    def _told(self, effect: Effect) -> None:
        if effect.what == "landed":
            self.landed.add(effect.key)
        self.journal.event(
            "truth",
            what=effect.what,
            key=effect.key,
            kind=effect.kind,
            target=effect.target,
            instance=effect.instance,
            late=effect.late,
            detail=effect.detail,
            plane=self.baton.current.owner,
            mono=effect.at,
        )

    def on_its_way(self, key: str) -> bool:
        return any(key in one.on_its_way for one in self.substrates.values())

    def _world(self) -> None:
        if not self.calm and any(one.act() for one in self.actors):
            return
        rng = self.rng
        service = rng.choice(self.plan.services)
        substrate, name = self.substrates[service.substrate], service.name
        slots = list(substrate.instances(name))
        what = rng.choice(
            (
                *("crash",) * 5,
                *("crash all",) * 2,
                *("revive", "sicken", "heal", "hide", "show", "blur", "fail"),
                *("clear",) * 3,
            )
        )
        self.journal.line(f"world: {what} {name}")
        if what == "crash all":
            for index in slots:
                substrate.crash(name, index)
        elif what in ("crash", "revive", "sicken", "heal") and slots:
            self._one_instance(substrate, what, name, rng.choice(slots))
        elif what == "hide":
            substrate.hidden.add(name)
        elif what == "show":
            substrate.hidden.discard(name)
        elif what == "blur":
            substrate.blurred.add(name)
        elif what == "clear":
            for one in self.substrates.values():
                one.hidden.clear()
                one.blurred.clear()
                one.failing = ""
        elif what == "fail" and rng.random() < 0.3:
            substrate.failing = "connection refused"
        if rng.random() < 0.7:
            self.wake()

    def _one_instance(self, substrate: FakeSubstrate, what: str, name: str, index: int) -> None:
        if getattr(substrate, what)(name, index) and what == "revive":
            self.journal.event("revived", target=name, key=substrate._state(name).slots[index].key)

    def wake(self) -> None:
        """Somebody noticed, as a push observer does: the reconcilers look."""
        for plane in self.planes:
            plane.wakes.wake(RECONCILER)

    def _step_clock(self) -> None:
        """Back at any time.  Forward only while nothing is under way: a horizon is a time of the store's clock, and is
        worth no more than that clock."""
        hours = self.rng.choice((-3, -1, 1, 5))
        under_way = self.engine.read(lambda tx: tx.outbox.in_state(OutboxState.RUNNING, OutboxState.RECOVERY_PENDING))
        if hours > 0 and (under_way or any(one.on_its_way for one in self.substrates.values())):
            return
        self.journal.line(f"the clock steps by {hours} h")
        self.clock.offset += hours * 3600 * SECOND

    # ---------------------------------------------------------------------------------------------- rules
    def declare_rules(self, tier: Tier, special: Mapping[str, Tier]) -> None:
        """A new policy file holds from here on."""
        self.files.declare(policy=self._policy(tier, special))
        self.journal.event(
            "policy",
            default=tier.value,
            targets={name: one.value for name, one in special.items()},
            rate=self.plan.rate,
            blast=self.plan.blast,
        )

    def _policy(self, tier: Tier, special: Mapping[str, Tier]) -> Policy:
        if self.voters.busy:
            rules = self.voters.rules(tier, special)
        else:
            rules = [
                Rule(kind="*", target=name, tier=one, where=f"policy.yml:{line}")
                for line, (name, one) in enumerate(special.items(), 5)
            ]
        policy = a_policy(
            tier, *rules, rate=self.plan.rate, blast=self.plan.blast, approval_expires_s=self.plan.approval_s
        )
        options = msgspec.structs.replace(policy.options, event_max_age_s=self.plan.event_age_s)
        return dataclasses.replace(policy, options=options)

    def freeze_file(self, path: str) -> None:
        self.files.freeze(path)
        self.journal.event("freeze_file", path=path)

    def registry_error(self, error: str) -> None:
        """The registry cannot be read, or can again."""
        good = self.files.current().last_good_fleet
        self.files.declare(fleet=msgspec.structs.replace(good, services={}, error=error) if error else good)
        self.journal.line(f"the registry: {error or 'readable'}")

    # ---------------------------------------------------------------------------------------------- the calm
    def _calm_down(self) -> None:
        self.calm, self.calm_since = True, self.clock.elapsed
        self.journal.line("--- calm")
        for one in self.substrates.values():
            one.hidden.clear()
            one.blurred.clear()
            one.failing = ""
        self.freeze_file("")
        self.registry_error("")
        self.declare_rules(self.plan.last_tier, {})
        self.load.settle()
        self.deploys.settle()
        self.baton.spawn("caretaker", "people", self._care)

    def _care(self) -> None:
        """Answer what is asked until nothing is left to do."""
        plane = self.planes[0]
        until = self.clock.elapsed + CALM_MAX_S * SECOND
        patience: dict[int, int] = {}
        while True:
            if self.engine.read(lambda tx: tx.freezes.active() or tx.overrides.all()):  # also what was on its way
                self.people.thaw(plane)
                self.people.lift_override(plane)
            if self.others.busy or self.load.busy:
                self.others.give_way(plane)
            self.alerts.send_again(plane)
            self.clock.wait(Signal(), CARE_S)
            left = self.unsettled()
            if not left or self.clock.elapsed > until:
                break
            for approval in self.engine.read(lambda tx: tx.approvals.in_state(ApprovalState.PENDING)):
                self.voters.answer(plane, approval)
            for record in self.engine.read(lambda tx: tx.outbox.in_state(OutboxState.RECOVERY_PENDING)):
                patience[record.seq] = patience.get(record.seq, 0) + 1
                if patience[record.seq] > (3 if record.negatives_by_person else 12):  # where evidence cannot tell
                    self.people.attempt(partial(self.people.settle_one, plane, record))
        self.findings += [f"it never comes to rest: {one}" for one in left]
        self.finished = True

    def unsettled(self) -> list[str]:
        """What is left to do before all is at rest."""

        def read(tx: Tx) -> list[str]:
            records = [f"{one.id} is {one.state.value}" for one in tx.outbox.in_state(*OPEN_STATES)]
            asked = [
                f"{one.id} is {one.status.value}"
                for one in tx.approvals.in_state(ApprovalState.PENDING, ApprovalState.GRANTED)
            ]
            work = [
                f"W-{one.seq} ({one.kind}) is {one.state.value}: {one.error}"
                for state in (WorkState.READY, WorkState.LEASED)
                for one in tx.work.list(Page(state=state.value, limit=500))
                if one.kind in ("approved_action", "fleet_event_triage") or state is WorkState.LEASED
            ]
            return [*records, *asked, *work]

        left = self.engine.read(read)
        left += [*self.load.left(), *self.alerts.left(), *self.deploys.left()]
        left += [f"{name} still has requests on their way" for name, one in self.substrates.items() if one.on_its_way]
        if self.plan.last_tier is not Tier.FORBIDDEN:
            left += [f"{one.name} is not as declared" for one in self._services() if not self._as_declared(one)]
        return left

    def _services(self) -> Iterable[Service]:
        return self.files.current().fleet.services.values()

    def _as_declared(self, service: Service) -> bool:
        if service.scaling is not None:
            return self.load.as_load_asks(service)
        if service.mode is not Mode.LIVE:
            return True
        substrate = self.substrates[service.substrate]
        slots = substrate.instances(service.name)
        if service.desired is DesiredState.STOPPED:
            return not any(slots.values())
        if service.replicas == 0:
            return substrate.presence(service.name) is not Presence.STARTED or not slots
        return len(slots) == service.replicas and all(slots.values())

    def _product_uses(self) -> Mapping[tuple[str, str, int], int]:
        kinds = [one.value for one in (Kind.RESTART, Kind.SCALE, Kind.STOP, Kind.START)]
        names = [one.name for one in self.plan.services]
        if self.outsiders.busy:
            kinds, names = [*kinds, *KINDS], [*names, STRANGE]
        if self.deploys.busy:
            kinds = [*kinds, *ROLLOUTS]

        def read(tx: Tx) -> Mapping[tuple[str, str, int], int]:
            return {
                (kind, name, dry): len(tx.decisions.uses(kind, name, 0, dry_run=bool(dry), limit=10_000))
                for kind in kinds
                for name in names
                for dry in (0, 1)
            }

        return self.engine.read(read)


@contextmanager
def _no_collecting() -> Iterator[None]:
    """What a history leaves is collected after it, in one go: looking for it meanwhile costs a tenth of its time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def run(seed: int, planted: Planted | None = None, *, whole: bool = False, plan: Plan | None = None) -> Verdict:
    """Run and judge one seed.  `whole` keeps every line of the history."""
    planted = planted or Planted()
    borrowed = engine.lend()
    try:
        with on_one_processor(), _no_collecting():
            history = History(prepared(planted.plan(plan or draw(seed))), borrowed, planted, whole=whole)
            findings = history.run()
    except BaseException:
        borrowed.close()
        raise
    finally:
        planted.undo()
    if planted.spoils_engine:
        borrowed.close()
    else:
        engine.give_back(borrowed)
    return Verdict(
        seed=seed,
        findings=findings,
        digest=history.journal.digest(),
        lines=list(history.journal.lines),
        figures={
            "steps": history.baton.steps,
            "rough_s": history.calm_since // SECOND,
            "calm_s": (history.clock.elapsed - history.calm_since) // SECOND,
        },
    )
