"""Other systems' own actions over HTTP: asked, granted, claimed once, ended once, and never on a doubt."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.app.identity import Role
from fleetwarden.domain.actions import Tier
from fleetwarden.domain.fleet import Mode
from fleetwarden.testing import a_fleet, a_policy, a_service
from tests.acceptance.http.world import World

OPERATOR, APPROVER, ADMIN = Role.OPERATOR, Role.APPROVER, Role.ADMIN


@pytest.fixture
def free(world: World) -> World:
    """Everything is allowed."""
    world.configuration.declare(policy=a_policy(Tier.AUTO))
    return world


def ask(world: World, target: str = "model-7", role: Role = OPERATOR, **more: Any) -> Any:
    body = {"kind": "merge_promotion", "target": target, "reason": "tests are green", **more}
    return world.client(role).post("/actions", json=body)


def claim(world: World, said: Any, role: Role = OPERATOR) -> Any:
    return world.client(role).post(f"/actions/{said['action_id']}/claim", json={})


def result(world: World, said: Any, role: Role = OPERATOR, **more: Any) -> Any:
    return world.client(role).post(f"/actions/{said['action_id']}/result", json={"ok": True, **more})


def grant(world: World, said: Any, decision: str = "approved") -> Any:
    body = {"job_id": said["approval_id"], "decision": decision, "reason": "looked"}
    return world.client(APPROVER).post("/approvals/grant", json=body)


def state(world: World, said: Any) -> str:
    return str(world.client(Role.VIEWER).get(f"/actions/{said['action_id']}").json()["state"])


@pytest.mark.req("POL-11", "POL-13", "POL-20")
def test_what_is_allowed_is_claimed_and_ended_once_and_stands_in_the_ledger(free: World) -> None:
    said = ask(free, params={"version": "7", "risk": "low"}).json()
    assert (said["decision"], said["state"], said["approval_id"]) == ("allow", "authorised", None)
    claimed = claim(free, said).json()
    assert (claimed["state"], claimed["claimed_by"]) == ("running", "operator-person")
    again = claim(free, said)
    assert (again.status_code, again.json()["code"]) == (409, "not_authorised")
    ended = result(free, said, detail="merged as 1a2b").json()
    assert (ended["state"], ended["ok"], ended["detail"]) == ("succeeded", True, "merged as 1a2b")
    for late in (result(free, said), result(free, said, ok=False), claim(free, said)):
        assert (late.status_code, late.json()["code"]) == (409, "already_reported")
    [row] = free.client().get("/executions", params={"target": "model-7"}).json()["items"]
    assert (row["action_id"], row["state"], row["source"]) == (ended["execution_id"], "executed", "api")
    free.work()
    assert free.called() == [], "no actuator of ours has anything to do with it"


@pytest.mark.req("POL-11", "POL-20")
def test_what_needs_a_person_is_queued_once_and_its_grant_is_closed_once(world: World) -> None:
    said = ask(world, idempotency_key="k1").json()
    assert (said["decision"], said["state"]) == ("queue_approval", "waiting")
    for same in (ask(world), ask(world, idempotency_key="k1"), ask(world, idempotency_key="k2")):
        assert same.json()["approval_id"] == said["approval_id"]
    assert len(world.client().get("/approvals", params={"status": "pending"}).json()["items"]) == 1
    shut = claim(world, said)
    assert (shut.status_code, shut.json()["code"]) == (409, "not_authorised")
    assert result(world, said).status_code == 409, "a result is no grant"
    assert grant(world, said).json()["outcome"] == "granted"
    for _ in range(2):
        world.look()  # the drain has nothing to carry out
    assert state(world, said) == "authorised"
    assert world.client(Role.VIEWER).get(f"/actions/{said['approval_id']}").json()["id"] == said["action_id"]
    assert claim(world, said).json()["state"] == "running"
    taken_back = grant(world, said, "denied")
    assert taken_back.status_code == 409, "what is under way cannot be rejected"
    assert result(world, said).json()["state"] == "succeeded"
    approval = world.client().get(f"/approvals/{said['approval_id']}").json()
    assert approval["status"] == "closed"
    assert result(world, said).status_code == 409
    assert ask(world, idempotency_key="k1").json()["state"] == "succeeded", "the same key is the same request"


@pytest.mark.req("POL-20")
def test_a_grant_may_be_closed_by_its_result_alone(world: World) -> None:
    said = ask(world).json()
    grant(world, said)
    ended = result(world, said, ok=False, detail="a conflict", code="merge_conflict").json()
    assert (ended["state"], ended["ok"], ended["code"]) == ("failed", False, "merge_conflict")
    assert world.client().get(f"/approvals/{said['approval_id']}").json()["status"] == "closed"
    assert result(world, said).status_code == 409


@pytest.mark.req("POL-11")
def test_a_denied_action_has_nothing_to_claim(world: World) -> None:
    world.configuration.declare(policy=a_policy(Tier.FORBIDDEN))
    said = ask(world).json()
    assert (said["decision"], said["action_id"], said["approval_id"]) == ("deny", None, None)
    named = {"action_id": said["decision_id"]}
    assert claim(world, named).json()["code"] == "not_authorised"
    assert result(world, named).json()["code"] == "not_authorised"
    assert world.client().get("/executions").json()["items"] == []


@pytest.mark.req("POL-11", "POL-12", "AUT-24")
@pytest.mark.parametrize("granted", [True, False])
def test_policy_is_asked_again_at_the_claim(world: World, granted: bool) -> None:
    if not granted:
        world.configuration.declare(policy=a_policy(Tier.AUTO))
    said = ask(world).json()
    if granted:
        grant(world, said)
    world.client(ADMIN).post("/freeze", json={"on": True, "reason": "lunch"})
    refused = claim(world, said)
    assert (refused.status_code, refused.json()["code"]) == (409, "claim_refused")
    assert "lunch" in refused.json()["detail"]
    shown = world.client(Role.VIEWER).get(f"/actions/{said['action_id']}").json()
    assert (shown["state"], shown["may_proceed"]) == ("held", False)
    assert "lunch" in shown["reason"]
    world.client(ADMIN).post("/freeze", json={"on": False, "reason": "back"})
    world.configuration.declare(policy=a_policy(Tier.FORBIDDEN))
    assert claim(world, said).json()["code"] == "claim_refused"
    assert state(world, said) == ("voided" if granted else "held")
    assert claim(world, said).status_code == 409
    assert world.client().get("/executions").json()["items"] == []


@pytest.mark.req("POL-11", "POL-7")
def test_what_is_claimed_is_replaced_by_nothing(world: World) -> None:
    first = ask(world, params={"version": "7"}).json()
    grant(world, first)
    assert claim(world, first).json()["state"] == "running"
    for _ in range(2):
        same = ask(world, params={"version": "7"}).json()
        assert (same["action_id"], same["state"]) == (first["action_id"], "running"), "nobody is asked twice about it"
        other = ask(world, params={"version": "8"}).json()
        assert other["state"] == "waiting"
        assert other["approval_id"] != first["approval_id"]
    world.configuration.declare(policy=a_policy(Tier.AUTO))
    for version in ("7", "8"):
        assert ask(world, params={"version": version}).json()["decision"] == "allow"
    assert result(world, first).json()["state"] == "succeeded"
    assert world.client().get(f"/approvals/{first['approval_id']}").json()["status"] == "closed"


@pytest.mark.req("POL-11", "POL-2")
def test_a_tier_that_tells_tells_when_it_is_claimed(world: World) -> None:
    world.configuration.declare(policy=a_policy(Tier.AUTO_NOTIFY))
    said = ask(world).json()

    def told() -> list[str]:
        return [one["summary"] for one in world.client().get("/journal").json()["items"]]

    assert not any("goes ahead" in one for one in told())
    claim(world, said)
    assert any("goes ahead, carried out by operator-person" in one for one in told())


@pytest.mark.req("POL-20")
def test_only_its_claimant_says_how_it_ended(free: World) -> None:
    said = ask(free).json()
    claim(free, said)
    refused = result(free, said, ADMIN)
    assert (refused.status_code, refused.json()["code"]) == (409, "claimed_by_another")
    assert state(free, said) == "running"


@pytest.mark.req("POL-20", "AUT-10")
def test_a_claim_that_is_never_answered_becomes_an_unknown_outcome_and_is_not_claimed_again(free: World) -> None:
    said = ask(free).json()
    claim(free, said)
    free.clock.advance(3599)
    free.plane.tick("outside_claims")
    assert state(free, said) == "running"
    free.clock.advance(2)
    free.plane.tick("outside_claims")
    free.work()
    assert state(free, said) == "recovery_pending"
    assert claim(free, said).status_code == 409
    busy = ask(free)
    assert busy.json()["decision"] == "allow"
    assert claim(free, busy.json()).json()["code"] == "target_busy"
    [unknown] = free.client().get("/recover").json()["items"]
    settled = free.client(OPERATOR).post(f"/recover/{unknown['id']}", json={"as": "succeeded", "reason": "looked"})
    assert settled.status_code == 200, settled.text
    assert state(free, said) == "succeeded"


@pytest.mark.req("POL-20")
def test_a_late_result_of_its_claimant_ends_an_unknown_outcome(free: World) -> None:
    said = ask(free).json()
    claim(free, said)
    free.clock.advance(3601)
    free.plane.tick("outside_claims")
    assert result(free, said).json()["state"] == "succeeded"
    assert result(free, said).status_code == 409


@pytest.mark.req("POL-11", "POL-7")
def test_an_authorisation_lapses(world: World) -> None:
    waits = ask(world, "model-8").json()
    grant(world, waits)
    world.clock.advance(86_401)
    assert claim(world, waits).json()["code"] == "not_authorised"
    assert state(world, waits) == "expired"
    world.configuration.declare(policy=a_policy(Tier.AUTO))
    said = ask(world).json()
    world.clock.advance(301)
    assert claim(world, said).json()["code"] == "not_authorised"
    assert result(world, said).json()["code"] == "not_authorised"
    assert state(world, said) == "lapsed"


@pytest.mark.req("POL-6", "POL-11")
def test_what_was_allowed_counts_in_the_budget_whether_or_not_it_was_claimed(free: World) -> None:
    free.configuration.declare(policy=a_policy(Tier.AUTO, rate=(3, 3600)))
    verdicts = [ask(free).json()["decision"] for _ in range(4)]
    assert verdicts == ["allow", "allow", "allow", "deny"]
    said = ask(free, "model-8").json()
    assert claim(free, said).json()["state"] == "running", "a claim does not count itself"


@pytest.mark.req("POL-11", "POL-13")
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"kind": "investigate_resource_pressure"}, 400, "misconfigured"),
        ({"kind": "failure_gap"}, 400, "misconfigured"),
        ({"kind": "9lives"}, 400, "misconfigured"),
        ({"target": "model-*"}, 400, "misconfigured"),
        ({"target": " "}, 400, "misconfigured"),
        ({"params": {"note": "x" * 9000}}, 400, "misconfigured"),
        ({"reason": " "}, 400, "misconfigured"),
        ({"idempotency_key": ""}, 400, "malformed"),
        ({"break_glass": True}, 403, "forbidden"),
    ],
)
def test_what_cannot_be_asked_is_refused_and_decides_nothing(
    free: World, body: dict[str, Any], status: int, code: str
) -> None:
    answer = ask(free, **body)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert free.client().get("/decisions").json()["items"] == []


@pytest.mark.req("POL-11", "AUT-14")
def test_the_same_key_with_another_body_is_a_conflict(free: World) -> None:
    ask(free, idempotency_key="k1")
    for other in ({"params": {"version": "8"}}, {"reason": "another"}, {"kind": "merge_other"}):
        refused = ask(free, idempotency_key="k1", **other)
        assert (refused.status_code, refused.json()["code"]) == (409, "outbox_conflict"), other


@pytest.mark.req("POL-11", "POL-18")
def test_a_role_that_is_limited_to_a_group_asks_for_nothing_outside_it(free: World) -> None:
    limited = free.client_of(free.token("shopper", "operator:shop"))
    body = {"kind": "merge_promotion", "target": "model-7", "reason": "green"}
    assert limited.post("/actions", json=body).status_code == 403
    said = ask(free).json()
    assert limited.post(f"/actions/{said['action_id']}/claim", json={}).status_code == 403
    assert free.client(Role.VIEWER).post(f"/actions/{said['action_id']}/result", json={"ok": True}).status_code == 403


@pytest.mark.req("POL-11")
def test_nothing_is_claimed_while_the_store_is_down(free: World) -> None:
    said = ask(free).json()
    free.store.breaks_after(1)  # the token is read
    assert claim(free, said).status_code == 503
    free.store.breaks_after(None)
    assert state(free, said) == "authorised"
    assert ask(free, "model-9").json()["decision"] == "allow"


def test_a_record_of_the_fleet_is_shown_as_before_and_is_nobody_elses(free: World) -> None:
    free.substrate.boot("web", 2)
    free.look()
    body = {"kind": "restart_service", "target": "web", "reason": "stuck"}
    said = free.client(OPERATOR).post("/actions", json=body).json()
    assert free.client().get(f"/actions/{said['action_id']}").json()["kind"] == "restart_service"
    assert free.client(OPERATOR).post(f"/actions/{said['decision_id']}/claim", json={}).status_code == 404
    assert free.client().get(f"/actions/{said['decision_id']}").status_code == 404


@pytest.mark.req("POL-11", "POL-13")
def test_whatever_its_params_mean_elsewhere_everything_still_tells_of_it(world: World) -> None:
    world.substrate.boot("web", 2)
    world.look()
    params = {
        "replicas": "many",
        "replica": ["a"],
        "version": {"v": 7},
        "direction": 7,
        "irreversible": "no",
        "x": None,
    }
    said = ask(world, "web", params=params).json()
    assert said["state"] == "waiting", said
    assert grant(world, said).json()["outcome"] == "granted"
    assert claim(world, said).json()["state"] == "running"
    reading = ("/status", "/services/web", "/services/web/explain", "/services/web/history", "/plan", "/decisions",
               "/approvals", "/actions", "/executions", "/journal", "/recover", "/freeze", "/doctor")  # fmt: skip
    for _ in range(2):
        for path in reading:
            assert world.client().get(path).status_code == 200, path
        if state(world, said) == "running":
            world.clock.advance(3601)
            world.plane.tick("outside_claims")
            world.work()
            assert result(world, said, ok=False, detail="no").json()["state"] == "failed"


@pytest.mark.req("POL-12", "POL-11")
def test_a_kind_of_ones_own_can_be_frozen_alone_before_it_was_ever_asked_for(free: World) -> None:
    said, other = ask(free).json(), ask(free, "model-8", kind="restart_pods").json()
    frozen = free.client(OPERATOR).post("/freeze", json={"on": True, "kind": "merge_promotion", "reason": "incident"})
    assert [(one["scope"], one["value"]) for one in frozen.json()["freezes"]] == [("kind", "merge_promotion")]
    assert (state(free, said), claim(free, said).json()["code"]) == ("held", "claim_refused")
    assert ask(free, "model-9").json()["decision"] == "deny"
    assert claim(free, other).status_code == 200
    free.client(OPERATOR).post("/freeze", json={"on": False, "kind": "merge_promotion"})
    assert claim(free, said).status_code == 200
    for kind, status in (("never_seen:yet", 200), ("restart_pods", 200), ("restart_servce", 400), ("a b", 400)):
        told = free.client(OPERATOR).post("/freeze", json={"on": True, "kind": kind})
        assert told.status_code == status, (kind, told.text)


@pytest.mark.req("POL-11", "POL-20", "ACT-2")
@pytest.mark.parametrize("mode", [Mode.DRY_RUN, Mode.OBSERVE])
def test_nothing_is_authorised_for_a_service_that_is_not_live(free: World, mode: Mode) -> None:
    said = ask(free, target="web").json()
    assert said["state"] == "authorised"
    free.configuration.declare(fleet=a_fleet(a_service("web", replicas=2, mode=mode)))
    for refused in (claim(free, said), ask(free, target="web")):
        assert (refused.status_code, refused.json()["code"]) == (409, "not_live")
        assert mode.value in refused.json()["detail"]
    assert ask(free).json()["state"] == "authorised", "what is no service of ours is nobody's to simulate"
