"""The shape of an event in answers, for the OpenAPI document; see `schemas`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from fleetwarden.domain.events import EventClass, Phase, Severity

__all__ = ["Event"]

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class Event(BaseModel):
    """What a monitoring system told.  `target` is the service, `kind` the source and `state` the phase, as lists filter
    by them; `open`: it reports something that lasts."""

    id: str
    at: Time
    kind: str
    target: str | None
    source: str
    origin: str | None
    severity: Severity
    status: str
    state: Phase
    class_: Annotated[EventClass, Field(alias="class")]
    subject: str
    service: str | None
    fingerprint: str
    summary: str
    labels: dict[str, str]
    annotations: dict[str, str]
    url: str | None
    starts_at: Time | None
    ends_at: Time | None
    open: bool
    ended_at: Time | None
    ended_by: str | None
    closes: str | None
    repeat_of: str | None
    repeats: int
    seen_at: Time
    flap: bool
    late: bool
    truncated: int
    remediation_status: str | None
    remediation_log: list[dict[str, Any]]
