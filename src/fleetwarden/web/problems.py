"""Every refusal as one kind of answer: `application/problem+json`, with a stable code and what would satisfy it.

One table says which error is which status; an error that is not in it is a fault of ours, is logged with its trace and
answered with 500 and nothing of its inside.  Nothing here repeats what the caller sent, so that no token can come back
in an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus

import msgspec
import structlog
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from fleetwarden.app.identity import Forbidden, Unauthenticated
from fleetwarden.domain import errors
from fleetwarden.domain.errors import FleetError, Misconfigured, Problem

__all__ = [
    "MEDIA_TYPE",
    "BodyTimeout",
    "BodyTooLarge",
    "Malformed",
    "answer_to_error",
    "answer_to_http_exception",
    "answer_to_invalid_parameter",
    "answer_to_unexpected",
    "problem",
    "status_of",
]

log = structlog.get_logger(__name__)
MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1


class Malformed(Misconfigured):
    """The request cannot be read: no JSON, wrong types, unknown fields, bad ids or query values."""

    code = "malformed"


class BodyTooLarge(errors.Refused):
    """A body over the limit; it was not read to its end."""

    code = "too_large"


class BodyTimeout(errors.Retryable):
    """A body that did not arrive in time."""

    code = "body_timeout"


STATUS: tuple[tuple[type[FleetError], int], ...] = (  # the first that fits decides: special before general
    (Unauthenticated, 401),
    (Forbidden, 403),
    (errors.NotFound, 404),
    (BodyTooLarge, 413),
    (errors.Refused, 409),
    (errors.Conflict, 409),
    (BodyTimeout, 408),
    (errors.Retryable, 503),
    (errors.OutcomeUnknown, 503),
    (Misconfigured, 400),
)
BY_CODE: Mapping[str, int] = {  # where the class alone says too little
    "self_approval": 403,  # this person may not, another may
    "not_an_approver": 403,
    "unstorable": 400,
    "malformed_cursor": 400,
    "too_large": 413,
}

TITLES: Mapping[int, str] = {413: "Content Too Large"}  # whose name differs between versions of Python


def status_of(error: FleetError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, errors.Refused) and error.code in BY_CODE:
        return BY_CODE[error.code]
    return next((status for kind, status in STATUS if isinstance(error, kind)), 500)


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    hint: str = "",
    findings: Sequence[Problem] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """One refusal.  `code` says exactly what `status` says roughly; `findings` name places."""
    body: dict[str, object] = {
        "type": "about:blank",  # the title says no more than the status; the code does
        "title": TITLES.get(status) or HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    if hint:
        body["hint"] = hint
    if findings:
        body["errors"] = [
            {"where": f"{one.file}:{one.line}" if one.line else one.file, "reason": one.reason} for one in findings
        ]
    return Response(
        msgspec.json.encode(body), status, headers={**_headers_of(status), **(headers or {})}, media_type=MEDIA_TYPE
    )


def _headers_of(status: int) -> dict[str, str]:
    if status == HTTPStatus.UNAUTHORIZED:
        return {"WWW-Authenticate": 'Bearer realm="fleetwarden"'}
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return {"Retry-After": str(RETRY_AFTER_S)}
    return {}


def answer_to_error(request: Request, error: Exception) -> Response:
    """An error of the tree as its status; one without a status is a fault of ours."""
    assert isinstance(error, FleetError)
    status = status_of(error)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.warning("request failed", method=request.method, route=request.url.path, code=error.code, why=str(error))
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return problem(status, "internal", "the plane failed; its log says why")
    findings = error.problems if isinstance(error, Misconfigured) else ()
    return problem(status, error.code, error.message, hint=error.hint, findings=findings)


def answer_to_http_exception(request: Request, error: Exception) -> Response:
    """What the router itself refuses: no such route, no such method there."""
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return problem(404, "no_such_address", "there is nothing at this address")
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(_methods_at(request))
        told = "this address does not take that method"
        return problem(405, "method_not_allowed", told, hint=f"it takes {allowed}", headers={"Allow": allowed})
    code = HTTPStatus(error.status_code).name.lower()
    return problem(error.status_code, code, str(error.detail), headers=error.headers)


def _methods_at(request: Request) -> list[str]:
    """All methods of an address; the router names only those of the first route that has it."""
    matching = [
        one for one in iter_route_contexts(request.app.routes) if one.matches(request.scope)[0] is not Match.NONE
    ]
    exact = [one for one in matching if one.path == request.url.path]  # `/approvals/grant` is no `/approvals/{id}`
    found = {method for one in exact or matching for method in one.methods or ()}
    return sorted(found | ({"HEAD"} if "GET" in found else set()))


def answer_to_invalid_parameter(_: Request, error: Exception) -> Response:
    """What the framework's own validation refuses."""
    assert isinstance(error, RequestValidationError)
    findings = [Problem(".".join(map(str, one["loc"])), 0, str(one["msg"])) for one in error.errors()]
    return problem(400, Malformed.code, "the request cannot be read", findings=findings)


def answer_to_unexpected(method: str, path: str, error: Exception) -> Response:
    """A fault of ours: the log gets everything, the caller a sentence."""
    log.error("request broke", method=method, route=path, exc_info=error)
    return problem(500, "internal", "the plane failed; its log says why")
