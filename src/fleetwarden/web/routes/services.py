"""The fleet: what is declared, what was seen, and why nothing more happens."""

from __future__ import annotations

from fastapi import APIRouter, Depends
from starlette.responses import Response

from fleetwarden.web import schemas
from fleetwarden.web.addresses import Name
from fleetwarden.web.answers import answer
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.queries import no_query

__all__ = ["router"]

router = APIRouter(tags=["fleet"])


@router.get("/services", response_model=schemas.Services, dependencies=[Depends(no_query)])
def list_services(caller: AnyCaller, plane: Plane) -> Response:
    """All services, by name."""
    return answer(plane.fleet.services(caller))


@router.get("/services/{name}", response_model=schemas.Service, dependencies=[Depends(no_query)])
def get_service(caller: AnyCaller, plane: Plane, name: Name) -> Response:
    """One service."""
    return answer(plane.fleet.service(caller, name))


@router.get("/services/{name}/explain", response_model=schemas.Explanation, dependencies=[Depends(no_query)])
def explain_service(caller: AnyCaller, plane: Plane, name: Name) -> Response:
    """Why it stands where it stands: rule, budgets, evidence, and what would change the answer."""
    return answer(plane.explaining.explain(caller, name))


@router.get("/status", response_model=schemas.Status, dependencies=[Depends(no_query)])
def get_status(caller: AnyCaller, plane: Plane) -> Response:
    """What is on, off, frozen and dry run, with warnings and all services."""
    return answer(plane.fleet.status(caller))
