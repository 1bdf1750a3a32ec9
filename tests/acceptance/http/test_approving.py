"""A person's answer over HTTP: explicit, once, attributed, and asked again what holds by now."""

from __future__ import annotations

import pytest

from fleetwarden.app.identity import Role
from fleetwarden.domain.actions import Tier
from fleetwarden.testing import a_policy
from tests.acceptance.http.world import World


@pytest.mark.req("POL-7", "POL-8")
def test_a_granted_restart_is_carried_out_exactly_once(world: World) -> None:
    job_id = world.ask_for_restart()
    assert world.called() == []
    answer = world.client(Role.APPROVER).post(
        "/approvals/grant", json={"job_id": job_id, "decision": "approved", "reason": "it is only the cache"}
    )
    assert answer.status_code == 200
    assert answer.json()["outcome"] == "granted"
    for _ in range(3):
        world.look()
    assert world.called() == ["restart_service web"]
    assert world.client().get(f"/approvals/{job_id}").json()["status"] == "closed"


@pytest.mark.req("POL-17")
def test_who_decided_when_and_why_is_recorded(world: World) -> None:
    job_id = world.ask_for_restart()
    body = {"job_id": job_id, "decision": "approved", "reason": "it is only the cache"}
    answered = world.client(Role.APPROVER).post("/approvals/grant", json=body).json()
    [vote] = answered["votes"]
    assert (vote["by"], vote["decision"], vote["reason"]) == ("approver-person", "approved", "it is only the cache")
    [line] = world.client().get("/journal", params={"kind": "approval"}).json()["items"]
    assert line["actor"] == "approver-person"
    assert line["detail"]["reason"] == "it is only the cache"


@pytest.mark.req("POL-17")
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"decision": None},
        {"decision": ""},
        {"decision": True},
        {"decision": "yes"},
        {"decision": "Approved"},
        {"decison": "approved"},
        {"decision": "approved", "approved": True},
        {"decision": "approved", "reason": 7},
        {"decision": "approved", "by": "somebody else"},
    ],
    ids=str,
)
def test_a_grant_without_an_explicit_decision_is_refused_and_decides_nothing(world: World, body: dict) -> None:
    job_id = world.ask_for_restart()
    answer = world.client(Role.APPROVER).post("/approvals/grant", json={"job_id": job_id, **body})
    assert answer.status_code == 400
    assert answer.json()["errors"]
    assert world.client().get(f"/approvals/{job_id}").json()["status"] == "pending"
    world.look()
    assert world.called() == []


@pytest.mark.req("POL-7")
def test_a_second_answer_is_a_conflict_that_says_so(world: World) -> None:
    job_id = world.ask_for_restart()
    approver = world.client(Role.APPROVER)
    body = {"job_id": job_id, "decision": "approved"}
    assert approver.post("/approvals/grant", json=body).status_code == 200
    again = world.client().post("/approvals/grant", json=body)
    assert again.status_code == 409
    assert again.json()["code"] == "already_decided"


@pytest.mark.req("POL-7")
@pytest.mark.parametrize("path", ["/approvals/reject", "/approvals/grant"])
def test_a_rejection_by_either_route_is_final(world: World, path: str) -> None:
    job_id = world.ask_for_restart()
    approver = world.client(Role.APPROVER)
    body = {"job_id": job_id, "reason": "not now"} | ({"decision": "denied"} if path.endswith("grant") else {})
    assert approver.post(path, json=body).json()["outcome"] == "rejected"
    late = world.client().post("/approvals/grant", json={"job_id": job_id, "decision": "approved"})
    assert late.status_code == 409
    assert "not now" in late.json()["detail"]
    world.work()
    assert world.called() == []


def test_a_grant_that_policy_forbids_by_now_is_refused_and_says_so(world: World) -> None:
    job_id = world.ask_for_restart()
    world.configuration.declare(policy=a_policy(Tier.FORBIDDEN))
    answer = world.client().post("/approvals/grant", json={"job_id": job_id, "decision": "approved"})
    assert answer.status_code == 409
    assert answer.json()["code"] == "voided"
    assert "forbid" in answer.json()["detail"]
    assert world.client().get(f"/approvals/{job_id}").json()["status"] == "voided"


def test_a_grant_for_a_service_that_is_well_by_now_is_refused_and_says_so(world: World) -> None:
    job_id = world.ask_for_restart()
    world.substrate.revive("web", 0)
    answer = world.client().post("/approvals/grant", json={"job_id": job_id, "decision": "approved"})
    assert answer.status_code == 409
    assert answer.json()["code"] == "voided"
    world.look()
    assert world.called() == []


def test_an_expired_approval_cannot_be_granted(world: World) -> None:
    job_id = world.ask_for_restart()
    world.clock.advance(86_401)
    answer = world.client().post("/approvals/grant", json={"job_id": job_id, "decision": "approved"})
    assert answer.status_code == 409
    assert answer.json()["code"] == "expired"


@pytest.mark.req("POL-7")
def test_one_can_be_named_by_its_job_id_its_short_id_or_its_number(world: World) -> None:
    job_id = world.ask_for_restart()
    assert job_id.startswith("action_approval:")
    number = job_id.partition(":")[2]
    client = world.client()
    shown = [client.get(f"/approvals/{name}").json() for name in (job_id, f"A-{number}", number)]
    assert shown[0] == shown[1] == shown[2]
    assert shown[0]["id"] == shown[0]["job_id"] == job_id


def test_nobody_can_approve_what_they_asked_for_themselves(world: World) -> None:
    job_id = world.ask_for_restart()
    self_made = world.client_of(world.token("robot", Role.APPROVER, person="reconciler"))
    answer = self_made.post("/approvals/grant", json={"job_id": job_id, "decision": "approved"})
    assert answer.status_code == 403
    assert answer.json()["code"] == "self_approval"
    assert answer.json()["hint"]
    assert world.client().get(f"/approvals/{job_id}").json()["status"] == "pending"


@pytest.mark.parametrize("name", ["A-x", "A-", "D-1", "-1", "1.0", "٣", "A-1%00", "9" * 30, "action:1"])
def test_what_is_no_id_is_malformed_and_not_missing(world: World, name: str) -> None:
    assert world.client().get(f"/approvals/{name}").status_code == 400
    answer = world.client().post("/approvals/reject", json={"job_id": name.replace("%00", "\0")})
    assert answer.status_code == 400


def test_one_that_does_not_exist_is_missing(world: World) -> None:
    assert world.client().get("/approvals/A-77").status_code == 404
    body = {"job_id": "A-77", "decision": "approved"}
    assert world.client().post("/approvals/grant", json=body).status_code == 404
