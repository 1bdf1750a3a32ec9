from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.cli.world import world_in
from tests.acceptance.crash.databases import PostgresqlDatabase, SqliteDatabase
from tests.acceptance.storm.world import Database, Stormy
from tests.postgresql import Cluster


@pytest.fixture
def stormy(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> Iterator[Stormy]:
    """An empty world on the database that the test names."""
    made: Database
    if database == "postgresql":
        cluster: Cluster = request.getfixturevalue("postgresql")
        made = PostgresqlDatabase(cluster.url(cluster.empty_database()), [])
    else:
        made = SqliteDatabase(tmp_path / "storm.db")
    with world_in(tmp_path) as world:
        yield Stormy(world, made)
