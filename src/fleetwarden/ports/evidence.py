"""What was seen of a target right before it was touched: the last lines of its output, and how each replica stood.

A restart destroys what would have said why it was needed, so it is read beforehand and kept outside the ledger's rows,
for a bounded time.  Reading it is a courtesy to whoever asks later: it never holds up an action, and no rule reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from fleetwarden.domain.actions import Record
from fleetwarden.domain.fleet import Service
from fleetwarden.domain.identifiers import JsonValue, Micros

__all__ = ["Captures", "EvidenceSource", "InstanceEvidence", "StoredCapture"]


class InstanceEvidence(Record):
    """One replica as it was.  `ended`: how its process ended, "" while it lives.  `lines`: the last of its output,
    oldest first; `cut`: there was more of it."""

    id: str
    status: str
    pid: int | None = None
    version: str = ""
    started_at: Micros | None = None
    ended: str = ""
    lines: tuple[str, ...] = ()
    cut: bool = False


@runtime_checkable
class EvidenceSource(Protocol):
    """Reads evidence of one substrate.  Calls come from several threads at once."""

    substrate: str

    def capture(
        self, service: Service, only: frozenset[str] | None, *, lines_max: int, bytes_max: int
    ) -> Sequence[InstanceEvidence]:
        """The replicas of `service` (`only` those with these ids), each with its last lines as they stand.

        At most `lines_max` lines and `bytes_max` bytes for each.  Changes nothing.  Raises Retryable if nothing could
        be read; output that cannot be read leaves its replica without lines.
        """


class StoredCapture(Record):
    """What is kept of one action.  `digest` is of the body; the execution record carries it."""

    action_seq: int
    at: Micros
    digest: str
    body: Mapping[str, JsonValue]


class Captures(Protocol):
    """Evidence by action."""

    def put(self, action_seq: int, body: Mapping[str, JsonValue]) -> StoredCapture:
        """Keep it, dated `tx.now()`; what is kept of that action already stays.  Raises Refused if it is too large."""

    def of_action(self, action_seq: int) -> StoredCapture | None: ...

    def digest_of(self, action_seq: int) -> str | None:
        """As above without reading the body."""

    def oldest(self) -> Micros | None:
        """When the oldest was kept; None where there is none."""

    def prune(self, before: Micros) -> int:
        """Delete what was kept before that; returns how many."""
