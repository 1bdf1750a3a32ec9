"""Looking less and less often at what only a person can end.

Kept in memory: after a restart everything is looked at once more.  It never says that something is over; whoever has to
wait is looked at again at the latest after WAIT_MAX_S, and at once when what was declared has changed.
"""

from __future__ import annotations

from collections.abc import Collection

from fleetwarden.domain.identifiers import SECOND, Micros

__all__ = ["WAIT_MAX_S", "Patience"]

WAIT_FIRST_S = 2.0
WAIT_MAX_S = 60.0


class Patience:
    """When each record is looked at again.  `declared` names what the last look went by, such as a digest."""

    def __init__(self) -> None:
        self._waits: dict[int, tuple[float, Micros, str]] = {}  # how long it waits, until when, and what was declared

    def is_due(self, seq: int, now: Micros, declared: str) -> bool:
        """Whether it should be looked at now; times are the store's."""
        known = self._waits.get(seq)
        return known is None or now >= known[1] or declared != known[2]

    def wait(self, seq: int, now: Micros, declared: str) -> float:
        """It was looked at in vain: wait twice as long as before; returns for how many seconds."""
        known = self._waits.get(seq)
        wait_s = WAIT_FIRST_S if known is None or known[2] != declared else min(2 * known[0], WAIT_MAX_S)
        self._waits[seq] = (wait_s, now + int(wait_s * SECOND), declared)
        return wait_s

    def forget_others(self, seqs: Collection[int]) -> None:
        """What is not among these has ended."""
        for seq in self._waits.keys() - set(seqs):
            del self._waits[seq]
