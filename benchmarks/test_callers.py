"""Eight callers at once on SQLite: transactions of two rows that are committed in groups, and whole actions.

As a plane runs, waiting for the disk.  The baseline is one caller in the same run: what grouping commits is worth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, process_time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fleetwarden.controllers.recheck import Fate
from fleetwarden.domain.actions import ActionRequest, Evidence
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.ports.stores import Store, Tx
from fleetwarden.store.opening import open_store
from fleetwarden.testing import FakeClock, a_fleet, a_policy, a_service
from tests.contract.pipeline.conftest import EXECUTOR, Bench

CALLERS = 8
TWO_ROWS = 4_000
ACTIONS = 800
STEP_S = 0.1  # by the clock of the plane between two actions: windows stay small, and no fence gap is passed


def side_by_side(callers: int, count: int, job: Callable[[int], None]) -> float:
    """How many a second, by the wall: `job` is given each number once."""

    def some(first: int) -> None:
        for number in range(first, count, callers):
            job(number)

    began = perf_counter()
    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(some, range(callers)))
    return count / (perf_counter() - began)


def two_rows(store: Store, about: str) -> Callable[[int], None]:
    def run(number: int) -> None:
        def rows(tx: Tx) -> None:
            tx.journal.write(topic="bench", actor="bench", summary=f"{about} {number}")
            tx.facts.put(f"{about} {number}", number)

        store.transact("two rows", rows)

    return run


@pytest.mark.benchmark(group="transactions of two rows, SQLite")
def test_grouped_transactions(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'fleet.db'}", FakeClock())
    try:
        alone = side_by_side(1, TWO_ROWS // CALLERS, two_rows(store, "alone"))
        rate = benchmark.pedantic(side_by_side, (CALLERS, TWO_ROWS, two_rows(store, "beside")), rounds=1)
        kept = store.read(lambda tx: [tx.facts.get(f"beside {number}") for number in range(TWO_ROWS)])
        assert kept == list(range(TWO_ROWS))
    finally:
        store.close()
    benchmark.extra_info["a second, eight callers"] = round(rate)
    benchmark.extra_info["a second, one caller"] = round(alone)
    benchmark.extra_info["ratio"] = round(rate / alone, 1)


def whole_action(bench: Bench, names: list[str]) -> Callable[[int], None]:
    """From the request to the settled record."""
    fence = bench.fence(EXECUTOR)

    def run(number: int) -> None:
        request = ActionRequest(
            kind="restart_service",
            target=names[number],
            source="operator",
            requested_by="eve",
            key=f"key-{names[number]}",
            evidence=Evidence(),
        )
        [answer] = bench.gate.admit([request], fence=None)
        assert answer.record is not None, answer.reason
        assert bench.executor.execute(answer.record, fence).fate is Fate.RUNNING
        bench.clock.advance(STEP_S)

    return run


def how_it_ended(store: Store, name: str) -> OutboxState | None:
    last = store.read(lambda tx: tx.outbox.last_called(name))
    return None if last is None else last.state


@pytest.mark.benchmark(group="whole actions, SQLite, eight callers")
def test_whole_actions(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(ACTIONS + ACTIONS // CALLERS)]
    clock = FakeClock()
    store = open_store(f"sqlite:///{tmp_path / 'fleet.db'}", clock)
    try:
        bench = Bench(store, clock)
        bench.files.declare(
            fleet=a_fleet(*(a_service(name) for name in names)), policy=a_policy(rate=(1_000, 10), blast=(1_000, 10))
        )
        for name in names:
            bench.substrate.boot(name, 1)
        alone = side_by_side(1, ACTIONS // CALLERS, whole_action(bench, names[ACTIONS:]))
        began = process_time()
        rate = benchmark.pedantic(side_by_side, (CALLERS, ACTIONS, whole_action(bench, names)), rounds=1)
        spent = process_time() - began
        ended = Counter(how_it_ended(store, name) for name in names)
        assert ended == {OutboxState.SUCCEEDED: len(names)}
    finally:
        store.close()
    benchmark.extra_info["a second, eight callers"] = round(rate)
    benchmark.extra_info["a second, one caller"] = round(alone)
    benchmark.extra_info["ratio"] = round(rate / alone, 1)
    benchmark.extra_info["processor ms an action, eight callers"] = round(spent / ACTIONS * 1000, 1)
