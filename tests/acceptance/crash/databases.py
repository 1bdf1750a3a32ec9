"""The two databases of the matrix, as plain drivers see them.

On PostgreSQL every rule reads the server's clock.  To let a horizon pass without waiting for it, a database of the
matrix has a `clock_timestamp` of its own that adds what `shift.clock` says, found first because the connection's search
path names `pg_catalog` last.  The product's SQL is unchanged; a driver checks that the store's time really followed.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.rows import dict_row

from tests.postgresql import Cluster

__all__ = ["PostgresqlDatabase", "SqliteDatabase"]

_SHIFT = b"""
    CREATE SCHEMA shift;
    CREATE TABLE shift.clock (seconds double precision NOT NULL);
    INSERT INTO shift.clock VALUES (0);
    CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
        'SELECT pg_catalog.clock_timestamp() + make_interval(secs => (SELECT seconds FROM shift.clock))';
"""


class SqliteDatabase:
    """A file that the plane makes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = f"sqlite:///{path}"

    def rows(self, sql: str) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(f"file:{quote(str(self._path))}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql)]

    def close(self) -> None:
        """The file goes with its folder."""


class PostgresqlDatabase:
    """A database of a real server, with a clock that can be moved forward."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._name = cluster.database()
        self.url = f"{cluster.url(self._name)}?options={quote('-csearch_path=public,pg_catalog')}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(_SHIFT)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        with psycopg.connect(self.url, autocommit=True, row_factory=dict_row) as connection:
            return connection.execute(sql.encode()).fetchall()

    def close(self) -> None:
        self._cluster.drop(self._name)
