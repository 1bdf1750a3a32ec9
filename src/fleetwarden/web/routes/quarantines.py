"""A person's word that a version which failed its watch may be deployed again."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel
from starlette.responses import Response

from fleetwarden.web import schemas_watches
from fleetwarden.web.addresses import Name
from fleetwarden.web.answers import answer
from fleetwarden.web.bodies import ClosedBody, documented, json_body
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.queries import no_query
from fleetwarden.web.texts import RequiredReason

__all__ = ["router"]

router = APIRouter(tags=["ledger"], dependencies=[Depends(no_query)])


class QuarantineClear(ClosedBody):
    reason: RequiredReason


class Cleared(BaseModel):
    items: list[schemas_watches.Quarantine]


@router.post("/services/{name}/quarantine/clear", response_model=Cleared, openapi_extra=documented(QuarantineClear))
def clear_quarantine(
    caller: AnyCaller, plane: Plane, name: Name, body: Annotated[QuarantineClear, json_body(QuarantineClear)]
) -> Response:
    """Clear every quarantine of a service: its versions may be deployed again."""
    return answer(plane.remedies.quarantining.clear(caller, name, reason=body.reason))
