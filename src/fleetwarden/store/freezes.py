"""Freezes: while one stands, no further side effect is fenced.

A freeze ends by being lifted or by its own end, and both are looked at with the store's time.  The caller takes the
admission lock, which is what makes an answered freeze final.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from fleetwarden.domain.errors import Conflict, NotFound
from fleetwarden.domain.identifiers import Micros, show_id
from fleetwarden.ports.stores import Freeze, Page
from fleetwarden.store import columns, schema
from fleetwarden.store.columns import text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Listing, Row, Statement, param, write

__all__ = ["StoredFreezes"]

_F = schema.freezes
_STANDING = _F.c.lifted_at.is_(None)

_INSERT = Statement(write(_F).returning(*_F.c))
_GET = Statement(sa.select(*_F.c).where(_F.c.seq == param("seq")))
_LIFT = Statement(
    sa.update(_F)
    .values(lifted_at=param("now"), lifted_by=param("by", str))
    .where(_F.c.seq == param("of"), _STANDING)
    .returning(*_F.c)
)
_ACTIVE = Statement(
    sa.select(*_F.c).where(_STANDING, sa.or_(_F.c.until.is_(None), _F.c.until > param("now"))).order_by(_F.c.seq)
)
_ENDED = Statement(
    sa.select(*_F.c)
    .where(_STANDING, _F.c.until.is_not(None), _F.c.until <= param("now"), _F.c.told_at.is_(None))
    .order_by(_F.c.seq)
)
_TELL = Statement(
    sa.update(_F)
    .values(told_at=param("now"))
    .where(_F.c.seq == param("of"), _STANDING, _F.c.until <= param("now"), _F.c.told_at.is_(None))
    .returning(*_F.c)
)
_LISTING = Listing(_F, at="at")


@columns.reading("freeze")
def _freeze(row: Row) -> Freeze:
    seq, scope, value, owner, reason, at, until, lifted_at, lifted_by, told_at = row
    return Freeze(
        seq=seq,
        scope=scope,
        value=value,
        owner=owner,
        reason=reason,
        at=at,
        until=until,
        lifted_at=lifted_at,
        lifted_by=lifted_by,
        told_at=told_at,
    )


class StoredFreezes:
    """Implements `ports.stores.Freezes`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(
        self, *, owner: str, reason: str, until: Micros | None = None, scope: str = "all", value: str = ""
    ) -> Freeze:
        [row] = self._session.change(
            _INSERT,
            scope=text("freeze.scope", scope),
            value=text("freeze.value", value),
            owner=text("freeze.owner", owner),
            reason=text("freeze.reason", reason),
            at=self._session.now(),
            until=until,
            lifted_at=None,
            lifted_by="",
            told_at=None,
        )
        return _freeze(row)

    def lift(self, seq: int, by: str) -> Freeze:
        rows = self._session.change(_LIFT, of=seq, now=self._session.now(), by=text("freeze.lifted_by", by))
        if rows:
            return _freeze(rows[0])
        there = self._session.row(_GET, seq=seq)
        if there is None:
            raise NotFound(f"there is no freeze {show_id('F', seq)}")
        raise Conflict(f"freeze {show_id('F', seq)} was lifted by {_freeze(there).lifted_by} already")

    def active(self) -> Sequence[Freeze]:
        return [_freeze(row) for row in self._session.rows(_ACTIVE, now=self._session.now())]

    def ended(self) -> Sequence[Freeze]:
        return [_freeze(row) for row in self._session.rows(_ENDED, now=self._session.now())]

    def told(self, seq: int) -> Freeze:
        rows = self._session.change(_TELL, of=seq, now=self._session.now())
        if not rows:
            raise Conflict(f"freeze {show_id('F', seq)} has not ended by itself, or its end was told already")
        return _freeze(rows[0])

    def list(self, page: Page) -> Sequence[Freeze]:
        statement, values = _LISTING.ask(page)
        return [_freeze(row) for row in self._session.rows(statement, **values)]
