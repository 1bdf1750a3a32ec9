"""Who is told what, messages and their fate, over HTTP; addresses and secrets are never part of an answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from fleetwarden.app.identity import Role
from fleetwarden.ports.stores import Tx
from tests.acceptance.http.world import World

SECRET = "CANARY" + "3" * 12


class Taker(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200 if "good" in self.path else 500)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Taker) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"json://user:{SECRET}@127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def world(tmp_path: Path, hook: str) -> Iterator[World]:
    (tmp_path / "good.url").write_text(f"{hook}/good")
    (tmp_path / "notify.yml").write_text(
        "version: 1\n"
        f"targets: {{good: {{url_file: good.url}}, bad: {{url: '{hook}/bad'}}}}\n"
        "routes: [{severity: critical, to: [good, bad]}]\n"
    )
    made = World(tmp_path)
    yield made
    made.close()


def tell(world: World) -> None:
    def write(tx: Tx) -> None:
        tx.journal.write(topic="notice", actor="gate", subject="web", severity="critical", summary="web is down")

    world.store.transact("tell", write)
    world.plane.tick("messages")


@pytest.mark.req("PLB-5", "RUN-14")
def test_what_was_sent_and_what_waits_can_be_seen_and_no_address(world: World) -> None:
    tell(world)
    client = world.client(Role.VIEWER)
    listed = client.get("/messages").json()["items"]
    assert {(one["target"], one["state"], one["attempts"]) for one in listed} == {
        ("good", "delivered", 1),
        ("bad", "waiting", 1),
    }
    [bad] = client.get("/messages", params={"target": "bad", "state": "waiting"}).json()["items"]
    assert bad["error"].startswith("bad did not take the message")
    assert client.get(f"/messages/{bad['id']}").json() == bad
    assert client.get("/messages", params={"state": "lost"}).status_code == 400
    overview = client.get("/notify").json()
    assert (overview["targets"], overview["problems"]) == (["bad", "good"], [])
    assert overview["routes"] == [{"group": None, "severity": ["critical"], "to": ["good", "bad"]}]
    metrics = world.bare.get("/metrics", headers={"Authorization": f"Bearer {world.secrets[Role.VIEWER]}"}).text
    assert 'fleetwarden_messages{state="delivered",target="good"} 1.0' in metrics
    assert 'fleetwarden_messages_oldest_waiting_seconds{target="bad"}' in metrics
    everything = [client.get(path).text for path in ("/messages", "/notify", "/status", "/journal", "/doctor")]
    assert SECRET not in "".join(everything) + metrics


@pytest.mark.req("PLB-5")
def test_a_test_message_says_what_became_of_it(world: World) -> None:
    client = world.client(Role.OPERATOR)
    assert client.post("/notify/test", json={"target": "good"}).json() == {
        "target": "good",
        "delivered": True,
        "error": None,
    }
    bad = client.post("/notify/test", json={"target": "bad"}).json()
    assert (bad["delivered"], "500" in bad["error"]) == (False, True)
    assert client.post("/notify/test", json={"target": "nobody"}).status_code == 404
    assert world.client(Role.VIEWER).post("/notify/test", json={"target": "good"}).status_code == 403


@pytest.mark.req("PLB-5", "REC-14")
def test_a_bad_file_is_a_warning_and_the_last_good_one_holds(world: World, tmp_path: Path) -> None:
    (tmp_path / "notify.yml").write_text("version: 1\nrouts: []\n")
    world.plane.tick("configuration")
    warnings = world.client(Role.VIEWER).get("/status").json()["warnings"]
    told = "notify.yml is rejected, the last good one stays in force: notify.yml:2  unknown key 'routs'"
    assert any(one.startswith(told) for one in warnings), warnings
    tell(world)
    assert len(world.client().get("/messages").json()["items"]) == 2
