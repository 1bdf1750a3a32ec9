"""The server on a real socket: one address, one port, and an end that lets answers finish."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from fleetwarden.app.identity import Role
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.web import server
from tests.acceptance.http.world import API, World

PATIENCE_S = 30


class Served:
    """A world that is served on a thread until it is told to end."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.url = ""
        self.ends = threading.Event()
        self.ending = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)

    def _run(self) -> None:
        server.serve(
            self.world.plane,
            host="127.0.0.1",
            port=0,
            on_ready=self._on_ready,
            on_shutdown=self.ending.set,
            ends=self.ends,
        )

    def _on_ready(self, url: str) -> None:
        self.url = url
        self._ready.set()

    def has_ended(self) -> bool:
        self._thread.join(PATIENCE_S)
        return not self._thread.is_alive()

    def client(self) -> httpx2.Client:
        token = self.world.secrets[Role.ADMIN]
        return httpx2.Client(base_url=self.url, headers={"Authorization": f"Bearer {token}"}, trust_env=False)


@pytest.fixture
def served(world: World) -> Iterator[Served]:
    made = Served(world)
    yield made
    made.ends.set()
    assert made.has_ended()


def test_port_0_takes_a_free_port_and_says_which(served: Served) -> None:
    assert not served.url.endswith(":0")
    with served.client() as client:
        assert client.get("/livez").json() == {"status": "alive"}
        assert client.get(f"{API}/status").status_code == 200


def test_a_large_body_is_refused_and_the_refusal_arrives(served: Served) -> None:
    with served.client() as client:
        for content in (b" " * 3_000_000, (b" " * 10_000 for _ in range(300))):
            answer = client.post(f"{API}/freeze", content=content)
            assert answer.status_code == 413
        assert client.get(f"{API}/freeze").json()["frozen"] is False


@pytest.mark.parametrize("token", [True, False])
def test_a_refusal_arrives_where_the_sender_closes_the_connection_too(served: Served, token: bool) -> None:
    host, port = served.url.removeprefix("http://").split(":")
    headers = {"Connection": "close"}
    if token:
        headers["Authorization"] = f"Bearer {served.world.secrets[Role.ADMIN]}"
    for _ in range(3):
        asking = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)
        with contextlib.closing(asking):
            asking.request("POST", f"{API}/freeze", body=b" " * 20_000_000, headers=headers)
            assert asking.getresponse().status == (413 if token else 401)


IN_CHUNKS = b"POST /login HTTP/1.1\r\nHost: x\r\nOrigin: http://x\r\nTransfer-Encoding: chunked\r\n"
NO_REQUESTS = {
    "no HTTP": b"\x00\x01\x02\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "a head without end": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
    "an address without end": b"GET /" + b"y" * 400_000,
    "a name without end": b"GET / HTTP/1.1\r\nHost: x\r\n" + b"y" * 400_000,
    "headers without end": b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: yyyyyyyyyy\r\n" * 10_000,
    "a method that HTTP does not know": b"NONE / HTTP/1.1\r\nHost: x\r\n\r\n",
    "two hosts": b"GET /livez HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "a length beside chunks": IN_CHUNKS + b"Content-Length: 3\r\n\r\n0\r\n\r\n",
    "a chunk's extension without end": IN_CHUNKS + b"\r\n1;y=" + b"y" * 400_000,
    "lines after the body without end": IN_CHUNKS + b"\r\n0\r\n" + b"X: yyyyyyyyyy\r\n" * 10_000,
    "a line after the body without end": IN_CHUNKS + b"\r\n0\r\nX: " + b"y" * 400_000,
    "a negative length": b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "chunks that are none": b"POST /login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}


@pytest.mark.parametrize("sent", NO_REQUESTS.values(), ids=NO_REQUESTS)
def test_what_is_no_request_is_refused_and_the_server_goes_on(served: Served, sent: bytes) -> None:
    assert exchange(served, sent)[:12] in {b"HTTP/1.1 400", b""}  # or the connection ends
    with served.client() as client:
        assert client.get("/livez").status_code == 200


def test_bytes_that_are_no_text_are_an_address_that_does_not_exist(served: Served) -> None:
    sent = b"GET /%ff%fe?%ff HTTP/1.1\r\nHost: x\r\nCookie: \xff=\xfe\r\n\r\n"
    assert exchange(served, sent)[:12] == b"HTTP/1.1 404"


def exchange(served: Served, sent: bytes) -> bytes:
    """The begin of the answer, empty if there is none."""
    host, port = served.url.removeprefix("http://").split(":")
    with (
        contextlib.suppress(ConnectionError),
        socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection,
    ):
        connection.sendall(sent)
        return connection.recv(100)
    return b""


def test_post_shutdown_answers_and_then_ends_the_server(served: Served) -> None:
    with served.client() as client:
        answer = client.post(f"{API}/shutdown", json={"services": False, "reason": "over"})
    assert answer.json()["ending"] is True
    assert served.has_ended()
    assert served.ending.is_set()
    with pytest.raises(httpx2.ConnectError), served.client() as client:
        client.get("/livez")


def test_a_request_that_is_open_when_the_end_begins_gets_its_answer(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, go_on = threading.Event(), threading.Event()
    ask = served.world.plane.fleet.status

    def slowly(*given: object) -> object:
        inside.set()
        assert go_on.wait(PATIENCE_S)
        return ask(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(served.world.plane.fleet, "status", slowly)
    answers: list[int] = []

    def request() -> None:
        with served.client() as client:
            answers.append(client.get(f"{API}/status", timeout=PATIENCE_S).status_code)

    asking = threading.Thread(target=request)
    asking.start()
    assert inside.wait(PATIENCE_S)
    served.ends.set()
    assert served.ending.wait(PATIENCE_S)
    go_on.set()
    asking.join(PATIENCE_S)
    assert answers == [200]


def test_a_port_in_use_is_refused_with_what_to_do(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Misconfigured) as refusal:
            server.serve(world.plane, host="127.0.0.1", port=port, on_ready=lambda _: None)
    assert f"port {port} on 127.0.0.1 is in use" in refusal.value.message
    assert "--port" in refusal.value.hint


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "8.8.8.8", "example.org", "", "127.0.0.1.example.org"])
def test_an_address_beyond_this_machine_is_refused_and_not_listened_on(host: str) -> None:
    with pytest.raises(Misconfigured) as refusal:
        server.bind(host, 0)
    assert "TLS" in refusal.value.message
    assert "FLEET_HTTP_HOST" in refusal.value.hint


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "127.0.0.2"])
def test_every_name_of_this_machine_is_listened_on(host: str) -> None:
    with server.bind(host, 0) as listening:
        assert server.url_of(listening).startswith("http://127.0.0.")


def test_an_answer_is_not_held_back_until_its_head_is_acknowledged() -> None:
    async def accepted_without_delay() -> bool:
        seen: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            own = writer.get_extra_info("socket")
            seen.set_result(bool(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
            writer.close()

        listening = server.bind("127.0.0.1", 0)
        port = listening.getsockname()[1]
        async with await asyncio.start_server(accept, sock=listening):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            answer = await seen
            writer.close()
            return answer

    assert asyncio.run(accepted_without_delay())


def test_an_ipv6_address_stands_in_brackets() -> None:
    class Listening:
        def getsockname(self) -> tuple[str, int, int, int]:
            return "::1", 8800, 0, 0

    assert server.url_of(Listening()) == "http://[::1]:8800"  # type: ignore[arg-type]


MAIN = """
import pathlib, sys
from fleetwarden.web import server
from tests.acceptance.http.world import World
world = World(pathlib.Path(sys.argv[1]))
server.serve(world.plane, host="127.0.0.1", port=0, on_ready=lambda url: print(url, flush=True),
             on_shutdown=lambda: print("ending", flush=True))
world.close()
print("closed", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_and_leaves_the_rest_to_its_owner(tmp_path: Path, number: signal.Signals) -> None:
    root = Path(__file__).resolve().parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, str(tmp_path)], cwd=root, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = read_until(process.stdout.readline, "http://")
        assert httpx2.get(f"{url}/livez", trust_env=False).status_code == 200
        process.send_signal(number)
        rest = process.stdout.read()
        assert process.wait(PATIENCE_S) == 0
    assert rest.split() == ["ending", "closed"]


def read_until(line: Callable[[], str], head: str) -> str:
    while said := line():
        if said.startswith(head):
            return said.strip()
    raise AssertionError("it ended before it said where it listens")
