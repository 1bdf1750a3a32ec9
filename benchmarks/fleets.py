"""Fleets that several benchmarks look at: many services, all up, on SQLite and a substrate of the same process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fleetwarden.store.opening import open_store
from fleetwarden.testing import FakeClock, a_fleet, a_service
from tests.contract.pipeline.conftest import Bench

__all__ = ["at_rest"]


@contextmanager
def at_rest(folder: Path, services: int) -> Iterator[Bench]:
    """`services` services `s0`, `s1`, …, each with one replica that is up."""
    clock = FakeClock()
    store = open_store(f"sqlite:///{folder / 'fleet.db'}", clock)
    try:
        bench = Bench(store, clock)
        names = [f"s{number}" for number in range(services)]
        bench.files.declare(fleet=a_fleet(*(a_service(name) for name in names)))
        for name in names:
            bench.substrate.boot(name)
        yield bench
    finally:
        store.close()
