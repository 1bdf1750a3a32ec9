"""Settings of notices: a part of `Settings`, with a module of its own for its size."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

__all__ = ["TellingSettings"]

Finite = Annotated[float, Field(allow_inf_nan=False)]


class TellingSettings(BaseModel):
    """Times are in seconds."""

    blocked_page_s: Finite = Field(
        default=300.0,
        ge=1,
        le=86_400,
        alias="BLOCKED_PAGE_S",
        description="Seconds that a service is down with its repair held up before people are told.",
    )
    fleet_signal_provider: str | None = Field(
        default=None,
        alias="FLEET_SIGNAL_PROVIDER",
        description="The installed signal provider (entry point) that alone answers for scaling signals.",
    )
