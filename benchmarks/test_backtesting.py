"""How long a replay takes: a day at 15 s (5,760 ticks) on plain numbers, beside it as a table of length one; a month.

The table is the baseline: what a replay costs if each tick goes through the columns, which are made for whole fleets.
`single_ticks` and `columns` do the same ticks and say the same; tests hold them together.
"""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fleetwarden.domain.located import located
from fleetwarden.domain.scaling import read_block
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.domain.tracking import evaluate, new_memory
from fleetwarden.domain.tracking_columns import Seen, Words, compile_blocks
from fleetwarden.domain.tracking_single import Glance, Single
from fleetwarden.lab.backtest import backtest, load_of
from fleetwarden.lab.csv_recordings import parse_csv
from fleetwarden.lab.recordings import Recording, at_ticks

STEP_S, DAY, MONTH = 15, 5_760, 172_800
BLOCKS = {"plain": {}, "window": {"stabilization_window_s": 3600}, "behavior": {"behavior": {}}}


def block(kind: str) -> ScalingBlock:
    fields = {"min": 1, "max": 40, "signal": "q", "target": 100, **BLOCKS[kind]}
    made = read_block(located(fields, "fleet.yml", 1), on_kubernetes=False)
    assert isinstance(made, ScalingBlock)
    return made


def values(count: int) -> list[float]:
    """Days that rise and fall, with noise: so much changes that no tick can be left out."""
    chance = Random(1)
    return [
        max(0.0, 1000 * (1 + math.sin(n * STEP_S / 86_400 * 2 * math.pi)) + chance.gauss(0, 100)) for n in range(count)
    ]


@pytest.mark.benchmark(group="ticks of a day, one service")
@pytest.mark.parametrize("kind", BLOCKS)
def test_columns(benchmark: BenchmarkFixture, kind: str) -> None:
    one, load = block(kind), values(DAY)

    def run() -> int:
        table = compile_blocks([("", one)])
        memory, seen = new_memory(table), Seen.blank(table)
        seen.current[0] = seen.ready[0] = seen.existing[0] = 10
        seen.status[0], seen.fault[0] = Words.UP, 0
        wanted = 0
        for number, value in enumerate(load):
            seen.value[0] = value
            wanted += int(evaluate(table, seen, memory, number * STEP_S * 1_000_000).desired[0])
        return wanted

    benchmark.pedantic(run, rounds=1)


@pytest.mark.benchmark(group="ticks of a day, one service")
@pytest.mark.parametrize("kind", BLOCKS)
def test_single_ticks(benchmark: BenchmarkFixture, kind: str) -> None:
    one, load = block(kind), values(DAY)

    def run() -> int:
        single, glance = Single(one), Glance(1)
        glance.current = glance.ready = glance.existing = 10
        glance.status, glance.faults = Words.UP, [0]
        wanted = 0
        for number, value in enumerate(load):
            glance.values = (value,)
            wanted += single.tick(glance, number * STEP_S * 1_000_000)[0]
        return wanted

    benchmark.pedantic(run, rounds=5, warmup_rounds=1)


@pytest.mark.benchmark(group="a month backtested")
@pytest.mark.parametrize("kind", BLOCKS)
def test_month(benchmark: BenchmarkFixture, kind: str) -> None:
    times = [(1_790_000_000 + n * STEP_S) * 1_000_000 for n in range(MONTH)]
    recording, one = Recording(name="month", times=times, values={"q": values(MONTH)}), block(kind)
    run = benchmark.pedantic(lambda: backtest(one, load_of(at_ticks(recording), one, {})), rounds=3)
    assert len(run.replicas) == MONTH
    benchmark.extra_info["changes"] = len(run.actions)


@pytest.mark.benchmark(group="a month read")
def test_csv(benchmark: BenchmarkFixture) -> None:
    rows = "\n".join(f"{1_790_000_000 + n * STEP_S},{value:.1f}" for n, value in enumerate(values(MONTH)))
    found = benchmark.pedantic(lambda: parse_csv(f"time,q\n{rows}\n", "month.csv", ["q"]), rounds=3)
    assert len(np.array(found.times)) == MONTH
