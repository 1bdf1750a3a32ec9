"""The shapes of answers about wishes: overrides, changes by somebody else, the plan, a service's history.

For the OpenAPI document only, as `schemas`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from fleetwarden.domain.desired import ForeignField, ForeignState
from fleetwarden.domain.fleet import DesiredState

__all__ = ["ForeignAnswer", "ForeignChange", "History", "Plan", "ServiceOverride"]

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Json = dict[str, Any]


class ServiceOverride(BaseModel):
    """What an operator asks for besides the files."""

    id: str
    at: Time
    target: str
    replicas: int | None
    state: DesiredState | None
    reason: str
    by: str
    until: Time | None
    ended_at: Time | None
    ended_by: str | None
    ended_how: Literal["cleared", "expired", "replaced"] | None


class ForeignChange(BaseModel):
    """What somebody else set, and what became of it."""

    id: str
    at: Time
    target: str
    kind: ForeignField
    field: ForeignField
    before: str
    after: str
    writer: str | None
    hold_until: Time | None
    pauses: bool
    state: ForeignState
    ended_at: Time | None
    ended_by: str | None
    note: str


class ForeignAnswer(BaseModel):
    """What adopting or reasserting led to."""

    service: str
    changes: list[ForeignChange]
    message: str


class Entry(BaseModel):
    """One line of a service's history, with the record behind it."""

    id: str
    at: Time
    what: str
    actor: str
    summary: str
    record: Json


class History(BaseModel):
    """One service's timeline, newest first."""

    service: str
    items: list[Entry]
    next: str | None


class Step(BaseModel):
    service: str
    would: Literal["act", "ask", "wait", "deny", "later", "hold"]
    kind: str
    params: Json
    reason: str
    why: str
    dry_run: bool


class Grant(BaseModel):
    approval_id: str
    service: str
    kind: str


class Plan(BaseModel):
    """What a pass would do now."""

    at: Time
    reconciler: Literal["on", "off"]
    note: str
    steps: list[Step]
    grants: list[Grant]
    at_rest: dict[str, Json]
