"""Who may talk to a plane that listens beyond its own machine without TLS: its declared proxy, and nobody else.

The proxy ends TLS and says over which scheme a request came.  Nobody else is believed, and nobody else is answered:
past the proxy a token would travel in clear text.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import TypeAlias

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["BehindProxy", "Network"]

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class BehindProxy:
    """ASGI middleware.  `networks`: the addresses that the proxy may have; this machine itself always may."""

    def __init__(self, app: ASGIApp, networks: Sequence[Network]) -> None:
        self._app = app
        self._networks = tuple(networks)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse a peer that is not the proxy."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not self._allowed(scope):
            told = "this plane answers through its proxy only\n"
            await PlainTextResponse(told, 403, headers={"Cache-Control": "no-store"})(scope, receive, send)
            return
        told_schemes = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
        if told_schemes == [b"https"]:
            scope = {**scope, "scheme": "https"}
        await self._app(scope, receive, send)

    def _allowed(self, scope: Scope) -> bool:
        try:
            peer = ipaddress.ip_address((scope.get("client") or ("",))[0])
        except ValueError:
            return False
        if isinstance(peer, ipaddress.IPv6Address) and peer.ipv4_mapped is not None:
            peer = peer.ipv4_mapped
        return peer.is_loopback or any(peer in network for network in self._networks)
