"""A pass of the reconciler over ten thousand services with nothing to do.

SQLite and a substrate of the same process, processor time only.  The baseline is the same look alone.
"""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fleetwarden.controllers.reconciler import CADENCE
from fleetwarden.store.opening import open_store
from fleetwarden.testing import FakeClock, a_fleet, a_service
from tests.contract.pipeline.conftest import Bench

SERVICES = 10_000
ROUNDS = 7


@pytest.mark.benchmark(group="a pass over 10,000 services with nothing to do, SQLite")
def test_a_quiet_pass(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    clock = FakeClock()
    store = open_store(f"sqlite:///{tmp_path / 'fleet.db'}", clock)
    try:
        bench = Bench(store, clock)
        names = [f"s{number}" for number in range(SERVICES)]
        bench.files.declare(fleet=a_fleet(*(a_service(name) for name in names)))
        for name in names:
            bench.substrate.boot(name)
        services = list(bench.files.current().fleet.services.values())
        bench.look()

        def run() -> float:
            clock.advance(5)
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
    finally:
        store.close()
    median = sorted(took)[len(took) // 2]
    benchmark.extra_info["processor ms"] = round(1000 * median)
    benchmark.extra_info["the quickest"] = round(1000 * min(took))
    benchmark.extra_info["the look alone"] = round(1000 * alone)
    benchmark.extra_info["ratio"] = round(median / alone, 1)
