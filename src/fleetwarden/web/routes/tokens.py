"""Tokens: who may ask.  A secret is answered once, when it is made, and is nowhere afterwards."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import Field
from starlette.responses import Response

from fleetwarden.app.identity import LIMITED, Role
from fleetwarden.app.rotation import OVERLAP_MAX_S
from fleetwarden.domain.approvers import TEAMS_MAX
from fleetwarden.domain.identifiers import name_problem
from fleetwarden.web import schemas
from fleetwarden.web.addresses import NAME_PATTERN, Name
from fleetwarden.web.answers import answer
from fleetwarden.web.bodies import ClosedBody, documented, json_body
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.problems import Malformed
from fleetwarden.web.queries import no_query
from fleetwarden.web.texts import TEXT_PATTERN

__all__ = ["router"]

ROLES_MAX = 20
_GROUP = NAME_PATTERN.removeprefix("^").removesuffix("$")
ROLE_PATTERN = f"^(({'|'.join(Role)})|({'|'.join(sorted(LIMITED))}):{_GROUP})$"

router = APIRouter(tags=["tokens"], dependencies=[Depends(no_query)])


class TokenOrder(ClosedBody):
    """`person` is what the ledger attributes and what votes (default: the token's name); `for_s` ends the token after
    that long.  The roles `operator` and `approver` may be limited to a group: `approver:web`.
    """

    name: Annotated[str, Field(min_length=1, max_length=63, json_schema_extra={"pattern": NAME_PATTERN})]
    roles: Annotated[
        list[Annotated[str, Field(max_length=80, json_schema_extra={"pattern": ROLE_PATTERN})]],
        Field(min_length=1, max_length=ROLES_MAX),
    ]
    teams: Annotated[
        list[Annotated[str, Field(max_length=63, json_schema_extra={"pattern": NAME_PATTERN})]],
        Field(default_factory=list, max_length=TEAMS_MAX),
    ]
    person: Annotated[str | None, Field(min_length=1, max_length=200, json_schema_extra={"pattern": TEXT_PATTERN})] = (
        None
    )
    for_s: Annotated[float | None, Field(ge=1, le=3660 * 86_400)] = None


@router.get("/tokens", response_model=schemas.PageOf[schemas.Token])
def list_tokens(caller: AnyCaller, plane: Plane) -> Response:
    """All tokens, newest first, revoked ones included; no secrets."""
    return answer(plane.administration.tokens(caller))


@router.post("/tokens", response_model=schemas.TokenWithSecret, status_code=201, openapi_extra=documented(TokenOrder))
def create_token(caller: AnyCaller, plane: Plane, body: Annotated[TokenOrder, json_body(TokenOrder)]) -> Response:
    """Make a token.  The answer holds its secret."""
    made = plane.administration.create_token(
        caller,
        name=_token_name(body.name),
        roles=tuple(body.roles),
        person=body.person or "",
        for_s=body.for_s,
        teams=tuple(body.teams),
    )
    return answer(made, 201)


class Rotation(ClosedBody):
    """`overlap_s`: how long the old secret stays valid; `for_s` ends the new one after that long (default: as long as
    the old one was made for)."""

    overlap_s: Annotated[float, Field(ge=0, le=OVERLAP_MAX_S)] = 0.0
    for_s: Annotated[float | None, Field(ge=1, le=3660 * 86_400)] = None


class RotatedToken(schemas.TokenWithSecret):
    old_expires_at: str | None


@router.post("/tokens/{name}/rotate", response_model=RotatedToken, openapi_extra=documented(Rotation))
def rotate_token(
    caller: AnyCaller, plane: Plane, name: Name, body: Annotated[Rotation, json_body(Rotation)]
) -> Response:
    """Exchange a token's secret.  The answer holds the new one."""
    made = plane.administration.rotate_token(caller, _printable(name), overlap_s=body.overlap_s, for_s=body.for_s)
    return answer(made)


@router.delete("/tokens/{name}", response_model=schemas.Token)
def revoke_token(caller: AnyCaller, plane: Plane, name: Name) -> Response:
    """End a token at once, with every session of a browser that was opened with it."""
    return answer(plane.administration.revoke_token(caller, _printable(name)))


def _printable(given: str) -> str:
    """Any name that a token may have got elsewhere.  Raises Malformed for what could be none."""
    if len(given) > 63 or not given.isprintable():
        raise Malformed("that is no name of a token", hint="GET /api/fleet/tokens lists them")
    return given


def _token_name(given: str) -> str:
    """Raises Malformed if it could not stand in an address."""
    if name_problem(given):
        raise Malformed("that is no name of a token", hint="1 to 63 letters, digits, '.', '_' or '-'")
    return given
