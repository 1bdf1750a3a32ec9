"""The store on SQLite: one process, one write connection, commits in groups.

A transaction that stands alone is BEGIN IMMEDIATE … COMMIT.  In a group each has a savepoint: what raises is rolled
back alone, and everybody is answered after the one COMMIT.  If that COMMIT fails, or SQLite ends the transaction in
the middle, nobody of the group is told success, and nobody is told a refusal either, because it may rest on what a
neighbour wrote.  After a COMMIT that failed with an I/O error nobody knows what the file holds: the store then refuses
everything until the plane has been started again and has read the file anew.

Readers have short transactions on connections of their own and never wait for the writer.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, cast

from fleetwarden.domain.errors import FleetError, StoreUnavailable
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.ports.stores import StoreHealth, Tx
from fleetwarden.ports.system import Clock
from fleetwarden.store import revisions
from fleetwarden.store.columns import document
from fleetwarden.store.commit_queue import CommitQueue, Job
from fleetwarden.store.facts import NEWEST_TIME, PUT_FACT
from fleetwarden.store.ownership import Ownership
from fleetwarden.store.pool import Pool
from fleetwarden.store.release import SlowTransactions, release_all
from fleetwarden.store.sqlite_session import (
    LedgerTime,
    SqliteSession,
    connect,
    connect_reader,
    empty_log,
    is_io_error,
    translated,
)
from fleetwarden.store.transactions import Nesting, Transaction

__all__ = ["SqliteStore"]

T = TypeVar("T")
READERS_MAX = 16
READER_WAIT_S = 10.0
WAL_BYTES_MAX = 16 * 1024 * 1024  # when nobody waits and the log is larger, it is emptied
CLOCK_BEHIND_US = SECOND
_RESTART = "start the plane again: it then reads what the file really holds"


class SqliteStore:
    """Implements `ports.stores.Store` on the database file `path`, which it owns until `close`.

    `synchronous_off` gives up durability across power loss (not across a kill) for speed: for simulations only.
    Raises Misconfigured: owned by another process, no database, a schema of a newer version.
    """

    def __init__(self, path: Path, clock: Clock, *, synchronous_off: bool = False) -> None:
        self._path = path.resolve()
        self._clock = clock
        self._nesting = Nesting()
        self._slow = SlowTransactions()
        self._closed = False
        self._broken = ""
        self._checkpoint_above = WAL_BYTES_MAX
        self._ownership = Ownership(self._path, clock.now())
        try:
            self._connection = connect(self._path, synchronous="OFF" if synchronous_off else "FULL")
            try:
                self._ready()
            except BaseException:
                self._connection.close()
                raise
        except BaseException:
            self._ownership.release()
            raise
        self._readers: Pool[sqlite3.Connection] = Pool(
            lambda: connect_reader(self._path),
            sqlite3.Connection.close,
            size=READERS_MAX,
            wait_s=READER_WAIT_S,
        )
        self._queue = CommitQueue(self._run_group, self._rest)

    def _ready(self) -> None:
        try:
            revisions.ensure_sqlite(self._connection, str(self._path))
            [(newest,)] = self._connection.execute(_NEWEST).fetchall()
        except sqlite3.Error as error:
            raise translated(error, str(self._path)) from error
        self._persisted = int(newest)
        self._time = LedgerTime(self._clock, self._persisted)

    def announce(self, url: str, config: str = "") -> None:
        """Say in the lock file where this plane answers, and for which configuration folder."""
        self._ownership.announce(url, config)

    def transact(self, name: str, fn: Callable[[Tx], T]) -> T:
        self._nesting.refuse()
        job = Job(name, fn)
        self._queue.submit(job)
        if job.error is not None:
            raise job.error
        release_all(name, job.releases)
        return cast(T, job.value)

    def read(self, fn: Callable[[Tx], T]) -> T:
        self._nesting.refuse()
        self._refuse_if_broken()
        connection = self._readers.take()
        session = SqliteSession(connection, self._time, str(self._path), writable=False)
        sound = False
        try:
            self._execute(connection, "BEGIN")
            with self._nesting.inside():
                value = fn(Transaction(session))
            if session.fault is not None:
                raise session.fault
            return value
        finally:
            session.end()
            with suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                sound = True
            self._readers.give_back(connection, sound=sound)

    def health(self) -> StoreHealth:
        try:
            self.read(lambda tx: tx.facts.get(NEWEST_TIME))
        except FleetError as error:
            return StoreHealth(dialect="sqlite", reachable=False, detail=str(error), slow_transactions=self._slow.count)
        behind = self._time.behind()
        detail = ""
        if behind > CLOCK_BEHIND_US:
            detail = f"the clock is {behind // SECOND} s behind the newest time in the ledger, which is used instead"
        return StoreHealth(
            dialect="sqlite",
            reachable=True,
            detail=detail,
            wal_bytes=self._wal_bytes(),
            slow_transactions=self._slow.count,
        )

    def close(self) -> None:
        """Finish what waits, then close the file and give up its ownership.  Once is enough; again does nothing."""
        if self._closed:
            return
        self._closed = True
        self._queue.close()
        self._readers.close()
        self._connection.close()
        self._ownership.release()

    def _run_group(self, jobs: Sequence[Job]) -> None:
        began = self._clock.monotonic()
        try:
            self._refuse_if_broken()
            self._execute(self._connection, "BEGIN IMMEDIATE")
            newest = self._run_jobs(jobs)
            if any(job.error is None for job in jobs):
                self._commit(newest)
            else:
                self._execute(self._connection, "ROLLBACK")
        except _GroupLost as lost:
            self._lose(jobs, lost.error)
        except FleetError as error:
            self._lose(jobs, error)
        except BaseException as error:
            self._lose(jobs, StoreUnavailable(f"the transaction was interrupted: {type(error).__name__}"))
            raise
        held_s = self._clock.monotonic() - began
        commit_s = held_s - sum(job.spent_s for job in jobs)
        for job in jobs:
            self._slow.note(job.name, job.spent_s + commit_s)

    def _run_jobs(self, jobs: Sequence[Job]) -> int:
        """Run each in its savepoint (or, alone, without one); the newest time that a successful one used."""
        newest, grouped = 0, len(jobs) > 1
        for job in jobs:
            if grouped:
                self._execute(self._connection, "SAVEPOINT job")
            began = self._clock.monotonic()
            session = self._run_job(job)
            job.spent_s = self._clock.monotonic() - began
            if not self._connection.in_transaction:
                raise _GroupLost(session.fault or StoreUnavailable("the database ended the transaction"))
            if job.error is None:
                job.releases = session.releases
                newest = max(newest, session.dated or 0)
            elif grouped:
                self._execute(self._connection, "ROLLBACK TO job")
            if grouped:
                self._execute(self._connection, "RELEASE job")
        return newest

    def _run_job(self, job: Job) -> SqliteSession:
        session = SqliteSession(self._connection, self._time, str(self._path), writable=True)
        try:
            with self._nesting.inside():
                job.value = job.fn(Transaction(session))
                session.flush()
            job.error = session.fault  # swallowed by fn: it must not be committed
        except BaseException as error:  # noqa: BLE001 -- handed over to the job's own caller
            job.error = error
        finally:
            session.end()
        return session

    def _commit(self, newest: int) -> None:
        if newest > self._persisted:
            body = {"name": NEWEST_TIME, "value": document("newest time", newest), "at": newest}
            self._execute(self._connection, PUT_FACT.sqlite.text, body)
        try:
            self._connection.execute("COMMIT")
        except (sqlite3.Error, MemoryError) as error:
            if is_io_error(error):
                self._broken = f"a commit to {self._path} failed ({error}), so that what it holds is not known"
            raise translated(error, str(self._path)) from error
        self._persisted = max(self._persisted, newest)

    def _lose(self, jobs: Sequence[Job], error: FleetError) -> None:
        """Nothing of the group was kept: say so to each, and leave the connection clean or mark the store broken."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as failed:
            self._broken = self._broken or f"a rollback in {self._path} failed ({failed})"
        for job in jobs:
            job.value, job.releases = None, ()
            job.error = self._lost(job.name, error)

    def _lost(self, name: str, error: FleetError) -> StoreUnavailable:
        if self._broken:
            lost = StoreUnavailable(f"whether {name!r} was kept is not known: {self._broken}", hint=_RESTART)
        else:
            lost = StoreUnavailable(f"nothing was kept of {name!r}: {error.message}", hint=error.hint)
        lost.__cause__ = error
        return lost

    def _rest(self) -> None:
        """Empty the write-ahead log when it has grown; if a reader is in the way, try again a good deal later."""
        size = self._wal_bytes()
        if size <= self._checkpoint_above:
            return
        try:
            [busy, *_] = empty_log(self._connection)
        except sqlite3.Error:
            busy = 1  # the log keeps everything; the next commit will tell if the disk is bad
        self._checkpoint_above = size + WAL_BYTES_MAX if busy else WAL_BYTES_MAX

    def _wal_bytes(self) -> int:
        try:
            return os.stat(f"{self._path}-wal").st_size  # noqa: PTH116 -- after every commit: cheaper than a Path
        except OSError:
            return 0

    def _execute(self, connection: sqlite3.Connection, sql: str, values: dict[str, object] | None = None) -> None:
        try:
            connection.execute(sql, values or {})
        except (sqlite3.Error, MemoryError) as error:
            raise translated(error, str(self._path)) from error

    def _refuse_if_broken(self) -> None:
        if self._broken:
            raise StoreUnavailable(self._broken, hint=_RESTART)


class _GroupLost(Exception):
    """SQLite ended the transaction under a job; what the job made of that does not matter."""

    def __init__(self, error: FleetError) -> None:
        super().__init__(str(error))
        self.error = error


# The fact alone would do; the ledger's last rows are a second witness, should it have been lost in a copy.
_NEWEST = f"""
    SELECT max(
      coalesce((SELECT CAST(value AS INTEGER) FROM facts WHERE name = '{NEWEST_TIME}'), 0),
      coalesce((SELECT at FROM decisions ORDER BY seq DESC LIMIT 1), 0),
      coalesce((SELECT at FROM journal ORDER BY seq DESC LIMIT 1), 0))
"""  # noqa: S608 -- a constant of ours
