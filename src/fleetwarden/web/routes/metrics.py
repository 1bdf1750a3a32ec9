"""Metrics for Prometheus: open by setting, else for whoever may view."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.security.utils import get_authorization_scheme_param
from starlette.responses import Response

from fleetwarden.app.identity import Role, require
from fleetwarden.app.metrics import CONTENT_TYPE
from fleetwarden.web.callers import SECRET_LENGTH_MAX, Plane

__all__ = ["router"]

router = APIRouter(tags=["probes"])


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def show_metrics(request: Request, plane: Plane) -> Response:
    """Counters and gauges of this plane, in Prometheus' text format."""
    if not plane.metrics.open_to_all:
        _, secret = get_authorization_scheme_param(request.headers.get("authorization"))
        require(plane.authenticate(secret[: SECRET_LENGTH_MAX + 1].strip()), Role.VIEWER)
    return Response(plane.metrics.text(), media_type=CONTENT_TYPE)
