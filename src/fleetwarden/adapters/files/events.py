"""`events.yml` of the configuration folder: the document in force, and what is wrong with a newer one.

Read when it is asked to look again and its content has changed.  One that cannot be used leaves the last good one in
force and says so; at the first start that is none: no sender is known by name, and every sender needs a token.
"""

from __future__ import annotations

import threading
from pathlib import Path

import structlog

from fleetwarden.adapters.files.documents import read_document
from fleetwarden.domain.errors import Misconfigured, Problem
from fleetwarden.domain.event_sources import EventsDocument, read_events_file

__all__ = ["EVENTS", "EventsFile"]

EVENTS = "events.yml"
log = structlog.get_logger(__name__)


class EventsFile:
    """The file and its last good reading."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / EVENTS
        self._lock = threading.Lock()
        self._seen: object = None
        self._current = EventsDocument()
        self.problems: tuple[Problem, ...] = ()
        self.refresh()

    def current(self) -> EventsDocument:
        """The document in force."""
        return self._current

    def refresh(self) -> bool:
        """Read the file if its content changed; returns whether what is in force did."""
        with self._lock:
            document = read_document(self._path, EVENTS)
            if document.fingerprint == self._seen:
                return False
            self._seen = document.fingerprint
            if not document.exists:
                changed = self._current != EventsDocument()
                self.problems, self._current = (), EventsDocument()
                return changed
            try:
                fresh = read_events_file(document.tree(), digest=document.fingerprint)
            except Misconfigured as error:
                self.problems = error.problems
                log.warning("events.yml is rejected", reason=str(error))
                return False
            self.problems, self._current = (), fresh
            return True
