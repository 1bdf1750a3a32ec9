"""Services that follow load, in every twelfth history: what their signals say, how bad some samples are, who meddles.

Its chances are its own, so that the other histories stay what they were.  Every batch of samples is an event for the
auditor with what was really offered, good or bad, which is all that it ever hears of signals.  A bad sample lies low on
purpose: whoever believes it shrinks something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from fleetwarden.domain.declared_units import contract_of
from fleetwarden.domain.errors import Retryable
from fleetwarden.domain.fleet import DesiredState, Fleet, Mode, Presence, Service
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.domain.lifecycles import IntentState
from fleetwarden.domain.located import Findings, located
from fleetwarden.domain.scaling import read_block
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.domain.signals import (
    Aggregation,
    Definition,
    NoSample,
    Pair,
    Reading,
    Sample,
    SampleFault,
    SignalKind,
    SignalScope,
)
from fleetwarden.ports.stores import Tx

if TYPE_CHECKING:
    from tests.simulation.history import History

__all__ = ["EVERY", "MOVING", "Load", "SimSignals", "contracted", "with_load"]

EVERY, TURN = 12, 4
ACTS = (*("jump",) * 10, *("drop",) * 6, "declare", "pause", "override", *("clear",) * 3, "by hand")
CHANCE = 0.5  # of what happens in the world, how much is about load
TARGET = 10.0
MOVING = (
    IntentState.PROPOSED,
    IntentState.INTENT_ACCEPTED,
    IntentState.RECOVERY_PENDING,
    IntentState.EXECUTED,
    IntentState.OBSERVED,
)
BAD = (
    "unanswered", "missing", "stale", "nan", "infinite", "negative", "absurd", "skewed", "replayed", "other service",
    "other unit", "other aggregation",
)  # fmt: skip


def with_load(seed: int, services: tuple[Service, ...], *, always: bool = False) -> tuple[Service, ...]:
    """These services, of which in every twelfth history some follow load."""
    if seed % EVERY != TURN and not always:
        return services
    rng = Random(seed ^ 0x10AD)
    chosen = set(rng.sample([one.name for one in services], rng.randint(1, len(services))))
    return tuple(
        msgspec.structs.replace(one, scaling=_block(rng, one)) if one.name in chosen else one for one in services
    )


def _block(rng: Random, service: Service) -> ScalingBlock:
    external = service.process is None and rng.random() < 0.15
    written: dict[str, Any] = {
        "min": rng.choice((1, 1, 2)),
        "max": rng.choice((3, 4, 6)),
        "scale_up_step": rng.choice((1, 2, 5)),
        "scale_down_step": rng.choice((1, 2)),
        "cooldown_s": rng.choice((0, 30, 60, 150)),
        "scale_down_stabilization_samples": rng.choice((1, 2, 3)),
        "controller_mode": "external_hpa" if external else "native",
    }
    if rng.random() < 0.3:
        written["signals"] = [{"signal": name, "target": TARGET} for name in ("jobs", "load")]
    else:
        written |= {"signal": "jobs", "target": TARGET}
    if rng.random() < 0.2:
        written["stabilization_window_s"] = 60
    made = read_block(located(written, "fleet.yml", 3), on_kubernetes=True)
    assert isinstance(made, ScalingBlock), made
    return made


def contracted(fleet: Fleet) -> Fleet:
    """With the scaling contract that reading these services from a file would have given."""
    if fleet.error or not any(one.scaling for one in fleet.services.values()):
        return fleet
    catalogue, problems = contract_of(Findings(), {}, fleet.services)
    return msgspec.structs.replace(fleet, catalogue=catalogue, unit_problems=problems)


def declared(_service: str, signal: str) -> Definition:
    """What every signal here is declared as."""
    return Definition(
        name=signal,
        kind=SignalKind.QUEUE,
        unit="items",
        scope=SignalScope.SERVICE,
        aggregation=Aggregation.FLEET_TOTAL,
    )


class Load:
    """`busy`: whether anything follows load in this history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.rng = Random(history.plan.seed ^ 0xDEAD10AD)
        self.blocks = {one.name: one.scaling for one in history.plan.services if one.scaling is not None}
        self.busy = bool(self.blocks)
        self.demand = {
            (name, target.signal): TARGET * self.rng.randint(1, 6)
            for name, block in self.blocks.items()
            for target in block.signals
        }
        self.chance = CHANCE
        self.acts: tuple[str, ...] = ACTS
        self.trouble = self.rng.choice((0.1, 0.3, 0.5))
        self.newest: dict[Pair, Micros] = {}  # when the newest good sample of each pair was measured

    def begin(self) -> None:
        """Tell the auditor what is declared at first."""
        for name in self.blocks:
            self._tell(name)

    def _tell(self, name: str) -> None:
        block = self.blocks[name]
        self._history.journal.event(
            "block",
            service=name,
            mode=block.controller_mode,
            low=block.min,
            high=block.max,
            cooldown_s=block.cooldown_up_s,
            samples=block.down_samples,
            paused=block.paused,
            signals=tuple(one.signal for one in block.signals),
        )

    # ------------------------------------------------------------------------------------------- what happens
    def act(self) -> bool:
        """Perhaps load changes, or somebody meddles with a service that follows it; returns whether."""
        rng, history = self.rng, self._history
        if not self.busy or rng.random() >= self.chance:
            return False
        name = rng.choice(list(self.blocks))
        what = rng.choice(self.acts)
        if self.blocks[name].paused and rng.random() < 0.6:
            what = "pause"  # which ends it
        if what in ("jump", "drop"):
            self._jump(name, 1 if what == "drop" else 8)
        elif what in ("declare", "pause"):
            self.declare(name, what)
        elif history.planes and what == "by hand":
            plane, count = rng.choice(history.planes), rng.randint(1, 5)
            history.people.spawn(plane, "scale", lambda: history.people.scale(plane, name, count))
        elif history.planes:
            plane, act = rng.choice(history.planes), history.others.set if what == "override" else history.others.clear
            history.people.spawn(plane, f"{what}-count", lambda: act(plane, name))
        if rng.random() < 0.7:
            for plane in history.planes:
                plane.wakes.wake("fleet_autoscaler")
        return True

    def _jump(self, name: str, most: int) -> None:
        for service, signal in self.demand:
            if service == name:
                self.demand[service, signal] = TARGET * self.rng.randint(0, most) + self.rng.choice((0.0, 0.3, 5.0))
        self._history.journal.line(f"load of {name} is {[v for (of, _), v in self.demand.items() if of == name]}")

    def declare(self, name: str, what: str) -> None:
        """A block is declared anew: other bounds, or paused, or not any more."""
        rng, files = self.rng, self._history.files
        block = self.blocks[name]
        if files.current().fleet.error:
            return
        if what == "pause":
            block = msgspec.structs.replace(block, paused=not block.paused)
        else:
            low = rng.choice((1, 1, 2))
            block = msgspec.structs.replace(block, min=low, max=rng.choice((low, 3, 4, 6)))
        self._put(name, block)

    def _put(self, name: str, block: ScalingBlock) -> None:
        files = self._history.files
        self.blocks[name] = block
        service = files.current().fleet.services[name]
        files.declare_service(msgspec.structs.replace(service, scaling=block))
        files.declare(fleet=contracted(files.current().fleet))
        self._tell(name)
        self._history.wake()

    # ------------------------------------------------------------------------------------------- the calm
    def settle(self) -> None:
        """Nothing changes any more: every sample is good, and asks for a count within the bounds."""
        for name, block in self.blocks.items():
            if block.paused:
                self._put(name, msgspec.structs.replace(block, paused=False))
            wanted = TARGET * self.rng.randint(block.min, block.max)
            for service, signal in self.demand:
                if service == name:
                    self.demand[service, signal] = wanted

    def left(self) -> list[str]:
        """Intents that are still on their way."""
        if not self.busy:
            return []

        def read(tx: Tx) -> list[str]:
            return [f"{one.id} of {one.intent.service} is {one.state.value}" for one in tx.intents.in_state(*MOVING)]

        return self._history.engine.read(read)

    def as_load_asks(self, service: Service) -> bool:
        """Whether a service that follows load has come to rest where it should."""
        block = self.blocks[service.name]
        substrate = self._history.substrates[service.substrate]
        slots = substrate.instances(service.name)
        started = substrate.presence(service.name) is Presence.STARTED
        if service.mode is not Mode.LIVE:
            return True
        if block.controller_mode != "native":
            stopped = service.desired is DesiredState.STOPPED  # which is the other controller's to do
            return stopped or not started or all(slots.values())
        if service.desired is DesiredState.STOPPED:
            return not any(slots.values())
        if service.replicas == 0 and not started:
            return True  # declared at rest, and never woken
        wanted = max(value for (name, _), value in self.demand.items() if name == service.name) / TARGET
        return started and len(slots) == wanted and all(slots.values())


class SimSignals:
    """A provider as one plane sees it: the baton is passed before it answers, and some of it is bad."""

    name = "sim"

    def __init__(self, history: History, plane: str) -> None:
        self._history, self._plane = history, plane
        self._token = 0
        self._given: dict[Pair, Micros] = {}  # when the newest good samples given under this lease were measured

    def under(self, token: int) -> None:
        """The lease that the next tick runs under.  A replay is of what its holder has used: what another one used and
        left no trace of is news to it."""
        if token != self._token:
            self._given.clear()
        self._token = token

    def signal_values(self, pairs: Sequence[Pair], at: Micros) -> Mapping[Pair, Reading]:
        history, load = self._history, self._history.load
        history.baton.pause("signals")
        rng, trouble = load.rng, 0.0 if history.calm else load.trouble
        if rng.random() < trouble * 0.1:
            history.journal.event("signals", plane=self._plane, offered={})
            raise rng.choice((Retryable("the source hangs up"), ValueError("the source is broken")))
        answers: dict[Pair, Reading] = {}
        offered: dict[str, list[tuple[str, float, int, bool]]] = {}
        for pair in pairs:
            bad = rng.choice(BAD) if rng.random() < trouble else ""
            reading = self._bad(bad, pair, at, rng) if bad else self._good(pair, at, rng)
            if reading is not None:
                answers[pair] = reading
            value, measured = (reading.value, reading.observed_at) if isinstance(reading, Sample) else (-1.0, 0)
            good = not bad and reading is not None
            offered.setdefault(pair.service, []).append((pair.signal, value, measured, good))
        history.journal.event("signals", plane=self._plane, offered=offered)
        return answers

    def _good(self, pair: Pair, at: Micros, rng: Random) -> Reading | None:
        """Fresh, and newer than any before; where no time is left for that, nothing."""
        load = self._history.load
        measured = max(at - int(rng.random() * 15 * SECOND), load.newest.get(pair, 0) + 1)
        if measured > at:
            return None
        load.newest[pair] = self._given[pair] = measured
        return self._sample(pair, load.demand[pair.service, pair.signal], measured)

    def _bad(self, bad: str, pair: Pair, at: Micros, rng: Random) -> Reading | None:
        low = 0.1
        if bad == "unanswered":
            return None
        if bad == "missing":
            return NoSample(service=pair.service, signal=pair.signal, fault=SampleFault.MISSING, reason="no series")
        if bad == "stale":
            return self._sample(pair, low, at - int((121 + rng.random() * 1000) * SECOND))
        if bad == "skewed":
            return self._sample(pair, low, at + int((31 + rng.random() * 1000) * SECOND))
        if bad == "replayed":
            newest = self._given.get(pair, 0)
            return None if newest == 0 else self._sample(pair, low, newest - rng.choice((0, 0, 1, SECOND)))
        values = {"nan": float("nan"), "infinite": float("inf"), "negative": -5.0, "absurd": 1e300}
        sample = self._sample(pair, values.get(bad, low), at)
        if bad == "other service":
            return msgspec.structs.replace(sample, service="somebody-else")
        if bad == "other unit":
            return msgspec.structs.replace(sample, unit="bytes")
        if bad == "other aggregation":
            return msgspec.structs.replace(sample, aggregation=Aggregation.PER_REPLICA)
        return sample

    def _sample(self, pair: Pair, value: float, measured: Micros) -> Sample:
        return Sample(
            service=pair.service,
            signal=pair.signal,
            value=value,
            source=self.name,
            aggregation=Aggregation.FLEET_TOTAL,
            unit="items",
            scope=SignalScope.SERVICE,
            observed_at=measured,
        )
