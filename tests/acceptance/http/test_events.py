"""Events over HTTP: who may send, what is answered, and what a bad body does, which is nothing."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from fleetwarden.app.identity import Role
from fleetwarden.domain.identifiers import SECOND
from tests.acceptance.http.world import API, World
from tests.unit.events.bodies import alert, encoded, group, heartbeat

EVENTS_YML = """
version: 1
sources:
  house: {kind: grafana, hmac_files: [new.key, old.key]}
  timed: {kind: alertmanager, hmac_files: [new.key], timestamp_header: X-Time}
  pots: {kind: portainer}
  backups: {kind: generic, mapping: {subject: job.host, status: job.result, summary: job.text}}
"""


def sending(world: World) -> TestClient:
    return world.client(Role.INGEST)


def declared(world: World, folder: Path) -> None:
    (folder / "new.key").write_text("first secret\n")
    (folder / "old.key").write_text("second secret\n")
    (folder / "events.yml").write_text(EVENTS_YML)
    world.plane.tick("event_sources")
    assert world.plane.remedies.events.file.problems == ()


def signed(key: str, body: bytes) -> str:
    return hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


@pytest.mark.req("EVT-1", "EVT-2", "EVT-4", "PLB-4")
def test_an_alert_is_kept_answered_and_given_its_step(world: World) -> None:
    down = alert(labels={"service": "web", "token": "hunter2"})
    answer = sending(world).post("/events", json=group(down, alert(labels={"service": "nobody"}, fingerprint="ff")))
    assert answer.status_code == 202
    told = answer.json()
    first, second = told["events"]
    assert (told["accepted"], told["duplicates"]) == (2, 0)
    assert {key: first[key] for key in ("source", "severity", "subject", "service")} == {
        "source": "alertmanager",
        "severity": "critical",
        "subject": "web",
        "service": "web",
    }
    assert second["service"] is None
    look = world.client(Role.VIEWER)
    assert look.get(f"/work/{first['work_id']}").json()["kind"] == "fleet_event_triage"
    world.plane.tick("worker")
    kept = look.get(f"/events/{first['event_id']}").json()
    assert (kept["class"], kept["open"], kept["labels"]["token"]) == ("down", True, "***")
    assert kept["remediation_log"][0]["kind"] == "triage"
    again = sending(world).post("/events", json=group(down)).json()
    assert (again["accepted"], again["duplicates"]) == (0, 1)
    assert again["events"][0] == {**first, "work_id": None}
    over = sending(world).post("/events", json=group({**down, "status": "resolved", "endsAt": down["startsAt"]})).json()
    ended = look.get(f"/events/{first['event_id']}").json()
    assert (ended["open"], ended["ended_by"]) == (False, over["events"][0]["event_id"])
    listed = look.get("/events", params={"target": "web", "state": "firing"}).json()
    assert [one["id"] for one in listed["items"]] == [first["event_id"]]
    metrics = world.bare.get("/metrics", headers={"Authorization": f"Bearer {world.secrets[Role.VIEWER]}"}).text
    assert 'fleetwarden_events_accepted_total{severity="critical",source="alertmanager"} 2.0' in metrics


@pytest.mark.req("EVT-1")
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "malformed"),
        (b"no json", 400, "malformed"),
        (b"[1, 2]", 400, "malformed"),
        (encoded(group()), 400, "malformed"),
        (b'{"a": "\xff\xfe"}', 400, "malformed"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, 400, "malformed"),
        (encoded(group(*[{}] * 10_001)), 413, "too_large"),
        (b" " * (8 * 1024 * 1024 + 1), 413, "too_large"),
    ],
    ids=["empty", "no json", "a list", "no alerts", "not utf-8", "deep", "too many", "too large"],
)
def test_a_bad_body_is_refused_with_a_reason_and_changes_nothing(
    refusing: World, body: bytes, status: int, code: str
) -> None:
    answer = sending(refusing).post("/events", content=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["detail"]
    assert refusing.client(Role.VIEWER).get("/events").json()["items"] == []
    assert refusing.client(Role.VIEWER).get("/status").status_code == 200


@pytest.mark.req("RUN-3")
def test_who_sends_needs_a_token_with_the_role(refusing: World) -> None:
    body = encoded(group(alert()))
    assert refusing.bare.post(f"{API}/events", content=body).status_code == 401
    assert refusing.client_of("fw_wrong").post("/events", content=body).status_code == 401
    assert refusing.client_of("fw_wrong").post("/events", content=b" " * 100_000).status_code == 401
    assert refusing.client(Role.VIEWER).post("/events", content=body).status_code == 403
    assert refusing.client(Role.VIEWER).get("/events").json()["items"] == []


@pytest.mark.req("RUN-3", "RUN-14")
def test_two_keys_may_sign_and_nothing_else_opens(world: World, tmp_path: Path) -> None:
    declared(world, tmp_path)
    body = encoded(group(alert()))

    def send(signature: str | None, name: str = "house", **headers: str) -> int:
        given = {} if signature is None else {"X-Fleetwarden-Signature": signature}
        return world.bare.post(f"{API}/events/{name}", content=body, headers={**given, **headers}).status_code

    assert send(signed("first secret", body)) == 202
    assert send("sha256=" + signed("second secret", body).upper()) == 202
    assert send(signed("third secret", body)) == 401
    assert send(signed("first secret", body + b" ")) == 401
    assert send(signed("", body)) == 401
    assert send(None) == 401
    assert send(None, Authorization=f"Bearer {world.secrets[Role.ADMIN]}") == 401  # a signature is a must
    (tmp_path / "old.key").write_text("")
    assert send(signed("second secret", body)) == 401
    assert send(signed("", body)) == 401
    (tmp_path / "new.key").write_text("third secret")
    assert send(signed("third secret", body)) == 202


@pytest.mark.req("RUN-3")
def test_a_signed_time_has_to_be_about_now(world: World, tmp_path: Path) -> None:
    declared(world, tmp_path)
    body = encoded(group(alert()))

    def send(stamp: str) -> int:
        headers = {"X-Time": stamp, "X-Fleetwarden-Signature": signed("first secret", stamp.encode() + b":" + body)}
        return world.bare.post(f"{API}/events/timed", content=body, headers=headers).status_code

    now = world.clock.now() // SECOND
    assert [send(str(now)), send(str(now - 299)), send(str(now - 302)), send("soon"), send("")] == [
        202,
        202,
        401,
        401,
        401,
    ]


@pytest.mark.req("EVT-1")
def test_a_source_with_a_name_brings_its_kind_and_its_mapping(world: World, tmp_path: Path) -> None:
    declared(world, tmp_path)
    client = sending(world)

    def sent(path: str, body: Any) -> dict[str, Any]:
        [one] = client.post(path, json=body).json()["events"]
        found: dict[str, Any] = world.client(Role.VIEWER).get(f"/events/{one['event_id']}").json()
        return found

    assert sent("/events/pots", group(alert()))["source"] == "portainer"
    assert sent("/events/portainer", group(alert(fingerprint="f2")))["source"] == "portainer"
    assert sent("/events?source=portainer", group(alert(fingerprint="f3")))["source"] == "portainer"
    assert sent("/events/alertmanager", heartbeat())["source"] == "uptime-kuma"
    mapped = sent("/events/backups", {"job": {"host": "web", "result": "failed", "text": "no space"}, "subject": "x"})
    assert (mapped["source"], mapped["origin"], mapped["service"]) == ("backups", "backups", "web")
    assert (mapped["status"], mapped["state"], mapped["summary"]) == ("failed", "firing", "no space")
    assert client.post("/events?sorce=x", json=group(alert())).status_code == 400


@pytest.mark.req("EVT-1", "EVT-3")
def test_a_store_that_does_not_answer_is_a_503_that_may_come_again(world: World) -> None:
    body = group(alert())
    world.store.breaks_after(1)  # the token can still be read
    answer = sending(world).post("/events", json=body)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    world.store.breaks_after(None)
    assert sending(world).post("/events", json=body).json()["accepted"] == 1


@pytest.mark.req("EVT-1")
def test_old_events_are_forgotten_after_their_days(world: World) -> None:
    sending(world).post("/events", json=group(alert()))
    world.clock.advance(29 * 86_400)
    world.plane.tick("event_keeping")
    assert len(world.client(Role.VIEWER).get("/events").json()["items"]) == 1
    world.clock.advance(2 * 86_400)
    world.plane.tick("event_keeping")
    assert world.client(Role.VIEWER).get("/events").json()["items"] == []


@pytest.mark.parametrize("address", ["/events/", "/events/a/b", "/eventsa"])
def test_an_address_beside_that_of_events_takes_none(world: World, address: str) -> None:
    assert sending(world).post(address, json=group(alert())).status_code == 404
