"""How long one evaluation of a whole fleet takes: ten thousand services, and a million, in columns.

The baseline is the least that any evaluation does to these columns: one pass of the published equation, in numpy, with
nothing held, damped, remembered or explained.  `evaluate` is asked every tick with values that move.
"""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fleetwarden.domain.located import located
from fleetwarden.domain.scaling import read_block
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.domain.tracking import evaluate, new_memory
from fleetwarden.domain.tracking_columns import BlockTable, Seen, Words, compile_blocks

SIZES = [10_000, 1_000_000]
STEP_US = 15_000_000


def fleet(rows: int) -> tuple[BlockTable, Seen, list[np.ndarray[tuple[int], np.dtype[np.float64]]]]:
    """A fleet with one block for all, what it looks like, and three ticks' values: some rise, some fall, most rest."""
    block = read_block(located({"min": 1, "max": 60, "signal": "q", "target": 10}, "fleet.yml", 1), on_kubernetes=False)
    assert isinstance(block, ScalingBlock)
    table = compile_blocks([(f"s{number}", block) for number in range(rows)])
    chance, seen = np.random.default_rng(rows), Seen.blank(table)
    seen.current[:] = chance.integers(1, 61, rows)
    seen.ready[:] = seen.existing[:] = seen.current
    seen.status[:], seen.fault[:] = Words.UP, 0
    loads = [seen.current * 10.0 * chance.choice([0.5, 0.97, 1.0, 1.03, 1.4], rows) for _ in range(3)]
    return table, seen, loads


@pytest.mark.benchmark(group="evaluating a fleet")
@pytest.mark.parametrize("rows", SIZES)
def test_the_equation_alone(benchmark: BenchmarkFixture, rows: int) -> None:
    table, seen, loads = fleet(rows)
    ticks = cycle(loads)

    def run() -> int:
        wanted = np.ceil(next(ticks) / table.pair_target)
        return int(np.count_nonzero(np.clip(wanted, table.low, table.high) != seen.current))

    assert benchmark.pedantic(run, rounds=10, warmup_rounds=3) > 0


@pytest.mark.benchmark(group="evaluating a fleet")
@pytest.mark.parametrize("rows", SIZES)
def test_evaluate(benchmark: BenchmarkFixture, rows: int) -> None:
    table, seen, loads = fleet(rows)
    memory, ticks, now = new_memory(table), cycle(loads), iter(range(0, 2**62, STEP_US))

    def run() -> int:
        seen.value[:] = next(ticks)
        return len(evaluate(table, seen, memory, next(now)).moving())

    assert benchmark.pedantic(run, rounds=10, warmup_rounds=3) > 0
