"""Shadow reports: what the autoscaler would have asked for, next to what the controller in charge did."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import Response

from fleetwarden.web.addresses import Name
from fleetwarden.web.answers import answer
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.queries import page_from, query_parameters, since_from
from fleetwarden.web.schemas import Time

__all__ = ["router"]

router = APIRouter(tags=["fleet"])
SINCE: dict[str, Any] = {
    "parameters": [one for one in query_parameters((), ())["parameters"] if one["name"] == "since"]
}


class ShadowSide(BaseModel):
    """Over the judged time.  `under_provisioned_s`: seconds with fewer replicas than the equation asks for;
    `reversals`: actions against the direction of the one before."""

    replica_hours: float
    actions: int
    reversals: int
    under_provisioned_s: float


class ShadowVerdict(BaseModel):
    """The newest run of equal evaluations; `until` null: it lasts."""

    at: Time
    until: Time | None
    current: int
    desired: int
    raw: int
    code: str


class ShadowReport(BaseModel):
    """`writer`: who writes the count now (observe, external_hpa, external_keda; null: the service is not in shadow any
    more).  `agreement`: share of the judged time in which both wanted the same count, null without any."""

    service: str
    writer: str | None
    since: Time | None
    until: Time | None
    judged_s: float
    unjudged_s: float
    agreement: float | None
    ours: ShadowSide
    theirs: ShadowSide
    runs: int
    latest: ShadowVerdict | None


class ShadowReportPage(BaseModel):
    items: list[ShadowReport]
    next: int | None


@router.get("/services/{name}/shadow", response_model=ShadowReport, openapi_extra=SINCE)
def shadow_of_service(request: Request, caller: AnyCaller, plane: Plane, name: Name) -> Response:
    """One service's evaluations in shadow, compared with what the controller in charge did."""
    return answer(plane.shadows.report(caller, name, since_from(request)))


@router.get("/shadow", response_model=ShadowReportPage, openapi_extra=query_parameters((), ()))
def list_shadow(request: Request, caller: AnyCaller, plane: Plane) -> Response:
    """The same of every service in shadow, by name."""
    return answer(plane.shadows.reports(caller, page_from(request, (), ())))
