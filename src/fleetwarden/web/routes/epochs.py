"""Epochs: since when the store has a gap in its memory, and an admin's word that it may go on."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from fleetwarden.web.answers import answer
from fleetwarden.web.bodies import ClosedBody, documented, json_body
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.texts import TEXT_PATTERN

__all__ = ["router"]

router = APIRouter(tags=["epochs"])


class Epoch(BaseModel):
    """`holds`: the plane is frozen because of it."""

    id: str
    at: str
    kind: str
    origin: dict[str, Any]
    holds: bool
    released_at: str | None
    released_by: str | None
    reason: str


class Epochs(BaseModel):
    items: list[Epoch]
    next: str | None


class Release(ClosedBody):
    """`reason`: what was looked at and found."""

    reason: Annotated[str, Field(min_length=1, max_length=2000, json_schema_extra={"pattern": TEXT_PATTERN})]


@router.get("/epochs", response_model=Epochs)
def list_epochs(caller: AnyCaller, plane: Plane) -> Response:
    """Restores and copies that this store went through, newest first."""
    return answer(plane.epochs.epochs(caller))


@router.post("/epochs/release", response_model=Epochs, openapi_extra=documented(Release))
def release_epoch(caller: AnyCaller, plane: Plane, body: Annotated[Release, json_body(Release)]) -> Response:
    """End the freeze that a restore began with."""
    return answer(plane.epochs.release(caller, reason=body.reason))
