"""Which playbooks answer events here: this deployment's own, then the shipped ones."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.responses import Response

from fleetwarden.web.answers import answer
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.queries import no_query

__all__ = ["router"]

router = APIRouter(tags=["events"], dependencies=[Depends(no_query)])


class PlaybookItem(BaseModel):
    """`on`: `source:severity` or a source.  `steps`: [] for one that is shipped or written in Python."""

    id: str
    name: str
    on: list[str]
    class_: str | None = Field(alias="class")
    services: list[str]
    steps: list[dict[str, Any]]
    where: str


class PlaybookList(BaseModel):
    """`problems`: of a playbooks.yml that is rejected; the last good one stays in force."""

    items: list[PlaybookItem]
    problems: list[str]


@router.get("/playbooks", response_model=PlaybookList)
def list_playbooks(caller: AnyCaller, plane: Plane) -> Response:
    """The playbooks in force, in the order in which they are asked."""
    return answer(plane.remedies.playbooks.listed(caller))
