"""An action from the request to its settled record, beside the raw driver running the very same statements.

SQLite, one caller.  The statements are recorded while the product runs, reads and commits included, and then run again
by sqlite3 alone on a copy of the database as it was before, with the same pragmas.  The recorded text holds its values,
so the driver parses each statement anew, which flatters the product; that it is timed while it is recorded does not.
"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fleetwarden.domain.actions import ActionRequest, Evidence
from fleetwarden.domain.policy import Verdict
from fleetwarden.store.opening import open_store
from fleetwarden.testing import FakeClock, a_fleet, a_policy, a_service
from tests.contract.pipeline.conftest import EXECUTOR, Bench

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


def act(bench: Bench, names: list[str], fence: Any) -> None:
    for name in names:
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
        bench = Bench(store, clock)
        bench.files.declare(
            fleet=a_fleet(*(a_service(name) for name in names)),
            policy=a_policy(rate=(1_000, 3600), blast=(100_000, 3600)),
        )
        for name in names:
            bench.substrate.boot(name, 1)
        fence = bench.fence(EXECUTOR)
        benchmark.pedantic(act, (bench, names[:ACTIONS], fence), rounds=1)  # also warms up
        with sqlite3.connect(tmp_path / "fleet.db") as source, sqlite3.connect(tmp_path / "before.db") as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = WAL")
        source.close()
        copy.close()
        recorder.on = True
        began = perf_counter()
        act(bench, names[ACTIONS:], fence)
        product = perf_counter() - began
        recorder.on = False
    finally:
        store.close()
    monkeypatch.undo()
    raw = min(replay(Path(shutil.copy(tmp_path / "before.db", tmp_path / f"copy{turn}.db")), recorder.ran, synchronous)
              for turn in range(3))  # fmt: skip
    figures = {
        "statements_an_action": len(recorder.ran) / ACTIONS,
        "product_ms": product / ACTIONS * 1000,
        "driver_ms": raw / ACTIONS * 1000,
        "driver_share": raw / product,
    }
    benchmark.extra_info.update(figures)
    print(f"\n{figures}")
    assert len(recorder.ran) > ACTIONS
