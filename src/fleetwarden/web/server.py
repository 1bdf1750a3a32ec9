"""Listening: one address of this machine, one application, and an end that lets answers finish.

The port is bound before anything is served, so that a port in use is a clear refusal and port 0 has a number to
report.  Beyond loopback it needs TLS, or a declared proxy that ends it: else a token would travel in clear text.
Nothing is logged per request; what changed the fleet is in the ledger.  Signals only ask for the end: what a plane does
then is its owner's business.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import uvicorn
from starlette.types import ASGIApp

from fleetwarden.domain.errors import Misconfigured
from fleetwarden.web.application import create_app
from fleetwarden.web.plane import ServedPlane
from fleetwarden.web.proxy import BehindProxy
from fleetwarden.web.unread import TakesTheRest
from fleetwarden.web.wire import Wire

__all__ = ["Beyond", "bind", "serve", "url_of"]

BACKLOG = 256
CONCURRENT_MAX = 512  # connections; past it 503
KEEP_ALIVE_S = 5
DRAIN_S = 10
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Beyond(NamedTuple):
    """What makes it safe to listen beyond loopback: a certificate chain with its key, or the proxy's addresses."""

    certificate: Path | None = None
    key: Path | None = None
    proxy: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.certificate is not None or bool(self.proxy)


def bind(host: str, port: int, beyond: Beyond = Beyond()) -> socket.socket:  # noqa: B008 -- it cannot be changed
    """A socket that listens soon.  `port` 0 takes one that is free.

    Raises Misconfigured: beyond loopback without TLS and proxy, port in use or not allowed, no such address.
    """
    address = _address(host, beyond)
    # Said to be TCP, or asyncio would leave Nagle's algorithm on and every answer would wait 40 ms for its second half.
    listening = socket.socket(
        socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port of a plane that has just ended is free
        listening.bind((address, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise _refused(address, port, error) from error
    return listening


def _address(host: str, beyond: Beyond) -> str:
    if host.lower() == "localhost":
        return "127.0.0.1"
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        address = None
    if address is None or not (address.is_loopback or beyond):
        raise Misconfigured(
            f"the API cannot listen on {host}: beyond this machine it needs an address, and TLS or a declared proxy",
            hint="FLEET_HTTP_TLS_CERT_FILE and FLEET_HTTP_TLS_KEY_FILE, or FLEET_HTTP_PROXY; "
            "or FLEET_HTTP_HOST=127.0.0.1 and a tunnel",
        )
    return str(address)


def _refused(address: str, port: int, error: OSError) -> Misconfigured:
    if error.errno == errno.EADDRINUSE:
        return Misconfigured(
            f"port {port} on {address} is in use already",
            hint=f"something else holds it (ss -ltnp shows what); FLEET_HTTP_PORT={port + 50} in the environment, or "
            "--port N, takes another, 0 any that is free",
        )
    if error.errno == errno.EACCES:
        return Misconfigured(f"port {port} on {address} is not allowed for this user", hint="take one above 1023")
    return Misconfigured(f"the API cannot listen on {address} port {port}: {error.strerror}")


def url_of(listening: socket.socket, *, secure: bool = False) -> str:
    """The address that a browser on this machine opens."""
    host, port = listening.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    scheme = "https" if secure else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def serve(
    plane: ServedPlane,
    *,
    host: str,
    port: int,
    on_ready: Callable[[str], None],
    on_shutdown: Callable[[], None] = lambda: None,
    ends: threading.Event | None = None,
    beyond: Beyond = Beyond(),  # noqa: B008 -- it cannot be changed
) -> None:
    """Serve `plane` until SIGINT, SIGTERM, `POST /shutdown` or `ends`, then let open requests finish (at most 10 s).

    `on_ready` gets the URL once it answers; `on_shutdown` is called once, when the end begins.  In the main thread
    signals are taken meanwhile and given back afterwards, not raised again: the caller stops the plane.  A second
    SIGINT gives up on open requests.  Raises Misconfigured as `bind` does, before anything is served.
    """
    listening = bind(host, port, beyond)
    with contextlib.closing(listening):
        _Server(plane, listening, on_ready, on_shutdown, ends or threading.Event(), beyond).run(sockets=[listening])


def _application(plane: ServedPlane, ends: threading.Event, beyond: Beyond) -> ASGIApp:
    app: ASGIApp = TakesTheRest(create_app(plane, on_shutdown=ends.set))
    if not beyond.proxy:
        return app
    return BehindProxy(app, [ipaddress.ip_network(one, strict=False) for one in beyond.proxy])


class _Server(uvicorn.Server):
    """One server, which ends for one of several reasons and says so once."""

    def __init__(
        self,
        plane: ServedPlane,
        listening: socket.socket,
        on_ready: Callable[[str], None],
        on_shutdown: Callable[[], None],
        ends: threading.Event,
        beyond: Beyond,
    ) -> None:
        self._url = url_of(listening, secure=beyond.certificate is not None)
        self._on_ready = on_ready
        self._on_shutdown = on_shutdown
        self._ends = ends
        config = uvicorn.Config(
            _application(plane, ends, beyond),
            ssl_certfile=beyond.certificate,
            ssl_keyfile=beyond.key,
            loop="asyncio",
            http=Wire,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            limit_concurrency=CONCURRENT_MAX,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=DRAIN_S,
        )
        try:
            config.load()  # reads the certificate: before anything is served
        except (OSError, ValueError) as error:
            raise Misconfigured(f"the TLS certificate or its key cannot be used: {error}") from error
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and say so."""
        await super().startup(sockets)
        self._on_ready(self._url)

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: whether to end."""
        if self._ends.is_set():
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell the owner, then let open requests finish."""
        self._on_shutdown()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals while serving, and give them back without raising them again."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
