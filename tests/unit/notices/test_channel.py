"""The way out, with the real library: web hooks and mail to servers on loopback, refusals, what must not be said."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from fleetwarden.adapters import messages
from fleetwarden.adapters.deadlines import DeadlineChannel, DeadlineNotifier
from fleetwarden.adapters.messages import AppriseChannel, _Listening, library_problem
from fleetwarden.adapters.system import SystemClock
from fleetwarden.domain.errors import Misconfigured, Retryable
from fleetwarden.domain.notify_file import Target
from fleetwarden.ports.notices import Message
from fleetwarden.ports.system import Notice, Notifier

MESSAGE = Message(severity="critical", title="[critical] web is down", body="web is down\nsince noon <b>")
SECRET = "CANARY" + "5" * 12


def no_plugin(name: str) -> Notifier:
    raise Misconfigured(f"no {name}")


class Hook(HTTPServer):
    """Keeps what it is sent, and answers `status`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taker)
        self.got: list[dict[str, Any]] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"json://user:{SECRET}@127.0.0.1:{self.server_port}/{SECRET}"


class _Taker(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append(json.loads(body))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class _Mail(socketserver.StreamRequestHandler):
    """As much of SMTP as a client needs to leave one mail."""

    got: list[str]

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        lines: list[str] = []
        inside = False
        while line := self.rfile.readline().decode():
            if inside and line == ".\r\n":
                inside = False
                self.got.append("".join(lines))
                self.wfile.write(b"250 taken\r\n")
            elif inside:
                lines.append(line)
            elif line.upper().startswith("DATA"):
                inside = True
                self.wfile.write(b"354 go on\r\n")
            elif line.upper().startswith("QUIT"):
                self.wfile.write(b"221 bye\r\n")
                return
            else:
                self.wfile.write(b"250 fine\r\n")


@pytest.fixture
def hook() -> Iterator[Hook]:
    server = Hook()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.req("PLB-5")
def test_a_web_hook_gets_the_words_as_they_are_and_its_address_from_a_file(hook: Hook, tmp_path: Path) -> None:
    channel = AppriseChannel(tmp_path, no_plugin)
    (tmp_path / "hook.url").write_text(hook.url + "\n")
    target = Target(name="oncall", url_file="hook.url")
    channel.send(target, MESSAGE)
    [got] = hook.got
    assert (got["title"], got["message"], got["type"]) == (MESSAGE.title, MESSAGE.body, "failure")
    (tmp_path / "hook.url").write_text("one\ntwo\n")
    with pytest.raises(Misconfigured, match="has to hold one line"):
        channel.send(target, MESSAGE)
    (tmp_path / "hook.url").unlink()
    with pytest.raises(Misconfigured, match=r"oncall cannot be read: .*hook.url: No such file"):
        channel.send(target, MESSAGE)


@pytest.mark.req("PLB-5")
def test_mail_goes_out(tmp_path: Path) -> None:
    got: list[str] = []
    handler = type("Mail", (_Mail,), {"got": got})
    with socketserver.TCPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        port = server.server_address[1]
        url = f"mailto://127.0.0.1:{port}?mode=insecure&from=plane@example.org&to=team@example.org"
        AppriseChannel(tmp_path, no_plugin).send(Target(name="mail", url=url), MESSAGE)
    [mail] = got
    assert "team@example.org" in mail
    assert "web is down" in mail


@pytest.mark.req("PLB-5", "RUN-14")
@pytest.mark.parametrize("what", ["refused", "nowhere", "no form"])
def test_a_failure_says_why_and_never_where(
    hook: Hook, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, what: str
) -> None:
    hook.status = 500
    urls = {
        "refused": hook.url,
        "nowhere": f"json://user:{SECRET}@127.0.0.1:1/{SECRET}",
        "no form": f"nosuchservice://{SECRET}/x",
    }
    with pytest.raises((Retryable, Misconfigured)) as caught:
        AppriseChannel(tmp_path, no_plugin).send(Target(name="oncall", url=urls[what]), MESSAGE)
    assert "oncall" in str(caught.value)
    printed = capsys.readouterr()
    assert SECRET not in str(caught.value) + printed.out + printed.err + caplog.text
    if what == "refused":
        assert "500" in str(caught.value)


@pytest.mark.req("RUN-14")
def test_words_of_the_library_are_not_taken_while_several_messages_are_on_their_way(hook: Hook, tmp_path: Path) -> None:
    hook.status = 500
    channel, target = AppriseChannel(tmp_path, no_plugin), Target(name="oncall", url=hook.url)
    with _Listening(messages._library()) as other, pytest.raises(Retryable) as caught:
        channel.send(target, MESSAGE)
    assert (str(caught.value), other.told("x1://elsewhere")) == ("oncall did not take the message", "")


@pytest.mark.req("PLB-5")
def test_a_missing_library_is_said_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert library_problem() == ""
    monkeypatch.setattr(messages, "_LIBRARY", "no_such_library_here")
    assert "pip install 'fleetwarden[notify]'" in library_problem()
    with pytest.raises(Misconfigured, match="is not installed"):
        AppriseChannel(tmp_path, no_plugin).send(Target(name="oncall", url="json://127.0.0.1:1"), MESSAGE)


class Hanging:
    """A channel and a notifier that answers only when it is let."""

    name = "hanging"

    def __init__(self) -> None:
        self.let = threading.Event()
        self.begun = 0

    def send(self, target: Target, _: Message) -> None:
        self.begun += 1
        if target.name == "hangs":
            self.let.wait()

    def notify(self, _: Notice) -> bool:
        self.begun += 1
        return self.let.wait()


@pytest.mark.req("PLB-5")
def test_a_target_that_hangs_is_given_up_costs_two_threads_and_hinders_nobody_else() -> None:
    inner = Hanging()
    channel = DeadlineChannel(SystemClock(), inner, bound_s=0.01)
    hangs, other = Target(name="hangs", url="x1://y"), Target(name="other", url="x1://y")
    for _ in range(2):
        with pytest.raises(Retryable, match="did not answer within"):
            channel.send(hangs, MESSAGE)
    with pytest.raises(Retryable, match="2 messages hanging"):
        channel.send(hangs, MESSAGE)
    DeadlineChannel(SystemClock(), inner, bound_s=30).send(other, MESSAGE)
    assert inner.begun == 3
    inner.let.set()


@pytest.mark.req("PLB-5")
def test_a_notifier_that_hangs_is_not_asked_again_until_it_came_back() -> None:
    inner = Hanging()
    notifier = DeadlineNotifier(SystemClock(), inner, bound_s=0.01)
    notice = Notice(severity="info", subject="", summary="told")
    assert [notifier.notify(notice) for _ in range(3)] == [False, False, False]
    assert inner.begun == 1
    inner.let.set()
    assert notifier._hanging is not None
    assert notifier._hanging.done.wait(30)
    assert DeadlineNotifier(SystemClock(), inner, bound_s=30).notify(notice)
