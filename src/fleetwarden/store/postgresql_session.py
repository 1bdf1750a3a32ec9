"""Connections and sessions on PostgreSQL, and what its errors mean.

READ COMMITTED with explicit locks: each statement sees what is committed when it starts, and whatever a transaction
relies on it locks.  Time is the server's clock, read once.  Every wait is bounded (statement, lock, idle transaction,
a silent network), so that no thread hangs for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import psycopg
from psycopg import conninfo

from fleetwarden.domain.errors import Conflict, FleetError, Misconfigured, NotFound, Refused, StoreUnavailable
from fleetwarden.domain.identifiers import Micros
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Row, Statement

__all__ = ["Address", "PostgresqlSession", "RunAgain", "connect", "place", "translated"]

Address: TypeAlias = str | Callable[[], str]  # a URL, or what says it anew for each connection

_ADMISSION_LOCK = 0x666C_6565  # the class of our advisory locks; the second number is the schema's
_LOCK_EXCLUSIVE = b"SELECT pg_advisory_xact_lock(%s, hashtext(current_schema()))"
_LOCK_SHARED = b"SELECT pg_advisory_xact_lock_shared(%s, hashtext(current_schema()))"
_NOW = b"SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

_NUMBERS = b"""
    SELECT nextval(it.counter) FROM (SELECT pg_get_serial_sequence(%(table)s, 'seq')::regclass AS counter OFFSET 0) it,
           generate_series(1, %(count)s)
"""

_FORM = "postgresql://user@host/database"
_DEFAULTS = {
    "application_name": "fleetwarden",
    "client_encoding": "UTF8",
    "connect_timeout": "5",
    "tcp_user_timeout": "20000",
    "keepalives_idle": "10",
}
# A server that was told not to wait for the disk would make a fence that power loss forgets.
_SETTINGS = b"""
    SELECT set_config('statement_timeout', '30s', false), set_config('lock_timeout', '10s', false),
           set_config('idle_in_transaction_session_timeout', '60s', false),
           CASE WHEN current_setting('synchronous_commit') = 'off'
                THEN set_config('synchronous_commit', 'on', false) END
"""


class RunAgain(StoreUnavailable):
    """The database broke this transaction up (deadlock, serialisation failure): run its function again."""


def _now(address: Address) -> str:
    return address if isinstance(address, str) else address()


def place(url: Address) -> str:
    """Host and database for messages; never the password.  Raises Misconfigured if the URL cannot be read."""
    try:
        parts = conninfo.conninfo_to_dict(_now(url))
    except psycopg.Error as error:
        raise Misconfigured("the store's PostgreSQL URL cannot be read", hint=_FORM) from error
    return f"PostgreSQL {parts.get('host', 'localhost')}/{parts.get('dbname', parts.get('user', ''))}"


def connect(url: Address) -> psycopg.Connection[Row]:
    """A connection in autocommit mode (we send BEGIN ourselves).  Raises StoreUnavailable."""
    url = _now(url)
    try:
        given = conninfo.conninfo_to_dict(url)
        missing = {name: value for name, value in _DEFAULTS.items() if name not in given}
        complete = conninfo.make_conninfo(url, **missing)
        connection: psycopg.Connection[Row] = psycopg.Connection.connect(complete, autocommit=True)
    except psycopg.Error as error:
        raise StoreUnavailable(f"{place(url)} cannot be reached: {error}") from error
    try:
        connection.execute(_SETTINGS)
    except psycopg.Error as error:
        connection.close()
        raise translated(error, place(url)) from error
    return connection


def translated(error: psycopg.Error, where: str) -> FleetError:
    """A driver's error as ours."""
    state = error.sqlstate or ""
    said = str(error).strip().partition("\n")[0]
    if state in {"40001", "40P01"}:
        return RunAgain(f"{where}: {said}", hint="it was run again several times")
    if state == "23503":
        return NotFound(f"something that this record refers to does not exist ({said})")
    if state == "23505":
        return Conflict(f"another record is in the way ({said})")
    if state.startswith(("22", "23")):
        return Refused(f"{where} refuses this record: {said}", code="unstorable")
    if state in {"42501", "42P07"}:
        return Misconfigured(
            f"{where}: {said}",
            hint="give fleetwarden a database of its own, or a schema, in which it may make tables",
        )
    if state == "55P03":
        return StoreUnavailable(f"{where}: another transaction holds a lock for too long ({said})")
    return StoreUnavailable(f"{where} cannot be used now: {said or type(error).__name__}")


class PostgresqlSession(Session):
    """One transaction on one connection."""

    def __init__(self, connection: psycopg.Connection[Row], where: str, *, writable: bool) -> None:
        super().__init__(writable=writable)
        self._connection = connection
        self._where = where

    def array(self, texts: Sequence[str]) -> list[str]:
        return list(texts)

    def _run(self, statement: Statement, values: dict[str, Any]) -> list[Row]:
        sql = statement.postgresql
        return self._ask(sql.text.encode(), sql.values(values))

    def _run_many(self, statement: Statement, values: Sequence[dict[str, Any]]) -> int:
        sql = statement.postgresql
        try:
            with self._connection.cursor() as cursor:
                cursor.executemany(sql.text.encode(), [sql.values(one) for one in values])
                return cursor.rowcount
        except psycopg.Error as error:
            self.fault = translated(error, self._where)
            raise self.fault from error

    def _take_numbers(self, table: str, count: int) -> Sequence[int]:
        return sorted(number for (number,) in self._ask(_NUMBERS, {"table": table, "count": count}))

    def _ask(self, sql: bytes, values: dict[str, Any] | list[Any] | None = None) -> list[Row]:
        try:
            cursor = self._connection.execute(sql, values)
            return cursor.fetchall() if cursor.rownumber is not None else []  # `description` would list all columns
        except psycopg.Error as error:
            self.fault = translated(error, self._where)
            raise self.fault from error

    def _read_now(self) -> Micros:
        [(now,)] = self._ask(_NOW)
        return int(now)

    def _lock_admission(self, exclusive: bool) -> None:
        self._ask(_LOCK_EXCLUSIVE if exclusive else _LOCK_SHARED, [_ADMISSION_LOCK])
