"""HTTP on the wire: the fast parser, with the bounds that it lacks.

The parser keeps what it has not understood yet for as long as a sender goes on, and takes a request that names no host
or two.  Here a head has a largest size, whatever arrives without an end (a head, the extension of a chunk, what follows
a body) has the same, and a request of HTTP/1.1 names one host.  What does not hold to it gets a 400 and the end of its
connection.
"""

from __future__ import annotations

from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["HEAD_BYTES_MAX", "Wire"]

HEAD_BYTES_MAX: Final = 64 * 1024
AROUND_A_HEADER: Final = 4  # bytes: a colon, a blank and the end of the line
HOST: Final = b"host"


class _Unbounded(ValueError):
    """A head that is too large, or names no host or two."""


class Wire(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._kept_bytes = 0  # that arrived since the parser last understood something

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
