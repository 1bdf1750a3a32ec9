"""People propose actions over HTTP: decided as for everybody, attributed, held, and repeated without being doubled."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.app.identity import Role
from fleetwarden.domain.actions import Tier
from fleetwarden.domain.fleet import Mode
from fleetwarden.testing import a_fleet, a_policy, a_service
from tests.acceptance.http.world import World

OPERATOR, ADMIN = Role.OPERATOR, Role.ADMIN


@pytest.fixture
def free(world: World) -> World:
    """Two replicas of `web` run, and everything is allowed."""
    world.substrate.boot("web", 2)
    world.configuration.declare(policy=a_policy(Tier.AUTO))
    world.look()
    return world


def propose(world: World, kind: str, role: Role = OPERATOR, **more: Any) -> Any:
    body = {"kind": kind, "target": "web", "reason": "maintenance", **more}
    return world.client(role).post("/actions", json=body)


@pytest.mark.req("POL-11", "RUN-3", "RUN-5")
def test_an_allowed_proposal_is_done_once_and_attributed_to_its_person(free: World) -> None:
    said = propose(free, "restart_service").json()
    assert (said["decision"], said["requested_by"], said["approval_id"]) == ("allow", "operator-person", None)
    free.work()
    action = free.client().get(f"/actions/{said['action_id']}").json()
    assert (action["state"], action["requested_by"], action["source"]) == ("succeeded", "operator-person", "operator")
    decision = free.client().get(f"/decisions/{said['decision_id']}").json()
    assert (decision["requested_by"], decision["request_reason"]) == ("operator-person", "maintenance")
    assert free.called() == ["restart_service web"]
    history = free.client().get("/services/web/history").json()["items"]
    assert {one["actor"] for one in history} == {"operator-person"}
    journal = free.client().get("/journal", params={"target": "web"}).json()["items"]
    assert "operator" not in {one["actor"] for one in journal}


@pytest.mark.req("POL-11", "AUT-14")
def test_the_same_key_is_the_same_request_and_with_another_body_a_conflict(free: World) -> None:
    first = propose(free, "restart_service", idempotency_key="k1").json()
    free.work()
    again = propose(free, "restart_service", idempotency_key="k1")
    assert again.status_code == 200
    assert again.json()["action_id"] == first["action_id"]
    for other in ({"kind": "stop_service"}, {"params": {"replica": 1}}, {"reason": "another"}):
        refused = free.client(OPERATOR).post(
            "/actions",
            json={
                "kind": "restart_service",
                "target": "web",
                "reason": "maintenance",
                "idempotency_key": "k1",
                **other,
            },
        )
        assert (refused.status_code, refused.json()["code"]) == (409, "outbox_conflict"), other
    assert propose(free, "restart_service", ADMIN, idempotency_key="k1").json()["decision_id"] != first["decision_id"]
    free.work()
    assert free.called() == ["restart_service web"] * 2


@pytest.mark.req("POL-7", "POL-18")
def test_what_needs_a_person_is_queued_with_what_it_needs_and_not_approved_by_who_asked(world: World) -> None:
    world.substrate.boot("web", 2)
    world.look()
    both = world.client_of(world.token("ada", Role.OPERATOR, Role.APPROVER, person="ada"))
    said = both.post("/actions", json={"kind": "restart_service", "target": "web", "reason": "stuck"}).json()
    assert (said["decision"], said["action_id"]) == ("queue_approval", None)
    approval = said["approval"]
    assert approval["needed"] == {"count": 1, "teams": [], "nobody": False}
    assert (approval["requested_by"], approval["votes"]) == ("ada", [])
    assert approval["expires_at"] > approval["at"]
    own = both.post("/approvals/grant", json={"job_id": approval["job_id"], "decision": "approved"})
    assert (own.status_code, own.json()["code"]) == (403, "self_approval")
    other = world.client(Role.APPROVER).post(
        "/approvals/grant", json={"job_id": approval["job_id"], "decision": "approved"}
    )
    assert other.json()["outcome"] == "granted"
    for _ in range(2):
        world.look()
    assert world.called() == ["restart_service web"]


@pytest.mark.req("POL-13", "POL-11")
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"kind": "failure_gap"}, 400, "misconfigured"),
        ({"target": "nowhere"}, 404, "not_found"),
        ({"reason": " "}, 400, "misconfigured"),
        ({"idempotency_key": ""}, 400, "malformed"),
        ({"extra": 1}, 400, "malformed"),
        ({"break_glass": True}, 403, "forbidden"),
    ],
)
def test_what_cannot_be_proposed_is_refused_and_decides_nothing(
    free: World, body: dict[str, Any], status: int, code: str
) -> None:
    before = len(free.client().get("/decisions").json()["items"])
    asked = {"kind": "restart_service", "target": "web", "reason": "maintenance", **body}
    answer = free.client(OPERATOR).post("/actions", json=asked)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert len(free.client().get("/decisions").json()["items"]) == before


@pytest.mark.req("POL-13")
@pytest.mark.parametrize("replicas", [True, "3", -1, 1.5, None])
def test_a_count_that_is_none_is_denied_on_record(free: World, replicas: Any) -> None:
    said = propose(free, "scale_service", params={"replicas": replicas}).json()
    assert (said["decision"], said["action_id"]) == ("deny", None)
    assert "replicas" in said["reason"]
    free.work()
    assert free.called() == []


@pytest.mark.req("POL-11", "REC-9")
@pytest.mark.parametrize(
    ("kind", "params", "asked"),
    [
        ("stop_service", {}, {"state": "stopped", "replicas": None}),
        ("scale_service", {"replicas": 5}, {"state": None, "replicas": 5}),
    ],
)
def test_a_stop_and_a_count_are_held_by_an_override_of_the_person(
    free: World, kind: str, params: dict[str, Any], asked: dict[str, Any]
) -> None:
    said = propose(free, kind, params=params).json()
    assert "override" in said["held"]
    assert free.plane.store.read(lambda tx: tx.service_overrides.standing()) == []  # not before it is begun
    free.work()
    [held] = free.plane.store.read(lambda tx: tx.service_overrides.standing())
    assert {"state": held.state, "replicas": held.replicas} == asked
    assert (held.by, held.reason, held.until) == ("operator-person", "maintenance", None)
    for _ in range(4):
        free.clock.advance(60)
        free.look()
    assert free.called() == [f"{kind} web"]


@pytest.mark.req("POL-11")
def test_a_start_after_a_stop_holds_too_and_keeps_the_count_that_was_asked_for(free: World) -> None:
    propose(free, "scale_service", params={"replicas": 3})
    free.work()
    free.clock.advance(60)
    propose(free, "stop_service")
    free.work()
    [held] = free.plane.store.read(lambda tx: tx.service_overrides.standing())
    assert (held.state, held.replicas) == ("stopped", 3)
    free.clock.advance(60)
    free.look()
    said = propose(free, "start_service").json()
    free.work()
    [held] = free.plane.store.read(lambda tx: tx.service_overrides.standing())
    assert (held.state, held.replicas) == ("running", 3)
    assert free.called()[-1] == "start_service web", said


@pytest.mark.req("POL-11")
def test_a_dry_run_holds_nothing(free: World) -> None:
    free.configuration.declare(fleet=a_fleet(a_service("web", replicas=2, mode=Mode.DRY_RUN)))
    said = propose(free, "stop_service").json()
    assert (said["dry_run"], said["held"]) == (True, None)
    free.work()
    assert free.plane.store.read(lambda tx: tx.service_overrides.standing()) == []
    assert free.called() == []


@pytest.mark.req("POL-11")
def test_a_version_that_is_not_declared_is_not_deployed_only_to_be_put_back(free: World) -> None:
    refused = propose(free, "deploy_service", params={"version": "9"})
    assert (refused.status_code, refused.json()["code"]) == (409, "not_declared")
    assert free.called() == []


@pytest.mark.req("POL-12")
def test_breaking_the_glass_passes_a_freeze_and_a_file_and_everybody_is_told(free: World) -> None:
    free.client().post("/freeze", json={"on": True, "reason": "audit"})
    free.configuration.freeze("/somewhere/FREEZE")
    held = propose(free, "restart_service", ADMIN).json()
    assert held["decision"] == "deny"
    assert "frozen by admin-person: audit" in held["reason"]
    assert propose(free, "restart_service", OPERATOR, break_glass=True).status_code == 403
    said = propose(free, "restart_service", ADMIN, break_glass=True).json()
    assert (said["decision"], said["break_glass"]) == ("allow", True)
    free.work()
    assert free.called() == ["restart_service web"]
    [loud] = [one for one in free.client().get("/journal").json()["items"] if one["severity"] == "critical"]
    assert loud["summary"].startswith("admin-person broke the glass for restart_service web (allow): maintenance")


@pytest.mark.req("POL-12")
def test_breaking_the_glass_never_passes_forbidden(free: World) -> None:
    free.configuration.declare(policy=a_policy(Tier.FORBIDDEN))
    said = propose(free, "restart_service", ADMIN, break_glass=True).json()
    assert said["decision"] == "deny"
    free.work()
    assert free.called() == []
