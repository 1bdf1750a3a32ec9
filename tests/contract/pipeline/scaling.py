"""The bench with an autoscaler: one native service `web`, signals that a test sets."""

from __future__ import annotations

from typing import Any

from fleetwarden.controllers.autoscaler import CADENCE, Autoscaler
from fleetwarden.controllers.autoscaler_report import AutoscaleEvaluation
from fleetwarden.controllers.intent_desk import IntentDesk
from fleetwarden.domain.fleet import Service
from fleetwarden.domain.located import located
from fleetwarden.domain.policy import Policy
from fleetwarden.domain.scaling import read_block
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.domain.signals import Definition
from fleetwarden.ports.intents import IntentRow
from fleetwarden.ports.stores import Page
from fleetwarden.testing import FakeSignals, a_fleet, a_policy, a_service
from tests.contract.pipeline.conftest import Bench

BLOCK = {"min": 1, "max": 6, "signal": "q", "target": 10, "scale_up_step": 9, "scale_down_step": 9, "cooldown_s": 100}


def block(**over: Any) -> ScalingBlock:
    made = read_block(located({**BLOCK, **over}, "fleet.yml", 3), on_kubernetes=True)
    assert isinstance(made, ScalingBlock), made
    return made


def scaled(name: str = "web", **over: Any) -> Service:
    fields = {key: over.pop(key) for key in ("mode", "desired", "owner") if key in over}
    return a_service(name, replicas=2, scaling=block(**over), **fields)


class Scaling:
    """Ticks by hand.  `signals` answers for every service."""

    def __init__(self, bench: Bench, *services: Service, policy: Policy | None = None, actions_max: int = 5) -> None:
        self.bench = bench
        self.signals = FakeSignals()
        self.declared: dict[str, Definition] = {}
        self.declare(*(services or (scaled(),)), policy=policy)
        self.desk = IntentDesk(bench.store, bench.files, bench.wakes, bench.gate.texts)
        self.actions_max = actions_max
        self.restart()

    def restart(self) -> None:
        """Another life of the autoscaler over the same store."""
        bench = self.bench
        self.autoscaler = Autoscaler(
            bench.store,
            bench.files,
            bench.sightings,
            bench.supervision,
            self.desk,
            self.signals,
            declared=lambda _service, signal: self.declared.get(signal),
            acting=frozenset({""}),
            actions_max=self.actions_max,
        )

    def declare(self, *services: Service, policy: Policy | None = None) -> None:
        self.bench.files.declare(fleet=a_fleet(*services), policy=policy or a_policy())

    def load(self, value: float, name: str = "web", *, age_s: float = 0.0) -> None:
        self.signals.set(name, "q", value, age_s=age_s)

    def tick(self, seconds: float = 15.0) -> AutoscaleEvaluation:
        """One tick, and time goes on."""
        self.bench.clock.advance(seconds)
        self.bench.look()  # health rests on a look
        return self.autoscaler.run(self.bench.fence(CADENCE))

    def code(self, name: str = "web") -> str:
        told = self.autoscaler.standing(name)
        return "" if told is None else told.code

    def round(self, seconds: float = 15.0) -> AutoscaleEvaluation:
        """A tick, a pass and the executor."""
        report = self.tick(seconds)
        self.bench.look()
        self.bench.act()
        return report

    def intents(self) -> list[IntentRow]:
        """Newest first."""
        return list(self.bench.store.read(lambda tx: tx.intents.list(Page(limit=500))))

    def states(self) -> list[str]:
        """Oldest first."""
        return [one.state.value for one in reversed(self.intents())]

    def count(self, name: str = "web") -> int:
        return len(self.bench.substrate.instances(name))
