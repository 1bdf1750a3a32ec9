"""Many rows written by one statement, on both databases, from one parameter.

They travel as one JSON text, each row as a list, in the order of the columns; the database takes it apart.  One
statement of fifty rows costs a fraction of fifty statements.  Values are whole numbers, text and null, as in every
column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

__all__ = ["PLACE", "given_rows", "insert_rows", "packed"]

PLACE = "place"  # the name of a row's place in the list
_ENCODE = msgspec.json.Encoder().encode


class _Part(FunctionElement[Any]):
    """One element of a row: `(row, place)`."""

    inherit_cache = True
    name = "part"


@compiles(_Part, "sqlite")
def _part_sqlite(element: _Part, compiler: SQLCompiler, **options: Any) -> str:
    row, place = (compiler.process(one, **options) for one in element.clauses)
    return f"json_extract({row}, '$[{place}]')"


@compiles(_Part, "postgresql")
def _part_postgresql(element: _Part, compiler: SQLCompiler, **options: Any) -> str:
    row, place = (compiler.process(one, **options) for one in element.clauses)
    kind = "bigint" if isinstance(element.type, sa.BigInteger) else "text"
    return f"(({row}) ->> {place})::{kind}"


class _Rows(FunctionElement[Any]):
    """The elements of one JSON list as rows, each taken apart once."""

    inherit_cache = True
    name = "json_rows"


@compiles(_Rows, "sqlite")
def _rows_sqlite(element: _Rows, compiler: SQLCompiler, **options: Any) -> str:
    """The limit, which is none, keeps SQLite from writing each row out anew for every column that is taken from it."""
    given = compiler.process(element.clauses, **options)
    return f"(SELECT value FROM json_each({given}) LIMIT -1 OFFSET 0)"  # noqa: S608 -- a parameter's name, ours


@compiles(_Rows, "postgresql")
def _rows_postgresql(element: _Rows, compiler: SQLCompiler, **options: Any) -> str:
    return f"jsonb_array_elements(({compiler.process(element.clauses, **options)})::jsonb)"


class _NumberOf(FunctionElement[Any]):
    """The number of a row at its place, `(table, place)`: the database's next one, above an epoch's floor."""

    inherit_cache = True
    type = sa.BigInteger()
    name = "number_of"


@compiles(_NumberOf, "sqlite")
def _number_sqlite(element: _NumberOf, compiler: SQLCompiler, **options: Any) -> str:
    """The floor counts while it is above all that is there; the subquery is run once, so that the place tells apart."""
    table, place = (compiler.process(one, **options) for one in element.clauses)
    name = table.strip("'")
    return (
        f"(SELECT floor + 1 FROM number_floors WHERE name = '{name}' "  # noqa: S608 -- a table's name, ours
        f"AND floor >= (SELECT coalesce(max(seq), 0) FROM {name})) + {place}"
    )


@compiles(_NumberOf, "postgresql")
def _number_postgresql(element: _NumberOf, compiler: SQLCompiler, **options: Any) -> str:
    """The sequence is looked up once, in a subquery, not for each row."""
    table, _ = (compiler.process(one, **options) for one in element.clauses)
    return f"nextval((SELECT pg_get_serial_sequence({table}, 'seq')::regclass))"


def _part(row: sa.ColumnElement[Any], place: int, kind: Any) -> sa.ColumnElement[Any]:
    made = _Part(row, sa.literal_column(str(place)))
    made.type = kind
    return made


def given_rows(parameter: str, columns: Sequence[sa.Column[Any]]) -> sa.Subquery:
    """The rows of the list parameter as a table with these columns, and each row's place as `PLACE`."""
    value = _Rows(sa.bindparam(parameter, type_=sa.Text())).table_valued("value", name="value").c.value
    parts = [_part(value, at + 1, column.type).label(column.name) for at, column in enumerate(columns)]
    place = _part(value, 0, sa.BigInteger()).label(PLACE)
    return sa.select(place, *parts).subquery("given")


def insert_rows(table: sa.Table, parameter: str = "rows") -> Insert:
    """An insert of the list parameter's rows, each with every column but `seq`, in the order of the table.

    The database numbers them in the order of their places.
    """
    columns = [column for column in table.c if column.name != "seq"]
    given = given_rows(parameter, columns)
    values: list[sa.ColumnElement[Any]] = [given.c[column.name] for column in columns]
    names = [column.name for column in columns]
    if "seq" in table.c:
        names.insert(0, "seq")
        values.insert(0, _NumberOf(sa.literal_column(f"'{table.name}'"), given.c[PLACE]))
    # A condition that always holds: without one SQLite takes ON CONFLICT for a part of the query.
    query = sa.select(*values).where(sa.literal_column("1") == sa.literal_column("1")).order_by(given.c[PLACE])
    return insert(table).from_select(names, query, include_defaults=False)


def packed(rows: Sequence[Sequence[int | str | None]]) -> str:
    """Rows as one JSON text, each with its place in front: what the parameter takes."""
    return _ENCODE([(place, *row) for place, row in enumerate(rows)]).decode()
