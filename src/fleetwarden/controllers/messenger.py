"""The messenger: carries notices from the journal to the notifier.

A notice is written in the transaction that made the news, so it is never lost and never invented; telling people comes
afterwards, here.  A notice is told at least once: after a crash the newest ones may be told again, which is better than
not at all.  A notifier that fails is tried again on a later pass, and never holds up anything else.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.ports.stores import FeedMark, JournalEntry, Store, Tx
from fleetwarden.ports.system import Notice, Notifier

__all__ = ["CADENCE", "CURSOR", "Messenger", "mark_of"]

log = structlog.get_logger(__name__)
CADENCE = "notifier"
CURSOR = "notified_to"
BATCH_MAX = 100


class Messenger:
    """Delivers notices in the order in which they became visible for good."""

    def __init__(self, store: Store, notifier: Notifier) -> None:
        self._store = store
        self._notifier = notifier

    def run(self, fence: LeaseFence | None = None) -> int:
        """Deliver what is new, at most one batch; returns how many were delivered.

        `fence`: the lease under which it runs, None where nobody else can.  Raises Fenced once the lease is lost: then
        another plane may tell the last batch again.
        """
        delivered: list[JournalEntry] = []
        for entry in self._store.read(self._new):
            if not self._deliver(entry):
                break
            delivered.append(entry)
        if delivered:
            self._move(fence, delivered[-1].mark)
        return len(delivered)

    @staticmethod
    def _new(tx: Tx) -> Sequence[JournalEntry]:
        return tx.journal.after(mark_of(tx.facts.get(CURSOR)), topic="notice", limit=BATCH_MAX)

    def _deliver(self, entry: JournalEntry) -> bool:
        notice = Notice(severity=entry.severity, subject=entry.subject, summary=entry.summary, detail=entry.detail)
        try:
            done = self._notifier.notify(notice)
        except Exception as error:  # a notifier is a plug-in: whatever it raises, the next pass tries again
            log.exception("notifier failed", notifier=self._notifier.name, error=str(error))
            return False
        if not done:
            log.warning("notice not delivered", notifier=self._notifier.name, entry=entry.seq)
        return done

    def _move(self, fence: LeaseFence | None, mark: FeedMark) -> None:
        def run(tx: Tx) -> None:
            if fence is not None:
                tx.leases.check(fence)
            tx.facts.put(CURSOR, {"xact": mark.xact, "seq": mark.seq})

        self._store.transact("notified", run)


def mark_of(known: JsonValue) -> FeedMark:
    """The stored cursor.  An earlier version kept the number of an entry, all of which come before any transaction."""
    if isinstance(known, dict):
        xact, seq = known.get("xact"), known.get("seq")
        return FeedMark(xact=xact if isinstance(xact, int) else 0, seq=seq if isinstance(seq, int) else 0)
    return FeedMark(seq=known if isinstance(known, int) else 0)
