"""A look into a SQLite store without owning it.

Taking the lock even for a moment would refuse a plane that starts in that moment.  A glance takes none: it reads in
one short transaction and can write nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from fleetwarden.ports.stores import StoreHealth, Tx
from fleetwarden.ports.system import Clock
from fleetwarden.store.sqlite_session import LedgerTime, SqliteSession, connect_reader, translated
from fleetwarden.store.transactions import Transaction

__all__ = ["Glance"]

T = TypeVar("T")


class Glance:
    """The reading half of `ports.stores.Store` on a file of today's schema, whoever owns it."""

    def __init__(self, database: Path, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def read(self, fn: Callable[[Tx], T]) -> T:
        """As a store's.  Its time is this machine's clock.  Raises StoreUnavailable."""
        where = str(self._database)
        with closing(connect_reader(self._database)) as connection:
            session = SqliteSession(connection, LedgerTime(self._clock, 0), where, writable=False)
            try:
                connection.execute("BEGIN")
            except sqlite3.Error as error:
                raise translated(error, where) from error
            try:
                return fn(Transaction(session))
            finally:
                session.end()

    def health(self) -> StoreHealth:
        """That it can be read."""
        self.read(lambda tx: tx.facts.get("fleet_id"))
        return StoreHealth(dialect="sqlite", reachable=True)
