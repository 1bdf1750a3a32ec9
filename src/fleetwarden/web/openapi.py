"""The OpenAPI document: what the framework knows of the routes, made true.

The framework would promise a 422 that is never sent and keep silent about the refusals that are.  The document is open:
it holds no secret, and a client can be made before there is a token.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from fleetwarden.web import schemas
from fleetwarden.web.problems import MEDIA_TYPE

__all__ = ["document"]

SCHEMA = "ProblemDetails"
REFUSALS = {
    "400": "It cannot be read: malformed JSON, a wrong type, an unknown field, a bad id or query value.",
    "401": "No valid token.",
    "403": "The token's roles do not allow it.",
    "404": "What was named does not exist.",
    "408": "The body did not arrive in time.",
    "409": "It conflicts with what is there: already decided, expired, void, in use; `code` says which.",
    "413": "The body is over the limit.",
    "500": "The plane failed; its log says why.",
    "503": "The authority cannot be read or written now.",
}
OF_OPEN_ROUTES = frozenset({"500", "503"})
OF_CHANGES = frozenset({"409"})
OF_BODIES = frozenset({"408", "413"})


def document(app: FastAPI) -> dict[str, Any]:
    """The document of all routes that `app` shows."""
    made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    components = made.setdefault("components", {}).setdefault("schemas", {})
    for unsent in ("HTTPValidationError", "ValidationError"):
        components.pop(unsent, None)
    problem = schemas.ProblemDetails.model_json_schema(ref_template="#/components/schemas/{model}")
    components.update(problem.pop("$defs", {}))
    components[SCHEMA] = problem
    for path in made["paths"].values():
        for method, operation in path.items():
            _tell_refusals(method, operation)
    return made


def _tell_refusals(method: str, operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    responses.pop("422", None)
    unsent = frozenset[str]() if operation.get("security") else frozenset(REFUSALS) - OF_OPEN_ROUTES
    unsent |= OF_CHANGES if method == "get" else frozenset()
    unsent |= frozenset() if "requestBody" in operation else OF_BODIES
    for status, description in REFUSALS.items():
        if status not in unsent:
            told = responses.setdefault(status, {"description": description})
            told.setdefault("content", {})[MEDIA_TYPE] = {"schema": {"$ref": f"#/components/schemas/{SCHEMA}"}}
