"""The HTTP side of a running plane: one request, one answer, and refusals as errors that a person can read.

Standard library only, so that a command answers quickly, and without proxies from the environment, which would carry a
token for a loopback address elsewhere.  A request is never repeated by itself: a lost answer to a change is reported as
such.  The token goes into one header and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from fleetwarden.domain.errors import (
    Conflict,
    FleetError,
    Misconfigured,
    NotFound,
    OutcomeUnknown,
    Problem,
    Refused,
    Retryable,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from http.client import HTTPConnection

__all__ = ["PREFIX", "Answered", "PlaneClient", "Unreachable", "as_error", "quoted"]

PREFIX = "/api/fleet"
TIMEOUT_S = 30.0
ANSWER_MAX = 64 * 1024 * 1024  # bytes; a page of 500 items is far below


class Unreachable(Retryable):
    """Nobody answers at that address."""

    code = "unreachable"


class Answered(NamedTuple):
    """An answer: its status, its JSON, and the moment (UTC) that the plane put on it, if it did."""

    status: int
    body: Any
    at: Any


def quoted(segment: str) -> str:
    """A name as one segment of a path."""
    return quote(segment, safe="")


class PlaneClient:
    """Talks to one plane.  `url`: `http://host:port` or https; `token`: the secret, or "" for none."""

    def __init__(self, url: str, token: str, *, timeout_s: float = TIMEOUT_S) -> None:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise Misconfigured(f"{url!r} is no address of a plane", hint="such as http://127.0.0.1:8800")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._secure = parts.scheme == "https"
        self._host, self._port, self._path = parts.hostname, port, parts.path.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        """The JSON of a reading route below the prefix.  Raises what `as_error` makes of a refusal, and Unreachable."""
        return self.ask("GET", path, query=query).body

    def post(self, path: str, body: Mapping[str, object] | bytes) -> Any:
        """Send a change.  Raises as `get`; OutcomeUnknown if the answer was lost on the way."""
        return self.ask("POST", path, body=body).body

    def delete(self, path: str) -> Any:
        return self.ask("DELETE", path).body

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | bytes | None = None,
        accept: tuple[int, ...] = (),
    ) -> Answered:
        """One request.  Statuses in `accept` are answers, not refusals."""
        wanted = {name: value for name, value in (query or {}).items() if value is not None}
        target = f"{self._path}{PREFIX}{path}" + (f"?{urlencode(wanted)}" if wanted else "")
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        if sent is not None:
            headers["Content-Type"] = "application/json"
        status, content, date = self._exchange(method, target, sent, headers)
        told = _decoded(content)
        if status >= 400 and status not in accept:
            raise as_error(status, told, self.url)
        if told is None and status != 204:
            raise FleetError(f"what answers at {self.url} is no fleetwarden plane (status {status}, not JSON)")
        return Answered(status, told, date)

    def _exchange(
        self, method: str, target: str, sent: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes, Any]:
        from http.client import HTTPException

        connection = self._connection()
        begun = False
        try:
            connection.connect()
            begun = True
            connection.request(method, target, body=sent, headers=headers)
            answer = connection.getresponse()
            content = answer.read(ANSWER_MAX + 1)
            if len(content) > ANSWER_MAX:
                raise FleetError(f"the answer of {self.url} is over {ANSWER_MAX // 2**20} MiB", hint="ask for less")
            return answer.status, content, _date(answer.getheader("Date"))
        except TimeoutError as error:
            raise self._lost(method, begun, f"no answer within {self._timeout_s:.0f} s") from error
        except (OSError, HTTPException) as error:
            raise self._lost(method, begun, _why(error)) from error
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection  # with ssl and email: only a call pays for them

        if self._secure:
            return HTTPSConnection(self._host, self._port, timeout=self._timeout_s)
        return HTTPConnection(self._host, self._port, timeout=self._timeout_s)

    def _lost(self, method: str, begun: bool, why: str) -> FleetError:
        if begun and method != "GET":
            return OutcomeUnknown(
                f"{self.url} took the request and did not answer: {why}", hint="look before you repeat it"
            )
        return Unreachable(f"no plane answers at {self.url}: {why}", hint="is it running?  fleetwarden up starts one")


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__


def _date(header: str | None) -> Any:
    from email.utils import parsedate_to_datetime

    try:
        return None if header is None else parsedate_to_datetime(header)
    except ValueError:
        return None


def _decoded(content: bytes) -> Any:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return None


def as_error(status: int, body: Any, url: str) -> FleetError:
    """A refusal (problem+json or not) as the error that the same refusal would have been in this process."""
    told = body if isinstance(body, Mapping) else {}
    detail = str(told.get("detail") or told.get("title") or _refused(told) or f"refused with status {status}")
    hint = str(told.get("hint") or "")
    code = str(told.get("code") or "") or None
    if status == 401:
        return Refused(f"{url} does not know this token: {detail}", code=code, hint=hint or _LOCKED_OUT)
    if status == 403:
        return Refused(f"not allowed: {detail}", code=code, hint=hint or "use a token with that role")
    if status == 404:
        return NotFound(detail, code=code, hint=hint)
    if status == 409:
        return Conflict(detail, code=code, hint=hint)
    if status in (400, 413, 422):
        return Misconfigured(detail, _findings(told), hint=hint)
    if status == 503:
        return StoreUnavailable(detail, code=code, hint=hint or "nothing was changed; ask again")
    return FleetError(f"the plane failed: {detail}" if status >= 500 else detail, code=code, hint=hint)


def _refused(told: Mapping[str, Any]) -> str:
    """What was wrong with each part of a batch, where the answer is a list of that."""
    errors = told.get("errors")
    listed = [one for one in errors if isinstance(one, dict)] if isinstance(errors, list) else []
    several = len(listed) > 1
    return "; ".join(
        f"{one.get('reason')} ({one.get('code')})" + (f" at {one.get('index')}" if several else "") for one in listed
    )


def _findings(told: Mapping[str, Any]) -> list[Problem]:
    errors = told.get("errors")
    listed = [one for one in errors if isinstance(one, dict)] if isinstance(errors, list) else []
    return [Problem(str(one.get("where", "")), 0, str(one.get("reason", ""))) for one in listed]


_LOCKED_OUT = "give --token or FLEET_TOKEN; on the plane's machine: fleetwarden token create --local"
