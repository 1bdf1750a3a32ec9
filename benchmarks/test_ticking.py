"""One tick of the autoscaler over ten thousand services: quiet, and with everybody wanting to move.

SQLite, and a real Prometheus that answers one vector query; what it scrapes is served by a process of its own, so that
only the tick's processor time is counted.  The baseline is the same query, asked and decoded by the HTTP client alone.
The busy tick has the default budget of five actions: all the others have to wait.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time

import httpx2
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fleetwarden.adapters.files.signals import SignalsFile
from fleetwarden.adapters.signal_sources.prometheus import expression
from fleetwarden.app.signal_sources import DefinedSignals
from fleetwarden.controllers.autoscaler import CADENCE, Autoscaler
from fleetwarden.controllers.intent_desk import IntentDesk
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.store.opening import open_store
from fleetwarden.testing import FakeClock, a_fleet, a_policy
from tests.contract.pipeline.conftest import Bench
from tests.contract.pipeline.scaling import scaled
from tests.prometheus import free_port, prometheus

SERVICES = 10_000
ROUNDS = 5
SIGNALS = """\
sources: {{main: {{url: "{url}"}}}}
signals:
  q: {{source: main, kind: queue, query: waiting, by: service, aggregation: fleet_total, unit: items}}
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[[float], str]]:
    """Starts a Prometheus that knows this value of every service, and gives its address once it answers for all."""
    stops: list[Callable[[], object]] = []

    def serve(value: float) -> str:
        folder = tmp_path / "metrics"
        folder.mkdir()
        lines = [f'waiting{{service="s{number}"}} {value}' for number in range(SERVICES)]
        (folder / "metrics").write_text("\n".join(lines) + "\n", encoding="utf-8")
        port = free_port()
        command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(folder)]
        exporter = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stops.append(exporter.wait)
        stops.append(exporter.kill)
        opened = prometheus(tmp_path, port)
        address = opened.__enter__()
        stops.append(lambda: opened.__exit__(None, None, None))
        until = time.monotonic() + 60
        while _known(address) < SERVICES:
            assert time.monotonic() < until, "prometheus does not know every service"
            time.sleep(0.2)
        return address

    yield serve
    for stop in reversed(stops):
        stop()


def _known(address: str) -> int:
    answer = httpx2.get(f"{address}/api/v1/query", params={"query": "count(waiting)"}).json()
    result = answer["data"]["result"]
    return int(result[0]["value"][1]) if result else 0


class Ticking:
    """An autoscaler over the real source; each tick comes a scrape later."""

    def __init__(self, folder: Path, address: str) -> None:
        self.clock = FakeClock(round(time.time() * SECOND))
        self.began = time.time()
        self.store = open_store(f"sqlite:///{folder / 'fleet.db'}", self.clock)
        self.bench = bench = Bench(self.store, self.clock)
        names = [f"s{number}" for number in range(SERVICES)]
        policy = a_policy(rate=(1_000, 3600), blast=(100_000, 3600))
        bench.files.declare(fleet=a_fleet(*(scaled(name) for name in names)), policy=policy)
        for name in names:
            bench.substrate.boot(name, 2)
        (folder / "signals.yml").write_text(SIGNALS.format(url=address), encoding="utf-8")
        file = self.file = SignalsFile(folder)
        assert not file.problems
        self.signals = DefinedSignals(file.current, folder, self.store)
        self.autoscaler = Autoscaler(
            self.store,
            bench.files,
            bench.sightings,
            bench.supervision,
            IntentDesk(self.store, bench.files, bench.wakes, bench.gate.texts),
            self.signals,
            declared=lambda service, signal: file.current().definition(service, signal),
            acting=frozenset({""}),
            actions_max=5,
        )
        bench.look()

    def tick(self) -> float:
        """Processor seconds of one tick."""
        time.sleep(2.5)  # a scrape later
        self.clock.advance(max(0.0, time.time() - self.began - self.clock.monotonic()))
        fence = self.bench.fence(CADENCE)
        began = process_time()
        report = self.autoscaler.run(fence)
        took = process_time() - began
        assert report.status == "ok", report.problems
        assert report.services == SERVICES
        return took

    def close(self) -> None:
        self.signals.close()
        self.store.close()


@pytest.mark.benchmark(group="a tick over 10,000 services, SQLite, a real Prometheus")
@pytest.mark.parametrize(("load", "moving"), [(20.0, "quiet"), (45.0, "everybody wants to grow")])
def test_a_tick(
    benchmark: BenchmarkFixture, tmp_path: Path, served: Callable[[float], str], load: float, moving: str
) -> None:
    address = served(load)
    ticking = Ticking(tmp_path, address)
    try:
        ticking.tick()  # compiles the table and writes the first rows
        ticking.tick()
        took: list[float] = []
        benchmark.pedantic(lambda: took.append(ticking.tick()), rounds=ROUNDS)
        report = ticking.autoscaler.last
        assert report is not None
        assert (sum(report.reasons.values()), bool(report.verdicts)) == (SERVICES, moving != "quiet")
        definition = ticking.file.current().definition("s0", "q")
        assert definition is not None
        began = process_time()
        with httpx2.Client() as client:
            answer = client.post(f"{address}/api/v1/query", data={"query": expression(definition)})
            assert len(json.loads(answer.content)["data"]["result"]) == 2 * SERVICES
        baseline = process_time() - began
    finally:
        ticking.close()
    median = sorted(took)[len(took) // 2]
    benchmark.extra_info["tick"] = moving
    benchmark.extra_info["processor seconds"] = round(median, 3)
    benchmark.extra_info["the query alone"] = round(baseline, 3)
    benchmark.extra_info["ratio"] = round(median / baseline, 2)
    benchmark.extra_info["peak MiB of the process so far"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
