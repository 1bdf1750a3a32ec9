"""Callers side by side on SQLite: eight at once, and one beside a thread that keeps a core busy.

As a plane runs, waiting for the disk.  For eight callers the baseline is one caller in the same run: what grouping
commits is worth.  For the busy thread it is the same caller alone, and with Python's usual turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from sys import getswitchinterval, setswitchinterval
from threading import Event, Thread
from time import perf_counter, process_time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.test_acting import STEP_S, ready, request_for
from fleetwarden.cli.serving import SWITCH_S
from fleetwarden.controllers.recheck import Fate
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.ports.stores import Store, Tx
from fleetwarden.store.opening import open_store
from fleetwarden.testing import FakeClock
from tests.contract.pipeline.conftest import Bench

CALLERS = 8
TWO_ROWS = 4_000


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
        turns: list[tuple[float, float, float]] = []

        def run() -> None:
            turn = len(turns)
            alone = side_by_side(1, TWO_ROWS // CALLERS, two_rows(store, f"alone {turn}"))
            began = process_time()
            beside = side_by_side(CALLERS, TWO_ROWS, two_rows(store, f"beside {turn}"))
            turns.append((beside, alone, TWO_ROWS / (process_time() - began)))

        benchmark.pedantic(run, rounds=4)
        kept = store.read(lambda tx: [tx.facts.get(f"beside 0 {number}") for number in range(TWO_ROWS)])
        assert kept == list(range(TWO_ROWS))
    finally:
        store.close()
    benchmark.extra_info["a second, eight callers, best"] = round(max(beside for beside, _, _ in turns))
    benchmark.extra_info["a second, one caller, best"] = round(max(alone for _, alone, _ in turns))
    benchmark.extra_info["by processor second, best"] = round(max(by for _, _, by in turns))
    print(f"\n{benchmark.extra_info}")


ACTIONS = 400


def whole_action(bench: Bench, fence: LeaseFence, about: str) -> Callable[[int], None]:
    """Request, decision, commit 1, a call that does nothing, commit 2; each caller carries out its own record."""

    def run(number: int) -> None:
        bench.clock.advance(STEP_S)
        [answer] = bench.gate.admit([request_for(f"{about}{number}")], fence=None)
        assert answer.record is not None
        assert bench.executor.execute(answer.record, fence).fate is Fate.RUNNING

    return run


@pytest.mark.benchmark(group="whole actions, SQLite")
def test_whole_actions(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    clock = FakeClock()
    store = open_store(f"sqlite:///{tmp_path / 'fleet.db'}", clock)
    try:
        turns = [(f"alone{turn}-", f"beside{turn}-") for turn in range(3)]
        bench, fence = ready(store, clock, [f"{about}{n}" for pair in turns for about in pair for n in range(ACTIONS)])
        figures: list[tuple[float, float, float]] = []

        def run() -> None:
            for alone, beside in turns:
                slow = side_by_side(1, ACTIONS // CALLERS, whole_action(bench, fence, alone))
                began = process_time()
                quick = side_by_side(CALLERS, ACTIONS, whole_action(bench, fence, beside))
                figures.append((quick, slow, ACTIONS / (process_time() - began)))

        benchmark.pedantic(run, rounds=1)
        states = Counter(one.what for one in bench.substrate.log)
        assert states["called"] == states["landed"] == len(turns) * (ACTIONS + ACTIONS // CALLERS)
    finally:
        store.close()
    benchmark.extra_info["a second, eight callers, best"] = round(max(quick for quick, _, _ in figures))
    benchmark.extra_info["a second, one caller, best"] = round(max(slow for _, slow, _ in figures))
    benchmark.extra_info["by processor second, best"] = round(max(by for _, _, by in figures))
    print(f"\n{benchmark.extra_info}")


CALLS = 300
ACTIONS_BESIDE = 100  # each of them takes half a second beside the thread, with Python's usual turns


@pytest.mark.benchmark(group="a caller beside a busy thread, SQLite")
def test_a_caller_beside_a_busy_thread(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """Milliseconds of transactions of two rows and of actions: median and 99th percentile, best of three turns."""
    clock = FakeClock()
    store = open_store(f"sqlite:///{tmp_path / 'fleet.db'}", clock)
    bench, fence = ready(store, clock, [f"{turn}-{number}" for turn in range(9) for number in range(ACTIONS_BESIDE)])
    usual, ends = getswitchinterval(), Event()
    turns = iter(range(9))
    found: dict[str, list[tuple[float, float, float, float]]] = {
        "alone": [],
        "beside, usual turns": [],
        "beside, a plane's turns": [],
    }

    def measure(what: str, interval: float) -> None:
        setswitchinterval(interval)
        rows, action = two_rows(store, f"{what} {len(found[what])}"), whole_action(bench, fence, f"{next(turns)}-")
        found[what].append((*timed(rows, CALLS), *timed(action, ACTIONS_BESIDE)))

    def timed(job: Callable[[int], None], calls: int) -> tuple[float, float]:
        took = list[float]()
        for number in range(calls):
            began = perf_counter()
            job(number)
            took.append(1000 * (perf_counter() - began))
        took.sort()
        return took[calls * 99 // 100], took[calls // 2]

    def busy() -> None:
        count = 0
        while not ends.is_set():
            for _ in range(1_000):
                count += 1

    def run() -> None:
        for _ in range(3):
            measure("alone", SWITCH_S)
        thread = Thread(target=busy)
        thread.start()
        try:
            for _ in range(3):
                measure("beside, usual turns", usual)
                measure("beside, a plane's turns", SWITCH_S)
        finally:
            ends.set()
            thread.join()

    try:
        benchmark.pedantic(run, rounds=1)
    finally:
        setswitchinterval(usual)
        store.close()
    for what, each in found.items():
        p99, p50, *_ = min(each)
        benchmark.extra_info[f"{what}, two rows"] = f"p50 {p50:.2f} ms, p99 {p99:.2f} ms"
        *_, p99, p50 = min(each, key=lambda one: one[2])
        benchmark.extra_info[f"{what}, an action"] = f"p50 {p50:.2f} ms, p99 {p99:.2f} ms"
    print(f"\n{benchmark.extra_info}")
    assert all(len(each) == 3 for each in found.values())
