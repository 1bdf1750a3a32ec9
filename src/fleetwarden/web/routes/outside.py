"""Actions that other systems carry out: asking is `POST /actions`; here they look, claim, and say how it ended.

The gate's webhook stands apart: whoever sends it may be unable to set a header, so its body may carry the token.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from fleetwarden.app.outside import DETAIL_MAX
from fleetwarden.app.rollout_gates import Hook, token_of
from fleetwarden.domain.outside import OutsideState
from fleetwarden.domain.structure import OWN_KIND, PLAIN_TARGET
from fleetwarden.web import schemas
from fleetwarden.web.addresses import id_pattern
from fleetwarden.web.answers import answer
from fleetwarden.web.bodies import ClosedBody, documented, json_body
from fleetwarden.web.callers import AnyCaller, Plane, caller_by
from fleetwarden.web.queries import no_query
from fleetwarden.web.texts import TEXT_PATTERN

__all__ = ["gates", "router"]

router = APIRouter(tags=["actions"], dependencies=[Depends(no_query)])
gates = APIRouter(tags=["actions"], dependencies=[Depends(no_query)])
AnyActionId = Annotated[
    str, Path(json_schema_extra={"pattern": id_pattern("X-", "D-", "A-", "action_approval:")}, examples=["D-12"])
]
OutsideId = Annotated[
    str, Path(json_schema_extra={"pattern": id_pattern("D-", "A-", "action_approval:")}, examples=["D-12"])
]


NAMES: dict[str, Any] = {"pattern": TEXT_PATTERN}
_PLAIN: dict[str, Any] = {"anyOf": [{"type": "string", **NAMES}, {"type": ["number", "boolean", "null"]}]}
LATER: dict[str, Any] = {  # what a newer sender adds: any value, with texts that have no control characters
    "anyOf": [
        _PLAIN,
        {"type": "array", "items": _PLAIN},
        {"type": "object", "propertyNames": NAMES, "additionalProperties": _PLAIN},
    ]
}
METADATA: dict[str, Any] = {
    "propertyNames": NAMES,
    "maxProperties": 32,
    "properties": {
        "kind": {"type": "string", "pattern": f"^{OWN_KIND.pattern}$"},
        "target": {"type": "string", "pattern": f"^{PLAIN_TARGET.pattern}$"},
        "token": {"type": "string", "maxLength": 200, "pattern": "^[A-Za-z0-9_-]*$"},
    },
    "additionalProperties": {"type": "string", "maxLength": 512, "pattern": TEXT_PATTERN},
}


class OutsideAction(BaseModel):
    """An action that its requester carries out.  `may_proceed`: it may be claimed now; `until`: how long that holds."""

    id: str
    action_id: str
    at: str
    kind: str
    target: str
    params: dict[str, Any]
    state: OutsideState
    may_proceed: bool
    until: str | None
    decision: str
    decision_id: str
    approval_id: str | None
    execution_id: str | None
    reason: str
    requested_by: str
    request_reason: str
    digest: str
    claimed_by: str | None
    claimed_at: str | None
    finished_at: str | None
    ok: bool | None
    code: str | None
    detail: str


class Claim(ClosedBody):
    """An empty object: who claims is the one behind the token."""


class Result(ClosedBody):
    """How it ended.  `code`: a machine word, for a failure only."""

    ok: bool
    detail: Annotated[str, Field(max_length=DETAIL_MAX, json_schema_extra={"pattern": TEXT_PATTERN})] = ""
    code: Annotated[
        str | None, Field(min_length=1, max_length=64, json_schema_extra={"pattern": "^[A-Za-z0-9_.-]+$"})
    ] = None


class FlaggerHook(ClosedBody):
    """What Flagger's gates send; fields that it adds one day are not looked at.

    `metadata`: `kind` (canary_rollout unless given), `target` (the canary's name unless given), `token`.
    """

    model_config = ConfigDict(
        extra="ignore",
        strict=True,
        frozen=True,
        json_schema_extra={"propertyNames": NAMES, "additionalProperties": LATER},
    )

    name: Annotated[str, Field(min_length=1, max_length=253, json_schema_extra={"pattern": "^[A-Za-z0-9._-]+$"})]
    namespace: Annotated[str, Field(max_length=253, json_schema_extra={"pattern": "^[A-Za-z0-9._-]*$"})] = ""
    phase: Annotated[str, Field(max_length=64, json_schema_extra={"pattern": TEXT_PATTERN})] = ""
    checksum: Annotated[str, Field(max_length=128, json_schema_extra={"pattern": TEXT_PATTERN})] = ""
    metadata: Annotated[
        dict[str, str] | None,
        Field(json_schema_extra=METADATA),
    ] = None


class GateAnswer(BaseModel):
    """`go`: 200 says the same as true, 403 as false."""

    go: bool
    reason: str
    kind: str
    target: str
    decision: str | None
    decision_id: str | None
    approval_id: str | None


@router.get("/actions/{id}", name="get_action", response_model=schemas.Action | OutsideAction)
def show_action(caller: AnyCaller, plane: Plane, id: AnyActionId) -> Response:  # noqa: A002 - the address's own word
    """The record of a side effect by its id (`X-…`), or an action of another system by what it was told (`D-…`)."""
    if id.strip()[:1].upper() in ("D", "A"):
        return answer(plane.remedies.outside.show(caller, id))
    return answer(plane.lists.show(caller, "actions", id))


@router.post(
    "/actions/{id}/claim",
    response_model=OutsideAction,
    openapi_extra=documented(Claim),
    dependencies=[json_body(Claim)],
)
def claim_action(caller: AnyCaller, plane: Plane, id: OutsideId) -> Response:  # noqa: A002
    """Take an authorisation up, once, right before acting; policy is asked again."""
    return answer(plane.remedies.outside.claim(caller, id))


@router.post("/actions/{id}/result", response_model=OutsideAction, openapi_extra=documented(Result))
def report_action(
    caller: AnyCaller,
    plane: Plane,
    id: OutsideId,  # noqa: A002
    body: Annotated[Result, json_body(Result)],
) -> Response:
    """Say how it ended, once; a grant is closed with it."""
    outside = plane.remedies.outside
    return answer(outside.report(caller, id, ok=body.ok, detail=body.detail, code=body.code))


@gates.post(
    "/gate/flagger",
    response_model=GateAnswer,
    responses={403: {"model": GateAnswer, "description": "halt"}},
    openapi_extra={**documented(FlaggerHook), "security": [{"token": []}, {}]},
)
def ask_gate(request: Request, plane: Plane, body: Annotated[FlaggerHook, json_body(FlaggerHook)]) -> Response:
    """A gate of Flagger: 200 lets the canary go on, anything else holds it."""
    metadata = body.metadata or {}
    given = request.headers.get("authorization", "")
    caller = caller_by(plane, given or f"Bearer {token_of(metadata)}")
    hook = Hook(name=body.name, namespace=body.namespace, phase=body.phase, checksum=body.checksum, metadata=metadata)
    told = plane.remedies.gates.ask(caller, hook)
    return answer(told, status=200 if told["go"] else 403)
