"""Quarantines: one standing row for each version of a service that failed its watch, kept after it was cleared."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from fleetwarden.domain.deploy_watch import Quarantine
from fleetwarden.domain.errors import Conflict, NotFound
from fleetwarden.domain.identifiers import show_id
from fleetwarden.ports.pages import Page
from fleetwarden.store import columns, schema_watches
from fleetwarden.store.columns import prose, text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Listing, Row, Statement, param, write

__all__ = ["StoredQuarantines"]

_Q = schema_watches.quarantines
_STANDS = _Q.c.cleared_at.is_(None)
_INSERT = Statement(write(_Q).on_conflict_do_nothing().returning(*_Q.c))
_THAT = Statement(
    sa.select(*_Q.c).where(_Q.c.service == param("service", str), _Q.c.version == param("version", str), _STANDS)
)
_STANDING = Statement(sa.select(*_Q.c).where(_STANDS).order_by(_Q.c.seq))
_OF_SERVICE = Statement(
    sa.select(*_Q.c).where(_Q.c.service == param("service", str)).order_by(_Q.c.seq.desc()).limit(param("limit"))
)
_LAST = sa.select(sa.func.max(_Q.c.seq)).where(_Q.c.cleared_at.is_not(None)).group_by(_Q.c.service, _Q.c.version)
_CLEARED_LAST = Statement(sa.select(*_Q.c).where(_Q.c.seq.in_(_LAST)))
_GET = Statement(sa.select(*_Q.c).where(_Q.c.seq == param("seq")))
_CLEAR = Statement(
    sa.update(_Q)
    .values(cleared_at=param("now"), cleared_by=param("by", str), note=param("why", str))
    .where(_Q.c.seq == param("of"), _STANDS)
    .returning(*_Q.c)
)
_LISTING = Listing(
    _Q,
    at="at",
    target="service",
    state=lambda state: _STANDS if state == "standing" else _Q.c.cleared_at.is_not(None),
)


@columns.reading("quarantine")
def _quarantine(row: Row) -> Quarantine:
    seq, service, version, watch_seq, reason, at, cleared_at, cleared_by, note = row
    return Quarantine(
        seq=seq,
        service=service,
        version=version,
        watch_seq=watch_seq,
        reason=reason,
        at=at,
        cleared_at=cleared_at,
        cleared_by=cleared_by,
        note=note,
    )


class StoredQuarantines:
    """Implements `ports.watches.Quarantines`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, service: str, version: str, *, watch_seq: int, reason: str) -> Quarantine:
        self._session.change(
            _INSERT,
            service=text("quarantine.service", service),
            version=text("quarantine.version", version),
            watch_seq=watch_seq,
            reason=prose("quarantine.reason", reason),
            at=self._session.now(),
            cleared_at=None,
            cleared_by="",
            note="",
        )
        row = self._session.row(_THAT, service=service, version=version)
        assert row is not None
        return _quarantine(row)

    def standing(self) -> Sequence[Quarantine]:
        return [_quarantine(row) for row in self._session.rows(_STANDING)]

    def of_service(self, service: str, limit: int) -> Sequence[Quarantine]:
        return [_quarantine(row) for row in self._session.rows(_OF_SERVICE, service=service, limit=limit)]

    def cleared_last(self) -> Sequence[Quarantine]:
        return [_quarantine(row) for row in self._session.rows(_CLEARED_LAST)]

    def clear(self, seq: int, *, by: str, note: str) -> Quarantine:
        rows = self._session.change(
            _CLEAR, of=seq, now=self._session.now(), by=text("quarantine.cleared_by", by), why=prose("note", note)
        )
        if rows:
            return _quarantine(rows[0])
        if self._session.row(_GET, seq=seq) is None:
            raise NotFound(f"there is no quarantine {show_id('Q', seq)}")
        raise Conflict(f"quarantine {show_id('Q', seq)} was cleared already")

    def list(self, page: Page) -> Sequence[Quarantine]:
        statement, values = _LISTING.ask(page)
        return [_quarantine(row) for row in self._session.rows(statement, **values)]
