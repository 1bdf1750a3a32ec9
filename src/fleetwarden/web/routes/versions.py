"""One service closer up: which versions of it there are, and what its replicas wrote last."""

from __future__ import annotations

from fastapi import APIRouter, Depends
from pydantic import BaseModel
from starlette.responses import Response

from fleetwarden.web.addresses import Name
from fleetwarden.web.answers import answer
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.queries import no_query
from fleetwarden.web.schemas import Time

__all__ = ["router"]

router = APIRouter(tags=["fleet"])


class KnownVersion(BaseModel):
    version: str
    irreversible: bool


class RanVersion(BaseModel):
    """An action that chose a version; `complete` false: it ended before every replica ran it."""

    at: Time
    version: str
    before: str | None
    kind: str
    complete: bool
    action_id: str


class Versions(BaseModel):
    """`known`: what a deploy or rollback can go to.  `note`: why what runs is not what is declared, where a deploy
    would not mend it."""

    service: str
    declared: str | None
    running: list[str]
    known: list[KnownVersion]
    note: str | None
    history: list[RanVersion]


@router.get("/services/{name}/versions", response_model=Versions, dependencies=[Depends(no_query)])
def show_versions(caller: AnyCaller, plane: Plane, name: Name) -> Response:
    """Versions of one service, with their history, newest first."""
    return answer(plane.versions.of(caller, name))


class ReplicaOutput(BaseModel):
    """`ended`: how its process ended, "" while it lives.  `lines`: oldest first; `cut`: there is more of it."""

    id: str
    status: str
    pid: int | None
    version: str
    started_at: Time | None
    ended: str
    lines: list[str]
    cut: bool


class Output(BaseModel):
    """`problem`: what is not told of, such as replicas beyond the thirty-second."""

    service: str
    instances: list[ReplicaOutput]
    problem: str | None


@router.get("/services/{name}/logs", response_model=Output, dependencies=[Depends(no_query)])
def show_logs(caller: AnyCaller, plane: Plane, name: Name) -> Response:
    """The last lines that each replica wrote: at most 100 of them and 16 KiB, without secrets."""
    return answer(plane.logs.of(caller, name))
