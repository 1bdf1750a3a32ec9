"""Asking another process's plane about an action of one's own, over its HTTP API.

Bounded in time and size; redirects are not followed, so that the token goes to nobody else.  Nothing is asked twice: an
answer that was lost is an error, and what it would have said is not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import httpx2
import msgspec

from fleetwarden.domain.errors import Conflict, FleetError, Misconfigured, NotFound, Refused, Retryable
from fleetwarden.domain.identifiers import JsonValue

__all__ = ["ActionsOverHttp"]

ANSWER_BYTES_MAX: Final = 1024 * 1024
PREFIX: Final = "/api/fleet"
_ANSWER = msgspec.json.Decoder(dict[str, Any])
_ERRORS: Mapping[int, type[FleetError]] = {
    400: Misconfigured,
    401: Refused,
    403: Refused,
    404: NotFound,
    409: Conflict,
    413: Misconfigured,
}


class ActionsOverHttp:
    """The outside actions of the plane at `url` (`https://host:port`), as the person behind `token`.

    `timeout_s`: seconds for each answer, above 0.  Every method raises the FleetError that the plane answered with, or
    Retryable where there is no answer that can be read.
    """

    def __init__(self, url: str, token: str, *, timeout_s: float = 10.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise Misconfigured("the plane's address begins with http:// or https://", hint="nothing was asked")
        if not token.isascii() or not token.isprintable() or not token:
            raise Misconfigured("the token is empty, or has characters that no header can carry")
        self._url = url.rstrip("/") + PREFIX
        self._headers = {"Authorization": f"Bearer {token}"}
        self._timeout_s = timeout_s

    def propose(
        self, *, kind: str, target: str, params: Mapping[str, JsonValue], reason: str, key: str
    ) -> Mapping[str, Any]:
        """Ask; `POST /actions`."""
        body = {"kind": kind, "target": target, "params": dict(params), "reason": reason, "idempotency_key": key}
        return self._sent("POST", "/actions", body)

    def claim(self, action_id: str) -> Mapping[str, Any]:
        """Take an authorisation up; `POST /actions/{id}/claim`."""
        return self._sent("POST", f"/actions/{quote(action_id, safe='')}/claim", {})

    def report(self, action_id: str, *, ok: bool, detail: str = "", code: str | None = None) -> Mapping[str, Any]:
        """Say how it ended; `POST /actions/{id}/result`."""
        body: dict[str, JsonValue] = {"ok": ok, "detail": detail}
        return self._sent(
            "POST", f"/actions/{quote(action_id, safe='')}/result", body | ({"code": code} if code else {})
        )

    def _sent(self, method: str, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            with (
                httpx2.Client(timeout=self._timeout_s, trust_env=False, follow_redirects=False) as client,
                client.stream(method, self._url + path, headers=self._headers, json=body) as answer,
            ):
                told = bytearray()
                for part in answer.iter_bytes():
                    told += part
                    if len(told) > ANSWER_BYTES_MAX:
                        raise Retryable("the plane answers with more than an answer")
                return _read(answer.status_code, bytes(told))
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError) as error:
            raise Retryable(f"the plane cannot be asked: {type(error).__name__}") from error


def _read(status: int, body: bytes) -> Mapping[str, Any]:
    try:
        told = _ANSWER.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Retryable(f"the plane answers with status {status}, and no JSON object") from error
    if status == 200:
        return told
    words, code = str(told.get("detail") or f"the plane answers with status {status}"), told.get("code")
    refusal = _ERRORS.get(status, Retryable)(words, hint=str(told.get("hint") or ""))
    if isinstance(code, str):
        refusal.code = code
    raise refusal
