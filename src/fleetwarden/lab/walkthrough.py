"""The walk-through: what scaling on load does, shown step by step by a real plane in a world of fakes.

Plane, autoscaler, policy, gate, executor and a SQLite store are the product's own; the clock is set by hand, signals
and replicas are the test kit's.  Nothing sleeps, nothing goes over a network, and nothing but the given folder is
touched.  Each step says what is expected and what came: one that differs is a fault of the product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from fleetwarden.app.bootstrap import Plane
from fleetwarden.app.logs import start_logging, stop_logging
from fleetwarden.app.settings import load_settings
from fleetwarden.domain.actions import ActionExecution
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.domain.signals import Aggregation, Pair, Sample, SampleFault
from fleetwarden.ports.stores import Page
from fleetwarden.testing import FakeClock, FakeSignals, FakeSubstrate

__all__ = ["Step", "walk"]

TICK_S: Final = 15.0
COOLDOWN_S: Final = 300.0
JUST_US: Final[Micros] = 10_000  # before the end of a cooldown
TARGET, BUSY, QUIET = 60.0, 90.0, 40.0
REGISTRY: Final = f"""\
version: 1
services:
  - name: atlas
    replicas: 3
    scaling: {{min: 2, max: 4, signal: load, target: {TARGET:g}, scale_up_step: 2, cooldown_s: {COOLDOWN_S:g}}}
  - name: nervous
    replicas: 4
    scaling: &dips {{min: 1, max: 8, signal: load, target: {TARGET:g}, cooldown_s: 0, scale_up_step: 8,
                     scale_down_step: 8, scale_down_stabilization_samples: 1}}
  - name: calm
    replicas: 4
    scaling: {{<<: *dips, stabilization_window_s: 120}}
"""
POLICY: Final = """\
version: 1
rules:
  - {kind: "*_service", target: "*", tier: auto, rate_limit: {max: 1000, window_s: 3600},
     blast_radius: {max_targets: 1000, window_s: 3600}}
"""


class Step(NamedTuple):
    """One thing that was looked at.  `at`: seconds since the walk began."""

    chapter: str
    at: float
    what: str
    expected: str
    seen: str

    @property
    def ok(self) -> bool:
        return self.expected == self.seen


def walk(folder: Path, tell: Callable[[Step], None] = lambda _: None) -> list[Step]:
    """All steps, each handed to `tell` as it is done.  `folder`: an empty one, for the files and the store."""
    (folder / "fleet.yml").write_text(REGISTRY, encoding="utf-8")
    (folder / "policy.yml").write_text(POLICY, encoding="utf-8")
    (folder / "data").mkdir()
    world = _World(folder, tell)
    with world.plane():
        _growing(world)
        _cooling(world)
        _missing(world)
    with world.plane():
        _restarted(world)
        _windows(world)
    return world.steps


class _World:
    """Clock, fleet and signals outlive the planes that look at them."""

    def __init__(self, folder: Path, tell: Callable[[Step], None]) -> None:
        self._folder = folder
        self._tell = tell
        self.clock = FakeClock()
        self._began = self.clock.now()
        self.fleet = FakeSubstrate(self.clock)
        self.values = {("atlas", "load"): TARGET, ("nervous", "load"): TARGET, ("calm", "load"): TARGET}
        self.signals = FakeSignals(self.values, aggregation=Aggregation.PER_REPLICA, unit="percent")
        for name, replicas in (("atlas", 3), ("nervous", 4), ("calm", 4)):
            self.fleet.boot(name, replicas)
        self.steps: list[Step] = []
        self._plane: Plane | None = None
        self._chapter = ""

    @contextmanager
    def plane(self) -> Iterator[None]:
        """One life of a plane, on the store that the one before left."""
        switches = {"FLEET_RECONCILER": "1", "FLEET_AUTOSCALER": "1", "FLEET_DATA_DIR": str(self._folder / "data")}
        settings = load_settings(self._folder, switches)
        start_logging(settings)
        self._plane = Plane(
            settings, actuators={"": self.fleet}, observers=[self.fleet], signals=self.signals, clock=self.clock
        )
        try:
            yield
        finally:
            self._plane.stop()
            self._plane = None
            stop_logging()

    def chapter(self, words: str) -> None:
        self._chapter = words

    def load(self, value: float, *services: str) -> None:
        for name in services or ("atlas",):
            self.signals.set(name, "load", value)

    def reading(self, service: str) -> str:
        """What the signals answer for that service: a value, or why there is none."""
        pair = Pair(service=service, signal="load")
        found = self.signals.signal_values([pair], self.clock.now())[pair]
        return f"{found.value:g}" if isinstance(found, Sample) else found.fault.value

    def round(self, seconds: float = TICK_S) -> None:
        """Time goes on; then a look, a tick, and what it asked for is carried out."""
        assert self._plane is not None
        self.clock.advance(seconds)
        for cadence in ("fleet_reconciler", "fleet_autoscaler", "fleet_reconciler", "action_executor"):
            self._plane.tick(cadence)

    def count(self, name: str = "atlas") -> int:
        return len(self.fleet.instances(name))

    def code(self, name: str = "atlas") -> str:
        """Why the last tick did what it did."""
        assert self._plane is not None
        told = self._plane.autoscaling.standing(name)
        return "" if told is None else told.code

    def executions(self) -> list[ActionExecution]:
        assert self._plane is not None
        return list(self._plane.store.read(lambda tx: tx.executions.list(Page(target="atlas", limit=100))))

    def scaled_at(self) -> Micros:
        """When the count of `atlas` changed last, by the ledger."""
        return max(one.at for one in self.executions() if one.ok)

    def until(self, moment: Micros) -> None:
        """Rounds until exactly that moment, each a tick apart; the last one is the caller's."""
        while (left := (moment - self.clock.now()) / SECOND) > TICK_S:
            self.round()
        self.clock.advance(left)

    def look(self, what: str, expected: object, seen: object) -> None:
        at = (self.clock.now() - self._began) / SECOND
        step = Step(self._chapter, at, what, str(expected), str(seen))
        self.steps.append(step)
        self._tell(step)


def _growing(world: _World) -> None:
    world.chapter("More load than the target")
    world.round()
    world.look("3 replicas at 60 of 60 each: the count stays", "3 (deadband)", f"{world.count()} ({world.code()})")
    world.load(BUSY)
    world.round()
    world.look("each at 90: 3 × 90 / 60 = 4.5, which is 5, and max says 4", 4, world.count())
    [done] = world.executions()
    world.look("carried out once, after a decision of policy", "True, a decision", f"{done.ok}, {_decided(done)}")


def _decided(done: ActionExecution) -> str:
    return "a decision" if done.decision_seq else "no decision"


def _cooling(world: _World) -> None:
    world.chapter(f"Cooldown: {COOLDOWN_S:g} s after a change, to its very end")
    world.load(QUIET)
    for _ in range(3):
        world.round()
    told = f"{world.count()} ({world.code()})"
    world.look("each at 40: 4 × 40 / 60 = 2.7, three samples in a row ask for 3", "4 (skip_cooldown)", told)
    world.until(world.scaled_at() + round(COOLDOWN_S * SECOND) - JUST_US)
    world.round(0)
    told = f"{world.count()} ({world.code()})"
    world.look("a hundredth of a second before the end", "4 (skip_cooldown)", told)
    world.clock.advance(JUST_US / SECOND)
    world.round(0)
    world.look("at exactly the end it is over", 3, world.count())


def _missing(world: _World) -> None:
    world.chapter("A missing sample is not zero")
    world.load(TARGET)
    world.until(world.scaled_at() + round(COOLDOWN_S * SECOND))
    world.load(10)
    world.round()
    world.round()
    world.look("two samples ask for fewer, a third is needed", "3 (stabilizing)", f"{world.count()} ({world.code()})")
    world.signals.set_error("atlas", "load", SampleFault.MISSING, "nobody measured it")
    world.round()
    world.look("the third is missing: nothing moves", "3 (skip_metrics)", f"{world.count()} ({world.code()})")
    world.load(10)
    world.round()
    world.round()
    world.look("and the row begins anew", "3 (stabilizing)", f"{world.count()} ({world.code()})")
    world.round()
    world.look("three in a row", 2, world.count())
    world.values["calm", "load"] = 0.0  # the mapping that the signals were made of: they kept a copy
    told = f"{world.reading('calm')}, {world.reading('nobody')}"
    world.look("signals keep what they were given; what has no value is missing, not 0", "60, missing", told)


def _restarted(world: _World) -> None:
    world.chapter("A restart: another plane on the same store")
    end = world.scaled_at() + round(COOLDOWN_S * SECOND)
    world.load(BUSY)
    world.round()
    told = f"{world.count()} ({world.code()})"
    world.look("each at 90, and the cooldown of the plane before still runs", "2 (skip_cooldown)", told)
    world.until(end - JUST_US)
    world.round(0)
    world.look("to the same moment", "2 (skip_cooldown)", f"{world.count()} ({world.code()})")
    world.clock.advance(JUST_US / SECOND)
    world.round(0)
    world.look("2 × 90 / 60 = 3", 3, world.count())


def _windows(world: _World) -> None:
    world.chapter("A load that dips for one sample: without a stabilization window, and with one of 120 s")
    both = ("nervous", "calm")
    world.load(TARGET, *both)
    world.load(TARGET, "atlas")
    world.round()
    counts: dict[str, list[int]] = {name: [world.count(name)] for name in both}
    for value in (15.0, None, TARGET, TARGET):
        for name in both:
            total = 4 * (TARGET if value is None else value)  # the load of the service, whatever count carries it
            world.load(total / world.count(name), name)
        world.round()
        for name in both:
            counts[name].append(world.count(name))
    world.look("without a window it falls and comes back", "4 1 4 4 4", " ".join(map(str, counts["nervous"])))
    world.look("with one it stays", "4 4 4 4 4", " ".join(map(str, counts["calm"])))
    for _ in range(12):
        for name in both:
            world.load(4 * 15 / world.count(name), name)
        world.round()
    world.look("where the load stays low, both follow it", "1 1", f"{world.count('nervous')} {world.count('calm')}")
