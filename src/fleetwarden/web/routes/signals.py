"""Samples that services push: taken whole or refused whole, each refusal with its place and reason."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response

from fleetwarden.app.signal_views import SAMPLES_MAX
from fleetwarden.domain.identifiers import Micros, instant
from fleetwarden.domain.signal_authority import Attestation, SentSample
from fleetwarden.domain.signals import Aggregation, SignalKind
from fleetwarden.web.answers import answer
from fleetwarden.web.bodies import ClosedBody, documented, json_body
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.queries import no_query
from fleetwarden.web.signal_queries import signal_page_from, signal_page_parameters
from fleetwarden.web.texts import TEXT_PATTERN

__all__ = ["router"]

Time = Annotated[str | None, Field(max_length=64, json_schema_extra={"format": "date-time"})]
router = APIRouter(tags=["signals"])


SEQUENCE = Field(
    json_schema_extra={"anyOf": [{"type": "integer", "minimum": 0, "maximum": 2**63 - 1}, {"type": "null"}]}
)


def _text(low: int, high: int) -> Any:
    return Field(min_length=low, max_length=high, json_schema_extra={"pattern": TEXT_PATTERN})


class PushedAttestation(ClosedBody):
    """`signature`: hex of an HMAC-SHA-256, or base64 of an Ed25519 signature, of the sample's canonical form."""

    key_id: Annotated[str, _text(1, 128)]
    signature: Annotated[str, _text(1, 512)]


class PushedSample(ClosedBody):
    """One sample; see the reference of signals for every field."""

    source: Annotated[str, _text(1, 128)]
    service: Annotated[str, _text(1, 63)]
    kind: Annotated[str, Field(json_schema_extra={"enum": [one.value for one in SignalKind]})]
    value: float | int
    aggregation: Annotated[str, Field(json_schema_extra={"enum": [one.value for one in Aggregation]})]
    unit: Annotated[str, _text(1, 64)]
    sampled_at: Time = None
    event_at: Time = None
    tenant: Annotated[str, _text(0, 63)] = ""
    scale_unit: Annotated[str, _text(0, 63)] = ""
    freshness_s: float | int = 120.0
    confidence: float | int = 1.0
    evidence: Annotated[list[Annotated[str, _text(1, 256)]], Field(max_length=8, default_factory=list)]
    sequence: Annotated[int | float | None, SEQUENCE] = None
    attestation: PushedAttestation | None = None


class PushedBatch(ClosedBody):
    samples: Annotated[list[PushedSample], Field(min_length=1, max_length=SAMPLES_MAX)]


class Taken(BaseModel):
    """How many samples were taken."""

    accepted: int


class RefusedSample(BaseModel):
    index: int
    code: str
    reason: str


class RefusedBatch(BaseModel):
    """Nothing of the batch was taken."""

    errors: list[RefusedSample]


class SignalReading(BaseModel):
    """What one signal of one service answers now; `fault` null: a usable value."""

    signal: str
    service: str
    value: float | None
    unit: str | None
    age_s: float | None
    fault: str | None
    reason: str


class SignalReadings(BaseModel):
    """One page; `snapshot` names what is declared, and stays the same from page to page."""

    items: list[SignalReading]
    next: str | None
    snapshot: str


@router.get("/signals", response_model=SignalReadings, openapi_extra=signal_page_parameters())
def check_signals(request: Request, caller: AnyCaller, plane: Plane) -> Response:
    """Ask every source for what services scale on, now: page by page."""
    limit, cursor = signal_page_from(request)
    return answer(plane.signals.readings(caller, limit=limit, cursor=cursor))


@router.post(
    "/signals",
    status_code=202,
    dependencies=[Depends(no_query)],
    response_model=Taken,
    responses={409: {"model": RefusedBatch}},
    openapi_extra=documented(PushedBatch),
)
def push_signals(caller: AnyCaller, plane: Plane, body: Annotated[PushedBatch, json_body(PushedBatch)]) -> Response:
    """Push samples (role ingest): the newest of each source, service, unit and kind is kept."""
    refused: list[dict[str, object]] = []
    samples: list[SentSample] = []
    for index, one in enumerate(body.samples):
        try:
            samples.append(_sample(one))
        except ValueError as error:
            refused.append({"index": index, "code": "malformed", "reason": str(error)})
    if not refused:
        refused = [
            {"index": one.index, "code": one.code.value, "reason": one.reason}
            for one in plane.signals.push(caller, samples)
        ]
    if refused:
        return JSONResponse({"errors": refused}, status_code=409)
    return answer({"accepted": len(samples)}, status=202)


def _sample(one: PushedSample) -> SentSample:
    """Raises ValueError naming the field."""
    if one.kind not in list(SignalKind):
        raise ValueError(f"kind: none of {', '.join(SignalKind)}")
    if one.aggregation not in list(Aggregation):
        raise ValueError(f"aggregation: none of {', '.join(Aggregation)}")
    attestation = one.attestation
    return SentSample(
        source=one.source,
        service=one.service,
        kind=SignalKind(one.kind),
        value=float(one.value),
        aggregation=Aggregation(one.aggregation),
        unit=one.unit,
        sampled_at=_time("sampled_at", one.sampled_at),
        event_at=_time("event_at", one.event_at),
        tenant=one.tenant,
        scale_unit=one.scale_unit,
        freshness_s=float(one.freshness_s),
        confidence=float(one.confidence),
        evidence=tuple(one.evidence),
        sequence=_whole(one.sequence),
        attestation=None
        if attestation is None
        else Attestation(key_id=attestation.key_id, signature=attestation.signature),
    )


def _whole(value: float | None) -> int | None:
    """JSON knows no whole numbers: 3.0 is one."""
    if value is None:
        return None
    if value != int(value):
        raise ValueError("sequence: a whole number is needed")
    return int(value)


def _time(field: str, text: str | None) -> Micros | None:
    if text is None:
        return None
    try:
        return instant(datetime.fromisoformat(text))
    except ValueError:
        raise ValueError(f"{field}: no time such as 2027-01-31T12:00:00Z") from None
