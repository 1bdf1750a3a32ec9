"""Who is told what, and a test message to one target."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import Field
from starlette.responses import Response

from fleetwarden.web.answers import answer
from fleetwarden.web.bodies import ClosedBody, documented, json_body
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.queries import no_query
from fleetwarden.web.schemas_messages import Notify, TestSent
from fleetwarden.web.texts import TEXT_PATTERN

__all__ = ["router"]

router = APIRouter(tags=["fleet"])


class TestMessage(ClosedBody):
    """`target`: a name in notify.yml."""

    target: Annotated[str, Field(min_length=1, max_length=63, json_schema_extra={"pattern": TEXT_PATTERN})]


@router.get("/notify", response_model=Notify, dependencies=[Depends(no_query)])
def show_notify(caller: AnyCaller, plane: Plane) -> Response:
    """Who is told what, what is wrong with a newer file, and how many messages stand where."""
    return answer(plane.messages.overview(caller))


@router.post(
    "/notify/test",
    response_model=TestSent,
    dependencies=[Depends(no_query)],
    openapi_extra=documented(TestMessage),
)
def send_test(caller: AnyCaller, plane: Plane, body: Annotated[TestMessage, json_body(TestMessage)]) -> Response:
    """Send a test message to one target, now and once (role operator)."""
    return answer(plane.messages.test(caller, body.target))
