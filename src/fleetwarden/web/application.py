"""The app factory: routers, error table and the guard around them, over one running plane.

A list and nothing more.  What is not listed here does not exist, and answers 404.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

import fleetwarden
from fleetwarden.domain.errors import FleetError
from fleetwarden.web import page
from fleetwarden.web.callers import caller_of
from fleetwarden.web.event_desk import EventDesk
from fleetwarden.web.guard import Guard
from fleetwarden.web.openapi import document
from fleetwarden.web.plane import BODY_LIMIT_BYTES, BODY_TIMEOUT_S, ServedPlane, Serving
from fleetwarden.web.problems import answer_to_error, answer_to_http_exception, answer_to_invalid_parameter
from fleetwarden.web.routes import (
    approvals,
    epochs,
    events,
    freezing,
    intents,
    ledger,
    messages,
    metrics,
    outside,
    plane,
    playbooks,
    policy,
    probes,
    proposing,
    quarantines,
    sealed,
    services,
    shadow,
    signals,
    storms,
    tokens,
    versions,
    wishes,
)
from fleetwarden.web.sessions import Sessions

__all__ = ["OPENAPI_URL", "PREFIX", "create_app"]

PREFIX = "/api/fleet"
OPENAPI_URL = "/api/openapi.json"
API = (
    services.router,
    approvals.router,
    sealed.router,
    ledger.router,
    messages.router,
    freezing.router,
    storms.router,
    playbooks.router,
    quarantines.router,
    policy.router,
    tokens.router,
    versions.router,
    plane.router,
    wishes.router,
    epochs.router,
    proposing.router,
    outside.router,
    signals.router,
    shadow.router,
    intents.router,
)


def _named(route: APIRoute) -> str:
    return route.name


def create_app(
    served: ServedPlane,
    *,
    on_shutdown: Callable[[], None],
    body_limit_bytes: int = BODY_LIMIT_BYTES,
    body_timeout_s: float = BODY_TIMEOUT_S,
) -> FastAPI:
    """The ASGI application of one plane.  `on_shutdown` is called when an administrator asks the process to end."""
    app = FastAPI(
        title="fleetwarden",
        version=fleetwarden.__version__,
        description="Every change to a running fleet is a governed action.",
        openapi_url=OPENAPI_URL,
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_named,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.serving = Serving(
        plane=served, on_shutdown=on_shutdown, body_limit_bytes=body_limit_bytes, body_timeout_s=body_timeout_s
    )
    app.state.sessions = Sessions(served.clock)
    app.state.event_desk = EventDesk(served)
    app.include_router(events.router, prefix=PREFIX)  # a signature may stand for a token: it asks by itself
    for router in API:
        app.include_router(router, prefix=PREFIX, dependencies=[Depends(caller_of)])
    app.include_router(outside.gates, prefix=PREFIX)  # a body may carry the token
    app.include_router(probes.router)
    app.include_router(metrics.router)
    app.include_router(page.router)
    app.add_exception_handler(FleetError, answer_to_error)
    app.add_exception_handler(HTTPException, answer_to_http_exception)
    app.add_exception_handler(RequestValidationError, answer_to_invalid_parameter)
    app.add_middleware(events.EventsFirst, at=f"{PREFIX}/events")
    app.add_middleware(Guard)  # the last one is the outermost

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = document(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # the framework's documented way
    return app
