"""A backup: one file, the same for both databases, complete at one moment and able to show that it is whole.

It is a SQLite database with the store's own tables, so that anybody can look into it, and one table more that says what
it was made of and holds the sum of every other table.  It is made under another name and appears whole or not at all.
A backup of a running plane takes one read snapshot and is in nobody's way.  Token secrets are not in it, their digests
are: it is readable by its owner only.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from fleetwarden.domain.actions import Record
from fleetwarden.domain.errors import Conflict, Misconfigured, StoreUnavailable
from fleetwarden.domain.identifiers import Micros
from fleetwarden.store import portable, revisions
from fleetwarden.store.portable import BACKUP_TABLE, TableSum
from fleetwarden.store.sqlite_session import connect_reader, translated

__all__ = ["Manifest", "back_up_postgresql", "back_up_sqlite", "read_manifest", "sums_of"]

_RESTORABLE = "only what 'fleetwarden db backup' wrote can be restored"


class Manifest(Record):
    """What a backup says of itself.  `at`: when its snapshot was taken, by the clock of whoever made it."""

    version: str
    revision: str
    source: str
    at: Micros
    tables: dict[str, TableSum]

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.tables.values())


def back_up_sqlite(database: Path, file: Path, *, version: str, at: Micros) -> Manifest:
    """Back the database up while whoever owns it goes on.

    Raises Conflict (`file` exists), Misconfigured (it cannot be written, no store of ours), StoreUnavailable.
    """

    def fill(target: sqlite3.Connection, _: Path) -> None:
        with closing(connect_reader(database)) as source:
            source.backup(target)  # in one step: one snapshot

    return _written(file, fill, version=version, source="SQLite", at=at)


def back_up_postgresql(url: str, file: Path, *, version: str, at: Micros) -> Manifest:
    """Back the database up in one snapshot.  Raises as `back_up_sqlite` does."""
    from fleetwarden.store import postgresql_transfer

    return _written(file, postgresql_transfer.exporter(url), version=version, source="PostgreSQL", at=at)


def _written(
    file: Path, fill: Callable[[sqlite3.Connection, Path], None], *, version: str, source: str, at: Micros
) -> Manifest:
    fresh = file.with_name(f".{file.name}.{os.getpid()}.partial")
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))  # the name is ours now
    except FileExistsError as error:
        raise Conflict(f"{file} exists already; it is not overwritten", hint="name another file") from error
    except OSError as error:
        raise Misconfigured(f"{file} cannot be written: {error.strerror}") from error
    try:
        os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
        with closing(sqlite3.connect(fresh, isolation_level=None)) as target:
            fill(target, fresh)
            target.execute("PRAGMA journal_mode = DELETE")  # one file, without companions
            made = _sealed(target, file, version=version, source=source, at=at)
        _to_disk(fresh)
        fresh.replace(file)
        _to_disk(file.parent)
    except BaseException as error:
        for one in (fresh, file):
            with suppress(OSError):
                one.unlink()
        if isinstance(error, sqlite3.Error):
            raise translated(error, str(file)) from error
        if isinstance(error, OSError):
            raise StoreUnavailable(f"{file} cannot be written: {error.strerror}") from error
        raise
    return made


def _sealed(target: sqlite3.Connection, file: Path, *, version: str, source: str, at: Micros) -> Manifest:
    revision = revisions.sqlite_revision(target)
    if revision is None:
        raise Misconfigured(f"there is no store of fleetwarden to back up to {file}")
    target.execute(f"DROP TABLE IF EXISTS {BACKUP_TABLE}")
    manifest = Manifest(version=version, revision=revision, source=source, at=at, tables=sums_of(target))
    target.execute(f"CREATE TABLE {BACKUP_TABLE} (manifest TEXT NOT NULL)")
    body = msgspec.json.encode(manifest).decode()
    target.execute(f"INSERT INTO {BACKUP_TABLE} VALUES (?)", [body])  # noqa: S608 -- a constant of ours
    return manifest


def sums_of(connection: sqlite3.Connection) -> dict[str, TableSum]:
    """The sum of every table of a store's file."""
    return {
        table.table: portable.digest_of(portable.rows_of(connection, table)) for table in portable.tables_of(connection)
    }


def read_manifest(file: Path) -> Manifest:
    """Look through a backup, and return what it says of itself.

    Raises Misconfigured (no backup, a newer schema) and StoreUnavailable (damaged, or not what it says).
    """
    if not file.is_file():
        raise Misconfigured(f"there is no backup {file}")
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return _checked(connection, file)
    except sqlite3.DatabaseError as error:
        raise StoreUnavailable(f"{file} cannot be read as a backup: {error}", hint=_RESTORABLE) from error


def _checked(connection: sqlite3.Connection, file: Path) -> Manifest:
    try:
        [(body,)] = connection.execute(f"SELECT manifest FROM {BACKUP_TABLE}").fetchall()  # noqa: S608 -- ours
        manifest = msgspec.json.decode(body, type=Manifest)
    except (sqlite3.OperationalError, ValueError) as error:
        if "no such table" not in str(error):
            raise StoreUnavailable(f"{file} cannot be read as a backup: {error}", hint=_RESTORABLE) from error
        raise Misconfigured(f"{file} is no backup", hint=_RESTORABLE) from error
    revisions.refuse_if_unknown(manifest.revision, str(file))
    portable.check_integrity(connection, file)
    told: list[str] = portable.differences(manifest.tables, sums_of(connection))
    if revisions.sqlite_revision(connection) != manifest.revision:
        told.append("its schema is another one than it says")
    if told:
        raise StoreUnavailable(f"{file} is not what was backed up: {'; '.join(told)}", hint="take another backup")
    return manifest


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
