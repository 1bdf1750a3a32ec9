"""When each service's count was last really changed: the newest time in the ledger, found by its own index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from fleetwarden.domain.identifiers import Micros
from fleetwarden.store import schema
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Statement, each_of

__all__ = ["StoredCooldowns"]

_E = schema.executions


def _last_scales() -> Statement:
    service = each_of("services")
    newest = (
        sa.select(sa.func.max(_E.c.at))
        .where(
            _E.c.target == service.c.value,
            _E.c.kind == sa.literal_column("'scale_service'"),
            _E.c.state == sa.literal_column("'executed'"),
            _E.c.ok == sa.literal_column("1"),
            _E.c.dry_run == sa.literal_column("0"),
        )
        .scalar_subquery()
    )
    return Statement(sa.select(service.c.value, newest).select_from(service))


_LAST_SCALES = _last_scales()


class StoredCooldowns:
    """Implements `ports.cooldowns.Cooldowns`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def last_scales(self, services: Sequence[str]) -> Mapping[str, Micros]:
        rows = self._session.rows(_LAST_SCALES, services=self._session.array(services))
        return {str(service): int(at) for service, at in rows if at is not None}
