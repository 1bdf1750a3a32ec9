"""An action from the request to its settled record, beside the raw driver running the very same statements.

One caller, on SQLite and on PostgreSQL.  What the product hands to the driver is written down while it runs, reads and
commits included, and then run again by the driver alone over a copy of the database as it was before: same texts, same
values, same cache of prepared statements.  The clock moves on, so that a budget's window holds about twenty uses
however many actions are timed.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

import psycopg
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fleetwarden.domain.actions import ActionRequest, Evidence
from fleetwarden.domain.policy import Verdict
from fleetwarden.ports.stores import Store
from fleetwarden.store.opening import open_store
from fleetwarden.testing import FakeClock, a_fleet, a_policy, a_service
from tests.contract.pipeline.conftest import EXECUTOR, Bench
from tests.postgresql import Cluster, cluster

ACTIONS = 200
STEP_S = 0.05


class Ran(NamedTuple):
    """One call of the driver: which connection, one statement or many, what and with what."""

    number: int
    many: bool
    text: Any
    values: Any


RAN: list[Ran] = []


class RecordedSqlite(sqlite3.Connection):
    """Writes down what it runs."""

    number: int

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        RAN.append(Ran(self.number, False, sql, values))
        return super().execute(sql, *values)

    def executemany(self, sql: str, values: Any, /) -> sqlite3.Cursor:
        RAN.append(Ran(self.number, True, sql, values))
        return super().executemany(sql, values)


def record_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    real, count = sqlite3.connect, iter(range(1_000))

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        made = real(*args, **options, factory=RecordedSqlite)
        made.number = next(count)
        return made

    monkeypatch.setattr(sqlite3, "connect", connect)


def record_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    once, many = psycopg.Connection.execute, psycopg.Cursor.executemany

    def execute(self: psycopg.Connection[Any], query: Any, params: Any = None, **options: Any) -> psycopg.Cursor[Any]:
        RAN.append(Ran(id(self), False, query, params))
        return once(self, query, params, **options)

    def executemany(self: psycopg.Cursor[Any], query: Any, params_seq: Any, **options: Any) -> None:
        RAN.append(Ran(id(self.connection), True, query, params_seq))
        many(self, query, params_seq, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    monkeypatch.setattr(psycopg.Cursor, "executemany", executemany)


def ready(store: Store, clock: FakeClock, names: list[str]) -> tuple[Bench, Any]:
    """A plane over these services whose budgets do not bind, and its lease."""
    bench = Bench(store, clock)
    bench.files.declare(
        fleet=a_fleet(*(a_service(name) for name in names)), policy=a_policy(rate=(1_000, 3600), blast=(100_000, 1))
    )
    for name in names:
        bench.substrate.boot(name, 1)
    return bench, bench.fence(EXECUTOR)


def request_for(name: str) -> ActionRequest:
    return ActionRequest(
        kind="restart_service",
        target=name,
        source="operator",
        requested_by="eve",
        key=f"key-{name}",
        evidence=Evidence(),
    )


class Took:
    """Seconds of each action, by the wall and of this process."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.own: list[float] = []

    def time(self, run: Callable[[], None]) -> None:
        wall, own = perf_counter(), process_time()
        run()
        self.wall.append(perf_counter() - wall)
        self.own.append(process_time() - own)


def act(bench: Bench, name: str, fence: Any) -> None:
    bench.clock.advance(STEP_S)
    [answer] = bench.gate.admit([request_for(name)], fence=None)
    assert answer.decision is not None
    assert answer.decision.verdict is Verdict.ALLOW
    assert bench.executor.run_prepared(fence) == 1


def acted(
    benchmark: BenchmarkFixture, bench: Bench, fence: Any, names: list[str], before: Callable[[], None]
) -> tuple[Took, list[list[Ran]]]:
    """The second half of `names` timed one by one, with what each ran; `before`: what to do between the halves."""
    took, ran = Took(), []
    benchmark.pedantic(lambda: [act(bench, name, fence) for name in names[:ACTIONS]], rounds=1)  # also warms up
    before()
    for name in names[ACTIONS:]:
        RAN.clear()
        took.time(partial(act, bench, name, fence))
        ran.append(list(RAN))
    return took, ran


def replay_sqlite(path: Path, ran: list[list[Ran]], synchronous: str) -> Took:
    """What the driver alone takes for the same statements."""
    connections: dict[int, sqlite3.Connection] = {}
    for number in {one.number for each in ran for one in each}:
        made = sqlite3.connect(path, isolation_level=None, cached_statements=512)
        made.execute(f"PRAGMA synchronous = {synchronous}")
        made.execute("PRAGMA foreign_keys = ON")
        made.execute("PRAGMA cache_size = -16384")
        connections[number] = made

    def run(each: list[Ran]) -> None:
        for number, many, text, values in each:
            if many:
                connections[number].executemany(text, values)
            else:
                connections[number].execute(text, *values).fetchall()

    took = Took()
    for each in ran:
        took.time(partial(run, each))
    for made in connections.values():
        made.close()
    return took


def replay_postgresql(url: str, ran: list[list[Ran]]) -> Took:
    """The same, over a server.  What is worked out there (the time, a transaction's number) is worked out anew."""
    connections = {number: psycopg.connect(url, autocommit=True) for number in {x.number for each in ran for x in each}}

    def run(each: list[Ran]) -> None:
        for number, many, text, values in each:
            if many:
                with connections[number].cursor() as cursor:
                    cursor.executemany(text, values)
                continue
            answered = connections[number].execute(text, values)
            if answered.rownumber is not None:
                answered.fetchall()

    took = Took()
    for each in ran:
        took.time(partial(run, each))
    for made in connections.values():
        made.close()
    return took


def told(benchmark: BenchmarkFixture, ran: list[list[Ran]], product: Took, raw: list[Took]) -> None:
    """Medians, which a busy machine moves least; of the driver's turns the quickest."""
    wall, own = median(product.wall), median(product.own)
    driver_wall, driver_own = min(median(one.wall) for one in raw), min(median(one.own) for one in raw)
    figures = {
        "statements": sum(map(len, ran)) / len(ran),
        "product_ms": round(wall * 1000, 2),
        "driver_ms": round(driver_wall * 1000, 2),
        "driver_share": round(driver_wall / wall, 2),
        "product_own_ms": round(own * 1000, 2),
        "driver_own_ms": round(driver_own * 1000, 2),
        "driver_share_of_own": round(driver_own / own, 2),
    }
    benchmark.extra_info.update(figures)
    print(f"\n{figures}")
    assert len(ran) == ACTIONS


@pytest.mark.benchmark(group="whole actions, SQLite, one caller")
@pytest.mark.parametrize("synchronous", ["FULL", "OFF"])  # as a plane runs, and without waiting for the disk
def test_an_action_beside_the_driver(
    benchmark: BenchmarkFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, synchronous: str
) -> None:
    names = [f"s{number}" for number in range(2 * ACTIONS)]
    record_sqlite(monkeypatch)
    clock = FakeClock()
    store = open_store(f"sqlite:///{tmp_path / 'fleet.db'}", clock, synchronous_off=synchronous == "OFF")

    def copied() -> None:
        source, copy = sqlite3.connect(tmp_path / "fleet.db"), sqlite3.connect(tmp_path / "before.db")
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = WAL")
        source.close()
        copy.close()

    try:
        bench, fence = ready(store, clock, names)
        product, ran = acted(benchmark, bench, fence, names, copied)
    finally:
        store.close()
    monkeypatch.undo()
    copies = (shutil.copy(tmp_path / "before.db", tmp_path / f"copy{turn}.db") for turn in range(3))
    told(benchmark, ran, product, [replay_sqlite(Path(copy), ran, synchronous) for copy in copies])


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.mark.needs("postgresql")
@pytest.mark.benchmark(group="whole actions, PostgreSQL, one caller")
def test_an_action_beside_the_driver_on_postgresql(
    benchmark: BenchmarkFixture, monkeypatch: pytest.MonkeyPatch, postgresql: Cluster
) -> None:
    names = [f"s{number}" for number in range(2 * ACTIONS)]
    record_postgresql(monkeypatch)
    name, clock = postgresql.database(), FakeClock()
    store = open_store(postgresql.url(name), clock)
    copies: list[str] = []

    def copied() -> None:
        for backend in postgresql.backends(name):
            postgresql.terminate(backend)  # a template may have no other users; the store connects again
        for turn in range(3):
            copies.append(f"{name}_copy{turn}")
            with postgresql.connect() as connection:
                connection.execute(f'CREATE DATABASE "{copies[-1]}" TEMPLATE "{name}"'.encode())
        store.read(lambda tx: tx.now())

    try:
        bench, fence = ready(store, clock, names)
        product, ran = acted(benchmark, bench, fence, names, copied)
    finally:
        store.close()
    monkeypatch.undo()
    told(benchmark, ran, product, [replay_postgresql(postgresql.url(copy), ran) for copy in copies])
