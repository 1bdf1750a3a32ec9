"""An action from the request to its settled record, beside the raw driver running the very same statements.

One caller, on SQLite and on PostgreSQL.  What the product hands to the driver is written down while it runs, reads and
commits included, and right after each action run again by the driver alone over a copy of the database: same texts,
values and cache of prepared statements.  The clock moves on, so that a budget's window holds about twenty uses
however many actions are timed.
"""

from __future__ import annotations

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
        self.statements: list[int] = []

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
    benchmark: BenchmarkFixture, bench: Bench, fence: Any, names: list[str], copied: Callable[[], Callable[[Ran], None]]
) -> tuple[Took, Took]:
    """The second half of `names` one by one, each followed by what it ran: so both meet the machine in one mood.

    `copied`: copies the database between the halves and returns what runs a statement over the copy.
    """

    def warm_up() -> None:
        for name in names[:ACTIONS]:
            act(bench, name, fence)

    def replay(ran: list[Ran]) -> None:
        for one in ran:
            run(one)

    product, raw = Took(), Took()
    benchmark.pedantic(warm_up, rounds=1)
    run = copied()
    for name in names[ACTIONS:]:
        RAN.clear()
        product.time(partial(act, bench, name, fence))
        ran = list(RAN)  # the driver alone is written down as well: both carry that
        raw.time(partial(replay, ran))
        product.statements.append(len(ran))
    return product, raw


class AloneSqlite:
    """The driver alone over that file, with as many connections as the product has."""

    def __init__(self, path: Path, synchronous: str) -> None:
        self._path = path
        self._synchronous = synchronous
        self._connections: dict[int, sqlite3.Connection] = {}

    def __call__(self, one: Ran) -> None:
        connection = self._connections.get(one.number) or self._connect(one.number)
        if one.many:
            connection.executemany(one.text, one.values)
        else:
            connection.execute(one.text, *one.values).fetchall()

    def _connect(self, number: int) -> sqlite3.Connection:
        made = RecordedSqlite(self._path, isolation_level=None, cached_statements=512)
        made.number = -1
        made.execute("PRAGMA journal_mode = WAL")
        made.execute(f"PRAGMA synchronous = {self._synchronous}")
        made.execute("PRAGMA foreign_keys = ON")
        made.execute("PRAGMA cache_size = -16384")
        self._connections[number] = made
        return made

    def close(self) -> None:
        for made in self._connections.values():
            made.close()


class AlonePostgresql:
    """The same, over a server.  What is worked out there (the time, a transaction's number) is worked out anew."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connections: dict[int, psycopg.Connection[Any]] = {}

    def __call__(self, one: Ran) -> None:
        if one.number not in self._connections:
            self._connections[one.number] = psycopg.connect(self._url, autocommit=True)
        connection = self._connections[one.number]
        if one.many:
            with connection.cursor() as cursor:
                cursor.executemany(one.text, one.values)
            return
        answered = connection.execute(one.text, one.values)
        if answered.rownumber is not None:
            answered.fetchall()

    def close(self) -> None:
        for made in self._connections.values():
            made.close()


def told(benchmark: BenchmarkFixture, product: Took, raw: Took) -> None:
    """Medians, and the median of each action's own ratio."""

    def share(alone: list[float], whole: list[float]) -> float:
        return round(median(one / all_ for one, all_ in zip(alone, whole, strict=True)), 2)

    figures = {
        "product_ms": round(median(product.wall) * 1000, 2),
        "driver_ms": round(median(raw.wall) * 1000, 2),
        "driver_share": share(raw.wall, product.wall),
        "product_own_ms": round(median(product.own) * 1000, 2),
        "driver_own_ms": round(median(raw.own) * 1000, 2),
        "driver_share_of_own": share(raw.own, product.own),
        "statements": median(product.statements),
    }
    benchmark.extra_info.update(figures)
    print(f"\n{figures}")
    assert len(raw.wall) == ACTIONS


@pytest.mark.benchmark(group="whole actions, SQLite, one caller")
@pytest.mark.parametrize("synchronous", ["FULL", "OFF"])  # as a plane runs, and without waiting for the disk
def test_an_action_beside_the_driver(
    benchmark: BenchmarkFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, synchronous: str
) -> None:
    names = [f"s{number}" for number in range(2 * ACTIONS)]
    record_sqlite(monkeypatch)
    clock, alone = FakeClock(), AloneSqlite(tmp_path / "copy.db", synchronous)
    store = open_store(f"sqlite:///{tmp_path / 'fleet.db'}", clock, synchronous_off=synchronous == "OFF")

    def copied() -> AloneSqlite:
        source, copy = sqlite3.Connection(tmp_path / "fleet.db"), sqlite3.Connection(tmp_path / "copy.db")
        source.backup(copy)
        source.close()
        copy.close()
        return alone

    try:
        bench, fence = ready(store, clock, names)
        told(benchmark, *acted(benchmark, bench, fence, names, copied))
    finally:
        store.close()
        alone.close()


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
    store, alone = open_store(postgresql.url(name), clock), AlonePostgresql(postgresql.url(f"{name}_copy"))

    def copied() -> AlonePostgresql:
        for backend in postgresql.backends(name):
            postgresql.terminate(backend)  # a template may have no other users
        with postgresql.connect() as connection:
            connection.execute(f'CREATE DATABASE "{name}_copy" TEMPLATE "{name}"'.encode())
        store.read(lambda tx: tx.now())  # connects again
        return alone

    try:
        bench, fence = ready(store, clock, names)
        told(benchmark, *acted(benchmark, bench, fence, names, copied))
    finally:
        store.close()
        alone.close()
