"""HTTP on the wire: the fast parser, with the bounds that it lacks.

The parser keeps what it has not understood yet for as long as a sender goes on, and takes a request that names no host
or two.  Here a head has a largest size, whatever arrives without an end (a head, the extension of a chunk, what follows
a body) has the same, and a request of HTTP/1.1 names one host.  What does not hold to it gets a 400 and the end of its
connection.

The server writes the head of an answer and its body one after the other, and each would be a call of the system, which
gives every other thread its turn.  What is written in one turn of the loop goes out together.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["HEAD_BYTES_MAX", "Joined", "Wire"]

HEAD_BYTES_MAX: Final = 64 * 1024
AROUND_A_HEADER: Final = 4  # bytes: a colon, a blank and the end of the line
HOST: Final = b"host"


class _Unbounded(ValueError):
    """A head that is too large, or names no host or two."""


class Joined:
    """A transport that keeps what is written until the next write, and no longer than to the loop's next turn."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._kept: bytes | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write it, or keep it for the next."""
        if self._kept is None:
            self._kept = data
            self._loop.call_soon(self.flush)
            return
        kept, self._kept = self._kept, None
        self._transport.write(kept + data)

    def flush(self) -> None:
        """Write what is kept."""
        if self._kept is not None:
            kept, self._kept = self._kept, None
            self._transport.write(kept)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Another protocol goes on here; it comes after what was written."""
        self.flush()
        self._transport.set_protocol(protocol)

    def close(self) -> None:
        """Close it behind what was written."""
        self.flush()
        self._transport.close()


class Wire(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._kept_bytes = 0  # that arrived since the parser last understood something

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """A connection."""
        super().connection_made(Joined(transport, self.loop))  # type: ignore[arg-type]  # it answers for all the rest

    def data_received(self, data: bytes) -> None:
        """What arrived."""
        self._kept_bytes += len(data)
        super().data_received(data)
        if self._kept_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response("Invalid HTTP request received.")

    def on_message_begin(self) -> None:
        """A request begins."""
        self._head_bytes = self._kept_bytes = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, or one line after a body in chunks.  What is raised here makes the parser refuse the request."""
        self._kept_bytes = 0
        self._head_bytes += len(name) + len(value) + AROUND_A_HEADER
        if self._head_bytes > HEAD_BYTES_MAX:
            raise _Unbounded
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is there.  Raises as `on_header` does."""
        self._kept_bytes = 0
        if self.parser.get_http_version() == "1.1" and sum(name == HOST for name, _ in self.headers) != 1:
            raise _Unbounded
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._kept_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._kept_bytes = 0
        super().on_message_complete()
