"""Freezing, settling, policy overrides, tokens, health and the end of a plane, as an operator meets them over HTTP."""

from __future__ import annotations

import json

import pytest
import structlog

from fleetwarden.app.identity import Role
from fleetwarden.domain.actions import Tier
from fleetwarden.testing import a_policy
from fleetwarden.testing.substrate import Delivery
from tests.acceptance.http.world import API, World


@pytest.mark.req("POL-12")
def test_a_freeze_names_owner_reason_and_end_and_stops_what_policy_allows(world: World) -> None:
    world.configuration.declare(policy=a_policy(Tier.AUTO))
    world.substrate.boot("web", 2)
    operator = world.client(Role.OPERATOR)
    answer = operator.post("/freeze", json={"on": True, "reason": "lunch", "for_s": 7200})
    [freeze] = answer.json()["freezes"]
    assert (freeze["owner"], freeze["reason"]) == ("operator-person", "lunch")
    assert freeze["until"] > freeze["at"]
    world.substrate.crash("web", 0)
    world.look()
    assert world.called() == []
    assert operator.get("/services/web").json()["freeze"]
    assert operator.post("/freeze", json={"on": False, "reason": "back"}).json()["frozen"] is False
    world.clock.advance(60)
    world.look()
    assert world.called() == ["restart_service web"]


@pytest.mark.req("POL-12")
def test_a_freeze_names_what_is_in_flight(world: World) -> None:
    told: list[list[str]] = []

    def during(call: object) -> Delivery:
        told.append(world.client().post("/freeze", json={"on": True}).json()["in_flight"])
        return Delivery()

    world.configuration.declare(policy=a_policy(Tier.AUTO))
    world.substrate.boot("web", 2)
    world.substrate._deliver = during
    world.substrate.crash("web", 0)
    world.look()
    assert told == [["X-1"]]


@pytest.mark.req("POL-12")
def test_a_freeze_file_shows_and_is_not_lifted_by_a_command(world: World) -> None:
    world.configuration.freeze("/srv/FREEZE")
    client = world.client()
    assert client.get("/freeze").json()["freeze_file"] == "/srv/FREEZE"
    assert client.post("/freeze", json={"on": False}).json()["frozen"] is True


@pytest.fixture
def unknown(world: World) -> str:
    """The id of an action whose answer was lost; nobody can see the service."""
    world.configuration.declare(policy=a_policy(Tier.AUTO))
    world.substrate.boot("web", 2)
    world.substrate._deliver = lambda call: Delivery(lands=False)
    world.substrate.crash("web", 0)
    world.look()
    world.substrate.hidden.add("web")
    [one] = world.client().get("/recover").json()["items"]
    return str(one["id"])


def test_an_unknown_outcome_is_listed_and_settled_by_a_person_with_a_reason(world: World, unknown: str) -> None:
    world.clock.advance(600)
    operator = world.client(Role.OPERATOR)
    body = {"as": "succeeded", "reason": "I looked: it runs"}
    settled = operator.post(f"/recover/{unknown}", json=body).json()
    assert (settled["state"], settled["settled_by"]) == ("succeeded", "operator-person")
    assert operator.get("/recover").json()["items"] == []
    again = operator.post(f"/recover/{unknown}", json=body)
    assert again.status_code == 409


@pytest.mark.req("PRO-7")
def test_nobody_can_call_it_failed_while_it_may_still_happen(world: World, unknown: str) -> None:
    answer = world.client().post(f"/recover/{unknown}", json={"as": "failed", "reason": "too slow for me"})
    assert answer.status_code == 409
    assert world.client().get(f"/actions/{unknown}").json()["state"] == "recovery_pending"


@pytest.mark.parametrize(
    "body",
    [
        {"as": "succeeded"},
        {"as": "succeeded", "reason": ""},
        {"as": "succeeded", "reason": "  "},
        {"as": "simulated", "reason": "x"},
        {"reason": "x"},
    ],
    ids=str,
)
def test_a_settlement_without_outcome_or_reason_settles_nothing(world: World, unknown: str, body: dict) -> None:
    assert world.client().post(f"/recover/{unknown}", json=body).status_code == 400
    assert world.client().get(f"/actions/{unknown}").json()["state"] == "recovery_pending"


@pytest.mark.req("POL-4")
def test_an_override_holds_for_the_next_decision_and_is_journalled(world: World) -> None:
    admin = world.client()
    rule = {"kind": "restart_service", "target": "web", "tier": "auto"}
    assert admin.put("/policy/overrides/hurry", json={"rule": rule}).status_code == 200
    assert admin.get("/policy/overrides/hurry").json()["rule"] == rule
    assert [one["id"] for one in admin.get("/policy").json()["overrides"]] == ["hurry"]
    world.substrate.boot("web", 2)
    world.substrate.crash("web", 0)
    world.look()
    assert world.called() == ["restart_service web"]
    assert admin.get("/decisions?target=web").json()["items"][0]["rule_source"] == "override:hurry"
    assert admin.delete("/policy/overrides/hurry").status_code == 204
    assert admin.get("/policy/overrides/hurry").status_code == 404
    assert len(admin.get("/journal?kind=override").json()["items"]) == 2


RULE = {"kind": "restart_service", "target": "web", "tier": "auto", "final": False}
RECORD = {"type": "governance_rule", "scope": "action_policy"}


@pytest.mark.req("POL-19")
@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize(
    "body",
    [{"rule": RULE}, RULE, RECORD | RULE, RECORD | {"rule_json": RULE}, {"rule_json": json.dumps(RULE)}],
    ids=str,
)
def test_an_override_may_be_flat_or_hold_its_rule_as_a_payload(world: World, body: dict, active: bool) -> None:
    admin = world.client()
    assert admin.put("/policy/overrides/hurry", json=body | {"active": active}).status_code == 200
    stored = admin.get("/policy/overrides/hurry").json()
    assert (stored["rule"], stored["active"]) == (RULE, active)


@pytest.mark.req("POL-19")
@pytest.mark.parametrize(
    "body",
    [
        RULE | {"rule": RULE},
        {"rule": RULE, "rule_json": RULE},
        {"rule_json": "[]"},
        {"rule_json": "{"},
        {"scope": "other_policy", **RULE},
        {"rule": RULE | {"active": False}},
        {"active": False, "tier": "auto"},
        {},
    ],
    ids=str,
)
def test_an_override_that_is_not_one_rule_in_one_place_is_refused(world: World, body: dict) -> None:
    assert world.client().put("/policy/overrides/bad", json=body).status_code == 400
    assert world.client().get("/policy").json()["overrides"] == []


@pytest.mark.parametrize(
    "rule",
    [
        {},
        {"kind": "restart_service", "target": "web"},
        {"kind": "restart_service", "target": "web", "tier": "atuo"},
        {"kind": "restart_service", "target": "web", "tier": "auto", "rate_limit": {"max": -1, "window_s": 60}},
        {"kind": "restart_service", "target": "web", "tier": "auto", "maintenance_window": "25:99-30:00"},
        {"kind": "restart_service", "target": "web", "teir": "auto"},
    ],
    ids=str,
)
def test_an_invalid_override_is_refused_with_its_reasons_and_not_written(world: World, rule: dict) -> None:
    answer = world.client().put("/policy/overrides/bad", json={"rule": rule})
    assert answer.status_code == 400
    assert answer.json()["errors"]
    assert world.client().get("/policy").json()["overrides"] == []


def test_the_policy_is_one_object_in_the_files_own_shape(world: World) -> None:
    told = world.client(Role.VIEWER).get("/policy").json()
    assert told["source"] == "policy.yml"
    assert told["digest"].startswith("sha256:")
    assert told["defaults"]["tier"] == "approval_required"
    assert told["error"] is None


@pytest.mark.req("RUN-3")
def test_a_new_token_works_its_secret_is_shown_once_and_is_nowhere_else(world: World) -> None:
    admin = world.client()
    made = admin.post("/tokens", json={"name": "grafana", "roles": ["viewer"], "person": "wall screen"})
    assert made.status_code == 201
    secret = made.json()["secret"]
    assert secret.startswith("fw_")
    assert world.client_of(secret).get("/status").status_code == 200
    for address in ("/tokens", "/journal"):
        assert secret not in admin.get(address).text
    assert admin.post("/tokens", json={"name": "grafana", "roles": ["viewer"]}).status_code == 409


def test_the_last_admin_token_cannot_be_revoked(world: World) -> None:
    assert world.client().delete("/tokens/admin").status_code == 409
    assert world.client().get("/tokens").status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x", "roles": []},
        {"name": "x", "roles": ["boss"]},
        {"name": "x", "roles": "viewer"},
        {"name": "", "roles": ["viewer"]},
        {"name": "a/b", "roles": ["viewer"]},
        {"name": "x" * 64, "roles": ["viewer"]},
        {"name": "x", "roles": ["viewer"], "for_s": 0},
    ],
    ids=str,
)
def test_a_token_without_a_name_or_a_known_role_is_not_made(world: World, body: dict) -> None:
    before = world.client().get("/tokens").json()
    assert world.client().post("/tokens", json=body).status_code == 400
    assert world.client().get("/tokens").json() == before


@pytest.mark.req("HLT-1")
def test_health_is_a_200_only_while_it_is_healthy(world: World) -> None:
    world.substrate.boot("web", 2)
    world.look()
    healthy = world.client(Role.INGEST).get("/health")
    assert (healthy.status_code, healthy.json()["status"]) == (200, "healthy")
    assert healthy.headers["cache-control"] == "no-store"
    world.substrate.failing = "the socket is gone"
    world.clock.advance(60)
    world.look()
    blind = world.client(Role.INGEST).get("/health")
    assert blind.status_code == 503
    assert blind.json()["schema_version"] == "fleet.health.v1"
    assert blind.json()["convergence_ready"] is False
    assert world.bare.get("/livez").status_code == 200
    assert world.bare.get("/readyz").status_code == 503


@pytest.mark.req("RUN-3")
def test_ending_the_plane_is_asked_for_by_an_admin_written_down_and_then_done(world: World) -> None:
    answer = world.client().post("/shutdown", json={"services": False, "reason": "new kernel"})
    assert (answer.status_code, answer.json()["ending"]) == (202, True)
    assert world.ended.is_set()
    [line] = world.client().get("/journal?kind=shutdown").json()["items"]
    assert line["actor"] == "admin-person"
    assert "new kernel" in line["summary"]


def test_stopping_the_services_leaves_the_plane_up(world: World) -> None:
    answer = world.client().post("/shutdown", json={"services": True, "reason": "new kernel"})
    assert (answer.status_code, answer.json()["ending"]) == (202, False)
    assert not world.ended.is_set()


@pytest.mark.parametrize("body", [{}, {"services": "no"}, {"services": None}, {"service": False}], ids=str)
def test_a_shutdown_that_does_not_say_what_to_stop_stops_nothing(world: World, body: dict) -> None:
    assert world.client().post("/shutdown", json=body).status_code == 400
    assert not world.ended.is_set()


def test_probes_are_open_and_say_nothing_but_yes_or_no(world: World) -> None:
    world.look()
    assert world.bare.get("/livez").json() == {"status": "alive"}
    assert world.bare.get("/readyz").json()["status"] == "ready"


def test_what_breaks_inside_is_a_500_that_tells_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> None:
        raise RuntimeError("the secret of the inside")

    monkeypatch.setattr(world.plane.fleet, "services", breaks)
    with structlog.testing.capture_logs() as lines:
        answer = world.client().get("/services")
    assert answer.status_code == 500
    assert [str(one["exc_info"]) for one in lines] == ["the secret of the inside"]
    assert answer.json()["code"] == "internal"
    assert "inside" not in answer.text
    assert "Traceback" not in answer.text
    assert answer.headers["cache-control"] == "no-store"


def test_the_document_is_open_and_names_no_status_that_is_never_sent(world: World) -> None:
    told = world.bare.get("/api/openapi.json").json()
    for path, operations in told["paths"].items():
        for method, operation in operations.items():
            assert "422" not in operation["responses"], f"{method} {path}"
            if path.startswith(API):
                assert operation["security"], f"{method} {path}"
                assert "401" in operation["responses"]
    names = [one["operationId"] for operations in told["paths"].values() for one in operations.values()]
    assert len(names) == len(set(names))
