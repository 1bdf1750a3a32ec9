"""The plane itself: its health, and its end."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, BackgroundTasks, Depends, Request
from pydantic import BaseModel
from starlette.responses import Response

from fleetwarden.web import schemas
from fleetwarden.web.answers import answer
from fleetwarden.web.bodies import ClosedBody, documented, json_body
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.plane import serving
from fleetwarden.web.queries import no_query
from fleetwarden.web.texts import Reason

__all__ = ["router"]

router = APIRouter(tags=["plane"], dependencies=[Depends(no_query)])


class Diagnosed(BaseModel):
    check: str
    level: Literal["ok", "warning", "error"]
    told: str
    hint: str | None


class Diagnosis(BaseModel):
    findings: list[Diagnosed]
    errors: int
    warnings: int


class ShutdownOrder(ClosedBody):
    """`services` true asks for a stop of every managed service and leaves the plane up; false ends the plane."""

    services: bool
    reason: Reason = None


@router.get("/health", response_model=schemas.Health, responses={503: {"model": schemas.Health}})
def get_health(_: AnyCaller, plane: Plane) -> Response:
    """The fleet.health.v1 envelope; 503 unless it is healthy."""
    envelope, healthy = plane.fleet.health()
    return answer(envelope, 200 if healthy else 503)


@router.get("/doctor", response_model=Diagnosis)
def examine(caller: AnyCaller, plane: Plane) -> Response:
    """What is wrong with this plane and its store, and what to do about it."""
    return answer(plane.diagnosis.examine(caller))


@router.post("/shutdown", response_model=schemas.Stopping, status_code=202, openapi_extra=documented(ShutdownOrder))
def shut_down(
    request: Request,
    tasks: BackgroundTasks,
    caller: AnyCaller,
    plane: Plane,
    body: Annotated[ShutdownOrder, json_body(ShutdownOrder)],
) -> Response:
    """Stop the services, or end the plane.  Ask with `services` until nothing runs, then without."""
    reason = body.reason or ""
    if body.services:
        told = plane.stopping.stop_services(caller, acting=plane.acting, reason=reason)
        return answer({"ending": False, **told}, 202)
    plane.stopping.end_plane(caller, reason=reason)
    told_ending = answer({"ending": True, "running": [], "asked": [], "blocked": []}, 202)
    tasks.add_task(serving(request).on_shutdown)  # after the answer has gone out
    told_ending.background = tasks
    return told_ending
