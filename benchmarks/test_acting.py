"""An action from the request to its settled record, beside the raw driver running the very same statements.

One caller.  The statements are recorded while the product runs, reads and commits included, and then run again by the
driver alone on a copy of the database as it was before, with the same settings.  On SQLite the recorded text holds its
values, so the driver parses each statement anew, which flatters the product; that it is timed while it is recorded does
not.  On PostgreSQL the driver is given text and values apart, as the product gives them, and prepares what repeats.
A caller beside a thread that keeps a core busy is measured here too, beside the same caller without it.
"""

from __future__ import annotations

import shutil
import sqlite3
import statistics
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import psycopg
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fleetwarden.cli.serving import SWITCH_S
from fleetwarden.domain.actions import ActionRequest, Evidence
from fleetwarden.domain.policy import Verdict
from fleetwarden.ports.stores import Store
from fleetwarden.store.opening import open_store
from fleetwarden.testing import FakeClock, a_fleet, a_policy, a_service
from tests.contract.pipeline.conftest import EXECUTOR, Bench
from tests.postgresql import Cluster, cluster

ACTIONS = 100


class Recorder:
    """Opens every connection of the store, and keeps what it runs while `on`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on = False
        self.ran: list[tuple[int, str]] = []
        self.count = 0
        real = sqlite3.connect

        def connect(*args: Any, **options: Any) -> sqlite3.Connection:
            made = real(*args, **options)
            number, self.count = self.count, self.count + 1
            made.set_trace_callback(lambda text: self.ran.append((number, text)) if self.on else None)
            return made

        monkeypatch.setattr(sqlite3, "connect", connect)


def a_bench(store: Store, clock: FakeClock, names: list[str]) -> Bench:
    bench = Bench(store, clock)
    bench.files.declare(
        fleet=a_fleet(*(a_service(name) for name in names)), policy=a_policy(rate=(1_000, 3600), blast=(100_000, 3600))
    )
    for name in names:
        bench.substrate.boot(name, 1)
    return bench


def act(bench: Bench, names: list[str], fence: Any, took: list[float] | None = None) -> None:
    for name in names:
        began = perf_counter()
        request = ActionRequest(
            kind="restart_service",
            target=name,
            source="operator",
            requested_by="eve",
            key=f"key-{name}",
            evidence=Evidence(),
        )
        [answer] = bench.gate.admit([request], fence=None)
        assert answer.decision is not None
        assert answer.decision.verdict is Verdict.ALLOW
        assert bench.executor.run_prepared(fence) == 1
        if took is not None:
            took.append(perf_counter() - began)


def replay(path: Path, ran: list[tuple[int, str]], synchronous: str) -> float:
    """Seconds that the driver alone takes for the same statements."""
    connections: dict[int, sqlite3.Connection] = {}
    for number in sorted({number for number, _ in ran}):
        made = sqlite3.connect(path, isolation_level=None)
        made.execute(f"PRAGMA synchronous = {synchronous}")
        made.execute("PRAGMA foreign_keys = ON")
        connections[number] = made
    began = perf_counter()
    for number, text in ran:
        connections[number].execute(text).fetchall()
    took = perf_counter() - began
    for made in connections.values():
        made.close()
    return took


@pytest.mark.benchmark(group="whole actions, SQLite, one caller")
@pytest.mark.parametrize("synchronous", ["FULL", "OFF"])  # as a plane runs, and without waiting for the disk
def test_an_action_beside_the_driver(
    benchmark: BenchmarkFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, synchronous: str
) -> None:
    names = [f"s{number}" for number in range(2 * ACTIONS)]
    recorder = Recorder(monkeypatch)
    clock = FakeClock()
    store = open_store(f"sqlite:///{tmp_path / 'fleet.db'}", clock, synchronous_off=synchronous == "OFF")
    try:
        bench = a_bench(store, clock, names)
        fence = bench.fence(EXECUTOR)
        benchmark.pedantic(act, (bench, names[:ACTIONS], fence), rounds=1)  # also warms up
        with sqlite3.connect(tmp_path / "fleet.db") as source, sqlite3.connect(tmp_path / "before.db") as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = WAL")
        source.close()
        copy.close()
        product = recorded(recorder, lambda: act(bench, names[ACTIONS:], fence))
    finally:
        store.close()
    monkeypatch.undo()
    raw = min(replay(Path(shutil.copy(tmp_path / "before.db", tmp_path / f"copy{turn}.db")), recorder.ran, synchronous)
              for turn in range(3))  # fmt: skip
    told(benchmark, len(recorder.ran), product, raw)


def recorded(recorder: Recorder | PostgresqlRecorder, job: Callable[[], None]) -> float:
    """Seconds that `job` takes while what it asks the database is kept."""
    recorder.on = True
    began = perf_counter()
    job()
    took = perf_counter() - began
    recorder.on = False
    return took


def told(benchmark: BenchmarkFixture, statements: int, product: float, raw: float) -> None:
    figures = {
        "statements_an_action": statements / ACTIONS,
        "product_ms": product / ACTIONS * 1000,
        "driver_ms": raw / ACTIONS * 1000,
        "driver_share": raw / product,
    }
    benchmark.extra_info.update(figures)
    print(f"\n{figures}")
    assert statements > ACTIONS


class PostgresqlRecorder:
    """Keeps what every connection is asked while `on`: which connection, text, values, and how many rows that touched
    (None: `executemany`)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on = False
        self.ran: list[tuple[int, Any, Any, int | None]] = []
        execute, executemany = psycopg.Connection.execute, psycopg.Cursor.executemany

        def one(connection: Any, query: Any, params: Any = None, **options: Any) -> Any:
            made = execute(connection, query, params, **options)
            if self.on:
                self.ran.append((id(connection), query, params, made.rowcount))
            return made

        def many(cursor: Any, query: Any, params: Any, **options: Any) -> None:
            if self.on:
                self.ran.append((id(cursor.connection), query, params, None))
            executemany(cursor, query, params, **options)

        monkeypatch.setattr(psycopg.Connection, "execute", one)
        monkeypatch.setattr(psycopg.Cursor, "executemany", many)


def numbers_of(server: Cluster, database: str) -> list[tuple[str, int]]:
    """Where each sequence stands.  Opening a store tries its rights out, which uses numbers up."""
    with server.connect(database) as connection:
        return connection.execute("SELECT sequencename, last_value FROM pg_sequences WHERE last_value > 0").fetchall()


def set_numbers(server: Cluster, numbers: list[tuple[str, int]], databases: list[str]) -> None:
    for database in databases:
        with server.connect(database) as connection:
            for name, number in numbers:
                connection.execute("SELECT setval(%s::regclass, %s)", [name, number])


def replay_postgresql(server: Cluster, database: str, ran: list[tuple[int, Any, Any, int | None]]) -> float:
    """As `replay`: the same connections in the same order, each row fetched, and as many of them as for the product."""
    connections = {number: server.connect(database) for number in {number for number, *_ in ran}}
    began = perf_counter()
    touched: list[int | None] = []
    for number, text, values, rows in ran:
        if rows is None:
            touched.append(None)
            with connections[number].cursor() as cursor:
                cursor.executemany(text, values)
        else:
            cursor = connections[number].execute(text, values)
            touched.append(cursor.rowcount)
            if cursor.rownumber is not None:
                cursor.fetchall()
    took = perf_counter() - began
    assert touched == [rows for *_, rows in ran]
    for made in connections.values():
        made.close()
    return took


@pytest.mark.benchmark(group="whole actions, PostgreSQL, one caller")
def test_an_action_beside_the_driver_of_postgresql(
    benchmark: BenchmarkFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"s{number}" for number in range(2 * ACTIONS)]
    clock = FakeClock()
    with cluster() as server:
        name = server.database()
        store = open_store(server.url(name), clock)
        try:
            bench = a_bench(store, clock, names)
            benchmark.pedantic(act, (bench, names[:ACTIONS], bench.fence(EXECUTOR)), rounds=1)  # also warms up
        finally:
            store.close()
        copies = []
        with server.connect() as connection:
            for turn in range(3):
                copies.append(f"copy{turn}")
                connection.execute(f'CREATE DATABASE "copy{turn}" TEMPLATE "{name}"'.encode())
        recorder = PostgresqlRecorder(monkeypatch)
        store = open_store(server.url(name), clock)
        try:
            bench = a_bench(store, clock, names)
            fence = bench.fence(EXECUTOR)
            set_numbers(server, numbers_of(server, name), copies)
            product = recorded(recorder, lambda: act(bench, names[ACTIONS:], fence))
        finally:
            store.close()
        monkeypatch.undo()
        raw = min(replay_postgresql(server, copy, recorder.ran) for copy in copies)
    told(benchmark, len(recorder.ran), product, raw)


def beside_a_busy_thread(job: Callable[[], None]) -> None:
    """Run `job` while another thread of this process does nothing but compute."""
    over = threading.Event()

    def busy() -> None:
        number = 0
        while not over.is_set():
            for _ in range(10_000):
                number = (number * 31 + 7) % 1_000_003

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        job()
    finally:
        over.set()
        thread.join()


@pytest.fixture
def switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("switching")
@pytest.mark.benchmark(group="whole actions, SQLite, beside a thread that keeps a core busy")
@pytest.mark.parametrize("switch_s", [0.005, SWITCH_S])  # what Python has, and what a plane has
def test_an_action_beside_a_busy_thread(benchmark: BenchmarkFixture, tmp_path: Path, switch_s: float) -> None:
    sys.setswitchinterval(switch_s)
    names = [f"s{number}" for number in range(3 * ACTIONS)]
    clock = FakeClock()
    store = open_store(f"sqlite:///{tmp_path / 'fleet.db'}", clock)
    alone: list[float] = []
    beside: list[float] = []
    try:
        bench = a_bench(store, clock, names)
        fence = bench.fence(EXECUTOR)
        act(bench, names[:ACTIONS], fence)
        act(bench, names[ACTIONS : 2 * ACTIONS], fence, alone)
        benchmark.pedantic(beside_a_busy_thread, (lambda: act(bench, names[2 * ACTIONS :], fence, beside),), rounds=1)
    finally:
        store.close()
    for what, took in (("alone", alone), ("beside", beside)):
        assert len(took) == ACTIONS
        benchmark.extra_info[f"{what}_p50_ms"] = statistics.median(took) * 1000
        benchmark.extra_info[f"{what}_p99_ms"] = statistics.quantiles(took, n=100)[98] * 1000
    print(f"\n{benchmark.extra_info}")
