"""Whole stores in and out of PostgreSQL.

Out: every table in one REPEATABLE READ snapshot, while planes go on.  In: everything in one transaction that locks the
tables, into an empty database or instead of what is there, with the counters set and every row read back and compared
before it commits.  A store in which a plane is at work is refused.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa

from fleetwarden.domain.errors import Conflict, Misconfigured, StoreUnavailable
from fleetwarden.domain.identifiers import SECOND, rfc3339
from fleetwarden.store import portable, revisions, schema
from fleetwarden.store.epochs import ARRIVING
from fleetwarden.store.portable import Columns, TableSum
from fleetwarden.store.postgresql_session import connect, place, translated
from fleetwarden.store.statements import SQLITE, Row

__all__ = ["arrived", "exporter", "highest_numbers", "is_arriving", "load", "revision_of", "sums"]

_UNHURRIED = b"""
    SELECT set_config('statement_timeout', '0', false), set_config('idle_in_transaction_session_timeout', '0', false)
"""
_NOW = b"SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_BATCH = 1000
AHEAD_MAX = 5 * SECOND


@contextmanager
def _session(url: str) -> Iterator[psycopg.Connection[Row]]:
    """A connection for long work, whose errors are ours."""
    with closing(connect(url)) as connection:
        try:
            connection.execute(_UNHURRIED)
            yield connection
        except psycopg.Error as error:
            raise translated(error, place(url)) from error


def revision_of(url: str) -> str | None:
    """Which schema the database has; None if it has none of ours."""
    with _session(url) as connection:
        return revisions.postgresql_revision(connection)


def exporter(url: str) -> Callable[[sqlite3.Connection, Path], None]:
    """What fills an empty SQLite file with the database's content, at one moment."""

    def fill(target: sqlite3.Connection, _: Path) -> None:
        with _session(url) as source:
            source.execute(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            revision = revisions.postgresql_revision(source)
            if revision is None:
                raise Misconfigured(f"{place(url)} holds no store of fleetwarden")
            revisions.refuse_if_unknown(revision, place(url))
            _make_tables(target, revision)
            target.execute("BEGIN")
            for table in portable.tables_of(target):
                _fill_table(source, target, table)
            target.execute("COMMIT")
            source.execute(b"ROLLBACK")

    return fill


def _make_tables(target: sqlite3.Connection, revision: str) -> None:
    """The tables of that schema, as they were then."""
    if revision != revisions.HEAD:
        revisions.migrate("sqlite", lambda: target, to=revision)
        return
    for statement in revisions.creation(SQLITE):
        target.execute(statement)


def _fill_table(source: psycopg.Connection[Row], target: sqlite3.Connection, table: Columns) -> None:
    marks = ", ".join("?" for _ in table.names)
    insert = f'INSERT INTO "{table.table}" ({table.quoted}) VALUES ({marks})'  # noqa: S608 -- names of ours
    target.executemany(insert, _rows(source, table))


def _rows(source: psycopg.Connection[Row], table: Columns) -> Iterator[Row]:
    query = f'COPY (SELECT {table.quoted} FROM "{table.table}") TO STDOUT'  # noqa: S608 -- names of ours
    with source.cursor() as cursor, cursor.copy(query.encode()) as copy:
        copy.set_types(["int8" if integer else "text" for integer in table.integers])
        for row in copy.rows():
            yield portable.settled_row(table, row)


def load(file: Path, url: str, *, replace: bool, arriving: str = "") -> dict[str, TableSum]:
    """Put a store's file into the database, and return the sums of what stands there then.

    `replace` takes away what is there.  `arriving`: leave the mark that it is not finished, with these words; such a
    beginning is taken away by the next try.  The file has today's schema.  Raises Conflict (not empty, a plane is at
    work), Misconfigured (its clock is behind), StoreUnavailable.
    """
    revisions.ensure_postgresql(lambda: connect(url), place(url))
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as source, _session(url) as target:
        tables = _in_order(source)
        target.execute(b"BEGIN")
        _lock(target, url)
        _refuse_unless_free(target, url, tables, replace=replace)
        _refuse_if_ahead(source, target, url)
        everything = ", ".join(f'"{table.table}"' for table in tables)
        target.execute(f"TRUNCATE {everything}".encode())
        for table in tables:
            _load_table(source, target, table)
        found = {table.table: portable.digest_of(_rows(target, table)) for table in tables}
        wanted = {table.table: portable.digest_of(portable.rows_of(source, table)) for table in tables}
        if told := portable.differences(wanted, found):
            raise StoreUnavailable(f"{place(url)} does not hold what was copied, nothing was kept: {'; '.join(told)}")
        _set_counters(target, tables, _floors(source))
        if arriving:
            target.execute(
                b"INSERT INTO facts (name, value, at) VALUES (%s, to_json(%s::text), 0)", [ARRIVING, arriving]
            )
        target.execute(b"COMMIT")
    return found


def _in_order(source: sqlite3.Connection) -> list[Columns]:
    """The tables, each after those that it refers to."""
    known = {table.table: table for table in portable.tables_of(source)}
    return [known[table.name] for table in schema.METADATA.sorted_tables]


def _lock(target: psycopg.Connection[Row], url: str) -> None:
    names = ", ".join(f'"{table.name}"' for table in schema.METADATA.sorted_tables)
    try:
        target.execute(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE".encode())
    except psycopg.errors.LockNotAvailable as error:
        raise Conflict(f"{place(url)} is in use", hint="end every plane and every backup there first") from error


def _refuse_unless_free(target: psycopg.Connection[Row], url: str, tables: list[Columns], *, replace: bool) -> None:
    held = target.execute(b"SELECT holder FROM leases WHERE holder <> '' AND expires_at > (" + _NOW + b")").fetchall()
    if held:
        raise Conflict(
            f"a plane is at work in {place(url)}: {held[0][0]}",
            code="plane_at_work",
            hint="end it first; one that was killed is gone when its leases have lapsed",
        )
    if replace or _is_arriving(target):
        return
    for table in tables:
        if target.execute(f'SELECT 1 FROM "{table.table}" LIMIT 1'.encode()).fetchone():  # noqa: S608 -- ours
            raise Conflict(f"{place(url)} is not empty: {table.table} has rows", code="not_empty")


def _refuse_if_ahead(source: sqlite3.Connection, target: psycopg.Connection[Row], url: str) -> None:
    [(newest,)] = source.execute(
        "SELECT coalesce(max(at), 0) FROM (SELECT at FROM decisions UNION ALL SELECT at FROM journal)"
    )
    [(now,)] = target.execute(_NOW).fetchall()
    if newest > now + AHEAD_MAX:
        raise Misconfigured(
            f"the clock of {place(url)} says {rfc3339(now)}, but the store's newest row is of {rfc3339(newest)}",
            hint="rules read the database's clock: set it right first",
        )


def _load_table(source: sqlite3.Connection, target: psycopg.Connection[Row], table: Columns) -> None:
    into = f'COPY "{table.table}" ({table.quoted}) FROM STDIN'
    with target.cursor() as cursor, cursor.copy(into.encode()) as copy:
        for row in portable.rows_of(source, table):
            copy.write_row(row)


def _floors(source: sqlite3.Connection) -> Mapping[str, int]:
    return dict(source.execute("SELECT name, floor FROM number_floors").fetchall())


def _set_counters(target: psycopg.Connection[Row], tables: list[Columns], floors: Mapping[str, int]) -> None:
    for table in tables:
        if "seq" not in table.names:
            continue
        [(highest,)] = target.execute(f'SELECT coalesce(max(seq), 0) FROM "{table.table}"'.encode()).fetchall()  # noqa: S608
        last = max(highest, floors.get(table.table, 0))
        counter = [table.table, max(last, 1), last > 0]
        target.execute(b"SELECT setval(pg_get_serial_sequence(%s, 'seq'), %s, %s)", counter)


def is_arriving(url: str) -> bool:
    """Whether a copy into this database was begun and not finished."""
    with _session(url) as connection:
        return revisions.postgresql_revision(connection) is not None and _is_arriving(connection)


def _is_arriving(connection: psycopg.Connection[Any]) -> bool:
    return connection.execute(b"SELECT 1 FROM facts WHERE name = %s", [ARRIVING]).fetchone() is not None


def arrived(url: str) -> None:
    """Take the mark away: from now on this is the store."""
    with _session(url) as connection:
        connection.execute(b"DELETE FROM facts WHERE name = %s", [ARRIVING])


def highest_numbers(url: str) -> Mapping[str, int]:
    """By table, the highest number or token that this store has given out, as far as its rows tell."""
    highest: dict[str, int] = {}
    with _session(url) as connection:
        if revisions.postgresql_revision(connection) is None:
            return highest
        for table in schema.METADATA.sorted_tables:
            there = connection.execute(b"SELECT to_regclass(%s) IS NOT NULL", [table.name]).fetchone()
            if there is None or not there[0]:
                continue
            for name in {"seq", "token"} & set(table.c.keys()):
                query = f'SELECT coalesce(max("{name}"), 0) FROM "{table.name}"'  # noqa: S608 -- ours
                row = connection.execute(query.encode()).fetchone()
                highest[table.name] = max(highest.get(table.name, 0), 0 if row is None else int(row[0]))
            if table.name == "number_floors":
                for floored, floor in connection.execute(b"SELECT name, floor FROM number_floors").fetchall():
                    highest[floored] = max(highest.get(floored, 0), int(floor))
    return highest


def sums(url: str) -> dict[str, TableSum]:
    """The sum of every table of the database's store, at one moment."""
    with _session(url) as connection:
        connection.execute(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        found = {
            table.name: portable.digest_of(_rows(connection, _described(table)))
            for table in schema.METADATA.sorted_tables
        }
        connection.execute(b"ROLLBACK")
    return found


def _described(table: sa.Table) -> Columns:
    integers = tuple(isinstance(column.type, sa.Integer) for column in table.c)
    return Columns(table.name, tuple(column.name for column in table.c), integers)
