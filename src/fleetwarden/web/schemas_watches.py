"""The shapes of watches and quarantines in answers, for the OpenAPI document; see `schemas`."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from fleetwarden.domain.deploy_watch import OnFail, Sight, WatchStatus

__all__ = ["Quarantine", "Watch"]

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class Probe(BaseModel):
    """One look, or the first of several that said the same."""

    at: Time
    sight: Sight
    ready: int
    total: int
    version: str | None
    detail: str


class Watch(BaseModel):
    """A watch over a service after something was done to it.  `proven`: its success proves the version."""

    id: str
    at: Time
    kind: str
    target: str
    service: str
    action_id: str | None
    source: str
    status: WatchStatus
    state: WatchStatus
    version: str | None
    from_version: str | None
    from_replicas: int | None
    replica: str | None
    on_fail: OnFail
    deadline: Time
    grace_until: Time
    poll_s: float | None
    looks: int
    usable: int
    healthy: int
    probes: list[Probe]
    proven: bool
    reason: str
    ended_at: Time | None
    replaced_by: str | None
    follow_up: str | None


class Quarantine(BaseModel):
    """A version that failed its watch, set aside for its service until a person clears it."""

    id: str
    at: Time
    target: str
    service: str
    version: str
    watch_id: str
    reason: str
    stands: bool
    cleared_at: Time | None
    cleared_by: str | None
    note: str
