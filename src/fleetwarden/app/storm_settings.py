"""Settings of the storm breaker: a part of `Settings`, with a module of its own for its size."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

__all__ = ["StormSettings"]

Finite = Annotated[float, Field(allow_inf_nan=False)]


class StormSettings(BaseModel):
    """From how much sickness on nothing is repaired automatically: the larger of both counts."""

    fleet_storm_min: int = Field(
        default=3, ge=1, le=100_000, alias="FLEET_STORM_MIN", description="Sick services that open the storm breaker."
    )
    fleet_storm_percent: Finite = Field(
        default=30.0,
        ge=1,
        le=100,
        alias="FLEET_STORM_PERCENT",
        description="Percent of a scope's services that have to be sick for it.",
    )
