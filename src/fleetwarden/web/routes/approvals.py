"""A person's answer to what waits.  Without an explicit decision nothing is decided."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from starlette.responses import Response

from fleetwarden.web import schemas
from fleetwarden.web.addresses import JobId
from fleetwarden.web.answers import answer
from fleetwarden.web.bodies import ClosedBody, documented, json_body
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.queries import no_query
from fleetwarden.web.texts import Reason

__all__ = ["router"]

router = APIRouter(tags=["approvals"], dependencies=[Depends(no_query)])


class Rejection(ClosedBody):
    job_id: JobId
    reason: Reason = None


class Answer(ClosedBody):
    job_id: JobId
    decision: Literal["approved", "denied"]
    reason: Reason = None


@router.post("/approvals/grant", response_model=schemas.Answered, openapi_extra=documented(Answer))
def answer_approval(caller: AnyCaller, plane: Plane, body: Annotated[Answer, json_body(Answer)]) -> Response:
    """Say yes (`approved`) or no (`denied`)."""
    return answer(plane.approving.answer(caller, body.job_id, decision=body.decision, reason=body.reason))


@router.post("/approvals/reject", response_model=schemas.Answered, openapi_extra=documented(Rejection))
def reject_approval(caller: AnyCaller, plane: Plane, body: Annotated[Rejection, json_body(Rejection)]) -> Response:
    """Say no."""
    return answer(plane.approving.answer(caller, body.job_id, decision="denied", reason=body.reason))
