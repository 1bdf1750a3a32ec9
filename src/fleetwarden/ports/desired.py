"""What the store keeps of wishes besides the files: overrides of services, changes by others, what we left.

Every time is the store's.  An override or a hold whose end has come is not standing any more, whether or not anybody
has written its end down yet.  Rows are ended, never deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fleetwarden.domain.actions import Record
from fleetwarden.domain.desired import Baseline, ForeignChange, ForeignField, ForeignState, Override
from fleetwarden.domain.fleet import DesiredState
from fleetwarden.domain.identifiers import Micros
from fleetwarden.ports.pages import Page

__all__ = ["Baselines", "ForeignChanges", "ForeignDraft", "OverrideDraft", "ServiceOverrides"]


class OverrideDraft(Record):
    service: str
    replicas: int | None
    state: DesiredState | None
    reason: str
    by: str
    until: Micros | None = None


class ServiceOverrides(Protocol):
    """At most one override of a service is not ended."""

    def put(self, draft: OverrideDraft) -> Override:
        """Write one.  One that is not ended yet is ended as `replaced`."""

    def end(self, seq: int, *, how: str, by: str) -> Override:
        """Raises NotFound, Conflict if it has ended already."""

    def standing(self) -> Sequence[Override]:
        """Those neither ended nor past their end, by service."""

    def due(self) -> Sequence[Override]:
        """Those past their end that are not ended yet."""

    def list(self, page: Page) -> Sequence[Override]:
        """`target` filters by service."""


class ForeignDraft(Record):
    service: str
    field: ForeignField
    before: str
    after: str
    writer: str = ""
    hold_until: Micros | None = None
    pauses: bool = False
    status: ForeignState = ForeignState.HELD


class ForeignChanges(Protocol):
    def add(self, draft: ForeignDraft) -> ForeignChange:
        """Write one at `tx.now()`."""

    def move(self, seq: int, *, came_from: ForeignState, to: ForeignState, by: str, note: str = "") -> ForeignChange:
        """Compare-and-swap; raises NotFound, IllegalMove.  An adopted one has no end and pauses nothing."""

    def standing(self) -> Sequence[ForeignChange]:
        """Those held whose hold has not ended, and those adopted; oldest first."""

    def due(self) -> Sequence[ForeignChange]:
        """Those held whose hold has ended."""

    def list(self, page: Page) -> Sequence[ForeignChange]:
        """`target` filters by service, `state` by status, `kind` by field."""


class Baselines(Protocol):
    """What our last settled action, or the first look, left of each service."""

    def all(self) -> Mapping[str, Baseline]: ...

    def of(self, service: str) -> Baseline | None: ...

    def put(self, baseline: Baseline) -> None: ...
