"""`signals.yml` of the configuration folder: the document in force, and what is wrong with a newer one.

Read when it is asked to look again and its content has changed.  One that cannot be used leaves the last good one in
force and says so; at the first start that is none, so that nothing scales by a guess.
"""

from __future__ import annotations

import threading
from pathlib import Path

import structlog

from fleetwarden.adapters.files.documents import read_document
from fleetwarden.domain.errors import Misconfigured, Problem
from fleetwarden.domain.signal_file import SignalsDocument, read_signals_file

__all__ = ["SIGNALS", "SignalsFile"]

SIGNALS = "signals.yml"
log = structlog.get_logger(__name__)


class SignalsFile:
    """The file and its last good reading.  `default_url`: the Prometheus that the settings name, or ""."""

    def __init__(self, folder: Path, *, default_url: str = "") -> None:
        self._path = folder / SIGNALS
        self._default_url = default_url
        self._lock = threading.Lock()
        self._seen: object = None
        self.problems: tuple[Problem, ...] = ()
        self._good = False  # whether what is in force was read from the file
        self._current = SignalsDocument()
        self.refresh()

    def current(self) -> SignalsDocument:
        """The document in force."""
        return self._current

    @property
    def stays(self) -> str:
        """What holds while the file is rejected, in words."""
        if self._good:
            return "the last good one stays in force"
        return "none is in force: no signal is declared, and nothing scales"

    def refresh(self) -> bool:
        """Read the file if its content changed; returns whether what is in force did."""
        with self._lock:
            document = read_document(self._path, SIGNALS)
            if document.fingerprint == self._seen:
                return False
            self._seen = document.fingerprint
            if not document.exists:
                self.problems, changed = (), self._current != SignalsDocument()
                self._current, self._good = SignalsDocument(), False
                return changed
            try:
                fresh = read_signals_file(document.tree(), digest=document.fingerprint, default_url=self._default_url)
            except Misconfigured as error:
                self.problems = error.problems
                log.warning("signals.yml is rejected", reason=str(error), now=self.stays)
                return False
            self.problems, self._current, self._good = (), fresh, True
            return True
