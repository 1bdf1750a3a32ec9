"""The journal: notices, and who changed what.  Append-only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.ports.stores import FeedMark, JournalEntry, Page
from fleetwarden.store import columns, feed, ledger, schema
from fleetwarden.store.columns import document, prose, text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Listing, Row, Statement, param, write

__all__ = ["StoredJournal"]

_J = schema.journal
_GIVEN = [column.name for column in _J.c if column.name not in ("seq", "xact")]
_INSERT = Statement(write(_J, given=_GIVEN).values(xact=feed.ThisTransaction()).returning(*_J.c))
_AFTER = Statement(
    sa.select(*_J.c)
    .where(_J.c.topic == param("topic", str), feed.further(_J.c.xact, _J.c.seq), feed.finished(_J.c.xact))
    .order_by(_J.c.xact, _J.c.seq)
    .limit(param("limit"))
)
_LISTING = Listing(_J, at="at", target="subject", kind="topic")


@columns.reading("journal entry")
def _entry(row: Row) -> JournalEntry:
    seq, at, topic, actor, subject, severity, summary, detail, xact = row
    return JournalEntry(
        seq=seq,
        at=at,
        topic=topic,
        actor=actor,
        subject=subject,
        severity=severity,
        summary=summary,
        detail=columns.plain_json(detail),
        xact=xact,
    )


class StoredJournal:
    """Implements `ports.stores.Journal`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def write(
        self,
        *,
        topic: str,
        actor: str,
        subject: str = "",
        severity: str = "info",
        summary: str,
        detail: Mapping[str, JsonValue] | None = None,
    ) -> JournalEntry:
        [row] = self._session.change(
            _INSERT,
            at=self._session.now(),
            topic=text("journal.topic", topic),
            actor=text("journal.actor", actor),
            subject=text("journal.subject", subject),
            severity=text("journal.severity", severity),
            summary=prose("journal.summary", summary),
            detail=document("journal.detail", detail or {}),
        )
        ledger.enter(self._session, "journal", dict(zip(_J.c.keys(), row, strict=True)))
        return _entry(row)

    def list(self, page: Page) -> Sequence[JournalEntry]:
        statement, values = _LISTING.ask(page)
        return [_entry(row) for row in self._session.rows(statement, **values)]

    def after(self, mark: FeedMark, *, topic: str, limit: int) -> Sequence[JournalEntry]:
        behind = {"after_xact": mark.xact, "after_seq": mark.seq}
        return [_entry(row) for row in self._session.rows(_AFTER, **behind, topic=topic, limit=limit)]
