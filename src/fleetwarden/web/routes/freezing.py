"""The kill switch, and a person's word on outcomes that nobody knows."""

from __future__ import annotations

from itertools import combinations
from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from pydantic import ConfigDict, Field
from starlette.responses import Response

from fleetwarden.domain.errors import Problem
from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.domain.structure import OWN_KIND
from fleetwarden.web import schemas
from fleetwarden.web.addresses import ActionId
from fleetwarden.web.answers import answer
from fleetwarden.web.bodies import ClosedBody, documented, json_body
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.problems import Malformed
from fleetwarden.web.queries import no_query
from fleetwarden.web.texts import TEXT_PATTERN, Reason, RequiredReason

__all__ = ["router"]

router = APIRouter(tags=["freeze and recovery"], dependencies=[Depends(no_query)])


Scope = Annotated[str | None, Field(min_length=1, max_length=200, json_schema_extra={"pattern": TEXT_PATTERN})]


SCOPED = ("group", "kind", "service")


def _both(one: str, other: str) -> dict[str, JsonValue]:
    """What an order looks like that names both."""
    return {"required": [one, other], "properties": {one: {"type": "string"}, other: {"type": "string"}}}


def _every(scope: str) -> dict[str, JsonValue]:
    """What an order looks like that names all and a part."""
    return {"required": ["all", scope], "properties": {"all": {"const": True}, scope: {"type": "string"}}}


class FreezeOrder(ClosedBody):
    """`on` freezes, for `for_s` seconds or until it is taken back; off ends freezes.

    At most one of `group`, `kind` and `service` says of what; without one it is the freeze of the whole fleet, and
    those of parts stay.  Off with `all` ends every freeze, those of parts and of others included.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"on": {"const": False}}},
            "then": {"properties": {"for_s": {"type": "null"}}},
            "else": {"properties": {"all": {"const": False}}},
            "not": {"anyOf": [*(_both(*pair) for pair in combinations(SCOPED, 2)), *map(_every, SCOPED)]},
        }
    )
    on: bool
    reason: Reason = None
    for_s: Annotated[float | None, Field(ge=1, le=366 * 86_400)] = None
    group: Scope = None
    kind: Annotated[str | None, Field(max_length=200, json_schema_extra={"pattern": f"^{OWN_KIND.pattern}$"})] = None
    service: Scope = None
    all: bool = False

    def scope(self) -> tuple[str, str]:
        """The scope and its name; ("", "") for none.  Raises Malformed for several."""
        given = [(name, value) for name in SCOPED if (value := getattr(self, name)) is not None]
        if len(given) > 1:
            told = [Problem(name, 0, "only one of group, kind and service") for name, _ in given]
            raise Malformed("a freeze is of one thing; several freezes may stand at once", told)
        return given[0] if given else ("", "")


class Settlement(ClosedBody):
    outcome: Annotated[Literal["succeeded", "failed"], Field(alias="as")]
    reason: RequiredReason


@router.get("/freeze", response_model=schemas.FreezeStatus)
def show_freeze(caller: AnyCaller, plane: Plane) -> Response:
    """What is frozen, by whom, until when, and what is in flight all the same."""
    return answer(plane.administration.freeze_status(caller))


@router.post("/freeze", response_model=schemas.FreezeStatus, openapi_extra=documented(FreezeOrder))
def set_freeze(caller: AnyCaller, plane: Plane, body: Annotated[FreezeOrder, json_body(FreezeOrder)]) -> Response:
    """Freeze or thaw.  Once `on` has answered, nothing further begins of what it covers."""
    scope, value = body.scope()
    reason = body.reason or ""
    if body.all and (body.on or scope):
        raise Malformed("all goes with on: false alone", [Problem("all", 0, "it ends every freeze")])
    if body.on:
        frozen = plane.administration.freeze(caller, reason=reason, for_s=body.for_s, scope=scope or "all", value=value)
        return answer(frozen)
    if body.for_s is not None:
        raise Malformed("for_s goes with on: true", [Problem("for_s", 0, "nothing is frozen by this request")])
    whole = "" if body.all else "all"
    return answer(plane.administration.thaw(caller, reason=reason, scope=scope or whole, value=value))


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
