"""Settings of autoscaling, signals and metrics: a part of `Settings`, with a module of its own for its size."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from fleetwarden.app import setting_values

__all__ = ["ScalingSettings"]

Finite = Annotated[float, Field(allow_inf_nan=False)]
ServiceName = Annotated[str, AfterValidator(setting_values.fleet_name)]
WebUrl = Annotated[str, AfterValidator(setting_values.web_url)]


class ScalingSettings(BaseModel):
    """Times are in seconds."""

    fleet_autoscaler: bool = Field(
        default=False, alias="FLEET_AUTOSCALER", description="Whether replica counts follow load."
    )
    fleet_autoscaler_interval: Finite = Field(
        default=60.0,
        ge=1,
        le=86_400,
        alias="FLEET_AUTOSCALER_INTERVAL",
        description="Seconds between passes of the autoscaler.",
    )
    scaling_prometheus_url: WebUrl | None = Field(
        default=None, alias="SCALING_PROMETHEUS_URL", description="The Prometheus that scaling signals are read from."
    )
    fleet_worker_service: ServiceName | None = Field(
        default=None,
        alias="FLEET_WORKER_SERVICE",
        description="The service whose replicas work on the plane's own queue: queue_depth and consumer_lag are its.",
    )
    intent_max_age_s: Finite = Field(
        default=300.0,
        ge=1,
        le=86_400,
        alias="INTENT_MAX_AGE_S",
        description="Seconds that an accepted scale intent may wait to be carried out; then it is rejected.",
    )
    intent_converge_s: Finite = Field(
        default=600.0,
        ge=1,
        le=86_400,
        alias="INTENT_CONVERGE_S",
        description="Seconds that an executed scale intent has until observers saw it hold.",
    )
    question_absent_s: Finite = Field(
        default=180.0,
        ge=0,
        le=86_400,
        alias="QUESTION_ABSENT_S",
        description="Seconds that load may ask for something else before a question to a person is withdrawn.",
    )
    question_silent_s: Finite = Field(
        default=600.0,
        ge=1,
        le=86_400,
        alias="QUESTION_SILENT_S",
        description="Seconds without evidence after which a question about a count is withdrawn, and not granted.",
    )
    question_floor_s: Finite = Field(
        default=300.0,
        ge=0,
        le=86_400,
        alias="QUESTION_FLOOR_S",
        description="Seconds at least between two replacements of a question about one service's count.",
    )
    ledger_skew_s: Finite = Field(
        default=5.0,
        ge=0,
        le=60,
        alias="LEDGER_SKEW_S",
        description="Seconds that an execution may be dated ahead and count as now; beyond it cooldowns are unknown.",
    )
    fleet_metrics_open: bool = Field(
        default=False, alias="FLEET_METRICS_OPEN", description="Whether /metrics answers without a token."
    )
