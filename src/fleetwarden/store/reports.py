"""Reports of passes: what was done, refused or left alone, and why.  Append-only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from fleetwarden.domain.errors import NotFound
from fleetwarden.domain.identifiers import JsonValue, show_id
from fleetwarden.ports.stores import Page, StoredReport
from fleetwarden.store import columns, schema
from fleetwarden.store.columns import document, text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Listing, Row, Statement, param, write

__all__ = ["StoredReports"]

_R = schema.reports
_INSERT = Statement(write(_R).returning(*_R.c))
_GET = Statement(sa.select(*_R.c).where(_R.c.seq == param("seq")))
_LISTING = Listing(_R, at="at", kind="kind")


@columns.reading("report")
def _report(row: Row) -> StoredReport:
    seq, at, kind, body = row
    return StoredReport(seq=seq, at=at, kind=kind, body=columns.plain_json(body))


class StoredReports:
    """Implements `ports.stores.Reports`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def append(self, kind: str, body: Mapping[str, JsonValue]) -> StoredReport:
        [row] = self._session.change(
            _INSERT,
            at=self._session.now(),
            kind=text("report.kind", kind),
            body=document("report.body", body),
        )
        return _report(row)

    def get(self, seq: int) -> StoredReport:
        row = self._session.row(_GET, seq=seq)
        if row is None:
            raise NotFound(f"there is no report {show_id('R', seq)}")
        return _report(row)

    def list(self, page: Page) -> Sequence[StoredReport]:
        statement, values = _LISTING.ask(page)
        return [_report(row) for row in self._session.rows(statement, **values)]
