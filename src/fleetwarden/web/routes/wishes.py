"""What people ask for besides the files, what they say to others' changes, what would happen now, and what happened."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from fleetwarden.web import schemas_wishes as schemas
from fleetwarden.web.addresses import KeptName, Name
from fleetwarden.web.answers import answer
from fleetwarden.web.bodies import ClosedBody, documented, json_body
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.queries import history_from, history_parameters, no_query, reason_from, reason_parameter
from fleetwarden.web.texts import Reason, RequiredReason

__all__ = ["router"]

router = APIRouter(tags=["wishes"])
REPLICAS_MAX = 100_000


def _whole(value: object) -> object:
    """JSON has one kind of number: 3.0 is a count as well."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class ServiceOverrideOrder(ClosedBody):
    """A count, a state, or both, for `for_s` seconds or until it is cleared."""

    replicas: Annotated[Annotated[int, Field(ge=0, le=REPLICAS_MAX)] | None, BeforeValidator(_whole)] = None
    state: Literal["running", "stopped"] | None = None
    for_s: Annotated[float | None, Field(ge=1, le=366 * 86_400)] = None
    reason: RequiredReason


class ForeignOrder(ClosedBody):
    """Why."""

    reason: Reason = None


@router.put(
    "/services/{name}/override",
    response_model=schemas.ServiceOverride,
    dependencies=[Depends(no_query)],
    openapi_extra=documented(ServiceOverrideOrder),
)
def put_service_override(
    caller: AnyCaller, plane: Plane, name: Name, body: Annotated[ServiceOverrideOrder, json_body(ServiceOverrideOrder)]
) -> Response:
    """Ask for a count or a state of a service; it outranks the files, and replaces the service's earlier override."""
    return answer(
        plane.wishes.put_override(
            caller, name, replicas=body.replicas, state=body.state, for_s=body.for_s, reason=body.reason
        )
    )


@router.delete("/services/{name}/override", response_model=schemas.ServiceOverride, openapi_extra=reason_parameter())
def clear_service_override(request: Request, caller: AnyCaller, plane: Plane, name: Name) -> Response:
    """End a service's override: the files count again."""
    return answer(plane.wishes.clear_override(caller, name, reason=reason_from(request)))


@router.post(
    "/services/{name}/adopt",
    response_model=schemas.ForeignAnswer,
    dependencies=[Depends(no_query)],
    openapi_extra=documented(ForeignOrder),
)
def adopt_changes(
    caller: AnyCaller, plane: Plane, name: Name, body: Annotated[ForeignOrder, json_body(ForeignOrder)]
) -> Response:
    """Keep what somebody else set on a service."""
    return answer(plane.wishes.adopt(caller, name, reason=body.reason or ""))


@router.post(
    "/services/{name}/reassert",
    response_model=schemas.ForeignAnswer,
    dependencies=[Depends(no_query)],
    openapi_extra=documented(ForeignOrder),
)
def reassert_desired(
    caller: AnyCaller, plane: Plane, name: Name, body: Annotated[ForeignOrder, json_body(ForeignOrder)]
) -> Response:
    """Put back what is asked for: what somebody else set counts no more."""
    return answer(plane.wishes.reassert(caller, name, reason=body.reason or ""))


@router.get("/services/{name}/history", response_model=schemas.History, openapi_extra=history_parameters())
def show_history(request: Request, caller: AnyCaller, plane: Plane, name: KeptName) -> Response:
    """Everything that happened to a service, newest first."""
    since, limit, cursor = history_from(request)
    return answer(plane.history.of(caller, name, since=since, limit=limit, cursor=cursor))


@router.get("/plan", response_model=schemas.Plan, dependencies=[Depends(no_query)])
def show_plan(caller: AnyCaller, plane: Plane) -> Response:
    """What would happen now, without a side effect."""
    return answer(plane.planning.plan(caller))
