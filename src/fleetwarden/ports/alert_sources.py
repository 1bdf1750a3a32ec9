"""Asking a monitoring system for all its alerts, to find what its notifications left out or lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fleetwarden.domain.actions import Record
from fleetwarden.domain.event_sources import EventSource
from fleetwarden.domain.events import FleetEvent

__all__ = ["AlertSources", "Standing"]


class Standing(Record):
    """What a source says now.  `present`: every alert that it knows as begun, silenced ones too; `events`: what it
    would tell of those that are not silenced, and of those that it knows to have ended."""

    present: frozenset[str]
    events: tuple[FleetEvent, ...]


class AlertSources(Protocol):
    def ask(self, source: EventSource) -> Standing:
        """One source's alerts, within a bounded time (10 s).  Raises Retryable; whoever cannot be asked says nothing,
        which is never that all is well."""

    def known(self) -> Sequence[EventSource]:
        """The sources that can be asked."""
