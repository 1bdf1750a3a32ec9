"""Probes for whoever restarts processes: open, without a token, and saying yes or no, and what of
the plane itself does not move."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response

from fleetwarden.web.answers import answer
from fleetwarden.web.callers import Plane

__all__ = ["router"]

router = APIRouter(tags=["probes"])


class Alive(BaseModel):
    status: Literal["alive"]


class Ready(BaseModel):
    """`stalled`: what does not move although the plane serves: overdue passes, leases that nobody holds, a queue."""

    status: Literal["ready", "not ready"]
    stalled: list[str] = []


@router.get("/livez", response_model=Alive)
def is_alive() -> Response:
    """The process answers."""
    return answer({"status": "alive"})


@router.get("/readyz", response_model=Ready, responses={503: {"model": Ready}})
def is_ready(plane: Plane) -> Response:
    """The plane serves: its store, its policy and its registry can be read."""
    ready = plane.fleet.ready()
    status = "ready" if ready else "not ready"
    return answer({"status": status, "stalled": plane.diagnosis.stalled()}, 200 if ready else 503)
