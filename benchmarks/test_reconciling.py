"""A pass of the reconciler over ten thousand services with nothing to do.

SQLite, processor time only.  The observer makes one record for each service and its instance, as every real one must,
and nothing else.  The baseline is that look alone, in the same run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from time import process_time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.fleets import at_rest
from fleetwarden.controllers.reconciler import CADENCE
from fleetwarden.domain.fleet import InstanceStatus, ObservedInstance, ObservedService, Presence, Service, ServiceStatus
from fleetwarden.domain.identifiers import Micros

SERVICES = 10_000
ROUNDS = 15


class Looking:
    """Everything runs as it is declared."""

    name = "looking"
    substrates = frozenset({""})

    def observe(self, services: Sequence[Service], at: Micros) -> Mapping[str, ObservedService]:
        return {
            one.name: ObservedService(
                name=one.name,
                observed_at=at,
                source=self.name,
                status=ServiceStatus.UP,
                presence=Presence.STARTED,
                ready=1,
                existing=1,
                total=1,
                instances=(ObservedInstance(id="0", status=InstanceStatus.UP, started_at=1, identity=one.name),),
            )
            for one in services
        }


@pytest.mark.benchmark(group="a pass over 10,000 services with nothing to do, SQLite")
def test_a_quiet_pass(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    with at_rest(tmp_path, SERVICES) as bench:
        bench.sightings.observers = (Looking(),)
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

        def look() -> float:
            began = process_time()
            Looking().observe(services, 1)
            return process_time() - began

        took, alone = list[float](), list[float]()

        def both() -> None:
            took.append(run())
            alone.append(look())

        benchmark.pedantic(both, rounds=ROUNDS)
    benchmark.extra_info["processor ms, median"] = round(1000 * median(took))
    benchmark.extra_info["the quickest"] = round(1000 * min(took))
    benchmark.extra_info["the look alone, median"] = round(1000 * median(alone))
    benchmark.extra_info["the quickest look"] = round(1000 * min(alone))
    benchmark.extra_info["ratio of the quickest"] = round(min(took) / min(alone), 1)
    print(f"\n{benchmark.extra_info}")
