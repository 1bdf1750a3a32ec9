"""What both engines do once a transaction is committed or has taken long."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from threading import Lock

__all__ = ["SLOW_S", "SlowTransactions", "release_all"]

SLOW_S = 0.05
_LOG = logging.getLogger("fleetwarden.store")


def release_all(name: str, releases: Iterable[Callable[[], None]]) -> None:
    """Run what was registered for after the commit.  A failure is logged: the commit stands, and so do the others."""
    for release in releases:
        try:
            release()
        except Exception:  # noqa: BLE001 -- nobody's failure may undo or hide the commit
            _LOG.exception("an after-commit call failed", extra={"transaction": name})


class SlowTransactions:
    """Counts and logs transactions that held the database for longer than `SLOW_S` seconds."""

    def __init__(self) -> None:
        self._mutex = Lock()
        self._count = 0

    @property
    def count(self) -> int:
        return self._count

    def note(self, name: str, held_s: float) -> None:
        """Look at one transaction's time, from BEGIN to the end of COMMIT."""
        if held_s > SLOW_S:
            with self._mutex:
                self._count += 1
            _LOG.warning("slow transaction", extra={"transaction": name, "held_ms": round(held_s * 1000, 1)})
