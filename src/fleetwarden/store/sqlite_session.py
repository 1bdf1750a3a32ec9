"""Connections and sessions on SQLite, and the store's time there.

Every statement goes through a session, because only there can it be seen that SQLite has ended a transaction by
itself (disk full, I/O error, no memory): from then on each statement would be its own transaction, so none is run.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fleetwarden.domain.errors import Conflict, FleetError, Misconfigured, NotFound, Refused, StoreUnavailable
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.ports.system import Clock
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Row, Statement

__all__ = ["LedgerTime", "SqliteSession", "connect", "connect_reader", "empty_log", "is_io_error", "translated"]

_BUSY_TIMEOUT_S = 5.0  # only a foreign program (a person's sqlite3) can be in our way
_STATEMENTS_CACHED = 512
_NEWEST_NUMBER = (
    "SELECT max(coalesce((SELECT max(seq) FROM {table}), 0), "
    "coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{table}'), 0), "
    "coalesce((SELECT floor FROM number_floors WHERE name = '{table}'), 0))"
)


class LedgerTime:
    """The store's time on SQLite: this machine's clock, but always later than whatever it has said before.

    No two transactions share a moment, so that an observation is before a commit or after it, never both.  After the
    clock has stepped back, time goes on at half speed until the clock has caught up: a budget cannot be opened by a
    step, and leases, horizons and expiries do not stand still for an hour either.
    """

    def __init__(self, clock: Clock, newest: Micros) -> None:
        self._clock = clock
        self._newest = newest
        self._measured = clock.monotonic()
        self._mutex = threading.Lock()

    def read(self) -> Micros:
        told, measured = self._clock.now(), self._clock.monotonic()
        with self._mutex:
            flowed = int(max(0.0, measured - self._measured) * SECOND) // 2
            self._newest = max(told, self._newest + flowed, self._newest + 1)
            self._measured = max(self._measured, measured)
            return self._newest

    def behind(self) -> Micros:
        """How far the clock is behind what the ledger knows; 0 if it is not."""
        return max(0, self._newest - self._clock.now())


def connect(path: Path, *, synchronous: str) -> sqlite3.Connection:
    """Open the write connection, creating the file if it is not there.  Raises Misconfigured if that cannot work."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # token digests are for us alone
        connection = _open(path)
    except (OSError, sqlite3.Error) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise Misconfigured(f"the database {path} cannot be opened: {why}") from error
    try:
        _prepare(connection, synchronous)
    except sqlite3.Error as error:
        connection.close()
        if error.sqlite_errorcode in {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}:
            raise Misconfigured(f"{path} cannot be used as a database: {error}") from error
        raise translated(error, str(path)) from error
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open a connection that can only read.  Raises StoreUnavailable; never makes an empty file."""
    try:
        connection = _open(path)
        connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error as error:
        raise translated(error, str(path)) from error
    return connection


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw",
        uri=True,
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=_STATEMENTS_CACHED,
    )


def _prepare(connection: sqlite3.Connection, synchronous: str) -> None:
    [mode] = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise Misconfigured(f"the file system does not allow SQLite's write-ahead log (it stays in mode {mode!r})")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA cache_size = -16384")  # KiB: a long list is one transaction, and must not spill


def empty_log(connection: sqlite3.Connection) -> Row:
    """Move the write-ahead log into the database and empty it; the row begins with 1 where a reader is in the way."""
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        row: Row = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {round(_BUSY_TIMEOUT_S * 1000)}")
    return row


def is_io_error(error: BaseException) -> bool:
    """Whether the disk failed us, as against being full."""
    code = getattr(error, "sqlite_errorcode", 0)
    return bool(code & 0xFF == sqlite3.SQLITE_IOERR)


def translated(error: Exception, where: str) -> FleetError:
    """A driver's error as ours."""
    if isinstance(error, OverflowError):
        return Refused(f"a number is too large for a column: {error}", code="unstorable")
    if isinstance(error, sqlite3.IntegrityError):
        code = error.sqlite_errorcode
        if code == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
            return NotFound(f"something that this record refers to does not exist ({error})")
        if code in {sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY}:
            return Conflict(f"another record is in the way ({error})")
        return Refused(f"the database refuses this record: {error}", code="constraint")
    return StoreUnavailable(f"the database {where} cannot be used now: {str(error) or type(error).__name__}")


class SqliteSession(Session):
    """One transaction, or one savepoint of a group, on one connection."""

    def __init__(self, connection: sqlite3.Connection, time: LedgerTime, where: str, *, writable: bool) -> None:
        super().__init__(writable=writable)
        self._connection = connection
        self._time = time
        self._where = where

    def array(self, texts: Sequence[str]) -> str:
        return json.dumps(list(texts))

    def _run(self, statement: Statement, values: dict[str, Any]) -> list[Row]:
        sql = statement.sqlite
        try:
            return self._connection.execute(sql.text, sql.values(values)).fetchall()
        except (sqlite3.Error, MemoryError, OverflowError) as error:
            self.fault = translated(error, self._where)
            raise self.fault from error

    def _run_many(self, statement: Statement, values: Sequence[dict[str, Any]]) -> int:
        sql = statement.sqlite
        try:
            return self._connection.executemany(sql.text, [sql.values(one) for one in values]).rowcount
        except (sqlite3.Error, MemoryError, OverflowError) as error:
            self.fault = translated(error, self._where)
            raise self.fault from error

    def _take_numbers(self, table: str, count: int) -> Sequence[int]:
        """Above all that is there, all that ever was, and an epoch's floor.  There is one writer: nobody is between."""
        try:
            [(newest,)] = self._connection.execute(_NEWEST_NUMBER.format(table=table)).fetchall()
        except (sqlite3.Error, MemoryError) as error:
            self.fault = translated(error, self._where)
            raise self.fault from error
        return range(newest + 1, newest + 1 + count)

    def _read_now(self) -> Micros:
        return self._time.read()

    def _lock_admission(self, exclusive: bool) -> None:
        """Nothing to do: there is one writer."""
