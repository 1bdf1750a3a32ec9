"""Notifiers: where notices go once they stand in the journal.

The journal in the store is always written, by whoever makes the news.  The default notifier adds a line to the log and
sends nothing anywhere; a deployment injects another.  A notifier never decides what is news, and never raises for a
delivery that failed.
"""

from __future__ import annotations

import structlog

from fleetwarden.ports.system import Notice

__all__ = ["JournalNotifier"]

log = structlog.get_logger(__name__)


class JournalNotifier:
    """The default: the journal is enough, and the log says so."""

    name = "journal"

    def notify(self, notice: Notice) -> bool:
        """Always delivered: the entry is in the store already."""
        log.info("notice", severity=notice.severity, subject=notice.subject, summary=notice.summary)
        return True
