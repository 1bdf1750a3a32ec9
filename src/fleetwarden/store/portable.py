"""A store's content as rows that mean the same everywhere, and what shows that none was lost or changed.

Tables and columns are read from a SQLite file itself, never from today's schema, so that a store of an older schema is
carried just as well.  What means something to one server only (a transaction's number there) is left behind as 0.
A table's digest does not depend on the order of its rows.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from fleetwarden.domain.actions import Record
from fleetwarden.domain.errors import StoreUnavailable
from fleetwarden.store.schema import VERSION_TABLE
from fleetwarden.store.sqlite_session import translated
from fleetwarden.store.statements import Row

__all__ = [
    "BACKUP_TABLE",
    "Columns",
    "TableSum",
    "check_integrity",
    "differences",
    "digest_of",
    "rows_of",
    "settled_row",
    "tables_of",
]

BACKUP_TABLE = "fleetwarden_backup"
LOCAL = "xact"  # a column, or a field of a stored fact, that counts one server's own transactions
_MODULUS = 1 << 256
_ENCODER = msgspec.json.Encoder()


class TableSum(Record):
    """How many rows a table has, and the sum of their digests."""

    rows: int
    digest: str


class Columns(NamedTuple):
    """A table as a file has it."""

    table: str
    names: tuple[str, ...]
    integers: tuple[bool, ...]  # of each column, whether it is one; else it is text

    @property
    def quoted(self) -> str:
        """The columns' names for a statement."""
        return ", ".join(f'"{name}"' for name in self.names)


def tables_of(connection: sqlite3.Connection) -> list[Columns]:
    """The tables of a store's file, by name, without those that speak of the file itself."""
    found = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    ).fetchall()
    return [_columns(connection, name) for (name,) in found if name not in (VERSION_TABLE, BACKUP_TABLE)]


def _columns(connection: sqlite3.Connection, name: str) -> Columns:
    described = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
    return Columns(name, tuple(row[1] for row in described), tuple("INT" in row[2].upper() for row in described))


def rows_of(connection: sqlite3.Connection, table: Columns) -> Iterator[Row]:
    """Every row of a table, settled."""
    for row in connection.execute(f'SELECT {table.quoted} FROM "{table.table}"'):  # noqa: S608 -- the file's own names
        yield settled_row(table, row)


def settled_row(table: Columns, row: Sequence[object]) -> Row:
    """The row without what only its own server understands."""
    if LOCAL in table.names:
        at = table.names.index(LOCAL)
        return (*row[:at], 0, *row[at + 1 :])
    if table.table == "facts":
        at = table.names.index("value")
        return (*row[:at], _settled_fact(str(row[at])), *row[at + 1 :])
    return tuple(row)


def _settled_fact(value: str) -> str:
    if f'"{LOCAL}"' not in value:
        return value
    known = msgspec.json.decode(value)
    if not isinstance(known, Mapping) or LOCAL not in known:
        return value
    return msgspec.json.encode({**known, LOCAL: 0}, order="sorted").decode()


def digest_of(rows: Iterable[Row]) -> TableSum:
    """The sum over rows, whatever their order."""
    count = total = 0
    for row in rows:
        total += int.from_bytes(hashlib.sha256(_ENCODER.encode(row)).digest(), "big")
        count += 1
    return TableSum(rows=count, digest=f"{total % _MODULUS:064x}")


def differences(wanted: Mapping[str, TableSum], found: Mapping[str, TableSum]) -> list[str]:
    """What is not the same, in words."""
    told = []
    for name in sorted({*wanted, *found}):
        left, right = wanted.get(name), found.get(name)
        if left is None or right is None:
            told.append(f"{name}: {'is missing' if right is None else 'does not belong there'}")
        elif left.rows != right.rows:
            told.append(f"{name}: {right.rows} rows instead of {left.rows}")
        elif left.digest != right.digest:
            told.append(f"{name}: the content of its rows differs")
    return told


def check_integrity(connection: sqlite3.Connection, where: Path) -> None:
    """Let SQLite look through the whole file.  Raises StoreUnavailable."""
    try:
        answers = [row[0] for row in connection.execute("PRAGMA integrity_check(5)")]
    except sqlite3.Error as error:
        raise translated(error, str(where)) from error
    if answers != ["ok"]:
        raise StoreUnavailable(f"{where} is damaged: {'; '.join(map(str, answers))}")
