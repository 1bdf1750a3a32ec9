"""Versions, in every twelfth history: people declare, deploy and roll back, and some versions are no good.

Their chances are their own, so that the other histories stay what they were.  A broken version ends as soon as it is
started; a frail one is killed a moment later, within its watch.  People mend what is broken, and clear what was set
aside, with or without having mended it.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import msgspec

from fleetwarden.app.identity import local_admin
from fleetwarden.app.watch_views import Quarantining
from fleetwarden.domain.actions import Kind, Source, Tier
from fleetwarden.domain.fleet import DesiredState, Mode, Service
from fleetwarden.ports.stores import Tx
from fleetwarden.testing import a_request
from tests.simulation.weather import VERSIONS

if TYPE_CHECKING:
    from tests.simulation.history import History
    from tests.simulation.plane import SimPlane

__all__ = ["ROLLOUTS", "Deploys"]

ROLLOUTS = (Kind.DEPLOY.value, Kind.ROLLBACK.value)
CHANCE = 0.75  # of what happens in the world, how much is about versions
ACTS = (*("declare",) * 6, *("deploy",) * 2, "roll back", "break", "mend", *("fall",) * 8, "clear")


class Deploys:
    """`busy`: whether anything has versions in this history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._rng = Random(history.plan.seed ^ 0xDE9107)
        self.busy = history.plan.deploys
        self.chance = CHANCE
        self.acts: tuple[str, ...] = ACTS
        self.frail = self._rng.choice(VERSIONS[1:])
        self.names = [one.name for one in history.plan.services if one.process is not None and one.process.versions]

    def begin(self) -> None:
        """What runs at first runs in the first version, and the auditor is told what is declared."""
        if not self.busy:
            return
        history, substrate = self._history, self._history.substrates["process"]
        substrate.broken |= set(self._rng.choice(((), (), (self.frail,))))
        for name in self.names:
            self.declare(name, self._rng.choice([one for one in VERSIONS if one != self.frail]))
            if substrate.instances(name):
                substrate.deployed(name, VERSIONS[0])
            substrate._state(name).version = VERSIONS[0]
            substrate._state(name).writer = ""
        history.journal.line(
            f"versions of {', '.join(self.names)}; frail: {self.frail}, broken: {sorted(substrate.broken)}"
        )

    def _tell(self, name: str) -> None:
        service = self._history.files.current().last_good_fleet.services[name]
        assert service.process is not None
        final = [one for one, spec in service.process.versions.items() if spec.irreversible]
        self._history.journal.event("versioned", service=name, version=service.version, irreversible=final)

    # ------------------------------------------------------------------------------------------- what happens
    def act(self) -> bool:
        """Perhaps something happens that is about versions; returns whether."""
        rng, history = self._rng, self._history
        if not self.busy or rng.random() >= self.chance or not history.planes or not self.names:
            return False
        what, name = rng.choice(self.acts), rng.choice(self.names)
        substrate = history.substrates["process"]
        frail = [one for one in self.names if self._frail_run(one)]
        if frail and rng.random() < 0.6:
            what, name = "fall", rng.choice(frail)
        if what == "declare":
            self.declare(name, rng.choice((*VERSIONS, self.frail)))
        elif what == "break":
            substrate.broken.add(self.frail)
        elif what == "mend":
            substrate.broken.clear()
        elif what == "fall":
            self._fall(name)
        else:
            plane, act = rng.choice(history.planes), getattr(self, f"_{what.replace(' ', '_')}")
            history.people.spawn(plane, what.replace(" ", "-"), lambda: act(plane, name))
        if rng.random() < 0.8:
            history.wake()
        return True

    def declare(self, name: str, version: str) -> None:
        files = self._history.files
        if files.current().fleet.error:
            self._history.registry_error("")
        service = files.current().fleet.services[name]
        files.declare_service(msgspec.structs.replace(service, version=version))
        self._history.journal.line(f"{name} is declared in version {version}")
        self._tell(name)

    def _fall(self, name: str) -> None:
        """What runs of the frail version ends, a moment after its start."""
        for index in self._frail_run(name):
            self._history.substrates["process"].crash(name, index)

    def _frail_run(self, name: str) -> list[int]:
        """The slots of it that live and run the frail version."""
        substrate = self._history.substrates["process"]
        lives = substrate.instances(name)
        return [index for index, one in substrate.versions(name).items() if one == self.frail and lives[index]]

    def _deploy(self, plane: SimPlane, name: str) -> None:
        self._ask(plane, name, Kind.DEPLOY)

    def _roll_back(self, plane: SimPlane, name: str) -> None:
        self._ask(plane, name, Kind.ROLLBACK)

    def _ask(self, plane: SimPlane, name: str, kind: Kind) -> None:
        rng, by = self._rng, self._rng.choice(("alice", "bob", "olga"))
        service = self._history.files.current().last_good_fleet.services[name]
        if service.mode is Mode.OBSERVE:
            return
        version = rng.choice(VERSIONS)
        request = a_request(
            service,
            kind=kind,
            params={"version": version},
            key=plane.ids.new(),
            source=Source.OPERATOR,
            requested_by=by,
            reason="a wish",
        )
        [answer] = plane.gate.admit([request], fence=None)
        self._history.journal.line(f"{by} asked for {kind} {name} {version}: {answer.answer.value}, {answer.reason}")

    def _clear(self, plane: SimPlane, name: str) -> None:
        self._history.journal.event("cleared", service=name)
        fleet = self._history.files.current().last_good_fleet
        Quarantining(plane.store, lambda: fleet, plane.wakes).clear(local_admin(), name, reason="mended")

    # ------------------------------------------------------------------------------------------- the calm
    def settle(self) -> None:
        """Every version is good from here on."""
        if self.busy:
            self._history.substrates["process"].broken.clear()

    def left(self) -> list[str]:
        """What is left to do before every version is as declared, or as it was set aside."""
        history = self._history
        if not self.busy or history.plan.last_tier is Tier.FORBIDDEN:
            return []
        services = history.files.current().fleet.services
        held = history.engine.read(self._held)
        return [
            f"{name} runs {sorted(set(history.substrates['process'].versions(name).values()))}, "
            f"{services[name].version} is declared"
            for name in self.names
            if self._differs(services[name]) and name not in held
        ]

    def _held(self, tx: Tx) -> set[str]:
        """Services of which something was set aside or rolled back: what they run is for people to say."""
        latest = tx.versions.latest()
        back = {name for name, one in latest.items() if one.kind == Kind.ROLLBACK}
        return back | {one.service for one in tx.quarantines.standing()}

    def _differs(self, service: Service) -> bool:
        live = service.mode is Mode.LIVE and service.desired is DesiredState.RUNNING
        runs = set(self._history.substrates["process"].versions(service.name).values())
        return live and service.version != "" and bool(runs - {service.version})
