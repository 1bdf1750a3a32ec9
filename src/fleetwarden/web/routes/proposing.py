"""A person asks for an action.  What the policy says is the answer, a denial included."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import Field
from starlette.responses import Response

from fleetwarden.app.asking import KEY_MAX
from fleetwarden.domain.actions import ACTUATED_KINDS
from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.domain.structure import OWN_KIND, PLAIN_TARGET
from fleetwarden.web.answers import answer
from fleetwarden.web.bodies import ClosedBody, documented, json_body
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.proposal_schemas import Proposed
from fleetwarden.web.queries import no_query
from fleetwarden.web.texts import TEXT_PATTERN, RequiredReason

__all__ = ["router"]

router = APIRouter(tags=["actions"], dependencies=[Depends(no_query)])


PARAMS: dict[str, JsonValue] = {  # what a kind takes of them is the policy's first check, and a denial on record
    "maxProperties": 20,
    "propertyNames": {"pattern": "^[a-z_]{1,64}$"},
    "additionalProperties": {
        "anyOf": [
            {"type": "integer", "minimum": -(2**63) + 1, "maximum": 2**63 - 1},
            {"type": "boolean"},
            {"type": "string", "maxLength": 512, "pattern": TEXT_PATTERN},
        ]
    },
}


class Proposal(ClosedBody):
    """`kind`: one of the fleet's own on a service, or another system's own name on a target of its own.

    `idempotency_key` makes a repeated request one request; `break_glass` (role admin) passes freezes and windows."""

    kind: Annotated[str, Field(max_length=64, json_schema_extra={"pattern": f"^{OWN_KIND.pattern}$"})]
    target: Annotated[str, Field(json_schema_extra={"pattern": f"^{PLAIN_TARGET.pattern}$"})]
    params: Annotated[dict[str, Any], Field(default_factory=dict, json_schema_extra=PARAMS)]
    reason: RequiredReason
    idempotency_key: Annotated[
        str | None, Field(min_length=1, max_length=KEY_MAX, json_schema_extra={"pattern": TEXT_PATTERN})
    ] = None
    break_glass: bool = False


@router.post("/actions", response_model=Proposed, openapi_extra=documented(Proposal))
def propose_action(caller: AnyCaller, plane: Plane, body: Annotated[Proposal, json_body(Proposal)]) -> Response:
    """Ask for an action; the policy decides as for everybody.  One of a kind of your own you carry out yourself."""
    asked = plane.proposing if body.kind in ACTUATED_KINDS else plane.remedies.outside
    proposed = asked.propose(
        caller,
        kind=body.kind,
        target=body.target,
        params=body.params,
        reason=body.reason,
        key=body.idempotency_key,
        break_glass=body.break_glass,
    )
    return answer(proposed)
