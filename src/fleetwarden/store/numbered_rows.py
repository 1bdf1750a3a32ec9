"""Many rows of one table whose numbers are taken before they are written.

What refers to a row can then be made before the row is there, so that a list is a handful of statements whatever its
length.  A number is the same as the row would get by itself.  One that is taken and not used is a gap, as after a
transaction that failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from fleetwarden.store.many_rows import insert_numbered
from fleetwarden.store.statements import SQLITE, Statement, param

__all__ = ["NumberedRow", "NumberedRows"]

NumberedRow: TypeAlias = Sequence[int | str | None]  # `seq`, then every other column in the order of the table


class _NextNumbers(FunctionElement[Any]):
    """The next numbers of a table, `(table, count)`, as rows in their order."""

    inherit_cache = True
    name = "next_numbers"


@compiles(_NextNumbers, "sqlite")
def _next_sqlite(element: _NextNumbers, compiler: SQLCompiler, **options: Any) -> str:
    """Above all that is there and above an epoch's floor.  There is one writer: nobody else takes them meanwhile."""
    table, count = (compiler.process(one, **options) for one in element.clauses)
    name = table.strip("'")
    return (
        f"(WITH RECURSIVE places(place) AS (SELECT 1 UNION ALL SELECT place + 1 FROM places WHERE place < {count}) "  # noqa: S608 -- a table's name, ours
        f"SELECT place + max(coalesce((SELECT max(seq) FROM {name}), 0), "
        f"coalesce((SELECT floor FROM number_floors WHERE name = '{name}'), 0)) AS value FROM places)"
    )


@compiles(_NextNumbers, "postgresql")
def _next_postgresql(element: _NextNumbers, compiler: SQLCompiler, **options: Any) -> str:
    table, count = (compiler.process(one, **options) for one in element.clauses)
    return (
        f"(SELECT nextval((SELECT pg_get_serial_sequence({table}, 'seq')::regclass)) AS value "  # noqa: S608 -- ours
        f"FROM generate_series(1, {count}))"
    )


class NumberedRows:
    """How many rows of `table` are written.  `unless_taken`: a row that a unique index has already is left out."""

    def __init__(self, table: sa.Table, *, unless_taken: bool = False) -> None:
        self.table = table
        self.unless_taken = unless_taken
        taken = _NextNumbers(sa.literal_column(f"'{table.name}'"), param("count"))
        self.numbers = Statement(sa.select(sa.literal_column("value")).select_from(taken.alias("numbers")))
        insert = insert_numbered(table)
        if unless_taken:
            insert = insert.on_conflict_do_nothing()
        self.insert = Statement(insert.returning(table.c.seq))
        self.between = Statement(
            sa.select(table.c.seq).where(table.c.seq >= param("first"), table.c.seq <= param("last"))
        )

    @cached_property
    def one_by_one(self) -> str:
        """The insert of one row by place, for SQLite, which is quickest with a prepared one."""
        quote = SQLITE.identifier_preparer.quote
        names = ", ".join(quote(name) for name in self.table.c.keys())  # noqa: SIM118 -- columns, not a dict
        places = ", ".join("?" * len(self.table.c))
        text = f"INSERT INTO {quote(self.table.name)} ({names}) VALUES ({places})"  # noqa: S608 -- our own names
        return f"{text} ON CONFLICT DO NOTHING" if self.unless_taken else text
