"""Policy rules written at run time.

Kept as they were written and handed out all together, inactive ones included: what they mean is for policy to say.
One that cannot be read makes the read fail; it is never left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from fleetwarden.domain.errors import NotFound
from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.ports.stores import StoredOverride
from fleetwarden.store import columns, schema
from fleetwarden.store.columns import document, text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Row, Statement, param, write

__all__ = ["StoredOverrides"]

_P = schema.overrides


def _put() -> Statement:
    wanted = write(_P)
    new = {name: wanted.excluded[name] for name in ("rule", "active", "written_by", "at")}
    return Statement(wanted.on_conflict_do_update(index_elements=["id"], set_=new).returning(*_P.c))


_PUT = _put()
_DELETE = Statement(sa.delete(_P).where(_P.c.id == param("id", str)).returning(_P.c.id))
_READ_ALL = Statement(sa.select(*_P.c))


@columns.reading("policy override")
def _override(row: Row) -> StoredOverride:
    id_, rule, active, written_by, at = row
    return StoredOverride(id=id_, rule=columns.plain_json(rule), active=bool(active), written_by=written_by, at=at)


class StoredOverrides:
    """Implements `ports.stores.PolicyOverrides`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, id: str, rule: Mapping[str, JsonValue], *, active: bool, by: str) -> StoredOverride:  # noqa: A002 -- the port's name
        [row] = self._session.change(
            _PUT,
            id=text("override.id", id),
            rule=document("override.rule", rule),
            active=int(active),
            written_by=text("override.written_by", by),
            at=self._session.now(),
        )
        return _override(row)

    def delete(self, id: str) -> None:  # noqa: A002 -- the port's name
        if not self._session.change(_DELETE, id=id):
            raise NotFound(f"there is no policy override {id!r}")

    def all(self) -> Sequence[StoredOverride]:
        return sorted(map(_override, self._session.rows(_READ_ALL)), key=lambda override: override.id)
