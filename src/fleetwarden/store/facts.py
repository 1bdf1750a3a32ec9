"""Small named values that must survive: the fleet's id, the host of a service.

Names that begin with `store.` are the store's own (the newest time in the ledger on SQLite) and cannot be written
from outside.
"""

from __future__ import annotations

import sqlalchemy as sa

from fleetwarden.domain.errors import Refused
from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.store import columns, schema
from fleetwarden.store.columns import document, text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Row, Statement, param, write

__all__ = ["NEWEST_TIME", "OWN_PREFIX", "PUT_FACT", "StoredFacts"]

OWN_PREFIX = "store."
NEWEST_TIME = "store.newest_time"

_F = schema.facts
_GET = Statement(sa.select(_F.c.name, _F.c.value).where(_F.c.name == param("name", str)))


def _put() -> Statement:
    wanted = write(_F)
    new = {name: wanted.excluded[name] for name in ("value", "at")}
    return Statement(wanted.on_conflict_do_update(index_elements=["name"], set_=new).returning(_F.c.name))


PUT_FACT = _put()


@columns.reading("fact")
def _value(row: Row) -> JsonValue:
    return columns.plain_json(row[1])


class StoredFacts:
    """Implements `ports.stores.Facts`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, name: str) -> JsonValue | None:
        row = self._session.row(_GET, name=name)
        return None if row is None else _value(row)

    def put(self, name: str, value: JsonValue) -> None:
        if name.startswith(OWN_PREFIX):
            raise Refused(f"fact {name!r}: names that begin with {OWN_PREFIX!r} are the store's own")
        self._session.change(
            PUT_FACT, name=text("fact.name", name), value=document("fact.value", value), at=self._session.now()
        )
