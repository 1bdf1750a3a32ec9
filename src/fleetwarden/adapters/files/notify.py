"""`notify.yml` of the configuration folder: who is told what, and what is wrong with a newer file.

Read when it is asked to look again and its content has changed.  One that cannot be used leaves the last good one in
force and says so.  Where there was none yet, notices wait in the journal until the file can be used: nobody is left out
because of a typing mistake.
"""

from __future__ import annotations

import threading
from pathlib import Path

import structlog

from fleetwarden.adapters.files.documents import read_document
from fleetwarden.domain.errors import Misconfigured, Problem
from fleetwarden.domain.notify_file import NotifyDocument, read_notify_file

__all__ = ["NOTIFY", "NotifyFile"]

NOTIFY = "notify.yml"
log = structlog.get_logger(__name__)


class NotifyFile:
    """Implements `ports.notices.NotifySource` over the file of that folder.  `log_problems`: also into the log."""

    def __init__(self, folder: Path, *, log_problems: bool = True) -> None:
        self._log_problems = log_problems
        self.folder = folder
        self._lock = threading.Lock()
        self._seen: object = None
        self._good = True
        self.exists = False
        self.problems: tuple[Problem, ...] = ()
        self._current = NotifyDocument()
        self.refresh()

    def current(self) -> NotifyDocument:
        return self._current

    @property
    def unreadable(self) -> bool:
        return not self._good

    @property
    def stays(self) -> str:
        """What holds while the file is rejected, in words."""
        if self._good:
            return "the last good one stays in force"
        return "none is in force: notices wait in the journal until it can be used"

    def refresh(self) -> bool:
        """Read the file if its content changed; returns whether what is in force did."""
        with self._lock:
            document = read_document(self.folder / NOTIFY, NOTIFY)
            if document.fingerprint == self._seen:
                return False
            first, self._seen = self._seen is None, document.fingerprint
            self.exists = document.exists
            if not document.exists:
                changed = self._current != NotifyDocument()
                self.problems, self._current, self._good = (), NotifyDocument(), True
                return changed
            try:
                fresh = read_notify_file(document.tree(), digest=document.fingerprint)
            except Misconfigured as error:
                self.problems = error.problems
                self._good = self._good and not first
                if self._log_problems:
                    log.warning("notify.yml is rejected", reason=str(error), now=self.stays)
                return False
            self.problems, self._current, self._good = (), fresh, True
            return True
