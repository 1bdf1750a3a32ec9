"""SQL statements, written once in SQLAlchemy Core and run on the driver's own connection.

A statement is compiled when it is first used on a dialect, and its text is kept.  SQLAlchemy takes no part in running
it: columns are integers and text, so there is nothing to convert, and a statement costs what the driver costs.
Constants that an index's condition names are written out as literals; everything else is a named parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import Insert
from sqlalchemy.dialects.postgresql import insert as _insert
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from fleetwarden.domain.errors import Misconfigured
from fleetwarden.ports.stores import Page

__all__ = [
    "POSTGRESQL",
    "SQLITE",
    "Listing",
    "Row",
    "Sql",
    "Statement",
    "each_of",
    "one_of",
    "param",
    "write",
]

Row: TypeAlias = tuple[Any, ...]
SQLITE: sa.Dialect = SQLiteDialect_pysqlite(paramstyle="named")
POSTGRESQL: sa.Dialect = PGDialect_psycopg()  # type: ignore[no-untyped-call]  # SQLAlchemy gave it no types
_INTEGER = sa.BigInteger()
_TEXT = sa.Text()


class Sql(NamedTuple):
    """A compiled statement: its text, and the values of parameters that Core made by itself."""

    text: str
    constants: Mapping[str, Any]

    def values(self, given: dict[str, Any]) -> dict[str, Any]:
        """What to hand to the driver."""
        return {**self.constants, **given} if self.constants else given


class Statement:
    """One Core statement and its text in each dialect."""

    def __init__(self, core: sa.Executable) -> None:
        self._core = core

    @cached_property
    def sqlite(self) -> Sql:
        return self._compiled(SQLITE)

    @cached_property
    def postgresql(self) -> Sql:
        return self._compiled(POSTGRESQL)

    @cached_property
    def postgresql_bytes(self) -> bytes:
        """Its text as psycopg takes it: one object, so that looking it up among what is prepared is quick."""
        return self.postgresql.text.encode()

    def _compiled(self, dialect: sa.Dialect) -> Sql:
        assert isinstance(self._core, sa.ClauseElement)
        compiled = self._core.compile(dialect=dialect)
        constants = {name: value for name, value in (compiled.params or {}).items() if value is not None}
        return Sql(str(compiled), constants)


def param(name: str, kind: type[int | str] = int) -> sa.BindParameter[Any]:
    """A named parameter of that kind."""
    return sa.bindparam(name, type_=_INTEGER if kind is int else _TEXT)


def write(table: sa.Table, *, given: Iterable[str] | None = None) -> Insert:
    """An insert of the named columns (by default all but `seq`), each from the parameter of its name.

    PostgreSQL's construct serves SQLite too: both spell RETURNING and ON CONFLICT the same way.
    """
    names = [column.name for column in table.c if column.name != "seq"] if given is None else list(given)
    values: dict[str, Any] = {name: sa.bindparam(name, type_=table.c[name].type) for name in names}
    if "seq" in table.c and "seq" not in values:
        values["seq"] = _NextNumber(sa.literal_column(f"'{table.name}'"))
    return _insert(table).values(values)


class _NextNumber(FunctionElement[Any]):
    """A row's number: the database's next one, but on SQLite above the floor that an epoch has set.

    PostgreSQL's counters are moved themselves when an epoch begins.
    """

    inherit_cache = True
    type = _INTEGER
    name = "next_number"


@compiles(_NextNumber, "sqlite")
def _next_number_sqlite(element: _NextNumber, compiler: SQLCompiler, **options: Any) -> str:
    quoted = compiler.process(element.clauses, **options)
    table = quoted.strip("()").strip("'")
    return (
        f"(SELECT floor + 1 FROM number_floors WHERE name = '{table}' "  # noqa: S608 -- a table's name, ours
        f"AND floor >= (SELECT coalesce(max(seq), 0) FROM {table}))"
    )


@compiles(_NextNumber, "postgresql")
def _next_number_postgresql(*_: Any, **__: Any) -> str:
    return "DEFAULT"


class _EachOf(FunctionElement[Any]):
    """The elements of one list parameter as rows."""

    inherit_cache = True
    name = "each_of"


@compiles(_EachOf, "sqlite")
def _each_of_json(element: _EachOf, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(_EachOf, "postgresql")
def _each_of_array(element: _EachOf, compiler: SQLCompiler, **options: Any) -> str:
    return f"unnest({compiler.process(element.clauses, **options)})"


def each_of(name: str) -> sa.TableValuedAlias:
    """The texts of the list parameter `name` as rows with one column, `value`.  Pass it as `session.array(…)`."""
    parameter = sa.bindparam(name, type_=sa.ARRAY(sa.Text()))
    return _EachOf(parameter).table_valued("value", name="value")


def one_of(column: sa.ColumnElement[str], *literals: str) -> sa.ColumnElement[bool]:
    """`column IN (…)` with literals, so that it matches the condition of a partial index."""
    return column.in_([sa.literal_column(f"'{literal}'") for literal in literals])


class Listing:
    """How one table is listed: newest first, by the filters that make sense for it.

    A filter that the table does not have is refused, never ignored.  `since` includes its moment.
    """

    LIMIT_MAX = 500

    def __init__(self, table: sa.Table, *, at: str, **filters: str | Callable[[str], sa.ColumnElement[bool]]) -> None:
        self._table = table
        self._at = table.c[at]
        self._filters = filters
        self._statements: dict[frozenset[str], Statement] = {}

    def ask(self, page: Page) -> tuple[Statement, dict[str, Any]]:
        """The statement for that page, and its parameters.  Raises Misconfigured for a filter or limit out of place."""
        if not 1 <= page.limit <= self.LIMIT_MAX:
            raise Misconfigured(f"a page of {page.limit} items", hint=f"ask for 1 to {self.LIMIT_MAX}")
        values: dict[str, Any] = {"since": page.since, "before": page.before}
        for name in ("target", "kind", "state"):
            values[name] = getattr(page, name)
            if values[name] is not None and name not in self._filters:
                raise Misconfigured(f"{self._table.name} cannot be filtered by {name}")
        values = {name: value for name, value in values.items() if value is not None}
        used = frozenset(values)
        if used not in self._statements:
            self._statements[used] = Statement(self._select(used))
        return self._statements[used], {**values, "limit": page.limit}

    def _select(self, used: frozenset[str]) -> sa.Select[Any]:
        table = self._table
        query = sa.select(*table.c).order_by(table.c.seq.desc()).limit(param("limit"))
        if "since" in used:
            query = query.where(self._at >= param("since"))
        if "before" in used:
            query = query.where(table.c.seq < param("before"))
        for name, column in self._filters.items():
            if name in used:
                query = query.where(table.c[column] == param(name, str) if isinstance(column, str) else column(name))
        return query
