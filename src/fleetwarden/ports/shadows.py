"""Evaluations of services whose count somebody else writes: kept as runs of equal verdicts, for a bounded time.

A run is written when it begins and when it ends, and not while it lasts.  Runs are for people to compare; no rule reads
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.domain.shadow import ShadowRun

__all__ = ["RUNS_MAX", "SHADOW_KEPT", "Shadows"]

SHADOW_KEPT: Micros = 30 * 86_400 * SECOND
RUNS_MAX: Final = 50_000  # of one service; a verdict a minute for 30 days is 43,200


class Shadows(Protocol):
    def begin(self, run: ShadowRun) -> ShadowRun:
        """Add a service's next run; the oldest ones beyond RUNS_MAX go.  Raises Conflict while another one lasts."""

    def end(self, service: str, until: Micros) -> None:
        """End the run that lasts; nothing if none does.  One that began later than `until` ends where it began."""

    def open(self) -> Mapping[str, ShadowRun]:
        """The runs that last, by service."""

    def of(self, service: str, *, since: Micros = 0, after: int = 0, limit: int = 5_000) -> Sequence[ShadowRun]:
        """A service's runs that did not end before `since`, oldest first, behind number `after`."""

    def prune(self, before: Micros, *, limit: int = 5_000) -> int:
        """Delete runs that ended before, at most `limit`; how many there were."""

    def oldest(self) -> Micros | None:
        """When the first of the runs ended; None if none did."""
