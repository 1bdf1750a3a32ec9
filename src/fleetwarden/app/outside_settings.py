"""Settings of actions that other systems carry out: a part of `Settings`, with a module of its own for its size."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

__all__ = ["OutsideSettings"]

Finite = Annotated[float, Field(allow_inf_nan=False)]


class OutsideSettings(BaseModel):
    """Times are in seconds."""

    fleet_outside_start_s: Finite = Field(
        default=300.0,
        ge=10,
        le=86_400,
        alias="FLEET_OUTSIDE_START_S",
        description="Seconds for which another system may claim what it was allowed; after that it asks again.",
    )
    fleet_outside_run_s: Finite = Field(
        default=3600.0,
        ge=10,
        le=604_800,
        alias="FLEET_OUTSIDE_RUN_S",
        description="Seconds after its claim in which it has to say how it ended; after that the outcome is unknown.",
    )
    fleet_gate_pass_s: Finite = Field(
        default=86_400.0,
        ge=0,
        le=2_592_000,
        alias="FLEET_GATE_PASS_S",
        description="Seconds for which a gate stays open for one and the same revision, as long as policy agrees.",
    )
