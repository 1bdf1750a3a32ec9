"""The order in which rows become visible, for readers that must never skip one.

A serial id is taken when a row is written, not when it is committed: who reads on from the highest id that it saw skips
a lower one that is committed later.  So a row carries the id of its transaction, and a reader stops short of the oldest
transaction that is still running and goes on by (transaction, row).  SQLite has one writer: there the two orders are
the same, and every row carries 0.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from fleetwarden.store.statements import param

__all__ = ["ThisTransaction", "finished", "further"]


class ThisTransaction(FunctionElement[int]):
    """The id of the transaction that writes: 64 bits, it never wraps."""

    inherit_cache = True
    type = sa.BigInteger()
    name = "this_transaction"


class _OldestRunning(FunctionElement[int]):
    """Every transaction below it has ended, and all that it wrote is visible here or never will be."""

    inherit_cache = True
    type = sa.BigInteger()
    name = "oldest_running"


compiles(ThisTransaction, "postgresql")(lambda *_, **__: "pg_current_xact_id()::text::bigint")
compiles(ThisTransaction, "sqlite")(lambda *_, **__: "0")
compiles(_OldestRunning, "postgresql")(lambda *_, **__: "pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
compiles(_OldestRunning, "sqlite")(lambda *_, **__: "1")


def finished(xact: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """Rows below which nothing can turn up any more."""
    return xact < _OldestRunning()


def further(xact: sa.ColumnElement[int], seq: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """Rows behind the mark in the parameters `after_xact` and `after_seq`."""
    return sa.tuple_(xact, seq) > sa.tuple_(param("after_xact"), param("after_seq"))
