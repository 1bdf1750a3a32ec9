"""Settings of what people are asked: a part of `Settings`, with a module of its own for its size."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

__all__ = ["ApprovalSettings"]

Finite = Annotated[float, Field(allow_inf_nan=False)]


class ApprovalSettings(BaseModel):
    """Times are in seconds."""

    fleet_rejected_hold_s: Finite = Field(
        default=600.0,
        ge=0,
        le=604_800,
        alias="FLEET_REJECTED_HOLD_S",
        description="Seconds for which the reconciler does not ask again what a person rejected; 0 asks at once.",
    )
