"""Eight callers at once on SQLite: transactions of two rows that are committed in groups.

As a plane runs, waiting for the disk.  The baseline is one caller in the same run: what grouping commits is worth.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fleetwarden.ports.stores import Store, Tx
from fleetwarden.store.opening import open_store
from fleetwarden.testing import FakeClock

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
        alone = side_by_side(1, TWO_ROWS // CALLERS, two_rows(store, "alone"))
        rate = benchmark.pedantic(side_by_side, (CALLERS, TWO_ROWS, two_rows(store, "beside")), rounds=1)
        kept = store.read(lambda tx: [tx.facts.get(f"beside {number}") for number in range(TWO_ROWS)])
        assert kept == list(range(TWO_ROWS))
    finally:
        store.close()
    benchmark.extra_info["a second, eight callers"] = round(rate)
    benchmark.extra_info["a second, one caller"] = round(alone)
    benchmark.extra_info["ratio"] = round(rate / alone, 1)
