"""Where each service stands with the autoscaler, for every plane and person to read: one row a service.

A row is written when its reason, its streak or the count that it asks for changes, and at no other time: samples write
nothing.  Rows are not evidence; no rule of policy reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import JsonValue, Micros

__all__ = ["AutoscaleRow", "AutoscaleRows"]


class AutoscaleRow(Record):
    """`streak`: -1, 0 or 1, `count` how many samples in a row it has; `numbers`: values, targets, ages behind it;
    `used`: by signal, when the newest sample that was used was measured, so that no other life counts it again."""

    service: str
    at: Micros
    reason: str
    words: str = ""
    current: int = 0
    desired: int = 0
    streak: int = 0
    count: int = 0
    until: Micros | None = None
    numbers: Mapping[str, JsonValue] = {}
    used: Mapping[str, Micros] = {}


class AutoscaleRows(Protocol):
    def put(self, rows: Sequence[AutoscaleRow]) -> None:
        """Replace the rows of these services, dated `tx.now()`."""

    def forget(self, services: Sequence[str]) -> None:
        """Remove the rows of services that are not evaluated any more."""

    def get(self, service: str) -> AutoscaleRow | None: ...

    def all(self) -> Mapping[str, AutoscaleRow]: ...
