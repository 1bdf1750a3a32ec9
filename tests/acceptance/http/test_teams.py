"""Teams, quorums, roles limited to groups and freezes of a scope, as HTTP shows and takes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetwarden.domain.actions import Tier
from fleetwarden.domain.approvers import Approvers
from fleetwarden.domain.policy import Rule
from fleetwarden.testing import a_policy, a_service
from tests.acceptance.http.world import World


@pytest.fixture
def two(tmp_path: Path) -> Iterator[World]:
    """`web` of group front and team shop, `db` of group data and team dba; changes of `db` need two of them."""
    web = a_service("web", replicas=2, group="front", owner="shop")
    made = World(tmp_path, web, a_service("db", group="data", owner="dba"), a_service("free"))
    rule = Rule(kind="*", target="db", tier=Tier.APPROVAL_REQUIRED, approvers=Approvers(count=2), where="policy.yml:2")
    made.configuration.declare(policy=a_policy(Tier.APPROVAL_REQUIRED, rule))
    for name, count in (("web", 2), ("db", 1), ("free", 1)):
        made.substrate.boot(name, count)
    made.look()
    yield made
    made.close()


def asked(world: World, target: str) -> dict[str, Any]:
    body = {"kind": "restart_service", "target": target, "reason": "stuck"}
    said = world.client().post("/actions", json=body).json()
    approval: dict[str, Any] = said["approval"]
    return approval


def answer(world: World, secret: str, approval: dict[str, Any], decision: str = "approved") -> Any:
    body = {"job_id": approval["job_id"], "decision": decision, "reason": "fine"}
    return world.client_of(secret).post("/approvals/grant", json=body)


@pytest.mark.req("POL-18", "POL-7", "POL-17")
def test_two_of_the_owning_team_grant_and_every_step_is_visible(two: World) -> None:
    approval = asked(two, "db")
    assert approval["needed"] == {"count": 2, "teams": ["dba"], "nobody": False}
    ada = two.token("ada", "approver", person="ada", teams=("dba",))
    phone = two.token("ada-phone", "approver", person="ada", teams=("dba",))
    bob = two.token("bob", "approver", person="bob", teams=("dba", "shop"))
    eve = two.token("eve", "approver", person="eve", teams=("shop",))
    refused = answer(two, eve, approval)
    assert (refused.status_code, refused.json()["code"]) == (403, "not_an_approver")
    noted = answer(two, ada, approval).json()
    assert (noted["outcome"], noted["message"]) == ("noted", "1 of 2 needed have granted A-1")
    twice = answer(two, phone, approval)
    assert (twice.status_code, twice.json()["code"]) == (409, "already_voted")
    granted = answer(two, bob, approval).json()
    assert granted["outcome"] == "granted"
    assert [(one["by"], one["decision"], one["teams"]) for one in granted["votes"]] == [
        ("ada", "approved", ["dba"]),
        ("bob", "approved", ["dba", "shop"]),
    ]
    again = answer(two, two.token("cyd", "approver", person="cyd", teams=("dba",)), approval)
    assert (again.status_code, again.json()["code"]) == (409, "already_decided")


@pytest.mark.req("POL-18", "RUN-3", "RUN-14")
def test_a_role_that_is_limited_to_a_group_changes_nothing_outside_it(two: World) -> None:
    client = two.client_of(two.token("ann", "operator:front", "approver:front", person="ann", teams=("shop", "dba")))
    assert client.get("/services").status_code == 200
    for target, status in (("web", 200), ("db", 403), ("free", 403)):
        body = {"kind": "restart_service", "target": target, "reason": "x"}
        assert client.post("/actions", json=body).status_code == status, target
    approval = asked(two, "db")
    body = {"job_id": approval["job_id"], "decision": "approved"}
    assert client.post("/approvals/grant", json=body).status_code == 403
    for scope, status in (
        ({"group": "front"}, 200),
        ({"service": "web"}, 200),
        ({"group": "data"}, 403),
        ({"service": "db"}, 403),
        ({"kind": "restart_service"}, 403),
        ({}, 403),
    ):
        assert client.post("/freeze", json={"on": True, **scope}).status_code == status, scope
    assert client.post("/freeze", json={"on": False}).status_code == 403
    for name, status in (("web", 200), ("db", 403)):
        override = client.put(f"/services/{name}/override", json={"replicas": 3, "reason": "sale"})
        assert override.status_code == status, override.text
    page = two.browser_of(two.token("ann-page", "approver:front", person="ann")).page()
    assert 'value="approved"' in page  # the answer itself is checked when it is sent


@pytest.mark.req("RUN-14")
@pytest.mark.parametrize(
    "body",
    [
        {"roles": ["admin:front"]},
        {"roles": ["viewer:front"]},
        {"roles": ["approver:"]},
        {"roles": ["chief"]},
        {"roles": ["approver"], "teams": ["two words"]},
        {"roles": ["approver"], "teams": [f"t{n}" for n in range(21)]},
    ],
)
def test_roles_and_teams_that_mean_nothing_make_no_token(two: World, body: dict[str, Any]) -> None:
    before = two.client().get("/tokens").json()
    assert two.client().post("/tokens", json={"name": "fresh", **body}).status_code == 400
    assert two.client().get("/tokens").json() == before


@pytest.mark.req("RUN-14")
def test_a_token_shows_its_teams(two: World) -> None:
    body = {"name": "fresh", "roles": ["approver:data"], "teams": ["dba", "dba"], "person": "ada"}
    made = two.client().post("/tokens", json=body).json()
    assert (made["roles"], made["teams"]) == (["approver:data"], ["dba"])
    assert two.client().get("/tokens").json()["items"][0]["teams"] == ["dba"]


@pytest.mark.req("POL-12")
def test_several_freezes_stand_side_by_side_and_each_shows_where_it_holds(two: World) -> None:
    client = two.client()
    client.post("/freeze", json={"on": True, "group": "front", "reason": "sale", "for_s": 7200})
    body = client.post("/freeze", json={"on": True, "kind": "stop_service"}).json()
    assert [(one["scope"], one["value"]) for one in body["freezes"]] == [("group", "front"), ("kind", "stop_service")]
    two.configuration.freeze("/data/FREEZE")
    shown = {one["name"]: one for one in client.get("/services").json()["items"]}
    assert [one["scope"] for one in shown["web"]["freeze"]] == ["group", "kind", "all"]
    assert [one["scope"] for one in shown["db"]["freeze"]] == ["kind", "all"]
    file = shown["db"]["freeze"][-1]
    assert (file["id"], file["owner"], file["at"]) == ("file", "file", None)
    assert "/data/FREEZE" in file["reason"]
    two.configuration.freeze("")
    two.clock.advance(7201)
    two.plane.tick("expiry")
    assert client.get("/services/web").json()["freeze"] == client.get("/services/db").json()["freeze"]
    told = [one["summary"] for one in client.get("/journal", params={"kind": "notice"}).json()["items"]]
    assert any(one.startswith("the freeze of group front by admin-person ended by itself") for one in told)


@pytest.mark.req("POL-12")
def test_lifting_one_scope_leaves_the_others(two: World) -> None:
    client = two.client()
    client.post("/freeze", json={"on": True, "service": "db"})
    client.post("/freeze", json={"on": True, "group": "front"})
    assert client.post("/freeze", json={"on": False, "service": "web"}).status_code == 404
    left = client.post("/freeze", json={"on": False, "service": "db"}).json()["freezes"]
    assert [(one["scope"], one["value"]) for one in left] == [("group", "front")]
    client.post("/freeze", json={"on": True})
    left = client.post("/freeze", json={"on": False}).json()["freezes"]
    assert [(one["scope"], one["value"]) for one in left] == [("group", "front")]  # of the whole fleet alone
    assert client.post("/freeze", json={"on": False}).json()["freezes"] == left  # there is none any more
    for wrong in ({"on": True, "all": True}, {"on": False, "all": True, "group": "front"}):
        assert client.post("/freeze", json=wrong).status_code == 400
    assert client.post("/freeze", json={"on": False, "all": True}).json()["freezes"] == []


@pytest.mark.req("POL-12")
@pytest.mark.parametrize(
    ("scope", "status"),
    [
        ({"group": "frnt"}, 404),
        ({"service": "nowhere"}, 404),
        ({"kind": "restart"}, 400),
        ({"group": "front", "service": "web"}, 400),
        ({"group": ""}, 400),
    ],
)
def test_a_freeze_of_what_does_not_exist_is_refused(two: World, scope: dict[str, str], status: int) -> None:
    assert two.client().post("/freeze", json={"on": True, **scope}).status_code == status
    assert two.client().get("/freeze").json()["freezes"] == []


@pytest.mark.req("POL-7")
def test_expiry_runs_while_the_fleet_is_not_healthy(two: World) -> None:
    approval = asked(two, "db")
    two.substrate.failing = "the network is down"
    two.clock.advance(86_401)
    two.plane.tick("expiry")
    assert two.client().get(f"/approvals/{approval['short_id']}").json()["status"] == "expired"
