"""One suite, two databases: every test that asks for `database` or `store` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fleetwarden.store.opening import open_store
from fleetwarden.testing.system import FakeClock

if TYPE_CHECKING:
    from fleetwarden.store.postgresql_engine import PostgresqlStore
    from fleetwarden.store.sqlite_engine import SqliteStore

POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.needs("postgresql"))


class Database:
    """Where the store is, a clock for it, and how time passes there."""

    def __init__(self, dialect: str, url: str) -> None:
        self.dialect = dialect
        self.url = url
        self.clock = FakeClock()
        self._opened: list[SqliteStore | PostgresqlStore] = []

    def open(self) -> SqliteStore | PostgresqlStore:
        """Open it; closed when the test ends."""
        store = open_store(self.url, self.clock)
        self._opened.append(store)
        return store

    def lapse(self) -> None:
        """Let at least two milliseconds pass by the store's time: SQLite's is ours to move, a server's is its own."""
        if self.dialect == "sqlite":
            self.clock.advance(60)
        else:
            threading.Event().wait(0.005)

    def close(self) -> None:
        for store in self._opened:
            store.close()


@pytest.fixture(params=["sqlite", POSTGRESQL])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        opened = Database("sqlite", f"sqlite:///{tmp_path / 'fleet.db'}")
        yield opened
        opened.close()
        return
    cluster = request.getfixturevalue("postgresql")
    with cluster.scratch() as name:
        opened = Database("postgresql", cluster.url(name))
        yield opened
        opened.close()


@pytest.fixture
def store(database: Database) -> SqliteStore | PostgresqlStore:
    return database.open()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    """Only SQLite, for what is only true there."""
    opened = Database("sqlite", f"sqlite:///{tmp_path / 'fleet.db'}")
    yield opened
    opened.close()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Only PostgreSQL; mark the test `@pytest.mark.needs("postgresql")`."""
    cluster = request.getfixturevalue("postgresql")
    with cluster.scratch() as name:
        opened = Database("postgresql", cluster.url(name))
        yield opened
        opened.close()
