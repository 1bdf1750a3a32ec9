"""The chain behind one scale intent; lists and single intents are with the other lists of the ledger."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel
from starlette.responses import Response

from fleetwarden.web.answers import answer
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.queries import no_query

__all__ = ["Lineage", "router"]

router = APIRouter(tags=["ledger"], dependencies=[Depends(no_query)])
Json = dict[str, Any]
ID = Path(json_schema_extra={"pattern": "^(I-)?[0-9]{1,18}$"}, examples=["I-12"])  # or the intent's own digest


class Lineage(BaseModel):
    """Everything that one intent led to; null is what it has not led to yet."""

    id: str
    at: str
    intent: Json
    decision: Json | None
    approval: Json | None
    outbox: Json | None
    executions: list[Json]
    observations: Json
    outcome: Json | None
    watch: Json | None
    notifications: list[Json]
    contract: Json


@router.get("/intents/{id}/lineage", response_model=Lineage)
def intent_lineage(
    caller: AnyCaller,
    plane: Plane,
    id: str = ID,  # noqa: A002 - the address's own word
) -> Response:
    """Intent, decision, approval, outbox record, executions, observations, outcome, watch and notices."""
    return answer(plane.lineages.lineage(caller, id))
