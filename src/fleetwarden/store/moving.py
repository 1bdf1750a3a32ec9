"""A store put back from its backup, and a store moved to PostgreSQL.

Both end with exactly one store that goes on.  A restored one is made complete under another name, with its new epoch
in it, before it takes the place of the old one, which is kept beside it.  A moved one is marked, so that no plane goes
on with it; until the move is finished no plane begins on the new one either.  Killed in between, the same command again
finishes it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from fleetwarden.domain.errors import Conflict, FleetError, Misconfigured, StoreUnavailable
from fleetwarden.ports.stores import Tx
from fleetwarden.ports.system import Clock
from fleetwarden.store import portable, revisions
from fleetwarden.store.backups import Manifest, read_manifest
from fleetwarden.store.epochs import MOVED
from fleetwarden.store.ownership import Ownership, lock_path
from fleetwarden.store.portable import BACKUP_TABLE, TableSum
from fleetwarden.store.sqlite_engine import SqliteStore
from fleetwarden.store.sqlite_session import translated

__all__ = [
    "highest_numbers",
    "holds_rows",
    "move_to_postgresql",
    "moved_away",
    "restore_postgresql",
    "restore_sqlite",
    "schema_of",
]

_COMPANIONS = ("-wal", "-shm", "-journal")


def schema_of(database: Path) -> str | None:
    """Which schema a file has, without opening it as a store; None for none, or no file.  Raises StoreUnavailable."""
    if not database.is_file():
        return None
    try:
        with closing(_reader(database)) as connection:
            return revisions.sqlite_revision(connection)
    except sqlite3.Error as error:
        raise translated(error, str(database)) from error


def _reader(database: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{database.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
    connection.execute("PRAGMA query_only = ON")
    return connection


def holds_rows(database: Path) -> bool:
    """Whether there is anything in the file; one that cannot be read counts as full."""
    if not database.exists() or not database.stat().st_size:
        return False
    try:
        with closing(_reader(database)) as connection:
            tables = portable.tables_of(connection)
            return any(next(portable.rows_of(connection, table), None) is not None for table in tables)
    except sqlite3.Error:
        return True


def highest_numbers(database: Path) -> Mapping[str, int]:
    """By table, the highest number or token that this store has given out; none if it cannot be read."""
    highest: dict[str, int] = {}
    if not database.exists():
        return highest
    with suppress(sqlite3.Error, FleetError), closing(_reader(database)) as connection:
        for table in portable.tables_of(connection):
            for name in {"seq", "token"} & set(table.names):
                query = f'SELECT coalesce(max("{name}"), 0) FROM "{table.table}"'  # noqa: S608 -- the file's own names
                found = int(connection.execute(query).fetchone()[0])
                highest[table.table] = max(highest.get(table.table, 0), found)
        for table_name, floor in connection.execute("SELECT name, floor FROM number_floors").fetchall():
            highest[table_name] = max(highest.get(table_name, 0), int(floor))
    return highest


def moved_away(database: Path) -> bool:
    """Whether this store is marked as copied to another one.  False where that cannot be read."""
    if not database.exists():
        return False
    with suppress(sqlite3.Error), closing(_reader(database)) as connection:
        return connection.execute("SELECT 1 FROM facts WHERE name = ?", [MOVED]).fetchone() is not None
    return False


def restore_sqlite(
    file: Path, database: Path, clock: Clock, begin: Callable[[Tx], None], *, replace: bool, kept: Path
) -> Manifest:
    """Put a backup in the place of a database.  `begin` writes the new epoch; `kept`: where the old file goes.

    Raises Misconfigured (no backup, a newer schema, a plane holds the database), Conflict (not empty, and `replace` is
    not said), StoreUnavailable (damaged).
    """
    ownership = Ownership(database, clock.now())
    try:
        if holds_rows(database) and not replace:
            raise Conflict(f"{database} is not empty", code="not_empty")
        scratch = database.with_name(f".{database.name}.restoring")
        manifest = _made_ready(file, scratch, clock, begin)
        try:
            if database.exists():
                _set_aside(database, kept)
            scratch.replace(database)
        finally:
            _remove(scratch)
        _folder_to_disk(database)
        return manifest
    finally:
        ownership.release()


def restore_postgresql(
    file: Path, url: str, folder: Path, clock: Clock, begin: Callable[[Tx], None], *, replace: bool
) -> Manifest:
    """Put a backup into a PostgreSQL database, by way of a file in `folder`.  Raises as `restore_sqlite` does."""
    from fleetwarden.store import postgresql_transfer

    scratch = folder / f".restoring.{os.getpid()}"
    try:
        manifest = _made_ready(file, scratch, clock, begin)
        postgresql_transfer.load(scratch, url, replace=replace)
        return manifest
    finally:
        _remove(scratch)


def _made_ready(file: Path, scratch: Path, clock: Clock, begin: Callable[[Tx], None]) -> Manifest:
    """A whole store of today's schema in its new epoch, made of a backup, under another name."""
    _remove(scratch)
    read_manifest(file)
    try:
        os.close(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        shutil.copyfile(file, scratch)
        manifest = read_manifest(scratch)  # what was copied, and not only what was read
        with closing(sqlite3.connect(scratch, isolation_level=None)) as connection:
            connection.execute(f"DROP TABLE {BACKUP_TABLE}")
        store = SqliteStore(scratch, clock)
        try:
            store.transact("begin_epoch", begin)
        finally:
            store.close()
    except OSError as error:
        _remove(scratch)
        raise StoreUnavailable(f"{scratch} cannot be written: {error.strerror}") from error
    except BaseException:
        _remove(scratch)
        raise
    return manifest


def _set_aside(database: Path, kept: Path) -> None:
    """Keep the old file, and see that nothing of its log is taken for the new one's.

    The database's own name never names nothing: a plane that starts in between finds the old store and the lock.
    """
    with suppress(sqlite3.Error), closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")  # moves the log into the file
    for companion in _COMPANIONS:  # left over only where the file could not be read
        there = database.with_name(database.name + companion)
        if there.exists():
            there.replace(kept.with_name(kept.name + companion))
    try:
        os.link(database, kept)
    except OSError:
        shutil.copyfile(database, kept)
    kept.chmod(0o600)


def _remove(scratch: Path) -> None:
    for one in (scratch, *(scratch.with_name(scratch.name + end) for end in _COMPANIONS), lock_path(scratch)):
        one.unlink(missing_ok=True)


def _folder_to_disk(file: Path) -> None:
    descriptor = os.open(file.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def move_to_postgresql(
    database: Path, url: str, clock: Clock, begin: Callable[[Tx], None], *, there: str
) -> dict[str, TableSum]:
    """Copy a whole store to an empty PostgreSQL database; `there` names it without its password.

    Returns the sums of what stands there.  Raises Misconfigured (a plane holds the file; it was copied elsewhere
    already), Conflict (the target is not empty, or a plane is at work there), StoreUnavailable.
    """
    from fleetwarden.store import postgresql_transfer

    if not database.is_file():
        raise Misconfigured(f"there is no store {database} to copy")
    store = SqliteStore(database, clock)
    try:
        moved = store.read(lambda tx: tx.epochs.moved_to())
        if moved and (moved != there or not postgresql_transfer.is_arriving(url)):
            raise Misconfigured(
                f"{database} was copied to {moved} already", hint="that store goes on, this one does not"
            )
        if not moved:
            store.transact("begin_epoch", begin)
            postgresql_transfer.load(database, url, replace=False, arriving=f"a copy of {database.name}")
            store.transact("moved", lambda tx: tx.epochs.move_away(there))
        postgresql_transfer.arrived(url)
    finally:
        store.close()
    return postgresql_transfer.sums(url)
