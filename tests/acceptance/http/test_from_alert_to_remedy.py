"""A sender posts what it saw; the service is looked at, decided on, restarted, watched, and the alert closes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetwarden.app.identity import Role
from fleetwarden.domain.actions import Tier
from fleetwarden.testing import a_service
from tests.acceptance.http.world import World

ALERTMANAGER: dict[str, Any] = {
    "version": "4",
    "status": "firing",
    "alerts": [
        {
            "status": "firing",
            "labels": {"alertname": "ProbeFailed", "service": "shop", "severity": "critical"},
            "annotations": {"summary": "shop does not answer"},
            "startsAt": "2026-12-02T10:00:00Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "fingerprint": "c0ffee",
        }
    ],
}
KUMA = {
    "heartbeat": {"monitorID": 7, "status": 0, "time": "2026-12-02 10:00:00.000", "msg": "timeout", "important": True},
    "monitor": {"id": 7, "name": "shop", "url": "http://shop.example/"},
    "msg": "[shop] is down",
}
GRAFANA = {
    "receiver": "plane", "status": "firing", "orgId": 1, "version": "1", "title": "[FIRING:1]", "state": "alerting",
    "alerts": [
        {
            "status": "firing",
            "labels": {"alertname": "shop down", "service": "shop", "severity": "critical"},
            "annotations": {"summary": "shop does not answer"},
            "startsAt": "2026-12-02T10:00:00Z",
            "fingerprint": "beef",
        }
    ],
}  # fmt: skip
PORTAINER: dict[str, Any] = {
    **ALERTMANAGER,
    "receiver": "portainer",
    "alerts": [
        {
            "status": "firing",
            "labels": {"alertname": "ContainerDown", "container_name": "shop", "severity": "critical"},
            "annotations": {"summary": "the container is down"},
            "startsAt": "2026-12-02T10:00:00Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "fingerprint": "feed",
        }
    ],
}
GENERIC = {"service": "shop", "severity": "critical", "status": "down", "summary": "shop does not answer"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """`shop` runs and was seen; everything is allowed."""
    made = World(tmp_path, a_service("shop"), tier=Tier.AUTO)
    made.substrate.boot("shop")
    made.clock.advance(1)
    yield made
    made.close()


def answered(world: World, event: str) -> dict[str, Any]:
    """The event once its playbook waits for the watch, or has ended."""
    for _ in range(8):
        for tick in ("worker", "action_executor", "fleet_reconciler"):
            world.plane.tick(tick)
        world.clock.advance(2)
    found: dict[str, Any] = world.client(Role.VIEWER).get(f"/events/{event}").json()
    return found


@pytest.mark.req("EVT-1", "EVT-2", "PLB-1")
@pytest.mark.parametrize("body", [ALERTMANAGER, KUMA, GRAFANA, PORTAINER, GENERIC])
def test_what_a_sender_says_is_down_is_restarted_once_by_the_playbook(world: World, body: dict[str, Any]) -> None:
    world.substrate.crash("shop", 0)
    sender = world.client(Role.INGEST)
    told = sender.post("/events", json=body)
    assert told.status_code == 202, told.text
    [event] = told.json()["events"]
    assert event["service"] == "shop"
    again = sender.post("/events", json=body).json()
    assert (again["accepted"], again["duplicates"]) == (0, 1)
    found = answered(world, event["event_id"])
    steps = [one["kind"] for one in found["remediation_log"]]
    assert steps[:3] == ["triage", "confirm", "decide"]
    calls = [one for one in world.substrate.log if one.what == "called"]
    assert len(calls) == 1
    assert found["remediation_status"] in ("running", "succeeded", "recovered")


@pytest.mark.req("PLB-1", "EVT-5")
def test_a_service_that_is_well_is_left_alone_and_the_end_closes_the_alert(world: World) -> None:
    sender = world.client(Role.INGEST)
    [event] = sender.post("/events", json=ALERTMANAGER).json()["events"]
    assert answered(world, event["event_id"])["remediation_status"] == "recovered"
    [alert] = ALERTMANAGER["alerts"]
    over = {**alert, "status": "resolved", "endsAt": "2026-12-02T10:05:00Z"}
    [end] = sender.post("/events", json={**ALERTMANAGER, "status": "resolved", "alerts": [over]}).json()["events"]
    assert answered(world, end["event_id"])["remediation_status"] == "resolved"
    assert [one for one in world.substrate.log if one.what == "called"] == []
