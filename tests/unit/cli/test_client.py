"""The HTTP side, against real sockets: answers, refusals as errors, and what is said when nobody answers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from fleetwarden.cli.client import PlaneClient, Unreachable, as_error
from fleetwarden.domain import errors
from fleetwarden.domain.errors import FleetError, Misconfigured, OutcomeUnknown


class Desk(BaseHTTPRequestHandler):
    """Keeps what it was asked and answers what the test prepared."""

    asked: list[dict[str, Any]]
    status: int
    body: bytes
    silent: threading.Event | None

    def _take(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(length)
        self.asked.append(
            {
                "method": self.command,
                "path": self.path,
                "headers": dict(self.headers),
                "body": json.loads(sent or "null"),
            }
        )
        if self.silent is not None:
            self.silent.wait(10)
            return
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_GET = do_POST = do_DELETE = _take  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Quiet."""


class Plane:
    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        handler = type("Handler", (Desk,), {"asked": self.asked, "status": 200, "body": b"{}", "silent": None})
        self.handler: Any = handler
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def answers(self, status: int, body: object) -> None:
        self.handler.status = status
        self.handler.body = body if isinstance(body, bytes) else json.dumps(body).encode()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def plane() -> Iterator[Plane]:
    made = Plane()
    yield made
    made.close()


def test_a_question_goes_below_the_prefix_with_the_token_in_its_header_only(plane: Plane) -> None:
    plane.answers(200, {"items": []})
    client = PlaneClient(plane.url, "fw_secret")
    assert client.get("/decisions", {"target": "a b", "kind": None, "limit": 5}) == {"items": []}
    [asked] = plane.asked
    assert asked["path"] == "/api/fleet/decisions?target=a+b&limit=5"
    assert asked["headers"]["Authorization"] == "Bearer fw_secret"


def test_a_path_in_the_address_is_kept(plane: Plane) -> None:
    PlaneClient(plane.url + "/behind/a/proxy/", "").get("/status")
    assert plane.asked[0]["path"] == "/behind/a/proxy/api/fleet/status"
    assert "Authorization" not in plane.asked[0]["headers"]


def test_no_proxy_of_the_environment_sees_the_token(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert PlaneClient(plane.url, "fw_secret").get("/status") == {}


def test_a_change_sends_json(plane: Plane) -> None:
    plane.answers(202, {"running": []})
    assert PlaneClient(plane.url, "t").post("/shutdown", {"services": True}) == {"running": []}
    assert plane.asked[0]["body"] == {"services": True}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Misconfigured),
        (401, errors.Refused),
        (403, errors.Refused),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (413, Misconfigured),
        (503, errors.StoreUnavailable),
        (500, FleetError),
    ],
)
def test_a_refusal_is_the_error_that_it_would_have_been_here(plane: Plane, status: int, kind: type[FleetError]) -> None:
    plane.answers(status, {"title": "t", "detail": "what and why", "hint": "what to do", "code": "c"})
    with pytest.raises(kind) as caught:
        PlaneClient(plane.url, "t").get("/status")
    assert "what and why" in caught.value.message
    assert caught.value.hint == "what to do"


def test_findings_of_a_malformed_request_are_kept() -> None:
    body = {"detail": "d", "errors": [{"where": "for_s", "reason": "too long"}, "nonsense"]}
    error = as_error(400, body, "http://x")
    assert isinstance(error, Misconfigured)
    assert [str(one) for one in error.problems] == ["for_s  too long"]


def test_a_refused_batch_says_what_was_wrong_with_which_sample() -> None:
    one = {"index": 0, "code": "negative", "reason": "its value is -1, below 0"}
    error = as_error(409, {"errors": [one]}, "http://x")
    assert error.message == "its value is -1, below 0 (negative)"
    both = as_error(409, {"errors": [one, {**one, "index": 4, "code": "scope"}]}, "http://x")
    assert both.message == "its value is -1, below 0 (negative) at 0; its value is -1, below 0 (scope) at 4"


def test_an_unknown_token_says_how_to_get_another() -> None:
    error = as_error(401, {"detail": "no valid token"}, "http://x")
    assert "http://x does not know this token" in error.message
    assert "token create --local" in error.hint


def test_a_refusal_without_json_still_has_words(plane: Plane) -> None:
    plane.answers(502, b"<html>")
    with pytest.raises(FleetError, match="refused with status 502"):
        PlaneClient(plane.url, "t").get("/status")


def test_something_else_that_answers_is_called_no_plane(plane: Plane) -> None:
    plane.answers(200, b"<html>")
    with pytest.raises(FleetError, match="is no fleetwarden plane"):
        PlaneClient(plane.url, "t").get("/status")


def test_an_accepted_status_is_an_answer(plane: Plane) -> None:
    plane.answers(503, {"status": "partial"})
    answer = PlaneClient(plane.url, "t").ask("GET", "/health", accept=(503,))
    assert (answer.status, answer.body) == (503, {"status": "partial"})
    assert answer.at.tzinfo is not None


def test_nobody_there_is_said_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Unreachable, match=r"no plane answers at .*refused") as caught:
        PlaneClient(f"http://127.0.0.1:{port}", "t").get("/status")
    assert "fleetwarden up" in caught.value.hint


def test_a_lost_answer_to_a_change_is_an_unknown_outcome(plane: Plane) -> None:
    plane.handler.silent = threading.Event()
    client = PlaneClient(plane.url, "t", timeout_s=0.2)
    with pytest.raises(OutcomeUnknown, match="did not answer: no answer within"):
        client.post("/freeze", {"on": True})
    with pytest.raises(Unreachable, match="no answer within"):
        client.get("/status")
    plane.handler.silent.set()


@pytest.mark.parametrize("url", ["", "ftp://host", "http://", "http://host:port", "http://host:99999"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(Misconfigured, match="is no address of a plane"):
        PlaneClient(url, "t")


def test_a_bare_host_and_port_is_http() -> None:
    assert PlaneClient("127.0.0.1:8800", "t").url == "http://127.0.0.1:8800"
