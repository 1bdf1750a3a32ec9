"""Messages to people: the rows that say what is on its way, and the way out.

A row is written in the transaction that reads the notice from the journal, so that no notice is forgotten between the
two; sending comes afterwards, outside of any transaction, and may happen twice but never not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.messages import Delivery, DeliveryState
from fleetwarden.domain.notify_file import NotifyDocument, Target
from fleetwarden.ports.pages import Page

__all__ = ["BlockedRow", "BlockedServices", "Channel", "Deliveries", "Message", "NotifySource", "TargetCount"]


class Message(Record):
    """What goes out.  `title` is one line, `body` plain text."""

    severity: str
    title: str
    body: str


class Channel(Protocol):
    """The way to a target."""

    def send(self, target: Target, message: Message) -> None:
        """Deliver, within 10 s.  Raises Retryable or Misconfigured if it was not, with a reason free of secrets."""


class NotifySource(Protocol):
    """Who is told what."""

    @property
    def unreadable(self) -> bool:
        """Whether there is a file that cannot be used, and none before it that could: nobody knows who is told."""

    def current(self) -> NotifyDocument:
        """What is in force."""


class TargetCount(Record):
    """How many messages of one target are in one state, and when the oldest of them was made."""

    target: str
    state: str
    count: int
    oldest_at: Micros


class Deliveries(Protocol):
    """One row for each message.  See `domain.messages` for what a row means."""

    def put(self, rows: Sequence[Delivery]) -> None:
        """Add rows whose seq is 0; write the words, count and time of the others, as long as they were not tried."""

    def recent(self, target: str, since: Micros) -> Sequence[Delivery]:
        """A target's messages that wait untried, and those made at `since` or later, oldest first."""

    def open(self, target: str, *, limit: int = 500) -> Sequence[Delivery]:
        """A target's messages that are not delivered and not dead, oldest first."""

    def open_targets(self) -> Sequence[str]:
        """Whom they are for."""

    def claim(self, seq: int, *, until: Micros) -> Delivery:
        """Take a message that is due, for sending; counts an attempt.  Raises Conflict if somebody else has it."""

    def finish(self, claimed: Delivery, *, state: DeliveryState, not_before: Micros, error: str) -> None:
        """What became of a claimed message.  Raises Conflict if the claim lapsed and somebody else took it."""

    def hasten(self, target: str, now: Micros) -> None:
        """Let messages of that target that failed before be tried at once."""

    def counts(self) -> Sequence[TargetCount]:
        """By target and state."""

    def list(self, page: Page) -> Sequence[Delivery]:
        """Newest first: `target` filters by target, `state` by state, `kind` by kind."""

    def get(self, seq: int) -> Delivery:
        """Raises NotFound."""

    def prune(self, before: Micros, *, limit: int = 500) -> int:
        """Delete messages that ended before; how many."""


class BlockedRow(Record):
    """A service that is down and whose repair is held up since `since`.  `told_at`: when people were last told."""

    service: str
    since: Micros
    code: str
    reason: str
    told_at: Micros | None = None
    times: int = 0


class BlockedServices(Protocol):
    def put(self, row: BlockedRow) -> None:
        """Write that service's row."""

    def forget(self, services: Sequence[str]) -> None:
        """It is over; nothing for those that have no row."""

    def all(self) -> Mapping[str, BlockedRow]:
        """By service."""
