"""A fleet whose samples are mostly bad, tick after tick: nothing shrinks on one, and nobody suffers for another.

Quick: 20,000 evaluated service-ticks.  With FLEETWARDEN_TEST_DEPTH=full it is a million.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec
import numpy as np
import pytest

from fleetwarden.controllers.autoscaler_sight import see
from fleetwarden.domain.fleet import ObservedService, Presence, Service, ServiceStatus
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.domain.located import located
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
from fleetwarden.domain.tracking import evaluate, new_memory
from fleetwarden.domain.tracking_columns import compile_blocks
from fleetwarden.testing import a_service

SERVICES, TICKS = (1000, 1000) if os.environ.get("FLEETWARDEN_TEST_DEPTH", "quick") == "full" else (200, 100)
TARGET, DOWN_SAMPLES, STEP = 10.0, 3, 15 * SECOND
START: Micros = 1_800_000_000 * SECOND
DECLARED = Definition(
    name="jobs",
    kind=SignalKind.QUEUE,
    unit="items",
    scope=SignalScope.SERVICE,
    aggregation=Aggregation.FLEET_TOTAL,
)
GOOD, MISSING, UNANSWERED, NAN, INFINITE, MINUS, NEGATIVE, ABSURD = range(8)
STALE, SKEWED, REPLAYED, SERVICE, UNIT, MEAN, FORGED, AGAIN = range(8, 16)


def block() -> ScalingBlock:
    written = {
        "max": 9, "signal": "jobs", "target": TARGET, "cooldown_s": 0, "scale_down_stabilization_samples": DOWN_SAMPLES,
        "scale_up_step": 9, "scale_down_step": 9,
    }  # fmt: skip
    made = read_block(located(written, "fleet.yml", 3), on_kubernetes=True)
    assert isinstance(made, ScalingBlock)
    return made


def sample(pair: Pair, value: float, at: Micros) -> Sample:
    return Sample(
        service=pair.service,
        signal=pair.signal,
        value=value,
        source="fuzz",
        aggregation=Aggregation.FLEET_TOTAL,
        unit="items",
        scope=SignalScope.SERVICE,
        observed_at=at,
    )


def offered(kind: int, pair: Pair, value: float, at: Micros, last: Micros, said: float) -> Reading | None:
    """A sample of that kind; whoever believes a bad one has reason to shrink."""
    low = sample(pair, 0.1, at)
    if kind == GOOD:
        return sample(pair, value, at)
    if kind == MISSING:
        return NoSample(service=pair.service, signal=pair.signal, fault=SampleFault.MISSING, reason="no series")
    if kind == UNANSWERED:
        return None
    wrong: Mapping[int, Mapping[str, object]] = {
        NAN: {"value": float("nan")},
        INFINITE: {"value": float("inf")},
        MINUS: {"value": float("-inf")},
        NEGATIVE: {"value": -1.0},
        ABSURD: {"value": 1e300},
        STALE: {"observed_at": at - 121 * SECOND},
        SKEWED: {"observed_at": at + 31 * SECOND},
        REPLAYED: {"observed_at": last - SECOND},
        FORGED: {"observed_at": last},  # the time of the last good one, and another value
        AGAIN: {"observed_at": last, "value": said},  # the last good one: nothing was measured since
        SERVICE: {"service": "another"},
        UNIT: {"unit": "bytes"},
        MEAN: {"aggregation": Aggregation.PER_REPLICA},
    }
    return msgspec.structs.replace(low, **wrong[kind])


class World:
    """Ticks by hand, as the autoscaler makes them, with every wish carried out at once."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.services: dict[str, Service] = {name: a_service(name, scaling=block()) for name in names}
        self.table = compile_blocks([(name, one.scaling) for name, one in self.services.items() if one.scaling])
        self.memory = new_memory(self.table)
        self.pairs = [Pair(service=name, signal="jobs") for name in self.table.names]
        self.counts = np.full(len(names), 5)

    def tick(self, answers: Mapping[Pair, Reading], at: Micros) -> np.ndarray:
        """The counts after this tick."""
        seen = {name: _seen(name, int(self.counts[row]), at) for row, name in enumerate(self.table.names)}
        declared = lambda _service, _signal: DECLARED  # noqa: E731 -- as short as it is
        sight = see(self.table, self.pairs, self.services, seen, answers, declared, {}, self.memory, at)
        verdicts = evaluate(self.table, sight.columns, self.memory, at)
        moved = verdicts.desired != self.counts
        self.counts = np.where(moved, verdicts.desired, self.counts)
        self.memory.consume({int(row): self.table.pairs_of(int(row)) for row in np.flatnonzero(moved)})
        return self.counts.copy()


def _seen(name: str, count: int, at: Micros) -> ObservedService:
    return ObservedService(
        name=name,
        observed_at=at,
        source="fuzz",
        status=ServiceStatus.UP,
        presence=Presence.STARTED,
        ready=count,
        existing=count,
        total=count,
    )


@pytest.mark.req("ASC-5", "ASC-11", "SGP-1")
def test_nothing_shrinks_on_a_bad_sample_nobody_suffers_for_another_and_real_drops_scale_in() -> None:
    chance = np.random.default_rng(7)
    names = [f"s{number:04}" for number in range(SERVICES)]
    clean = frozenset(names[::10])  # never offered a bad sample; a fleet of these alone has to fare the same
    all_of_them, alone = World(names), World(sorted(clean))
    kept = [row for row, name in enumerate(all_of_them.table.names) if name in clean]
    dirty = np.array([name not in clean for name in all_of_them.table.names])
    demand, last = np.full(SERVICES, 50.0), np.zeros(SERVICES, np.int64)
    said = np.zeros(SERVICES)
    row_of_good = np.zeros(SERVICES, np.int64)
    shrunk = wrongly = 0
    for number in range(TICKS):
        at = START + number * STEP
        jumps = chance.random(SERVICES) < 0.1
        demand = np.where(jumps, TARGET * chance.integers(1, 10, SERVICES), demand)
        kinds = np.where(dirty & (chance.random(SERVICES) < 0.4), chance.integers(1, AGAIN + 1, SERVICES), GOOD)
        if number == 0:
            kinds = np.where(np.isin(kinds, (REPLAYED, FORGED, AGAIN)), MISSING, kinds)
        kinds = np.where((kinds == AGAIN) & (at - last > 120 * SECOND), STALE, kinds)  # it is as old as it says
        told = {
            pair: reading
            for row, pair in enumerate(all_of_them.pairs)
            if (reading := offered(int(kinds[row]), pair, float(demand[row]), at, int(last[row]), float(said[row])))
            is not None
        }
        last, said = np.where(kinds == GOOD, at, last), np.where(kinds == GOOD, demand, said)
        row_of_good = np.where(kinds == GOOD, row_of_good + 1, np.where(kinds == AGAIN, row_of_good, 0))
        before = all_of_them.counts
        after = all_of_them.tick(told, at)
        fewer = after < before
        shrunk += int(fewer.sum())
        wrongly += int((fewer & ((kinds != GOOD) | (row_of_good < DOWN_SAMPLES))).sum())
        assert ((after >= 1) & (after <= 9)).all()
        assert (after[kinds != GOOD] == before[kinds != GOOD]).all(), "a count moved on a bad sample"
        others = alone.tick({pair: told[pair] for pair in alone.pairs}, at)
        assert (others == after[kept]).all(), "a service with good samples fared otherwise beside bad ones"
    assert wrongly == 0
    assert shrunk > SERVICES * TICKS // 200, "real drops have to scale in"
    for number in range(TICKS, TICKS + DOWN_SAMPLES + 1):
        at = START + number * STEP
        all_of_them.tick({pair: sample(pair, TARGET, at) for pair in all_of_them.pairs}, at)
    assert (all_of_them.counts == 1).all(), "in the end all load has gone"
