"""Placements, hosts and what was seen on them.

A look is published as what changed: a row that stands as it was is confirmed by its host's date alone.  A look that
began before the one that is stored changes nothing, so that a plane which was stopped for a while cannot put old sights
in the place of new ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from fleetwarden.domain.errors import NotFound
from fleetwarden.domain.fleet import ObservedService
from fleetwarden.domain.identifiers import Micros
from fleetwarden.ports.planes import Host
from fleetwarden.store import columns, schema
from fleetwarden.store.columns import document, text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Row, Statement, param, write

__all__ = ["StoredHosts", "StoredPlacements"]

_P, _H, _S = schema.placements, schema.hosts, schema.host_sightings

_CLAIM = Statement(write(_P).on_conflict_do_nothing().returning(_P.c.host))
_PLACED = Statement(sa.select(_P.c.host).where(_P.c.service == param("service", str)))
_PLACEMENTS = Statement(sa.select(_P.c.service, _P.c.host))

_REGISTER = Statement(write(_H).on_conflict_do_nothing().returning(_H.c.host))
_HOST = Statement(sa.select(*_H.c).where(_H.c.host == param("host", str)))
_HOSTS = Statement(sa.select(*_H.c).order_by(_H.c.host))
_LOOKED = Statement(
    sa.update(_H)
    .values(holder=param("by", str), looked_at=param("looked"))
    .where(_H.c.host == param("of", str), sa.or_(_H.c.looked_at.is_(None), _H.c.looked_at < param("looked")))
    .returning(_H.c.host)
)
_OF_HOST = Statement(sa.select(_S.c.service, _S.c.observed_at, _S.c.body).where(_S.c.host == param("host", str)))
_ELSEWHERE = Statement(
    sa.select(_S.c.host, _S.c.service, sa.func.coalesce(_S.c.observed_at, _H.c.looked_at), _S.c.body)
    .join_from(_S, _H, _S.c.host == _H.c.host)
    .where(_S.c.host != param("besides", str), _H.c.looked_at.is_not(None))
)
_FORGET = Statement(
    sa.delete(_S).where(_S.c.host == param("host", str), _S.c.service == param("service", str)).returning(_S.c.service)
)


def _sight() -> Statement:
    wanted = write(_S)
    new = {name: wanted.excluded[name] for name in ("observed_at", "body")}
    return Statement(wanted.on_conflict_do_update(index_elements=["host", "service"], set_=new).returning(_S.c.service))


_SIGHT = _sight()
_SEEN = msgspec.json.Decoder(ObservedService)


@columns.reading("host")
def _host(row: Row) -> Host:
    host, folder, holder, looked_at = row
    return Host(host=host, folder=folder, holder=holder, looked_at=looked_at)


@columns.reading("sight of")
def _observed(row: Row) -> ObservedService:
    _service, observed_at, body = row
    return msgspec.structs.replace(_SEEN.decode(body), observed_at=observed_at)


class StoredPlacements:
    """Implements `ports.planes.Placements`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def claim(self, service: str, host: str) -> str:
        values = {"service": text("placement.service", service), "host": text("placement.host", host)}
        rows = self._session.change(_CLAIM, **values, at=self._session.now())
        row = rows[0] if rows else self._session.row(_PLACED, service=service)
        assert row is not None  # placements are never taken away
        return str(row[0])

    def all(self) -> Mapping[str, str]:
        return {str(service): str(host) for service, host in self._session.rows(_PLACEMENTS)}


class StoredHosts:
    """Implements `ports.planes.Hosts`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def register(self, host: str, folder: str, holder: str) -> Host:
        self._session.change(
            _REGISTER,
            host=text("host.host", host),
            folder=text("host.folder", folder),
            holder=text("host.holder", holder),
            looked_at=None,
        )
        row = self._session.row(_HOST, host=host)
        assert row is not None  # hosts are never taken away
        return _host(row)

    def publish(self, host: str, holder: str, looked_at: Micros, seen: Mapping[str, ObservedService]) -> bool | None:
        by = text("host.holder", holder)
        if not self._session.change(_LOOKED, of=host, by=by, looked=looked_at):
            if self._session.row(_HOST, host=host) is None:
                raise NotFound(f"host {host} is not registered")
            return None
        stored = {row[0]: (row[1], row[2]) for row in self._session.rows(_OF_HOST, host=host)}
        changed = False
        for name, one in sorted(seen.items()):
            body = document("sight", msgspec.to_builtins(msgspec.structs.replace(one, observed_at=0)))
            date = None if one.observed_at == looked_at else one.observed_at
            before = stored.pop(name, None)
            if before != (date, body):
                values = {"host": host, "service": text("sight.service", name)}
                self._session.change(_SIGHT, **values, observed_at=date, body=body)
                changed = changed or before is None or before[1] != body
        for name in stored:
            self._session.change(_FORGET, host=host, service=name)
            changed = True
        return changed

    def seen(self, *, besides: str) -> Mapping[tuple[str, str], ObservedService]:
        rows = self._session.rows(_ELSEWHERE, besides=besides)
        return {(host, service): _observed((service, at, body)) for host, service, at, body in rows}

    def all(self) -> Sequence[Host]:
        return [_host(row) for row in self._session.rows(_HOSTS)]
