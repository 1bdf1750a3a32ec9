"""Events that monitoring systems send: the whole body, read once, answered after the commit.

The sender's turn is short: its body is read here, judged on one of the few threads that are for events alone, and waits
in the queue without holding any thread, so that a flood of alerts keeps nobody else from the API.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import anyio.to_thread
from fastapi import APIRouter, Path, Request
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from fleetwarden.app.event_views import Delivery, taken_view
from fleetwarden.domain.errors import FleetError
from fleetwarden.web.addresses import NAME_PATTERN
from fleetwarden.web.answers import answer
from fleetwarden.web.bodies import body_of
from fleetwarden.web.callers import Plane, caller_by
from fleetwarden.web.event_desk import TOGETHER_BYTES, EventDesk
from fleetwarden.web.plane import ServedPlane, plane_of
from fleetwarden.web.problems import answer_to_error
from fleetwarden.web.queries import hint_from, hint_parameter

__all__ = ["EventsFirst", "Taken", "TakenEvent", "router"]

SMALL_BYTES: Final = 64 * 1024  # a larger body is not read before its sender is known
router = APIRouter(tags=["events"])


class TakenEvent(BaseModel):
    """One event of a body.  `work_id` null: it was known already."""

    event_id: str
    work_id: str | None
    source: str
    severity: str
    subject: str
    service: str | None


class Taken(BaseModel):
    """What became of a body: how many of its events are new, and how many were known."""

    accepted: int
    duplicates: int
    events: list[TakenEvent]


ANY_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "What Alertmanager, Uptime Kuma, Grafana or Portainer sends, or any JSON object; also a form "
        "whose field data is that.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    },
    "security": [{"token": []}, {}],
    **hint_parameter(),
}
Named = Annotated[str, Path(json_schema_extra={"pattern": NAME_PATTERN})]


class EventsFirst:
    """ASGI middleware: bodies of events go past the framework's routing, which takes longer than all that follows.

    `at` is where they are sent, `at` itself or `at/{source}`.  The routes below say the same to the API's description.
    """

    def __init__(self, app: ASGIApp, at: str) -> None:
        self._app = app
        self._at = at

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        name = self._named(scope)
        if name is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            made = await _taken(request, plane_of(request), name)
        except FleetError as error:
            made = answer_to_error(request, error)
        await made(scope, receive, send)

    def _named(self, scope: Scope) -> str | None:
        """The source that the address names; None for what is no body of events."""
        if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].startswith(self._at):
            return None
        rest: str = scope["path"][len(self._at) :]
        if not rest:
            return ""
        return rest[1:] if rest[0] == "/" and len(rest) > 1 and "/" not in rest[1:] else None


@router.post("/events", status_code=202, response_model=Taken, openapi_extra=ANY_BODY)
async def take_events(request: Request, plane: Plane) -> Response:
    """Take a body of events (role ingest); the kind of sender is told by its content, or by `?source=`."""
    return await _taken(request, plane, "")


@router.post("/events/{source}", status_code=202, response_model=Taken, openapi_extra=ANY_BODY)
async def take_events_of(request: Request, plane: Plane, source: Named) -> Response:
    """The same from a source with a name: its kind, its mapping and its keys are those of events.yml."""
    return await _taken(request, plane, source)


async def _taken(request: Request, plane: ServedPlane, name: str) -> Response:
    desk = request.app.state.event_desk
    assert isinstance(desk, EventDesk)
    given = request.headers.get("authorization", "")
    signed = plane.events.signs(name)
    if not signed and not given:
        caller_by(plane, "")  # says so, before anything is read
    with desk.sender(f"{name} {'' if signed else given}"):
        announced = request.headers.get("content-length", "")
        small = announced.isdecimal() and len(announced) < 9 and int(announced) <= SMALL_BYTES
        if not signed and not small:
            await anyio.to_thread.run_sync(caller_by, plane, given, limiter=desk.limiter)
        body = await body_of(request, plane.events.body_bytes_max)
        delivery = Delivery(
            body=body,
            content_type=request.headers.get("content-type", "application/json"),
            name=name,
            hint=hint_from(request),
            headers=dict(request.headers.items()) if signed else {},
        )
        keep = desk.kept if len(body) <= TOGETHER_BYTES else desk.kept_alone
        return answer(taken_view(await keep(given, delivery)), status=202)
