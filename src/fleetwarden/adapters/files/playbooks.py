"""`playbooks.yml` of the configuration folder: the playbooks in force, and what is wrong with newer ones.

Read when it is asked to look again and its content has changed.  One that cannot be used leaves the last good one in
force and says so; without one the shipped playbooks are all there is.
"""

from __future__ import annotations

import threading
from pathlib import Path

import structlog

from fleetwarden.adapters.files.documents import read_document
from fleetwarden.domain.errors import Misconfigured, Problem
from fleetwarden.domain.playbook_file import read_playbooks_file
from fleetwarden.domain.playbooks import PlaybookEntry

__all__ = ["PLAYBOOKS", "PlaybooksFile"]

PLAYBOOKS = "playbooks.yml"
log = structlog.get_logger(__name__)


class PlaybooksFile:
    """The file and its last good reading."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / PLAYBOOKS
        self._lock = threading.Lock()
        self._seen: object = None
        self.problems: tuple[Problem, ...] = ()
        self._current: tuple[PlaybookEntry, ...] = ()
        self.refresh()

    def current(self) -> tuple[PlaybookEntry, ...]:
        """The playbooks in force, in the order of the file."""
        return self._current

    def refresh(self) -> bool:
        """Read the file if its content changed; returns whether what is in force did."""
        with self._lock:
            document = read_document(self._path, PLAYBOOKS)
            if document.fingerprint == self._seen:
                return False
            self._seen = document.fingerprint
            try:
                fresh = read_playbooks_file(document.tree()) if document.exists else ()
            except Misconfigured as error:
                self.problems = error.problems
                log.warning("playbooks.yml is rejected, the last good one stays in force", reason=str(error))
                return False
            changed = fresh != self._current
            self.problems, self._current = (), fresh
            return changed
