"""One question to an instance, bounded as a whole: HTTP, TCP, a command."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleetwarden.adapters.substrates.process.health import Probed
from fleetwarden.adapters.substrates.process.probes import ProbePool, command_probe, http_probe, tcp_probe
from tests.unit.process.yard import eventually, free_ports, lives

ENV = {"PATH": "/usr/bin:/bin"}


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serves connections with `answer` until the test is over."""
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    answer(connection)
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def saying(body: bytes) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(body)

    return answer


@pytest.mark.parametrize(
    ("answer", "ok", "detail"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True, "HTTP 200"),
        (b"HTTP/1.0 204 No Content\r\n\r\n", True, "HTTP 204"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\n\r\n", True, "HTTP 302"),
        (b"HTTP/1.1 399 Odd\r\n\r\n", True, "HTTP 399"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False, "HTTP 400"),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", False, "HTTP 503"),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
            True,
            "HTTP 200",
        ),
        (b"HTTP/1.1 200", True, "HTTP 200"),  # closed right after: it has answered
        (b"SSH-2.0-OpenSSH\r\n", False, "the answer is not HTTP"),
        (b"HTTP/1.1 2000 OK\r\n", False, "the answer is not HTTP"),
        (b"\0" * 100_000, False, "the answer is not HTTP"),
        (b"", False, "the connection was closed without an answer"),
    ],
)
def test_an_http_probe_is_judged_by_the_final_status(answer: bytes, ok: bool, detail: str) -> None:
    with server(saying(answer)) as port:
        assert http_probe(f"http://127.0.0.1:{port}/healthz?full=1", 5.0) == Probed(ok, detail)


def test_an_http_probe_asks_for_the_declared_path_and_host() -> None:
    asked: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        asked.append(connection.recv(4096))
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

    with server(answer) as port:
        assert http_probe(f"http://user:pw@127.0.0.1:{port}/a/b?c=d#e", 5.0).ok
    assert asked[0].startswith(f"GET /a/b?c=d HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n".encode())


def test_a_server_that_sends_a_byte_at_a_time_has_not_answered() -> None:
    def drip(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"H")
            time.sleep(0.02)

    with server(drip) as port:
        assert http_probe(f"http://127.0.0.1:{port}/", 0.3) == Probed(False, "no answer within 0.3 s")


def test_a_port_where_nobody_listens_is_a_failed_probe() -> None:
    port = free_ports()
    assert http_probe(f"http://127.0.0.1:{port}/", 5.0) == Probed(False, "connection refused")
    assert tcp_probe(port, 5.0) == Probed(False, f"port {port}: connection refused")


def test_a_probe_that_reaches_itself_has_reached_nobody(monkeypatch) -> None:
    """In the range that the kernel gives out, a connection's own port can happen to be the one that it asks for."""
    port, connect = free_ports(), socket.create_connection

    def from_the_same_port(address, timeout):
        return connect(address, timeout, source_address=("127.0.0.1", port))

    monkeypatch.setattr(socket, "create_connection", from_the_same_port)
    assert tcp_probe(port, 5.0) == Probed(False, f"port {port}: connection refused")


def test_a_port_that_accepts_is_well() -> None:
    with server(saying(b"")) as port:
        assert tcp_probe(port, 5.0) == Probed(True, f"port {port} accepts")


@pytest.mark.parametrize("url", ["http://no-such-host.invalid/", "http://127.0.0.1:99999/", "http://[::1/"])
def test_a_question_that_cannot_be_asked_says_nothing_about_the_instance(url: str) -> None:
    assert http_probe(url, 5.0).ok is None


def test_a_server_that_speaks_no_tls_is_a_failed_probe() -> None:
    with server(saying(b"HTTP/1.1 200 OK\r\n\r\n")) as port:
        probed = http_probe(f"https://127.0.0.1:{port}/", 5.0)
    assert (probed.ok, "wrong version" in probed.detail) == (False, True)


@pytest.mark.parametrize(("command", "ok"), [(("true",), True), (("false",), False), (("sh", "-c", "exit 3"), False)])
def test_a_health_command_is_well_if_it_exits_with_0(tmp_path: Path, command: tuple[str, ...], ok: bool) -> None:
    assert command_probe(command, str(tmp_path), ENV, 10.0).ok is ok


def test_a_health_command_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    command = ("sh", "-c", "sleep 600 & echo $! > child; wait")
    probed = command_probe(command, str(tmp_path), ENV, 0.5)
    assert probed == Probed(False, "health command took longer than 0.5 s")
    child = int((tmp_path / "child").read_text())
    eventually(lambda: not lives(child), "the child of the health command has ended")


@pytest.mark.parametrize("command", [("no-such-command",), ("/dev/null",)])
def test_a_health_command_that_cannot_be_run_says_nothing_about_the_instance(tmp_path: Path, command) -> None:
    assert command_probe(command, str(tmp_path), ENV, 5.0).ok is None


def test_probes_run_side_by_side_up_to_the_size_of_the_pool() -> None:
    pool, meet = ProbePool(4), threading.Barrier(4)

    def probe() -> Probed:
        meet.wait(10)  # passes only once four run at the same time
        return Probed(True, "")

    futures = [pool.submit(probe) for _ in range(4)]
    assert [future.result(10).ok for future in futures] == [True] * 4
    pool.close()


def test_a_pool_never_runs_more_than_its_size() -> None:
    pool, lock, running, most = ProbePool(3), threading.Lock(), 0, 0

    def probe() -> Probed:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1
        return Probed(True, "")

    for future in [pool.submit(probe) for _ in range(30)]:
        future.result(10)
    pool.close()
    assert most <= 3


def test_a_probe_that_raises_is_told_to_whoever_asked_and_the_pool_goes_on() -> None:
    pool = ProbePool(1)

    def broken() -> Probed:
        raise RuntimeError("broken probe")

    with pytest.raises(RuntimeError, match="broken probe"):
        pool.submit(broken).result(10)
    assert pool.submit(lambda: Probed(True, "")).result(10).ok
    pool.close()
    assert pool.submit(broken).cancelled()
