"""What elastic units take of their pools: one row per service, replaced when its count has changed."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from fleetwarden.domain.errors import Refused
from fleetwarden.store import schema_contract
from fleetwarden.store.columns import text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Statement, write

__all__ = ["StoredAllocations"]

_A = schema_contract.allocations


def _put() -> Statement:
    wanted = write(_A)
    new = {name: wanted.excluded[name] for name in ("units", "at")}
    return Statement(wanted.on_conflict_do_update(index_elements=["service"], set_=new).returning(_A.c.service))


_PUT = _put()
_ALL = Statement(sa.select(_A.c.service, _A.c.units))


class StoredAllocations:
    """Implements `ports.allocations.Allocations`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, service: str, units: int) -> None:
        if units < 0:
            raise Refused(f"allocation of {service}: {units} units, which is less than none")
        self._session.change(_PUT, service=text("allocation.service", service), units=units, at=self._session.now())

    def all(self) -> Mapping[str, int]:
        return {str(service): int(units) for service, units in self._session.rows(_ALL)}
