"""The messenger: carries notices from the journal to the notifier.

A notice is written in the transaction that made the news, so it is never lost and never invented; telling people comes
afterwards, here.  A notice is told at least once: after a crash the newest ones may be told again, which is better than
not at all.  A notifier that fails is tried again on a later pass, and never holds up anything else.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.ports.stores import JournalEntry, Store, Tx
from fleetwarden.ports.system import Notice, Notifier

__all__ = ["CADENCE", "Messenger"]

log = structlog.get_logger(__name__)
CADENCE = "notifier"
CURSOR = "notified_to"
BATCH_MAX = 100
# An entry with a lower number may be committed later than one with a higher.  The stored cursor stays behind by more
# than the longest transaction, and what was told since is remembered here.
OVERLAP_US: Micros = 120 * SECOND


class Messenger:
    """Delivers notices in the order in which they were written."""

    def __init__(self, store: Store, notifier: Notifier) -> None:
        self._store = store
        self._notifier = notifier
        self._told: dict[int, Micros] = {}  # entry → when it was written
        self._cursor: int | None = None

    def run(self) -> int:
        """Deliver what is new, at most one batch; returns how many were delivered."""
        now, fresh = self._store.read(self._new)
        delivered = 0
        for entry in fresh:
            if not self._deliver(entry):
                break
            self._told[entry.seq] = entry.at
            delivered += 1
        self._move(now)
        return delivered

    def _new(self, tx: Tx) -> tuple[Micros, Sequence[JournalEntry]]:
        if self._cursor is None:
            known = tx.facts.get(CURSOR)
            self._cursor = int(known) if isinstance(known, int) else 0
        rows = tx.journal.after(self._cursor, topic="notice", limit=BATCH_MAX + len(self._told))
        return tx.now(), [one for one in rows if one.seq not in self._told][:BATCH_MAX]

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

    def _move(self, now: Micros) -> None:
        """Move the stored cursor over entries that are told and old enough to have no late neighbour below them."""
        old = [seq for seq, at in self._told.items() if at < now - OVERLAP_US]
        if not old:
            return
        cursor = max(old)
        self._store.transact("notified", lambda tx: tx.facts.put(CURSOR, cursor))
        self._cursor = cursor
        self._told = {seq: at for seq, at in self._told.items() if seq > cursor}
