"""What the store keeps of pushed samples: the newest of each, and how far each source's sequence has come.

A sample replaces the one before it of the same source, service, unit and kind; no history is kept, and nothing of it
enters a lifecycle, the ledger or a feed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from fleetwarden.domain.signal_authority import SentSample

__all__ = ["PushedSamples", "SampleKey"]

SampleKey: TypeAlias = tuple[str, str, str, str]  # service, source, unit of scale, kind


class PushedSamples(Protocol):
    def marks(self, sources: Sequence[str]) -> Mapping[str, int]:
        """The highest sequence taken of each of these sources that has one."""

    def sources(self) -> int:
        """How many sources the guard remembers."""

    def advance(self, source: str, sequence: int) -> None:
        """Remember a sequence; it never goes back."""

    def put(self, sample: SentSample) -> None:
        """Keep a sample, unless a newer one of the same source, service, unit and kind is kept."""

    def page(
        self, services: Sequence[str], after: tuple[str, str, str, str] | None, limit: int
    ) -> Sequence[SentSample]:
        """The samples that are kept of these services, at most `limit` behind `after`, by (service, source, unit of
        scale, kind) in the database's own order of texts; None: from the first."""
