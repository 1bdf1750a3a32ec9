"""The journal: notices, and who changed what.  Append-only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.ports.stores import JournalEntry, Page
from fleetwarden.store import columns, schema
from fleetwarden.store.columns import document, text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Listing, Row, Statement, write

__all__ = ["StoredJournal"]

_J = schema.journal
_INSERT = Statement(write(_J).returning(*_J.c))
_LISTING = Listing(_J, at="at", target="subject", kind="topic")


@columns.reading("journal entry")
def _entry(row: Row) -> JournalEntry:
    seq, at, topic, actor, subject, severity, summary, detail = row
    return JournalEntry(
        seq=seq,
        at=at,
        topic=topic,
        actor=actor,
        subject=subject,
        severity=severity,
        summary=summary,
        detail=columns.plain_json(detail),
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
            summary=text("journal.summary", summary),
            detail=document("journal.detail", detail or {}),
        )
        return _entry(row)

    def list(self, page: Page) -> Sequence[JournalEntry]:
        statement, values = _LISTING.ask(page)
        return [_entry(row) for row in self._session.rows(statement, **values)]
