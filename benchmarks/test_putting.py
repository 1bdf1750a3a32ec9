"""Scale intents put as lists: decisions and intents by the second of processor time, beside one at a time.

SQLite.  The baseline is the same desk asked for one wish in each transaction, measured in the same run; both have a
policy with a rate limit and a blast radius that never bind, so that every budget is counted.
"""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fleetwarden.controllers.autoscaler import CADENCE
from fleetwarden.controllers.autoscaler_wishes import Mover, Movers
from fleetwarden.controllers.intent_desk import IntentDesk, PutAnswer, Wanted
from fleetwarden.store.opening import open_store
from fleetwarden.testing import FakeClock, a_fleet, a_policy
from tests.contract.pipeline.conftest import Bench
from tests.contract.pipeline.scaling import scaled

ALONE = 100


def wishes_of(bench: Bench, names: list[str]) -> list[Wanted]:
    services = bench.files.current().fleet.services
    look = bench.sightings.look([services[name] for name in names])
    movers = [
        Mover(service=services[name], row=0, current=2, desired=6, reason="scale_up", readings=(), targets=())
        for name in names
    ]
    return Movers(bench.store, frozenset({""})).wishes(movers, look)


@pytest.mark.benchmark(group="intents put as one list, SQLite")
@pytest.mark.parametrize("count", [100, 1_000, 5_000])
def test_a_list_of_wishes_beside_one_at_a_time(benchmark: BenchmarkFixture, tmp_path: Path, count: int) -> None:
    clock = FakeClock()
    store = open_store(f"sqlite:///{tmp_path / 'fleet.db'}", clock)
    try:
        bench = Bench(store, clock)
        names = [f"s{number}" for number in range(count + ALONE)]
        policy = a_policy(rate=(1_000, 3600), blast=(100_000, 3600))
        bench.files.declare(fleet=a_fleet(*(scaled(name) for name in names)), policy=policy)
        for name in names:
            bench.substrate.boot(name, 2)
        bench.look()
        desk = IntentDesk(store, bench.files, bench.wakes, bench.gate.texts)
        wishes = wishes_of(bench, names)
        fence = bench.fence(CADENCE)
        began = process_time()
        alone = [desk.put([wish], fence=fence)[0] for wish in wishes[:ALONE]]
        baseline = (process_time() - began) / ALONE

        def run() -> float:
            began = process_time()
            found = desk.put(wishes[ALONE:], fence=fence)
            took = process_time() - began
            assert {one.answer for one in (*alone, *found)} == {PutAnswer.ACCEPTED}
            return took / count

        each = benchmark.pedantic(run, rounds=1)
    finally:
        store.close()
    benchmark.extra_info["decisions and intents per CPU second"] = round(1 / each)
    benchmark.extra_info["one at a time, per CPU second"] = round(1 / baseline)
    benchmark.extra_info["ratio"] = round(baseline / each, 1)
