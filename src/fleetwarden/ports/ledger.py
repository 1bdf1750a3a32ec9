"""The sealed ledger and the texts that it cites, as the store offers them; and where checkpoints of it go.

A row of the ledger is entered in the transaction that writes it, by the store itself: nobody can forget to.  Sealing
comes afterwards and changes no row.  What is handed out for export is read in short pages; nobody holds a snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import JsonValue, Micros
from fleetwarden.domain.sealing import Seal

__all__ = ["Checkpoint", "CheckpointLog", "KeptText", "Ledger", "LedgerItem", "Texts"]

LedgerItem = Mapping[str, JsonValue]


class Ledger(Protocol):
    """Entries of the ledger in the order of their positions, and the seals over them."""

    def due(self) -> bool:
        """Whether there is an entry that can be sealed: one below every transaction that still runs."""

    def seal(self, most: int) -> Seal | None:
        """Seal the next range, at most `most` entries; None if nothing is due.

        Raises Conflict if another plane sealed it at the same time: nothing of this transaction is kept then.
        """

    def tip(self) -> Seal | None:
        """The newest seal."""

    def entries(self, after: int, upto: int) -> Sequence[LedgerItem]:
        """Entries with `after` < position ≤ `upto`, in order, each with its row (null if that is gone)."""

    def next_position(self, after: int) -> int | None:
        """The lowest position > `after` that an entry has."""

    def seals(self, after: int, upto: int) -> Sequence[Seal]:
        """Seals with `after` < last ≤ `upto`, in order."""

    def tail(self, sealed_to: int, after: int, limit: int) -> Sequence[LedgerItem]:
        """Entries that were not sealed when `sealed_to` was the last sealed position, with `entry` > `after`.

        The position of one that a seal covers by now is left out.
        """

    def kinds(self) -> Sequence[str]:
        """The tables whose rows belong to the ledger."""

    def strays(self, kind: str, after: int, limit: int) -> tuple[Sequence[int], int | None]:
        """Rows of that table that nobody entered, among the next `limit` rows; and where to go on, None at the end."""

    def states(self, after: int, limit: int) -> Sequence[LedgerItem]:
        """What approvals say of themselves now, with the last event and vote of each, for comparison."""


class KeptText(Record):
    """A text as it was in force.  `kind`: policy | registry; `name`: what findings called it; `at`: first in force."""

    digest: str
    kind: str
    name: str
    body: str
    at: Micros


class Texts(Protocol):
    """Texts of configuration by the digest of their bytes.  Kept for ever."""

    def keep(self, *, kind: str, name: str, body: str) -> str:
        """Keep a text and return its digest; one that is there already stays as it is."""

    def get(self, digest: str) -> KeptText | None: ...

    def after(self, digest: str, limit: int) -> Sequence[KeptText]:
        """Texts with a higher digest, in that order."""


class Checkpoint(Record):
    """A seal as it was signed at `at`.  `signature`: `hmac-sha256:` and 64 hex digits over the rest."""

    number: int
    digest: str
    at: Micros
    signature: str


class CheckpointLog(Protocol):
    """Where the newest seal is signed and written down outside the store."""

    def write(self, seal: Seal, at: Micros) -> Checkpoint:
        """Sign and append.  Raises StoreUnavailable if that cannot be made durable, Misconfigured for a bad key."""

    def newest(self) -> Checkpoint | None:
        """The one that was written last."""

    def all(self) -> Sequence[Checkpoint]:
        """Every one, oldest first.  Raises StoreUnavailable: cannot be read, or is no list of checkpoints."""
