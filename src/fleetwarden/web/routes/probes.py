"""Probes for whoever restarts processes: open, without a token, and saying nothing but yes or no."""

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
    status: Literal["ready", "not ready"]


@router.get("/livez", response_model=Alive)
def is_alive() -> Response:
    """The process answers."""
    return answer({"status": "alive"})


@router.get("/readyz", response_model=Ready, responses={503: {"model": Ready}})
def is_ready(plane: Plane) -> Response:
    """The plane serves: its store, its policy and its registry can be read."""
    ready = plane.fleet.ready()
    return answer({"status": "ready" if ready else "not ready"}, 200 if ready else 503)
