"""What the lists and single records answer: newest first, page by page, filtered, complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetwarden.domain.actions import Tier
from fleetwarden.domain.fleet import DesiredState, Mode
from fleetwarden.testing import a_policy, a_service
from fleetwarden.testing.substrate import Delivery
from tests.acceptance.http.world import API, World


def busy(folder: Path) -> World:
    """A fleet in which much has happened: decisions of each verdict, actions of each end."""
    services = [a_service(name) for name in ("web", "worker", "lost")]
    world = World(
        folder, *services, a_service("dry", mode=Mode.DRY_RUN), a_service("idle", desired=DesiredState.STOPPED)
    )
    for name in ("web", "worker", "lost", "dry"):
        world.substrate.boot(name)
    world.configuration.declare(policy=a_policy(Tier.AUTO))
    world.look()
    world.substrate.crash("worker", 0)
    world.clock.advance(60)
    world.look()
    for name in ("web", "dry"):
        world.substrate.crash(name, 0)
    world.clock.advance(60)
    world.look()
    world.substrate._deliver = lambda call: Delivery(lands=False)
    world.substrate.crash("lost", 0)
    world.clock.advance(60)
    world.look()
    world.configuration.declare(policy=a_policy(Tier.APPROVAL_REQUIRED))
    world.substrate.crash("worker", 0)
    world.clock.advance(60)
    world.look()
    return world


@pytest.fixture
def lived(tmp_path: Path):
    world = busy(tmp_path)
    yield world
    world.close()


@pytest.mark.parametrize("topic", ["decisions", "executions", "actions", "journal"])
def test_a_list_is_newest_first_and_its_pages_hold_each_item_once(lived: World, topic: str) -> None:
    client = lived.client()
    whole = client.get(f"/{topic}", params={"limit": 500}).json()["items"]
    assert len(whole) > 3
    assert [one["at"] for one in whole] == sorted((one["at"] for one in whole), reverse=True)
    paged, cursor = [], None
    for _ in range(len(whole) + 2):
        query = {"limit": 2} | ({} if cursor is None else {"cursor": cursor})
        page = client.get(f"/{topic}", params=query).json()
        assert len(page["items"]) <= 2
        paged += page["items"]
        cursor = page["next"]
        if cursor is None:
            break
    assert paged == whole


@pytest.mark.parametrize(
    ("address", "field", "value"),
    [
        ("/decisions?target=web", "target", "web"),
        ("/decisions?kind=restart_service", "kind", "restart_service"),
        ("/decisions?state=queue_approval", "verdict", "queue_approval"),
        ("/executions?state=simulated", "state", "simulated"),
        ("/actions?state=succeeded", "state", "succeeded"),
        ("/approvals?status=pending", "status", "pending"),
        ("/approvals?state=pending", "status", "pending"),
        ("/journal?kind=token", "kind", "token"),
        ("/work?target=web", "target", "web"),
    ],
)
def test_a_filter_leaves_what_it_names_and_nothing_else(lived: World, address: str, field: str, value: str) -> None:
    client = lived.client()
    items = client.get(address).json()["items"]
    everything = client.get(address.partition("?")[0], params={"limit": 500}).json()["items"]
    assert items == [one for one in everything if one[field] == value]
    if field != "target" or "/work" not in address:
        assert items


def test_since_includes_its_moment_in_whatever_zone_it_is_written(lived: World) -> None:
    client = lived.client()
    everything = client.get("/decisions", params={"limit": 500}).json()["items"]
    moment = everything[1]["at"]
    assert client.get("/decisions", params={"since": moment}).json()["items"] == everything[:2]
    hour = int(moment[11:13])
    elsewhere = f"{moment[:11]}{hour + 2:02}{moment[13:-1]}+02:00"
    assert client.get("/decisions", params={"since": elsewhere}).json()["items"] == everything[:2]


@pytest.mark.parametrize(
    "topic", ["approvals", "decisions", "executions", "actions", "work", "reports", "freezes", "journal"]
)
def test_every_id_of_a_list_can_be_given_back(lived: World, topic: str) -> None:
    client = lived.client()
    client.post("/freeze", json={"on": True})
    client.post("/freeze", json={"on": False})
    items = client.get(f"/{topic}").json()["items"]
    for item in items:
        one = client.get(f"/{topic}/{item['id']}")
        assert one.status_code == 200
        assert one.json()["id"] == item["id"]
    if topic != "work":
        assert items


def test_an_execution_shows_how_its_outcome_became_known(lived: World) -> None:
    client = lived.client()
    [unknown] = client.get("/executions", params={"target": "lost", "state": "recovery_pending"}).json()["items"]
    shown = client.get(f"/executions/{unknown['id']}").json()
    assert shown["history"][0]["state"] == "recovery_pending"
    assert shown["history"][-1]["state"] == shown["state"]


def test_a_service_shows_what_is_declared_seen_decided_and_open(lived: World) -> None:
    client = lived.client()
    by_name = {one["name"]: one for one in client.get("/services").json()["items"]}
    assert list(by_name) == sorted(by_name)
    assert by_name["web"]["status"] == "up"
    assert by_name["web"]["last_action"]["state"] == "executed"
    assert by_name["worker"]["approval"]["status"] == "pending"
    assert by_name["dry"]["last_action"]["dry_run"] is True
    assert by_name["idle"]["desired"]["state"] == "stopped"
    assert client.get("/services/web").json() | {"at": ""} == by_name["web"] | {"at": ""}
    assert client.get("/services/none").status_code == 404


@pytest.mark.req("OBS-1")
def test_what_could_not_be_seen_is_unknown_and_never_down(world: World) -> None:
    world.substrate.boot("web", 2)
    world.substrate.hidden.add("web")
    world.look()
    seen = world.client().get("/services/web").json()
    assert seen["status"] == "unknown"
    assert seen["observed"] is None


def test_explain_names_the_rule_the_numbers_the_evidence_and_what_would_change_it(world: World) -> None:
    world.ask_for_restart()
    told = world.client().get("/services/web/explain").json()
    assert told["verdict"] == "queue_approval"
    assert told["decision"]["id"] == "D-1"
    assert told["decision"]["source"]
    assert {one["limit"] for one in told["limits"]} >= {"rate", "blast"}
    assert told["evidence"][0]["status"] == "degraded"
    assert "approvals grant A-1" in told["would_change_if"][0]
    assert world.client().get("/services/none/explain").status_code == 404


def test_status_says_what_is_on_off_and_waiting(world: World) -> None:
    world.ask_for_restart()
    told = world.client().get("/status").json()
    assert (told["services_total"], told["approvals_waiting"]) == (1, 1)
    assert told["services_by_status"]["degraded"] == 1
    assert (told["reconciler"], told["autoscaler"]) == ("on", "off")
    assert told["freezes"] == []


def test_every_time_is_rfc_3339_in_utc(lived: World) -> None:
    def times(value: object) -> list[str]:
        if isinstance(value, dict):
            own = [one for key, one in value.items() if key == "at" or key.endswith(("_at", "until", "since"))]
            return [one for one in own if isinstance(one, str)] + [x for one in value.values() for x in times(one)]
        return [x for one in value for x in times(one)] if isinstance(value, list) else []

    for address in ("/status", "/decisions", "/actions", "/executions", "/approvals", "/health"):
        found = times(lived.client().get(address).json())
        assert found
        assert all(one.endswith("Z") and one[10] == "T" for one in found), address


def test_head_answers_like_get_without_a_body(world: World) -> None:
    client = world.client()
    for address in ("/status", "/services/none", "/approvals"):
        got, head = client.get(address), client.head(address)
        assert head.content == b""
        assert head.status_code == got.status_code
        assert head.headers["content-type"] == got.headers["content-type"]
        assert head.headers["content-length"] == str(len(got.content))


@pytest.mark.parametrize(
    "address", [f"{API}/status", f"{API}/nope", "/", "/livez", "/static/page.css", "/api/openapi.json"]
)
def test_no_answer_is_kept_sniffed_or_framed(refusing: World, address: str) -> None:
    headers = refusing.bare.get(address).headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "script" not in headers["content-security-policy"]
