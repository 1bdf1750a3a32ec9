"""Spreading: from each notice in the journal to one message, or a part of one, for every target that is told.

One transaction reads a batch of notices, writes the messages, and moves the mark up to which the journal was read, so
that a crash between any two of its steps repeats all of it or nothing.  Nothing is sent here, and a notice is never
made here: what is told stands in the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fleetwarden.controllers.messenger import CURSOR as TOLD_TO
from fleetwarden.controllers.messenger import mark_of
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.messages import CRITICAL, WINDOW, Told, fold
from fleetwarden.domain.notify_file import SEVERITIES
from fleetwarden.ports.notices import NotifySource
from fleetwarden.ports.stores import JournalEntry, Store, Tx

__all__ = ["SPREAD_TO", "Spreading"]

SPREAD_TO = "notices_spread_to"
BATCH_MAX = 500
BATCHES_MAX = 40  # 20,000 notices in one pass


class Spreading:
    """`group_of`: the group of a service, "" for what is none or has none."""

    def __init__(self, store: Store, source: NotifySource, group_of: Callable[[str], str]) -> None:
        self._store = store
        self._source = source
        self._group_of = group_of

    def run(self, fence: LeaseFence | None = None) -> int:
        """Spread what is new; returns how many notices that were.  Raises Fenced once the lease is lost."""
        if self._source.unreadable:
            return 0
        total = 0
        for _ in range(BATCHES_MAX):
            if not self._store.read(lambda tx: _new(tx, 1)):
                break
            done = self._store.transact("spread_notices", lambda tx: self._spread(tx, fence))
            total += done
            if done < BATCH_MAX:
                break
        return total

    def _spread(self, tx: Tx, fence: LeaseFence | None) -> int:
        if fence is not None:
            tx.leases.check(fence)
        document, entries = self._source.current(), _new(tx, BATCH_MAX)
        news: dict[str, list[Told]] = {}
        for one in entries:
            told = _told(one)
            for name in document.told(self._group(one), told.severity):
                news.setdefault(name, []).append(told)
        for name, each in news.items():
            self._put(tx, name, each, tx.now())
        if entries:
            mark = entries[-1].mark
            tx.facts.put(SPREAD_TO, {"xact": mark.xact, "seq": mark.seq})
        return len(entries)

    @staticmethod
    def _put(tx: Tx, name: str, news: Sequence[Told], now: Micros) -> None:
        tx.deliveries.put(fold(name, tx.deliveries.recent(name, now - WINDOW), news, now))
        if any(one.severity == CRITICAL for one in news):
            tx.deliveries.hasten(name, now)

    def _group(self, entry: JournalEntry) -> str:
        named = entry.detail.get("group")
        return named if isinstance(named, str) else self._group_of(entry.subject)


def _new(tx: Tx, limit: int) -> Sequence[JournalEntry]:
    known = tx.facts.get(SPREAD_TO)
    if known is None:  # a store from before there were messages: what was told then is not told again
        known = tx.facts.get(TOLD_TO)
    return tx.journal.after(mark_of(known), topic="notice", limit=limit)


def _told(entry: JournalEntry) -> Told:
    incident = entry.detail.get("incident")
    return Told(
        entry=entry.seq,
        at=entry.at,
        severity=entry.severity if entry.severity in SEVERITIES else "info",
        subject=entry.subject,
        kind=incident if isinstance(incident, str) else entry.actor,
        summary=entry.summary,
    )
