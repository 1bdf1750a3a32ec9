"""The outermost layer: what holds for every answer, whatever route made it, and for every fault.

Answers are never stored by anybody on the way, never sniffed, never framed, and run no script.  HEAD is GET without
the body.  Nothing that breaks inside gets out as a trace.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleetwarden.web.problems import answer_to_unexpected

__all__ = ["HEADERS", "Guard"]

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # not no-referrer: a form would then name its origin as "null"
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


class Guard:
    """ASGI middleware around everything."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answering(send, bare=scope["method"] == "HEAD")
        inner: MutableMapping[str, Any] = {**scope, "method": "GET"} if answer.bare else scope
        try:
            await self._app(inner, receive, answer)
        except Exception as error:
            if answer.begun:
                raise
            await answer_to_unexpected(scope["method"], scope["path"], error)(scope, receive, answer)


class _Answering:
    """Passes an answer on with the headers that every answer has, and without its body where none is wanted."""

    def __init__(self, send: Send, *, bare: bool) -> None:
        self._send = send
        self.bare = bare
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            there = {name for name, _ in message["headers"]}
            message["headers"] = [*message["headers"], *(one for one in _HEADERS if one[0] not in there)]
        elif self.bare and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await self._send(message)
