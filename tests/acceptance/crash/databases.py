"""The two databases of the matrix, as plain drivers see them.

On PostgreSQL every rule reads the server's clock.  To let a horizon pass without waiting for it, each world has a
schema with a `clock_timestamp` of its own that adds what `test_clock` says; it is found first because the connection's
search path names `pg_catalog` last.  The product's SQL is unchanged; the runner checks that its time really followed.

Making the tables costs as much as running a plane, so a schema whose world is gone is emptied, and serves the next one.
"""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.rows import dict_row

from fleetwarden.store.schema import METADATA

__all__ = ["PostgresqlDatabase", "SqliteDatabase"]

_NUMBERS = itertools.count(1)
_SHIFT = """
    CREATE SCHEMA {schema};
    CREATE TABLE {schema}.test_clock (seconds double precision NOT NULL);
    INSERT INTO {schema}.test_clock VALUES (0);
    CREATE FUNCTION {schema}.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
        'SELECT pg_catalog.clock_timestamp() + make_interval(secs => (SELECT seconds FROM {schema}.test_clock))';
"""
_AS_NEW = """
    {deletes};
    SELECT setval(seqrelid::regclass, seqstart, false) FROM pg_catalog.pg_sequence
        JOIN pg_catalog.pg_class ON pg_class.oid = seqrelid WHERE relnamespace = current_schema()::regnamespace;
    UPDATE test_clock SET seconds = 0;
"""


class SqliteDatabase:
    """A file that the plane makes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = f"sqlite:///{path}"

    def rows(self, sql: str) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        with closing(sqlite3.connect(f"file:{quote(str(self._path))}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            try:
                return [dict(row) for row in connection.execute(sql)]
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):
                    return []
                raise

    def advance(self, seconds: float) -> None:
        """Nothing: here the plane's own clock is the time."""

    def let_go(self) -> None:
        """Nothing: the file goes with its folder."""


class PostgresqlDatabase:
    """A schema of a real database, which the plane fills, with a clock that can be moved forward.

    `spare` is where it waits, empty, for the next world that wants one.
    """

    def __init__(self, server_url: str, spare: list[PostgresqlDatabase]) -> None:
        self._spare = spare
        schema = f"world_{next(_NUMBERS)}"
        self.url = f"{server_url}?options={quote(f'-csearch_path={schema},pg_catalog')}"
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(_SHIFT.format(schema=schema).encode())

    def rows(self, sql: str) -> list[dict[str, Any]]:
        with psycopg.connect(self.url, autocommit=True, row_factory=dict_row) as connection:
            try:
                return connection.execute(sql.encode()).fetchall()
            except psycopg.errors.UndefinedTable:
                return []

    def advance(self, seconds: float) -> None:
        """Move the server's clock, as far as this schema is concerned."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("UPDATE test_clock SET seconds = seconds + %s", [seconds])

    def let_go(self) -> None:
        """Nobody uses it any more.  With tables: no rows, numbers from the start, the clock right."""
        if not self.rows("SELECT 1 FROM facts LIMIT 1"):
            return
        deletes = "; ".join(f'DELETE FROM "{table.name}"' for table in reversed(METADATA.sorted_tables))
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(_AS_NEW.format(deletes=deletes).encode())
        self._spare.append(self)
