"""Refusals that arrive: what is left of a body is taken off the wire before a connection is closed.

A request may be refused before its body was read.  Where its connection ends with the answer, closing it while the
sender still sends resets it, and the sender sees a broken connection instead of the reason.  So the answer is sent, the
rest of the body is thrown away, within bounds, and then the connection ends.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["TakesTheRest"]

REST_MAX: Final = 256 * 1024 * 1024
REST_S: Final = 10.0


class TakesTheRest:
    """ASGI middleware on a real server.  `most`: bytes that are thrown away; `wait_s`: how long that may take."""

    def __init__(self, app: ASGIApp, *, most: int = REST_MAX, wait_s: float = REST_S) -> None:
        self._app = app
        self._most = most
        self._wait_s = wait_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or not _ends_with_its_answer(scope):
            await self._app(scope, receive, send)
            return
        there = False

        async def receiving() -> Message:
            nonlocal there
            message = await receive()
            there = there or message["type"] != "http.request" or not message.get("more_body", False)
            return message

        async def sending(message: Message) -> None:
            last = message["type"] == "http.response.body" and not message.get("more_body", False)
            if not last or there:
                await send(message)
                return
            await send({**message, "more_body": True})
            await self._throw_away(receive)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self._app(scope, receiving, sending)

    async def _throw_away(self, receive: Receive) -> None:
        taken = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._wait_s):
                while taken < self._most:
                    message = await receive()
                    taken += len(message.get("body", b""))
                    if message["type"] != "http.request" or not message.get("more_body", False):
                        return


def _ends_with_its_answer(scope: Scope) -> bool:
    """Whether the connection is closed after the answer, by a sender that does not wait for leave to send its body."""
    headers = Headers(scope=scope)
    closes = scope.get("http_version") == "1.0" or "close" in headers.get("connection", "").lower()
    return closes and "expect" not in headers
