"""The shapes of answers about scaling: intents and where a service stands with the autoscaler.

For the OpenAPI document only, as `schemas`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from fleetwarden.domain.contract.lifecycle import IntentOperation
from fleetwarden.domain.lifecycles import IntentState

__all__ = ["Evaluation", "Intent"]

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Json = dict[str, Any]


class Intent(BaseModel):
    """One revision of the count that a service should have."""

    id: str
    at: Time
    target: str
    kind: IntentOperation
    service: str
    unit: str
    revision: int
    expected_revision: int
    state: IntentState
    controller_mode: str
    desired: int
    observed: int
    operation: IntentOperation
    intent_id: str
    decision_id: str | None
    approval_id: str | None
    action_id: str | None
    fence: Json
    signal: Json
    accepted_at: Time | None
    moved_at: Time
    overtaken_by: str | None
    note: str


class Evaluation(BaseModel):
    """Where a service stood at the autoscaler's last tick.  `observe_only`: another controller writes its count, or its
    mode is observe: nothing is carried out."""

    at: Time
    code: str
    reason: str
    current: int
    desired: int
    raw: int
    streak: str
    samples: int
    needed: int
    until: Time | None
    intent: str | None
    observe_only: bool
    signals: list[Json]
    limits: Json
