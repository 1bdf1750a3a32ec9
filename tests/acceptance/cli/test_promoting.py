"""A promotion pipeline in a process of its own, beside a plane in another: asked over HTTP, granted at a terminal."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from fleetwarden.domain.errors import Misconfigured, Refused, Retryable
from fleetwarden.promotion import ActionsOverHttp, GovernedAutoMerger, MergeState
from tests.acceptance.cli.world import World


class Page(BaseHTTPRequestHandler):
    """A proxy's answer: 200, and a page for people."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>come again</html>")

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def page() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.req("POL-11", "POL-20", "RUN-16")
def test_a_pipeline_merges_what_a_person_has_granted(world: World) -> None:
    plane = world.up()
    secret = world.run("token", "create", "pipeline", "--role", "operator").lines[1].strip()
    made: list[Any] = []

    def merge(target: str, params: Mapping[str, Any]) -> str:
        made.append((target, params["revision"]))
        return "merged"

    merger = GovernedAutoMerger(ActionsOverHttp(plane.url, secret), merge)

    def promote() -> Any:
        return merger.promote("model-7", {"revision": "1a2b"}, reason="tests are green")

    asked = promote()
    assert (asked.state, made) == (MergeState.WAITING, []), asked
    world.run("token", "create", "ada", "--role", "approver")
    granted = world.run("approvals", "grant", asked.approval_id, "--reason", "looked")
    assert granted.code == 0, granted.err
    assert (promote().state, promote().state, made) == (MergeState.MERGED, MergeState.MERGED, [("model-7", "1a2b")])
    shown = world.run("approvals", "show", asked.approval_id)
    assert "carried out" in shown.out


@pytest.mark.req("POL-11", "POL-20")
def test_whatever_is_no_answer_is_no_yes(world: World) -> None:
    plane = world.up()
    none = GovernedAutoMerger(ActionsOverHttp(plane.url, "fw_wrong"), lambda *_: pytest.fail("merged"))
    told = none.promote("model-7", {}, reason="tests are green")
    assert (told.state, "token" in told.reason) == (MergeState.BLOCKED, True)
    nobody = GovernedAutoMerger(ActionsOverHttp("http://127.0.0.1:9", "fw_x"), lambda *_: pytest.fail("merged"))
    assert nobody.promote("model-7", {}, reason="green").reason.startswith("nobody could be asked")
    with pytest.raises(Refused, match="token"):
        ActionsOverHttp(plane.url, "fw_wrong").claim("D-1")
    with page() as url, pytest.raises(Retryable, match="no JSON object"):
        ActionsOverHttp(url, "fw_x").claim("D-1")
    for wrong in (("ftp://x", "t"), (plane.url, ""), (plane.url, "ü")):
        with pytest.raises(Misconfigured):
            ActionsOverHttp(*wrong)


@pytest.mark.req("POL-11", "POL-20")
def test_what_the_plane_cannot_use_is_a_refusal_that_says_why(world: World) -> None:
    plane = world.up()
    secret = world.run("token", "create", "pipeline", "--role", "operator").lines[1].strip()
    way = ActionsOverHttp(plane.url, secret)
    with pytest.raises(Misconfigured, match="reason") as malformed:
        way.propose(kind="merge_promotion", target="model-7", params={}, reason="", key="k")
    assert malformed.value.code == "malformed"
    with pytest.raises(Misconfigured) as large:
        way.propose(kind="merge_promotion", target="model-7", params={"a": "x" * 300_000}, reason="r", key="k")
    assert large.value.code == "too_large"
    told = GovernedAutoMerger(way, lambda *_: pytest.fail("merged")).promote("model-7", {}, reason="")
    assert (told.state, "reason" in told.reason) == (MergeState.BLOCKED, True)


@pytest.mark.req("POL-20")
def test_a_person_claims_and_reports_at_a_terminal(world: World) -> None:
    world.up()
    own = ("--token", world.run("token", "create", "bob", "--role", "operator").lines[1].strip())
    asked = world.json("action", "propose", "cut_over", "dns", "--own", "--reason", "the move", "--json", *own)
    ours = world.run("action", "propose", "restart", "web", "--own", "--reason", "x", *own)
    assert (ours.code, "leave out --own" in ours.err) == (2, True), ours
    early = world.run("action", "claim", asked["action_id"], *own)
    assert (early.code, "waits for an answer" in early.err) == (1, True), early.err
    assert world.run("approvals", "grant", asked["approval_id"], "--reason", "looked").code == 0
    claimed = world.run("action", "claim", asked["action_id"], *own)
    assert (claimed.code, "cut_over dns" in claimed.out) == (0, True), claimed.err
    told = world.json("action", "result", asked["action_id"], "--failed", "--code", "no_route", "--json", *own)
    assert (told["state"], told["code"], told["ok"]) == ("failed", "no_route", False)
    again = world.run("action", "result", asked["action_id"], *own)
    assert (again.code, "has ended already" in again.err) == (1, True)
    said = world.run("action", "propose", "cut_over", "mail", "--own", "--reason", "the move", *own)
    named = said.lines[0].split("(")[1].split(")")[0].split(", ")
    assert len(set(named)) == len(named) == 2, said.out  # the decision is the action: it is named once
    assert said.lines[-1].endswith(f"action claim {named[0]}  once it is granted"), said.out
    other = world.json("action", "propose", "cut_over", "dns", "--own", "--reason", "x", "--key", "k", "--json", *own)
    assert world.run("approvals", "reject", other["approval_id"], "--reason", "no").code == 0
    waited = world.run(
        "action", "propose", "cut_over", "dns", "--own", "--reason", "x", "--key", "k", "--wait", "--json", *own
    )
    assert (waited.code, json.loads(waited.out)["action"]["state"]) == (1, "rejected"), waited
