"""Settings of events: a part of `Settings`, with a module of its own for its size."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from fleetwarden.app import setting_values

__all__ = ["EventSettings"]


class EventSettings(BaseModel):
    """Limits of what senders may send, how long it is kept, and which installed playbooks answer it."""

    fleet_playbooks: Annotated[tuple[str, ...], BeforeValidator(setting_values.words)] = Field(
        default=(),
        alias="FLEET_PLAYBOOKS",
        description="Installed playbooks that answer events, a comma list in the order in which they are asked.",
    )

    fleet_events_kept_days: int = Field(
        default=30,
        ge=1,
        le=3650,
        alias="FLEET_EVENTS_KEPT_DAYS",
        description="Days that an event is kept after it was last delivered.",
    )
    fleet_events_max: int = Field(
        default=1_000_000,
        ge=1_000,
        le=100_000_000,
        alias="FLEET_EVENTS_MAX",
        description="Events that are kept at most; beyond it the ones that were delivered the longest ago go first.",
    )
    fleet_events_body_bytes_max: int = Field(
        default=8 * 1024 * 1024,
        ge=64 * 1024,
        le=64 * 1024 * 1024,
        alias="FLEET_EVENTS_BODY_BYTES_MAX",
        description="Bytes of one body of events; a larger one is refused whole.",
    )
    fleet_events_waiting_max: int = Field(
        default=20_000,
        ge=100,
        le=1_000_000,
        alias="FLEET_EVENTS_WAITING_MAX",
        description="Events that may wait to be committed; beyond it senders are told to come again.",
    )
