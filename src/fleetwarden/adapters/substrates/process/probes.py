"""Asking an instance how it is: one HTTP request, one connection, or one command, each within its time.

A probe's timeout bounds the whole of it, not each read: a server that sends a byte a second has not answered.  That is
why the HTTP probe is a few lines on a socket and no client library, whose timeouts start over with every byte, and
which would follow redirects and proxies.  Probes run on daemon threads of a bounded pool, so that one that hangs in the
kernel can hold neither a pass nor the end of the plane.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Lock, Thread
from urllib.parse import urlsplit

from fleetwarden.adapters.substrates.process.health import Probed

__all__ = ["ProbePool", "command_probe", "http_probe", "tcp_probe"]

# Faults of this machine or of the declaration, not of the instance that was to be asked.
_NOT_ASKED = frozenset(
    getattr(errno, name)
    for name in ("EMFILE", "ENFILE", "ENOMEM", "ENOBUFS", "EAGAIN", "EACCES", "EPERM", "EADDRNOTAVAIL")
)
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?:[ \r]|$)")
_INTERIM = re.compile(rb"HTTP/1\.[01] 1[0-9][0-9]")
_ANSWER_BYTES_MAX = 65536


class _Clockwork:
    """Time left of one probe."""

    def __init__(self, timeout_s: float) -> None:
        self._end = time.monotonic() + timeout_s

    def left(self) -> float:
        """Seconds; raises TimeoutError when there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def http_probe(url: str, timeout_s: float) -> Probed:
    """GET, well if the final status is 200 to 399.  A redirect is an answer like any other; it is not followed."""
    clockwork = _Clockwork(timeout_s)
    try:
        parts = urlsplit(url)
        secure, host = parts.scheme == "https", parts.hostname or ""
        port = parts.port or (443 if secure else 80)
        with _connected((host, port), clockwork) as plain:
            if not secure:
                return _http_status(_exchange(plain, parts.netloc, parts.path, parts.query, clockwork))
            plain.settimeout(clockwork.left())
            with ssl.create_default_context().wrap_socket(plain, server_hostname=host) as wrapped:
                return _http_status(_exchange(wrapped, parts.netloc, parts.path, parts.query, clockwork))
    except TimeoutError:
        return Probed(False, f"no answer within {timeout_s:g} s")
    except (OSError, ValueError) as error:
        return _failed(error)


def tcp_probe(port: int, timeout_s: float) -> Probed:
    """Well if 127.0.0.1 accepts a connection on that port."""
    try:
        with _connected(("127.0.0.1", port), _Clockwork(timeout_s)):
            return Probed(True, f"port {port} accepts")
    except TimeoutError:
        return Probed(False, f"port {port} did not accept within {timeout_s:g} s")
    except (OSError, OverflowError) as error:
        return _failed(error, f"port {port}: ")


def command_probe(argv: Sequence[str], cwd: str, environment: Mapping[str, str], timeout_s: float) -> Probed:
    """Well if the command exits with 0 in time.  It runs in a session of its own, all of which ends with the probe."""
    try:
        process = subprocess.Popen(  # noqa: S603 - the registry declares the command
            argv,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return Probed(None, f"the health command could not be run: {_because(error)}")
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # our own child, not waited for yet: the number is still its
        process.wait()
        return Probed(False, f"health command took longer than {timeout_s:g} s")
    return Probed(code == 0, f"health command exited with {code}")


class ProbePool:
    """Runs probes on at most `size` daemon threads, started as they are needed."""

    def __init__(self, size: int) -> None:
        assert 1 <= size <= 256
        self._size = size
        self._jobs: SimpleQueue[tuple[Callable[[], Probed], Future[Probed]] | None] = SimpleQueue()
        self._lock = Lock()
        self._threads = 0
        self._open = 0  # jobs that have not ended
        self._closed = False

    def submit(self, probe: Callable[[], Probed]) -> Future[Probed]:
        """Run it when a thread is free.  The future holds its answer; cancelled if the pool is closed before."""
        future: Future[Probed] = Future()
        with self._lock:
            if self._closed:
                future.cancel()
                return future
            self._jobs.put((probe, future))
            self._open += 1
            if self._threads < min(self._open, self._size):
                self._threads += 1
                Thread(target=self._run, name="health-probe", daemon=True).start()
        return future

    def close(self) -> None:
        """Begin no further probe; those that run end by their own timeouts."""
        with self._lock:
            self._closed = True
            for _ in range(self._threads):
                self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            probe, future = job
            if self._closed:
                future.cancel()
            elif future.set_running_or_notify_cancel():
                try:
                    future.set_result(probe())
                except Exception as error:  # noqa: BLE001 - the asker hears of it; the thread must serve the next one
                    future.set_exception(error)
            with self._lock:
                self._open -= 1


def _connected(address: tuple[str, int], clockwork: _Clockwork) -> socket.socket:
    connection = socket.create_connection(address, timeout=clockwork.left())
    if connection.getsockname() == connection.getpeername():
        # Nobody listens, and the kernel chose the very port as our own: we are talking to ourselves.
        connection.close()
        raise ConnectionRefusedError("connection refused")
    return connection


def _exchange(connection: socket.socket, netloc: str, path: str, query: str, clockwork: _Clockwork) -> bytes:
    """Ask, and read until the final status line is there."""
    target = (path or "/") + (f"?{query}" if query else "")
    host = netloc.rpartition("@")[2]
    request = (
        f"GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: fleetwarden\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    )
    connection.settimeout(clockwork.left())
    connection.sendall(request.encode("utf-8"))
    answer = b""
    while True:
        line, ended, _ = answer.partition(b"\n")
        interim = _INTERIM.match(line) is not None  # "100 Continue" and its like: the answer is yet to come
        if (ended and not interim) or len(answer) >= _ANSWER_BYTES_MAX:
            return line
        if interim and b"\r\n\r\n" in answer:
            answer = answer.partition(b"\r\n\r\n")[2]
            continue
        connection.settimeout(clockwork.left())
        part = connection.recv(4096)
        if not part:
            return line
        answer += part


def _http_status(line: bytes) -> Probed:
    found = _STATUS_LINE.match(line)
    if found is None:
        return Probed(False, "the answer is not HTTP" if line else "the connection was closed without an answer")
    status = int(found[1])
    return Probed(200 <= status <= 399, f"HTTP {status}")


def _failed(error: Exception, what: str = "") -> Probed:
    """A failed probe, or one that could not even be made."""
    said = isinstance(error, ssl.SSLError)  # its error numbers are a language of their own
    not_asked = not said and (
        not isinstance(error, OSError) or isinstance(error, socket.gaierror) or error.errno in _NOT_ASKED
    )
    return Probed(None if not_asked else False, what + _because(error))


def _because(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
