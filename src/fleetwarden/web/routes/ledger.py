"""Lists of what was decided, done and written down, newest first, and each single record by its printed id."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel
from starlette.responses import Response

from fleetwarden.app.listing import TOPICS
from fleetwarden.domain.actions import ExecutionState, Verdict
from fleetwarden.domain.deploy_watch import WatchStatus
from fleetwarden.domain.desired import ForeignState
from fleetwarden.domain.events import Phase
from fleetwarden.domain.lifecycles import ApprovalState, IntentState, OutboxState, WorkState
from fleetwarden.domain.messages import DeliveryState
from fleetwarden.web import schemas, schemas_events, schemas_scaling, schemas_watches, schemas_wishes
from fleetwarden.web.addresses import short_id
from fleetwarden.web.answers import answer
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.queries import no_query, page_from, query_parameters
from fleetwarden.web.schemas_messages import Sent

__all__ = ["LISTED", "Listed", "router"]


class Listed(NamedTuple):
    """One kind of list: its address, the shapes of an item in a list and alone, its filters, and its states."""

    topic: str
    item: type[BaseModel]
    single: type[BaseModel]
    filters: tuple[str, ...]
    states: type[StrEnum] | None

    @property
    def state_names(self) -> tuple[str, ...]:
        return () if self.states is None else tuple(one.value for one in self.states)


_ALL = ("target", "kind", "state")
LISTED = (
    Listed("approvals", schemas.Approval, schemas.Approval, (*_ALL, "status"), ApprovalState),
    Listed("intents", schemas_scaling.Intent, schemas_scaling.Intent, _ALL, IntentState),
    Listed("decisions", schemas.Decision, schemas.DecisionWithRule, _ALL, Verdict),
    Listed("executions", schemas.Execution, schemas.ExecutionWithHistory, _ALL, ExecutionState),
    Listed("actions", schemas.Action, schemas.Action, _ALL, OutboxState),
    Listed("work", schemas.Work, schemas.Work, _ALL, WorkState),
    Listed("events", schemas_events.Event, schemas_events.Event, _ALL, Phase),
    Listed("reports", schemas.Report, schemas.Report, ("kind",), None),
    Listed("freezes", schemas.Freeze, schemas.Freeze, (), None),
    Listed("service_overrides", schemas_wishes.ServiceOverride, schemas_wishes.ServiceOverride, ("target",), None),
    Listed("foreign", schemas_wishes.ForeignChange, schemas_wishes.ForeignChange, _ALL, ForeignState),
    Listed("watches", schemas_watches.Watch, schemas_watches.Watch, _ALL, WatchStatus),
    Listed("quarantines", schemas_watches.Quarantine, schemas_watches.Quarantine, ("target",), None),
    Listed("messages", Sent, Sent, _ALL, DeliveryState),
    Listed("journal", schemas.Journal, schemas.Journal, ("target", "kind"), None),
)

router = APIRouter(tags=["ledger"])


def _page_of(listed: Listed) -> Callable[..., Response]:
    def show_page(request: Request, caller: AnyCaller, plane: Plane) -> Response:
        page = page_from(request, listed.filters, listed.state_names)
        return answer(plane.lists.page(caller, listed.topic, page))

    return show_page


def _single_of(listed: Listed) -> Callable[..., Response]:
    ids = short_id(TOPICS[listed.topic].prefix)

    def show_one(caller: AnyCaller, plane: Plane, id: str = ids) -> Response:  # noqa: A002 - the address's own word
        return answer(plane.lists.show(caller, listed.topic, id))

    return show_one


def _add(listed: Listed) -> None:
    one = {"watches": "watch"}.get(listed.topic, listed.topic.removesuffix("s"))
    page_model: Any = schemas.PageOf[listed.item]  # type: ignore[name-defined]
    router.add_api_route(
        f"/{listed.topic}",
        _page_of(listed),
        methods=["GET"],
        name=f"list_{listed.topic}",
        summary=f"List {listed.topic}",
        response_model=page_model,
        openapi_extra=query_parameters(listed.filters, listed.state_names),
    )
    if listed.topic == "actions":
        return  # one by its id is also one of another system's: `routes.outside`
    router.add_api_route(
        f"/{listed.topic}/{{id}}",
        _single_of(listed),
        methods=["GET"],
        name=f"get_{one}",
        summary=f"One record of {listed.topic}, by the id that was printed",
        response_model=listed.single,
        dependencies=[Depends(no_query)],
    )


for _listed in LISTED:
    _add(_listed)
