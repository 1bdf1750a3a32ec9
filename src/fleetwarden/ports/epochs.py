"""Epochs: since when a store's memory has a gap, and who answers for going on.

A restored store does not know what was done after its backup was made, and what it does not know is not nothing: so it
begins frozen, and stays so until somebody with authority has looked and says why it may go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import JsonValue, Micros

__all__ = ["Epoch", "Epochs"]


class Epoch(Record):
    """One beginning.  `freeze_seq`: the freeze that holds until `released_at`; None where nothing is unknown."""

    seq: int
    kind: str  # restored | copied
    at: Micros
    origin: Mapping[str, JsonValue] = {}
    freeze_seq: int | None = None
    released_at: Micros | None = None
    released_by: str = ""
    reason: str = ""

    @property
    def holds(self) -> bool:
        """Whether the plane is frozen because of it."""
        return self.freeze_seq is not None and self.released_at is None


class Epochs(Protocol):
    """Beginnings of this store, oldest first; none in a store that was never restored or copied."""

    def jump(self, *, floor: int, leap: int, given: Mapping[str, int]) -> None:
        """Make sure that nothing of an earlier epoch is mistaken for something of the one that begins.

        Every number and every fencing token that is given out from now on is above `floor` and above what is there.
        But what people make and talk about (approvals, freezes, overrides, changes by others, quarantines) is
        numbered from `leap` above what is there, or above what was `given` out by table in the store that is replaced.
        Every lease is void; a mark that the store has moved away is gone.
        """

    def begin(self, kind: str, origin: Mapping[str, JsonValue], *, freeze_seq: int | None) -> Epoch:
        """Write a new epoch, after its jump."""

    def unsure(self, horizon_at: Micros) -> int:
        """Make every authorised and every begun action one whose outcome is unknown, as far as the row goes.

        An authorised one may have been called since: it counts as called from the moment at which it was authorised,
        and its effect may land until `horizon_at`.  That it was not done, only a person may say.  The records are left
        `running`; the caller marks them.  Returns how many there are.
        """

    def release(self, seq: int, *, by: str, reason: str) -> Epoch:
        """End its freeze.  Raises NotFound; Conflict if it was released already or holds nothing."""

    def all(self) -> Sequence[Epoch]: ...

    def holding(self) -> Sequence[Epoch]:
        """Those whose freeze stands."""

    def move_away(self, to: str) -> None:
        """Mark this store as copied to another one, which alone goes on."""

    def moved_to(self) -> str:
        """Where this store was copied to, or ""."""

    def arriving(self) -> bool:
        """Whether a copy into this store was begun and has not been finished."""
