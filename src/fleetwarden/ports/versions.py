"""Which version of a service ran since when, and through which action.

Facts for people and for rules that come later: rows are appended where an action that chose a version has ended, and
never changed.  They say what was rolled out, never whether it was any good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import Micros

__all__ = ["RanVersion", "VersionHistory"]


class RanVersion(Record):
    """`complete` false: the action ended before every replica ran the version.  `before`: what ran until then, ""
    where that is not known; of a mixture, all of it, separated by commas."""

    seq: int
    service: str
    version: str
    before: str
    kind: str
    complete: bool
    action_seq: int
    at: Micros


class VersionHistory(Protocol):
    """The history of versions by service."""

    def append(
        self, *, service: str, version: str, before: str, kind: str, complete: bool, action_seq: int
    ) -> RanVersion:
        """One row for each action, dated `tx.now()`: the same action again returns the row that is there."""

    def of_service(self, service: str, limit: int) -> Sequence[RanVersion]:
        """Newest first."""

    def latest(self) -> Mapping[str, RanVersion]:
        """The newest row of every service that has one."""
