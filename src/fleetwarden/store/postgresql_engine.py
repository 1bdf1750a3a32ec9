"""The store on PostgreSQL: a connection per running transaction, many processes side by side.

A transaction that the database breaks up (deadlock, serialisation failure) is run again a few times.  A connection
that is lost before COMMIT was sent has changed nothing, and that is what its caller hears.  Lost during COMMIT, nobody
can tell: that is OutcomeUnknown, to be read back and never run again blindly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import psycopg

from fleetwarden.domain.errors import FleetError, OutcomeUnknown, StoreUnavailable
from fleetwarden.ports.stores import StoreHealth, Tx
from fleetwarden.ports.system import Clock
from fleetwarden.store import revisions
from fleetwarden.store.pool import Pool
from fleetwarden.store.postgresql_session import Address, PostgresqlSession, RunAgain, connect, place, translated
from fleetwarden.store.release import SlowTransactions, release_all
from fleetwarden.store.statements import Row
from fleetwarden.store.transactions import Nesting, Transaction

__all__ = ["PostgresqlStore"]

T = TypeVar("T")
CONNECTIONS_MAX = 16
CONNECTION_WAIT_S = 10.0
RUNS_MAX = 6
PAUSE_S = 0.02  # after the first collision; doubled after each
_GOLDEN = 0.618034  # spreads neighbouring process ids evenly over [0, 1)
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PostgresqlStore:
    """Implements `ports.stores.Store` on the database at `url` (`postgresql://…`, any libpq parameters).

    Raises Misconfigured (unreadable URL, a schema of a newer version) and StoreUnavailable (nobody answers there).
    """

    def __init__(self, url: Address, clock: Clock) -> None:
        self._clock = clock
        self._where = place(url)
        self._nesting = Nesting()
        self._slow = SlowTransactions()
        try:
            revisions.ensure_postgresql(lambda: connect(url), self._where)
        except psycopg.Error as error:
            raise translated(error, self._where) from error
        self._pool: Pool[psycopg.Connection[Row]] = Pool(
            lambda: connect(url), psycopg.Connection.close, size=CONNECTIONS_MAX, wait_s=CONNECTION_WAIT_S
        )

    def transact(self, name: str, fn: Callable[[Tx], T]) -> T:
        self._nesting.refuse()
        for run in range(1, RUNS_MAX + 1):
            try:
                value, session = self._once(name, fn)
            except RunAgain as collision:
                if run == RUNS_MAX:
                    raise StoreUnavailable(
                        f"{name!r} collided with others {RUNS_MAX} times: {collision.message}"
                    ) from collision
                self._pause(run)
            else:
                release_all(name, session.releases)
                return value
        raise AssertionError("the loop ends by return or raise")

    def read(self, fn: Callable[[Tx], T]) -> T:
        self._nesting.refuse()
        connection = self._begin(_BEGIN_READ)
        session = PostgresqlSession(connection, self._where, writable=False)
        try:
            with self._nesting.inside():
                value = fn(Transaction(session))
            if session.fault is not None:
                raise session.fault
            return value
        finally:
            session.end()
            self._roll_back(connection)

    def health(self) -> StoreHealth:
        try:
            self.read(lambda tx: tx.now())
        except FleetError as error:
            return StoreHealth(
                dialect="postgresql", reachable=False, detail=str(error), slow_transactions=self._slow.count
            )
        return StoreHealth(dialect="postgresql", reachable=True, slow_transactions=self._slow.count)

    def close(self) -> None:
        """Close the connections; those in use, when their transaction is over."""
        self._pool.close()

    def _once(self, name: str, fn: Callable[[Tx], T]) -> tuple[T, PostgresqlSession]:
        connection = self._begin(_BEGIN)
        began = self._clock.monotonic()
        session = PostgresqlSession(connection, self._where, writable=True)
        try:
            with self._nesting.inside():
                value = fn(Transaction(session))
                session.flush()
            if session.fault is not None:  # swallowed by fn: it must not be committed
                raise session.fault
        except BaseException as error:
            self._roll_back(connection)
            if isinstance(session.fault, RunAgain) and error is not session.fault:
                raise session.fault from error  # whatever fn made of it
            raise
        finally:
            session.end()
        self._commit(connection, name)
        self._slow.note(name, self._clock.monotonic() - began)
        return value, session

    def _begin(self, sql: str) -> psycopg.Connection[Row]:
        """A connection with a transaction begun.  One that died while it lay idle is replaced, once."""
        connection = self._pool.take()
        try:
            connection.execute(sql.encode())
        except psycopg.Error:
            self._pool.give_back(connection, sound=False)
        else:
            return connection
        connection = self._pool.take(fresh=True)
        try:
            connection.execute(sql.encode())
        except psycopg.Error as error:
            self._pool.give_back(connection, sound=False)
            raise translated(error, self._where) from error
        return connection

    def _commit(self, connection: psycopg.Connection[Row], name: str) -> None:
        sound = False
        try:
            answer = connection.execute(b"COMMIT").statusmessage
            sound = True
        except psycopg.Error as error:
            if connection.closed:
                raise OutcomeUnknown(
                    f"{self._where}: the connection was lost while {name!r} was being committed",
                    hint="read back whether it is there; do not run it again blindly",
                ) from error
            raise translated(error, self._where) from error
        finally:
            self._pool.give_back(connection, sound=sound)
        if answer != "COMMIT":
            raise StoreUnavailable(f"{self._where} rolled {name!r} back instead of committing it")

    def _roll_back(self, connection: psycopg.Connection[Row]) -> None:
        sound = False
        with suppress(psycopg.Error):
            connection.execute(b"ROLLBACK")
            sound = True
        self._pool.give_back(connection, sound=sound)

    def _pause(self, run: int) -> None:
        """Longer after each collision, and another length for each thread: the same two should not meet again."""
        spread = (threading.get_ident() * _GOLDEN + run * _GOLDEN) % 1
        self._clock.wait(threading.Event(), PAUSE_S * 2 ** (run - 1) * (0.5 + spread))
