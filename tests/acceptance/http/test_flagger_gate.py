"""A canary's gate asks again and again: open for one revision, shut on any doubt, and written down once."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.app.identity import Role
from fleetwarden.domain.actions import Tier
from fleetwarden.domain.policy_rules import Rule
from fleetwarden.testing import a_policy
from tests.acceptance.http.world import World


def hook(world: World, checksum: str = "5b1f", secret: str | None = None, **more: Any) -> Any:
    body = {"name": "shop", "namespace": "test", "phase": "Progressing", "checksum": checksum, **more}
    client = world.client(Role.OPERATOR) if secret is None else world.client_of(secret)
    return client.post("/gate/flagger", json=body)


def decisions(world: World) -> list[Any]:
    return list(world.client().get("/decisions").json()["items"])


def answer_to(world: World, decision: str) -> None:
    [pending] = world.client().get("/approvals", params={"status": "pending"}).json()["items"]
    body = {"job_id": pending["job_id"], "decision": decision, "reason": "looked"}
    assert world.client(Role.APPROVER).post("/approvals/grant", json=body).status_code == 200


def a_gate(tier: Tier) -> Rule:
    return Rule(tier=tier, kind="canary_rollout", target="shop", where="policy.yml:1")


@pytest.mark.req("RUN-12", "POL-11")
def test_a_gate_that_is_allowed_opens_and_asking_again_costs_nothing(world: World) -> None:
    world.configuration.declare(policy=a_policy(Tier.FORBIDDEN, a_gate(Tier.AUTO), rate=(2, 3600)))
    for _ in range(5):
        told = hook(world)
        assert (told.status_code, told.json()["go"]) == (200, True), told.text
    [decision] = decisions(world)
    assert (decision["kind"], decision["target"], decision["source"]) == ("canary_rollout", "shop", "api")
    assert decision["params"] == {"canary": "shop", "namespace": "test", "checksum": "5b1f"}
    assert hook(world, "77aa").status_code == 200
    assert hook(world, "90cd").status_code == 403, "a third revision is beyond the rate limit"


@pytest.mark.req("RUN-12", "POL-7", "POL-20")
def test_a_gate_waits_for_a_person_once_and_opens_for_that_revision(world: World) -> None:
    for _ in range(3):
        halted = hook(world)
        assert (halted.status_code, halted.json()["go"]) == (403, False)
        assert "waits" in halted.json()["reason"] or "asked" in halted.json()["reason"]
    assert len(decisions(world)) == 1
    assert len(world.client().get("/approvals").json()["items"]) == 1
    answer_to(world, "approved")
    world.look()
    for _ in range(3):
        assert hook(world).status_code == 200
    [used] = world.client().get("/executions").json()["items"]
    assert (used["kind"], used["state"]) == ("canary_rollout", "executed")
    [approval] = world.client().get("/approvals", params={"target": "shop"}).json()["items"]
    assert approval["status"] == "closed"
    assert hook(world, "77aa").status_code == 403, "another revision is another question"


@pytest.mark.req("RUN-12", "POL-12")
def test_a_freeze_shuts_an_open_gate_and_a_thaw_opens_it_again(world: World) -> None:
    hook(world)
    answer_to(world, "approved")
    assert hook(world).status_code == 200
    world.client().post("/freeze", json={"on": True, "reason": "incident"})
    for _ in range(2):
        halted = hook(world)
        assert halted.status_code == 403
        assert "incident" in halted.json()["reason"]
    world.client().post("/freeze", json={"on": False, "reason": "over"})
    assert hook(world).status_code == 200, "the person's yes was for this revision"
    world.configuration.declare(policy=a_policy(Tier.FORBIDDEN))
    assert hook(world).status_code == 403


@pytest.mark.req("RUN-12", "POL-2")
def test_an_unchanged_denial_is_written_once_and_a_changed_policy_is_seen(world: World) -> None:
    world.configuration.declare(policy=a_policy(Tier.FORBIDDEN))
    for _ in range(3):
        assert hook(world).status_code == 403
    assert [one["verdict"] for one in decisions(world)] == ["deny"]
    world.configuration.declare(policy=a_policy(Tier.AUTO))
    assert hook(world).status_code == 200


@pytest.mark.req("RUN-12", "POL-7")
def test_a_rejection_stands_for_a_while(world: World) -> None:
    hook(world)
    answer_to(world, "denied")
    for _ in range(2):
        assert "rejected" in hook(world).json()["reason"]
    assert len(world.client().get("/approvals").json()["items"]) == 1
    world.clock.advance(601)
    assert hook(world).status_code == 403
    assert len(world.client().get("/approvals").json()["items"]) == 2


@pytest.mark.req("RUN-12", "POL-20")
def test_a_yes_is_used_by_the_gate_and_claimed_by_nobody_else(world: World) -> None:
    world.configuration.declare(policy=a_policy(Tier.AUTO))
    told = hook(world).json()
    [used] = world.client().get("/executions").json()["items"]
    assert (used["kind"], used["state"], used["ok"]) == ("canary_rollout", "executed", True)
    taken = world.client(Role.OPERATOR).post(f"/actions/{told['decision_id']}/claim", json={})
    assert (taken.status_code, taken.json()["code"]) == (409, "already_reported")


@pytest.mark.req("RUN-12")
def test_a_gate_waits_for_what_is_under_way_on_its_target(world: World) -> None:
    world.configuration.declare(policy=a_policy(Tier.AUTO))
    body = {"kind": "merge_promotion", "target": "shop", "reason": "green"}
    other = world.client(Role.OPERATOR).post("/actions", json=body).json()["action_id"]
    world.client(Role.OPERATOR).post(f"/actions/{other}/claim", json={})
    for _ in range(2):
        halted = hook(world)
        assert (halted.status_code, "merge_promotion" in halted.json()["reason"]) == (403, True)
    world.client(Role.OPERATOR).post(f"/actions/{other}/result", json={"ok": True})
    assert hook(world).status_code == 200
    assert len(decisions(world)) == 2


@pytest.mark.req("RUN-12", "POL-6")
@pytest.mark.parametrize("tier", [Tier.AUTO, Tier.APPROVAL_REQUIRED, Tier.FORBIDDEN])
def test_canaries_of_one_name_in_two_namespaces_do_not_flood_the_ledger(world: World, tier: Tier) -> None:
    world.configuration.declare(policy=a_policy(tier, rate=(9, 3600)))
    asked = [hook(world, namespace=one) for one in ("test", "prod") * 4]
    answers = asked[-2:]
    assert {one.status_code for one in answers} == ({200} if tier is Tier.AUTO else {403})
    assert len(decisions(world)) == (1 if tier is Tier.APPROVAL_REQUIRED else 2)
    if tier is Tier.APPROVAL_REQUIRED:  # the other one is told how to be asked about
        assert "another target" in answers[1].json()["reason"]
        named = hook(world, namespace="prod", metadata={"target": "prod/shop"})
        assert named.json()["approval_id"] not in (None, answers[0].json()["approval_id"])
        assert hook(world, "77aa", namespace="test").json()["reason"] != answers[1].json()["reason"]


@pytest.mark.req("RUN-12")
def test_an_open_gate_closes_in_the_end(world: World) -> None:
    hook(world)
    answer_to(world, "approved")
    assert hook(world).status_code == 200
    world.clock.advance(86_401)
    assert hook(world).status_code == 403


@pytest.mark.req("RUN-12", "RUN-3")
def test_the_token_may_stand_in_the_body_and_is_kept_nowhere(world: World) -> None:
    secret = world.secrets[Role.OPERATOR]
    metadata = {"token": secret, "test": "all", "dbPassword": "hunter22"}
    assert hook(world, secret="", metadata=metadata).status_code == 403
    assert hook(world, secret="").status_code == 401
    assert hook(world, secret="", metadata={"token": "fw_wrong"}).status_code == 401
    assert hook(world, secret="", metadata={"token": world.secrets[Role.VIEWER]}).status_code == 403
    [decision] = decisions(world)
    assert decision["evidence"]["metadata"] == {"test": "all", "dbPassword": "***"}
    for listed in ("decisions", "approvals", "journal"):
        told = world.client().get(f"/{listed}").text
        assert secret not in told
        assert "hunter22" not in told


@pytest.mark.req("RUN-12")
def test_metadata_names_another_kind_and_target(world: World) -> None:
    world.configuration.declare(policy=a_policy(Tier.AUTO))
    metadata = {"kind": "canary_promotion", "target": "web"}
    assert hook(world, metadata=metadata).json()["target"] == "web"
    assert hook(world).json()["kind"] == "canary_rollout"
    assert {(one["kind"], one["target"]) for one in decisions(world)} == {
        ("canary_promotion", "web"),
        ("canary_rollout", "shop"),
    }
    forged = hook(world, metadata={"kind": "stop_service"})
    assert (forged.status_code, forged.json()["code"]) == (400, "misconfigured")


@pytest.mark.req("RUN-12")
@pytest.mark.parametrize(
    "body",
    [{}, {"name": ""}, {"name": 7}, {"name": "shop", "metadata": {"a": 1}}, {"name": "shop", "phase": "x" * 65}],
)
def test_a_body_that_cannot_be_read_halts_and_decides_nothing(world: World, body: dict[str, Any]) -> None:
    assert world.client(Role.OPERATOR).post("/gate/flagger", json=body).status_code == 400
    assert decisions(world) == []


@pytest.mark.req("RUN-12", "POL-11")
def test_a_gate_is_shut_while_the_store_is_down(world: World) -> None:
    world.configuration.declare(policy=a_policy(Tier.AUTO))
    assert hook(world).status_code == 200
    for transactions in (0, 1):
        world.store.breaks_after(transactions)
        assert hook(world).status_code == 503
    world.store.breaks_after(None)
    assert hook(world, namespace="test", later_field=1).status_code == 200


@pytest.mark.req("RUN-12", "POL-20")
def test_a_yes_for_a_revision_that_the_sender_does_not_name_opens_the_gate_once(world: World) -> None:
    assert hook(world, "").status_code == 403
    answer_to(world, "approved")
    world.look()
    assert hook(world, "").status_code == 200
    asked_anew = hook(world, "")
    assert asked_anew.status_code == 403, "it may be about another revision by now"
    assert asked_anew.json()["decision"] == "queue_approval"


@pytest.mark.req("RUN-12", "POL-11")
def test_without_a_revision_each_yes_of_policy_counts(world: World) -> None:
    world.configuration.declare(policy=a_policy(Tier.FORBIDDEN, a_gate(Tier.AUTO), rate=(2, 3600)))
    assert [hook(world, "").status_code for _ in range(3)] == [200, 200, 403]


@pytest.mark.req("RUN-12", "POL-11")
def test_the_same_question_asked_twice_at_the_same_moment_is_decided_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.configuration.declare(policy=a_policy(Tier.FORBIDDEN, a_gate(Tier.AUTO), rate=(2, 3600)))
    gate = world.plane.remedies.gates._gate
    first, between = gate._gate, []

    class Slow:
        """Between the look and the decision of one question the other one is asked and answered."""

        def admit(self, requests: Any, fence: Any) -> Any:
            monkeypatch.setattr(gate, "_gate", first)
            between.append(hook(world).status_code)
            return first.admit(requests, fence=fence)

    monkeypatch.setattr(gate, "_gate", Slow())
    assert (hook(world).status_code, between) == (200, [200])
    assert len(decisions(world)) == 1
    assert hook(world, "77aa").status_code == 200, "one use of two is left"
