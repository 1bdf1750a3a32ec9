"""What the modules of the store see of one transaction: run a statement, know the time, nothing else.

A session belongs to one transaction on one connection and dies with it.  The first fault of the driver is remembered:
code that swallows it cannot go on writing, and the engine will not commit (a database may have ended the transaction
behind our back, and each further statement would then be a transaction of its own).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from fleetwarden.domain.errors import FleetError, Refused
from fleetwarden.domain.identifiers import Micros
from fleetwarden.store.statements import Row, Statement

__all__ = ["Session"]


class Session(ABC):
    """One transaction.  `writable` false: a read transaction, whose writes raise Refused."""

    def __init__(self, *, writable: bool) -> None:
        self.writable = writable
        self.fault: FleetError | None = None
        self.over = False
        self.releases: list[Callable[[], None]] = []
        self._now: Micros | None = None
        self._admission: bool | None = None  # None: not taken; else whether exclusively
        self._later: dict[Statement, list[dict[str, Any]]] = {}

    def rows(self, statement: Statement, **values: Any) -> list[Row]:
        """Run a statement that reads."""
        self._refuse_if_over()
        if self.fault is not None:
            raise self.fault
        return self._run(statement, values)

    def row(self, statement: Statement, **values: Any) -> Row | None:
        """The first row, or None."""
        found = self.rows(statement, **values)
        return found[0] if found else None

    def change(self, statement: Statement, **values: Any) -> list[Row]:
        """Run a statement that writes; the rows that it returns."""
        if not self.writable:
            raise Refused("a read transaction cannot write", code="read_only", hint="use transact")
        return self.rows(statement, **values)

    def change_many(self, statement: Statement, values: Sequence[dict[str, Any]]) -> int:
        """Run a statement that writes and returns nothing, for each of these in order; how many rows it wrote."""
        if not self.writable:
            raise Refused("a read transaction cannot write", code="read_only", hint="use transact")
        self._refuse_if_over()
        if self.fault is not None:
            raise self.fault
        return self._run_many(statement, values) if values else 0

    def take_numbers(self, table: str, count: int) -> Sequence[int]:
        """The next `count` numbers of a table, ascending.  Write them before anything else writes to that table."""
        if not self.writable:
            raise Refused("a read transaction cannot write", code="read_only", hint="use transact")
        self._refuse_if_over()
        if self.fault is not None:
            raise self.fault
        return self._take_numbers(table, count) if count else ()

    def later(self, statement: Statement, **values: Any) -> None:
        """Write before this transaction is committed, many rows in one go.

        For rows that nothing in the same transaction refers to; who reads their table flushes first.
        """
        if not self.writable:
            raise Refused("a read transaction cannot write", code="read_only", hint="use transact")
        self._refuse_if_over()
        self._later.setdefault(statement, []).append(values)

    def flush(self) -> None:
        """Write what was put off.  Part of every commit."""
        while self._later:
            statement = next(iter(self._later))
            waiting = self._later.pop(statement)
            self._refuse_if_over()
            if self.fault is not None:
                raise self.fault
            self._run_many(statement, waiting)

    def now(self) -> Micros:
        """The store's time, read at first use."""
        self._refuse_if_over()
        if self._now is None:
            self._now = self._read_now()
        return self._now

    @property
    def dated(self) -> Micros | None:
        """The time that this transaction has used, if it has used one."""
        return self._now

    def lock_admission(self, *, exclusive: bool) -> None:
        """Take the admission lock; the rules are the same on both databases, so that SQLite finds mistakes too."""
        self._refuse_if_over()
        if not self.writable:
            raise Refused("a read transaction takes no admission lock", code="read_only", hint="use transact")
        if self._admission or (self._admission is not None and not exclusive):
            return
        if self._admission is not None:
            raise Refused("the admission lock is held shared and cannot become exclusive", code="lock_order")
        if self._now is not None:
            raise Refused("take the admission lock before the transaction reads its time", code="lock_order")
        self._lock_admission(exclusive)
        self._admission = exclusive

    def after_commit(self, release: Callable[[], None]) -> None:
        """Remember what runs after the commit."""
        self._refuse_if_over()
        if not self.writable:
            raise Refused("a read transaction commits nothing", code="read_only", hint="use transact")
        self.releases.append(release)

    def end(self) -> None:
        """Refuse everything from now on."""
        self.over = True

    def _refuse_if_over(self) -> None:
        if self.over:
            raise Refused("this transaction is over", code="transaction_over", hint="use tx only inside its function")

    @abstractmethod
    def array(self, texts: Sequence[str]) -> Any:
        """A list as the value of an `each_of` parameter."""

    @abstractmethod
    def _run(self, statement: Statement, values: dict[str, Any]) -> list[Row]:
        """Run it; wrap the driver's errors and remember the first as `fault`."""

    @abstractmethod
    def _run_many(self, statement: Statement, values: Sequence[dict[str, Any]]) -> int:
        """Run one that returns nothing for each of these; how many rows it wrote.  Errors as in `_run`."""

    @abstractmethod
    def _take_numbers(self, table: str, count: int) -> Sequence[int]: ...

    @abstractmethod
    def _read_now(self) -> Micros: ...

    @abstractmethod
    def _lock_admission(self, exclusive: bool) -> None: ...
