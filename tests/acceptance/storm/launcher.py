"""`fleetwarden up` over a database that is slow to commit, and that may kill the plane at a step of the intake.

    python -m tests.acceptance.storm.launcher up ...

The product has no switch for this: the methods of its two engines are wrapped here, in front of the real ones.
`SLOW_COMMIT_S` is added to every COMMIT, while the transaction's locks are held.  `KILL_AT` names a step of the
transaction that keeps events, such as `within#2`: `before` it begins, `within` it (everything written, nothing
committed), `after` the commit and before anybody is answered.  The kill is SIGKILL to the own process.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from threading import Event, Lock
from typing import Any

from fleetwarden.cli import main
from fleetwarden.store.postgresql_engine import PostgresqlStore
from fleetwarden.store.sqlite_engine import SqliteStore

ENGINES: tuple[type[Any], ...] = (SqliteStore, PostgresqlStore)
KEEPS = "events"  # the name of that transaction


class Deadly:
    """Counts the steps of the intake and dies at one of them."""

    def __init__(self, at: str) -> None:
        self._at = at
        self._passed: Counter[str] = Counter()
        self._lock = Lock()

    def passed(self, step: str) -> None:
        with self._lock:
            self._passed[step] += 1
            if f"{step}#{self._passed[step]}" != self._at:
                return
            os.kill(os.getpid(), signal.SIGKILL)
            Event().wait()  # the signal may land on another thread a moment later: this one goes no further


def slow(engine: type[Any], seconds: float) -> None:
    """Every commit takes so much longer."""
    commit = engine._commit

    def slowly(self: Any, *given: Any) -> Any:
        time.sleep(seconds)
        return commit(self, *given)

    engine._commit = slowly


def deadly(engine: type[Any], at: str) -> None:
    """The plane dies at that step of keeping events."""
    transact, steps = engine.transact, Deadly(at)

    def observed(self: Any, name: str, fn: Callable[[Any], Any]) -> Any:
        if name != KEEPS:
            return transact(self, name, fn)

        def run(tx: Any) -> Any:
            value = fn(tx)
            steps.passed("within")
            return value

        steps.passed("before")
        value = transact(self, name, run)
        steps.passed("after")
        return value

    engine.transact = observed


if __name__ == "__main__":
    for one in ENGINES:
        if delay := float(os.environ.get("SLOW_COMMIT_S", "0")):
            slow(one, delay)
        if place := os.environ.get("KILL_AT", ""):
            deadly(one, place)
    main()
