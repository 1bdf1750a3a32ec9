"""What tables are made of, the same in every module of the schema.

A column is an integer, a text, or JSON as text; an index may have a condition.  `schema` holds the tables of the first
release, `schema_<concern>` those that came with a concern of their own; all of them are in one METADATA.  Nothing here
knows a table.
"""

from __future__ import annotations

import sqlalchemy as sa

__all__ = ["METADATA", "index", "integer", "seq", "table", "text"]

METADATA = sa.MetaData()
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # only INTEGER can be SQLite's row id


def seq() -> sa.Column[int]:
    return sa.Column("seq", _BIG, sa.Identity(), primary_key=True)


def integer(name: str, *refers: sa.ForeignKey, null: bool = False, default: str | None = None) -> sa.Column[int]:
    """`default`: the server's, for a column that was added to a table with rows in it."""
    return sa.Column(name, _BIG, *refers, nullable=null, server_default=default)


def text(name: str, *, null: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=null)


def index(name: str, *columns: str, where: str | None = None, unique: bool = False) -> sa.Index:
    condition = None if where is None else sa.text(where)
    return sa.Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


def table(name: str, *parts: sa.Column[int] | sa.Column[str] | sa.Index, keep_ids: bool = False) -> sa.Table:
    """`keep_ids`: ids of rows that were deleted are never given out again."""
    return sa.Table(name, METADATA, *parts, sqlite_strict=True, sqlite_autoincrement=keep_ids)
