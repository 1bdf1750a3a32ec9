"""Which schema a database has, and how it gets the one that this code needs.

An empty database is given today's tables at once; an older one is moved up by the migrations; a newer or a foreign one
is refused and left as it is.  Whether anything is to be done is one query, so that opening a database that is up to
date costs nothing and loads nothing of Alembic.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable

from fleetwarden.domain.errors import Misconfigured
from fleetwarden.store.schema import METADATA, REVISIONS, VERSION_TABLE, version_table
from fleetwarden.store.statements import POSTGRESQL, SQLITE

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

__all__ = [
    "HEAD",
    "creation",
    "ensure_postgresql",
    "ensure_sqlite",
    "migrate",
    "postgresql_revision",
    "refuse_if_unknown",
    "sqlite_revision",
]

HEAD = REVISIONS[-1]
_READ_REVISION = f"SELECT version_num FROM {VERSION_TABLE}"  # noqa: S608 -- a constant of ours
_WRITE_REVISION = f"INSERT INTO {VERSION_TABLE} (version_num) VALUES ('{HEAD}')"  # noqa: S608 -- as above
_MIGRATION_LOCK = 0x666C_6565_7400  # one number that nobody else in the database is likely to lock


def creation(dialect: sa.Dialect) -> Sequence[str]:
    """The statements that make today's tables and say so, in order."""
    statements: list[str] = []
    for table in (*METADATA.sorted_tables, version_table):
        statements.append(str(CreateTable(table).compile(dialect=dialect)))
        by_name = sorted(table.indexes, key=lambda index: str(index.name))
        statements.extend(str(CreateIndex(index).compile(dialect=dialect)) for index in by_name)
    return [*statements, _WRITE_REVISION]


def ensure_sqlite(connection: sqlite3.Connection, where: str) -> None:
    """Bring the schema to HEAD.  Raises Misconfigured for a newer or a foreign database.

    All of it is one transaction: killed in the middle, the database is as it was.
    """
    revision = sqlite_revision(connection)
    if revision == HEAD:
        return
    if revision is not None:
        refuse_if_unknown(revision, where)
        migrate("sqlite", lambda: connection)
        return
    if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None:
        raise Misconfigured(f"{where} holds tables of something else", hint="name another file")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in creation(SQLITE):
            connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def sqlite_revision(connection: sqlite3.Connection) -> str | None:
    """Which schema a file has; None if it has none of ours."""
    try:
        row = connection.execute(_READ_REVISION).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return None
        raise
    return None if row is None else str(row[0])


def ensure_postgresql(connect: Callable[[], psycopg.Connection[Any]], where: str) -> None:
    """Bring the schema to HEAD, under an advisory lock: planes that start together do it once.

    `connect` makes connections in autocommit mode.  Raises Misconfigured like `ensure_sqlite`.
    """
    with connect() as connection:
        if postgresql_revision(connection) == HEAD:
            return
        connection.execute("SET lock_timeout = 0")  # the other one's migration takes as long as it takes
        connection.execute("SELECT pg_advisory_lock(%s)", [_MIGRATION_LOCK])
        revision = postgresql_revision(connection)  # the one before us may have done it
        if revision == HEAD:
            return
        if revision is not None:
            refuse_if_unknown(revision, where)
            migrate("postgresql+psycopg", lambda: _in_transactions(connect()))
            return
        with connection.transaction():
            for statement in creation(POSTGRESQL):
                connection.execute(statement.encode())


def postgresql_revision(connection: psycopg.Connection[Any]) -> str | None:
    """Which schema a database has; None if it has none of ours."""
    there = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [VERSION_TABLE]).fetchone()
    if there is None or not there[0]:
        return None
    row = connection.execute(_READ_REVISION.encode()).fetchone()
    return None if row is None else str(row[0])


def _in_transactions(connection: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    connection.autocommit = False
    return connection


def refuse_if_unknown(revision: str, where: str) -> None:
    """Raise Misconfigured for a schema that a newer version made."""
    if revision not in REVISIONS:
        raise Misconfigured(
            f"{where} has schema {revision}, this version knows schemas up to {HEAD}",
            hint="it was written by a newer version: run that one, or restore a backup from before",
        )


def migrate(dialect: str, connect: Callable[[], Any], *, to: str = "head") -> None:
    """Run Alembic's migrations up to a revision, all in one transaction, on a connection of the driver."""
    from alembic import command
    from alembic.config import Config

    engine = sa.create_engine(f"{dialect}://", creator=connect, poolclass=sa.StaticPool)
    if engine.dialect.name == "sqlite":  # the driver is told to begin nothing by itself, so we do
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    config = Config()
    config.set_main_option("script_location", "fleetwarden.store:migrations")
    config.set_main_option("path_separator", "os")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, to)
    if engine.dialect.name != "sqlite":
        engine.dispose()
