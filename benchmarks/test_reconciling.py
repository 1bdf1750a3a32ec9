"""A pass of the reconciler over ten thousand services with nothing to do.

SQLite and a substrate of the same process, processor time only.  The baseline is the same look alone.
"""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.fleets import at_rest
from fleetwarden.controllers.reconciler import CADENCE

SERVICES = 10_000
ROUNDS = 7


@pytest.mark.benchmark(group="a pass over 10,000 services with nothing to do, SQLite")
def test_a_quiet_pass(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    with at_rest(tmp_path, SERVICES) as bench:
        services = list(bench.files.current().fleet.services.values())
        bench.look()

        def run() -> float:
            bench.clock.advance(5)
            fence = bench.fence(CADENCE)
            began = process_time()
            report = bench.reconciler.run(fence)
            took = process_time() - began
            assert (report.status, report.services, report.proposed) == ("ok", SERVICES, 0)
            return took

        took: list[float] = []
        benchmark.pedantic(lambda: took.append(run()), rounds=ROUNDS)
        began = process_time()
        bench.sightings.look(services)
        alone = process_time() - began
    median = sorted(took)[len(took) // 2]
    benchmark.extra_info["processor ms"] = round(1000 * median)
    benchmark.extra_info["the quickest"] = round(1000 * min(took))
    benchmark.extra_info["the look alone"] = round(1000 * alone)
    benchmark.extra_info["ratio"] = round(median / alone, 1)
