"""The storm breaker: what is open, and a person's word that closes it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel
from starlette.responses import Response

from fleetwarden.web.answers import answer
from fleetwarden.web.bodies import ClosedBody, documented, json_body
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.queries import no_query
from fleetwarden.web.texts import RequiredReason

__all__ = ["router"]

router = APIRouter(tags=["freeze and recovery"], dependencies=[Depends(no_query)])


class OpenBreaker(BaseModel):
    """`scope`: `fleet` or `group:NAME`.  `calm_since`: since when fewer than `threshold` are sick."""

    scope: str
    since: str
    sick: int
    total: int
    threshold: int
    names: list[str]
    calm_since: str | None


class StormStatus(BaseModel):
    open: list[OpenBreaker]
    cleared_at: str | None


class StormClear(ClosedBody):
    reason: RequiredReason


@router.get("/storm", response_model=StormStatus)
def show_storm(caller: AnyCaller, plane: Plane) -> Response:
    """Which breakers are open: what controllers ask there is denied."""
    return answer(plane.remedies.storms.status(caller))


@router.post("/storm/clear", response_model=StormStatus, openapi_extra=documented(StormClear))
def clear_storm(caller: AnyCaller, plane: Plane, body: Annotated[StormClear, json_body(StormClear)]) -> Response:
    """Close every open breaker.  Who is sick now does not count again before it was up."""
    return answer(plane.remedies.storms.clear(caller, reason=body.reason))
