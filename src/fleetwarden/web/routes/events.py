"""Events that monitoring systems send: the whole body, read once, answered after the commit.

The sender's turn is short: its body is read here, judged on a thread of the few that are for events alone, and waits in
the queue without holding any thread, so that a flood of alerts keeps nobody else from the API.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Annotated, Any, Final

import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import APIRouter, Path, Request
from pydantic import BaseModel
from starlette.responses import Response

from fleetwarden.app.event_views import Delivery, taken_view
from fleetwarden.app.identity import Caller
from fleetwarden.domain.errors import Retryable
from fleetwarden.web.addresses import NAME_PATTERN
from fleetwarden.web.answers import answer
from fleetwarden.web.bodies import body_of
from fleetwarden.web.callers import Plane, caller_by
from fleetwarden.web.plane import ServedPlane
from fleetwarden.web.queries import hint_from, hint_parameter

__all__ = ["Taken", "TakenEvent", "router"]

THREADS: Final = 4  # that judge bodies
SENDING_MAX: Final = 128  # requests of one sender at once
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


@router.post("/events", status_code=202, response_model=Taken, openapi_extra=ANY_BODY)
async def take_events(request: Request, plane: Plane) -> Response:
    """Take a body of events (role ingest); the kind of sender is told by its content, or by `?source=`."""
    return await _taken(request, plane, "")


@router.post("/events/{source}", status_code=202, response_model=Taken, openapi_extra=ANY_BODY)
async def take_events_of(request: Request, plane: Plane, source: Named) -> Response:
    """The same from a source with a name: its kind, its mapping and its keys are those of events.yml."""
    return await _taken(request, plane, source)


async def _taken(request: Request, plane: ServedPlane, name: str) -> Response:
    state = request.app.state
    if not hasattr(state, "events_limiter"):
        state.events_limiter, state.events_sending = CapacityLimiter(THREADS), Counter()
    limiter: CapacityLimiter = state.events_limiter
    sending: Counter[str] = state.events_sending
    given = request.headers.get("authorization", "")
    signed = plane.events.signs(name)
    if not signed and not given:
        caller_by(plane, "")  # says so, before anything is read
    sender = f"{name} {'' if signed else given}"
    if sending[sender] >= SENDING_MAX:
        raise Retryable(f"{SENDING_MAX} requests of this sender are in work", code="busy", hint="send it again")
    sending[sender] += 1
    try:
        return await _kept(request, plane, name, given, limiter, signed=signed)
    finally:
        sending[sender] -= 1
        if not sending[sender]:
            del sending[sender]


async def _kept(
    request: Request, plane: ServedPlane, name: str, given: str, limiter: CapacityLimiter, *, signed: bool
) -> Response:
    def caller() -> Caller:
        return caller_by(plane, given)

    announced = request.headers.get("content-length", "")
    small = announced.isdecimal() and len(announced) < 9 and int(announced) <= SMALL_BYTES
    if not signed and not small:
        await anyio.to_thread.run_sync(caller, limiter=limiter)
    body = await body_of(request, plane.events.body_bytes_max)
    delivery = Delivery(
        body=body,
        content_type=request.headers.get("content-type", "application/json"),
        name=name,
        hint=hint_from(request),
        headers=dict(request.headers.items()),
    )
    ticket, leads = await anyio.to_thread.run_sync(plane.events.submit, caller, delivery, limiter=limiter)
    if leads:
        request.app.state.events_lead = asyncio.get_running_loop().run_in_executor(None, plane.events.admission.lead)
    return answer(taken_view(await asyncio.wrap_future(ticket.done)), status=202)
