"""Services whose replicas are not all there, and since when: kept while it lasts, so that people are told once.

A row is written when it has lasted for a while, when people were told, and removed when the replicas are there; rows
are no evidence, and no rule reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import Micros

__all__ = ["MissingReplicas", "MissingRow"]


class MissingRow(Record):
    """`since`: the first look without a gap that showed fewer replicas than were asked for; `told_at`: when people were
    told, None if they were not."""

    service: str
    since: Micros
    told_at: Micros | None = None


class MissingReplicas(Protocol):
    def put(self, row: MissingRow) -> None:
        """Replace the service's row."""

    def forget(self, services: Sequence[str]) -> None:
        """Their replicas are there, or are not asked for any more."""

    def all(self) -> Mapping[str, MissingRow]:
        """By service."""
