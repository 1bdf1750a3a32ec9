"""Where each service stands with the autoscaler: one row, replaced when it changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from fleetwarden.ports.autoscale_rows import AutoscaleRow
from fleetwarden.store import columns, schema_autoscaling
from fleetwarden.store.columns import document, text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Row, Statement, each_of, param, write

__all__ = ["StoredAutoscaleRows"]

_R = schema_autoscaling.autoscale_rows


def _put() -> Statement:
    wanted = write(_R)
    new = {name: wanted.excluded[name] for name in ("at", "reason", "body")}
    return Statement(wanted.on_conflict_do_update(index_elements=["service"], set_=new).returning(_R.c.service))


_PUT = _put()
_FORGET = Statement(
    sa.delete(_R).where(_R.c.service.in_(sa.select(each_of("services").c.value))).returning(_R.c.service)
)
_GET = Statement(sa.select(*_R.c).where(_R.c.service == param("service", str)))
_ALL = Statement(sa.select(*_R.c))
_BODY = msgspec.json.Decoder(AutoscaleRow)


@columns.reading("autoscaler's row")
def _row(row: Row) -> AutoscaleRow:
    _service, at, _reason, body = row
    return msgspec.structs.replace(_BODY.decode(body), at=at)


class StoredAutoscaleRows:
    """Implements `ports.autoscale_rows.AutoscaleRows`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, rows: Sequence[AutoscaleRow]) -> None:
        now = self._session.now()
        for one in rows:
            self._session.change(
                _PUT,
                service=text("autoscale_row.service", one.service),
                at=now,
                reason=text("autoscale_row.reason", one.reason),
                body=document("autoscale_row.body", one),
            )

    def forget(self, services: Sequence[str]) -> None:
        if services:
            self._session.change(_FORGET, services=self._session.array(services))

    def get(self, service: str) -> AutoscaleRow | None:
        row = self._session.row(_GET, service=service)
        return None if row is None else _row(row)

    def all(self) -> Mapping[str, AutoscaleRow]:
        found = map(_row, self._session.rows(_ALL))
        return {one.service: one for one in found}
