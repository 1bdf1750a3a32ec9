"""The real SQLite store for one history after another, on connections that stay open.

Opening a store and preparing its statements anew costs as much as a short history, so a process keeps one and empties
it in between.  What the store keeps in memory (its time) is begun anew too; everything else is in the file.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from fleetwarden.ports.system import Clock
from fleetwarden.store.opening import open_store
from fleetwarden.store.sqlite_engine import SqliteStore
from fleetwarden.store.sqlite_session import LedgerTime
from tests.simulation import trace
from tests.simulation.baton import SimClock

__all__ = ["Engine", "give_back", "lend"]


class Engine:
    """A store and the file that it is in."""

    def __init__(self, path: Path) -> None:
        self.path = path
        opened = open_store(str(path), SimClock(), synchronous_off=True)
        assert isinstance(opened, SqliteStore)
        self.store = opened

    def begin(self, clock: Clock) -> None:
        """Nothing has happened yet, and `clock` says what time it is."""
        trace.empty(self.store._connection)
        self.store._clock = clock
        self.store._persisted = 0
        self.store._time = LedgerTime(clock, 0)

    def close(self) -> None:
        self.store.close()
        for suffix in ("", "-wal", "-shm", ".lock"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)


_idle: list[Engine] = []


def lend() -> Engine:
    """An engine for one history.  Give it back afterwards, or close it if something went wrong."""
    if _idle:
        return _idle.pop()
    path = _folder() / f"{os.getpid()}-{len(list(_folder().iterdir()))}.db"
    shutil.copyfile(_template(), path)
    return Engine(path)


def give_back(engine: Engine) -> None:
    _idle.append(engine)


@cache
def _folder() -> Path:
    """Where databases live while they are needed; in memory where the machine has such a place."""
    shared = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="fleetwarden-sim-", dir=shared if shared.is_dir() else None))
    atexit.register(_clean_up, made)
    return made


def _clean_up(folder: Path) -> None:
    while _idle:
        _idle.pop().close()
    shutil.rmtree(folder, ignore_errors=True)


@cache
def _template() -> Path:
    """A migrated database with triggers, made once per process."""
    path = _folder() / "template.db"
    open_store(str(path), SimClock(), synchronous_off=True).close()
    trace.install(path)
    return path
