"""Who asks: the bearer token of a request, looked up afresh for every request.

No token, no access, also on loopback.  A token in a query string is never accepted, since addresses end up in logs and
histories.  The browser's session cookie opens nothing here, so that no other page can use it against the API.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.security.utils import get_authorization_scheme_param

from fleetwarden.app.identity import Caller, Unauthenticated
from fleetwarden.web.plane import ServedPlane, plane_of

__all__ = ["AnyCaller", "Plane", "caller_by", "caller_of"]

SECRET_LENGTH_MAX = 512
_bearer = HTTPBearer(auto_error=False, scheme_name="token", description="A token: `Authorization: Bearer fw_…`")


def caller_of(request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> Caller:
    """The caller.  Raises Unauthenticated, StoreUnavailable."""
    return _known(plane_of(request), "" if given is None else given.credentials.strip())


def caller_by(plane: ServedPlane, header: str) -> Caller:
    """The same by the header `Authorization` itself, for routes that need no token from everybody."""
    scheme, secret = get_authorization_scheme_param(header)
    return _known(plane, secret.strip() if scheme.lower() == "bearer" else "")


def _known(plane: ServedPlane, secret: str) -> Caller:
    if len(secret) > SECRET_LENGTH_MAX:
        raise Unauthenticated("no valid token")
    return plane.authenticate(secret)


async def _served(request: Request) -> ServedPlane:
    """The plane; a coroutine, since the framework hands every plain function to another thread."""
    return plane_of(request)


AnyCaller = Annotated[Caller, Depends(caller_of)]
Plane = Annotated[ServedPlane, Depends(_served)]
