"""Fixtures of the crash matrix: one server process that forks planes, and worlds that clean up after themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.acceptance.crash import world as worlds
from tests.acceptance.crash.databases import PostgresqlDatabase, SqliteDatabase
from tests.acceptance.crash.world import Server, World

MakeWorld = Callable[..., World]


@pytest.fixture(scope="session")
def plane_server() -> Iterator[Server]:
    with worlds.server() as made:
        yield made


@pytest.fixture(scope="session")
def emptied() -> list[PostgresqlDatabase]:
    """Schemas of this worker whose worlds are gone."""
    return []


@pytest.fixture(scope="session")
def postgresql_url(request: pytest.FixtureRequest) -> str:
    """One database for all worlds of this worker; each gets a schema in it."""
    cluster = request.getfixturevalue("postgresql")
    url: str = cluster.url(cluster.empty_database())
    return url


@pytest.fixture
def make_world(
    request: pytest.FixtureRequest, tmp_path: Path, plane_server: Server, emptied: list[PostgresqlDatabase]
) -> Iterator[MakeWorld]:
    """`make_world("sqlite" | "postgresql", **settings)`; what it started is ended with the test."""
    with ExitStack() as stack:

        def make(kind: str, **settings: str) -> World:
            folder = tmp_path / f"w{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            database: SqliteDatabase | PostgresqlDatabase
            if kind == "sqlite":
                database = SqliteDatabase(folder / "data" / "fleet.db")
            elif emptied:
                database = emptied.pop()
            else:
                database = PostgresqlDatabase(request.getfixturevalue("postgresql_url"), emptied)
            world = World(folder, database, plane_server, settings)
            stack.callback(world.close)
            return world

        yield make
