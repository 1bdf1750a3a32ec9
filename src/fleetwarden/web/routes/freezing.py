"""The kill switch, and a person's word on outcomes that nobody knows."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from pydantic import BeforeValidator, ConfigDict, Field
from starlette.responses import Response

from fleetwarden.domain.errors import Problem
from fleetwarden.web import schemas
from fleetwarden.web.addresses import ActionId
from fleetwarden.web.answers import answer
from fleetwarden.web.bodies import ClosedBody, documented, json_body
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.problems import Malformed
from fleetwarden.web.queries import no_query
from fleetwarden.web.texts import Reason, RequiredReason

__all__ = ["router"]

router = APIRouter(tags=["freeze and recovery"], dependencies=[Depends(no_query)])


def _not_yet(value: object) -> object:
    if value is not None:
        raise ValueError("not supported yet; leave it out to freeze everything")
    return value


NotYet = Annotated[None, BeforeValidator(_not_yet), Field(description="Not supported yet: refused.")]


class FreezeOrder(ClosedBody):
    """`on` freezes all actuation, for `for_s` seconds or until it is taken back; off ends every freeze."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"on": {"const": False}}},
            "then": {"properties": {"for_s": {"type": "null"}}},
        }
    )
    on: bool
    reason: Reason = None
    for_s: Annotated[float | None, Field(ge=1, le=366 * 86_400)] = None
    group: NotYet = None
    kind: NotYet = None
    service: NotYet = None


class Settlement(ClosedBody):
    outcome: Annotated[Literal["succeeded", "failed"], Field(alias="as")]
    reason: RequiredReason


@router.get("/freeze", response_model=schemas.FreezeStatus)
def show_freeze(caller: AnyCaller, plane: Plane) -> Response:
    """What is frozen, by whom, until when, and what is in flight all the same."""
    return answer(plane.administration.freeze_status(caller))


@router.post("/freeze", response_model=schemas.FreezeStatus, openapi_extra=documented(FreezeOrder))
def set_freeze(caller: AnyCaller, plane: Plane, body: Annotated[FreezeOrder, json_body(FreezeOrder)]) -> Response:
    """Freeze or thaw everything.  Once `on` has answered, nothing further begins."""
    if body.on:
        return answer(plane.administration.freeze(caller, reason=body.reason or "", for_s=body.for_s))
    if body.for_s is not None:
        raise Malformed("for_s goes with on: true", [Problem("for_s", 0, "nothing is frozen by this request")])
    return answer(plane.administration.thaw(caller, reason=body.reason or ""))


@router.get("/recover", response_model=schemas.PageOf[schemas.Action])
def list_unknown_outcomes(caller: AnyCaller, plane: Plane) -> Response:
    """Actions whose outcome is unknown, newest first."""
    return answer(plane.administration.unknown(caller))


@router.post("/recover/{id}", response_model=schemas.Action, openapi_extra=documented(Settlement))
def settle_outcome(
    caller: AnyCaller,
    plane: Plane,
    id: ActionId,  # noqa: A002 - the address's own word
    body: Annotated[Settlement, json_body(Settlement)],
) -> Response:
    """Say what became of an action whose outcome is unknown."""
    return answer(plane.administration.settle(caller, id, outcome=body.outcome, reason=body.reason))
