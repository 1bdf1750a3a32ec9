"""Services whose replicas are not all there: one row each, replaced, and removed when it is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from fleetwarden.ports.missing_replicas import MissingRow
from fleetwarden.store import columns, schema_shadow
from fleetwarden.store.columns import text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Row, Statement, each_of, write

__all__ = ["StoredMissingReplicas"]

_M = schema_shadow.missing_replicas


def _put() -> Statement:
    wanted = write(_M)
    new = {name: wanted.excluded[name] for name in ("since", "told_at")}
    return Statement(wanted.on_conflict_do_update(index_elements=["service"], set_=new).returning(_M.c.service))


_PUT = _put()
_FORGET = Statement(
    sa.delete(_M).where(_M.c.service.in_(sa.select(each_of("services").c.value))).returning(_M.c.service)
)
_ALL = Statement(sa.select(*_M.c))


@columns.reading("missing replicas of")
def _row(row: Row) -> MissingRow:
    service, since, told_at = row
    return MissingRow(service=service, since=since, told_at=told_at)


class StoredMissingReplicas:
    """Implements `ports.missing_replicas.MissingReplicas`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, row: MissingRow) -> None:
        name = text("missing_replicas.service", row.service)
        self._session.change(_PUT, service=name, since=row.since, told_at=row.told_at)

    def forget(self, services: Sequence[str]) -> None:
        if services:
            self._session.change(_FORGET, services=self._session.array(services))

    def all(self) -> Mapping[str, MissingRow]:
        found = map(_row, self._session.rows(_ALL))
        return {one.service: one for one in found}
