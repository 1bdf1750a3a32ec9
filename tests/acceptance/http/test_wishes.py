"""Overrides, others' changes, the plan and a service's history, over HTTP and on the page."""

from __future__ import annotations

import pytest

from fleetwarden.app.identity import Role
from fleetwarden.domain.actions import Tier
from fleetwarden.domain.fleet import DesiredState, Mode, ScalingBlock
from fleetwarden.testing import a_service
from tests.acceptance.http.world import World


@pytest.fixture
def free(tmp_path):
    """A world where policy lets everything be done; `web` runs with its two replicas."""
    made = World(tmp_path, a_service("web", replicas=2), a_service("api"), tier=Tier.AUTO)
    made.substrate.boot("web", 2)
    made.substrate.boot("api", 1)
    made.look()
    yield made
    made.close()


def put(world, name="web", *, role=Role.OPERATOR, **body):
    return world.client(role).put(f"/services/{name}/override", json={"reason": "load", **body})


def later(world, seconds=60.0):
    world.clock.advance(seconds)
    world.look()


def service(world, name="web"):
    return world.client().get(f"/services/{name}").json()


@pytest.mark.req("AUT-12")
def test_an_override_outranks_the_files_until_it_is_cleared(free):
    made = put(free, replicas=3)
    assert made.status_code == 200, made.text
    assert (made.json()["id"], made.json()["by"], made.json()["until"]) == ("O-1", "operator-person", None)
    later(free)
    later(free)
    assert len(free.substrate.instances("web")) == 3
    shown = service(free)
    assert shown["desired"]["replicas"] == 3
    assert "override O-1 of operator-person" in shown["desired"]["source"]
    assert shown["overrides"]["reason"] == "load"
    assert "override O-1" in shown["reason"]
    [note] = shown["notes"]
    assert "fleetwarden override clear web" in note
    assert "override O-1 of operator-person" in free.browser().page()
    explained = free.client().get("/services/web/explain").json()
    assert explained["overrides"]["id"] == "O-1"
    cleared = free.client(Role.OPERATOR).delete("/services/web/override", params={"reason": "over"})
    assert (cleared.json()["ended_how"], cleared.json()["ended_by"]) == ("cleared", "operator-person")
    later(free)
    later(free)
    assert len(free.substrate.instances("web")) == 2
    assert service(free)["overrides"] is None


@pytest.mark.req("AUT-12")
def test_an_override_ends_by_itself_and_says_so(free):
    assert put(free, state="stopped", for_s=3600).status_code == 200
    later(free)
    later(free)
    assert free.substrate.instances("web") == {}
    later(free, 3600)
    later(free)
    assert len(free.substrate.instances("web")) == 2
    [row] = free.client().get("/service_overrides").json()["items"]
    assert row["ended_how"] == "expired"
    told = [one["summary"] for one in free.client().get("/journal", params={"kind": "notice"}).json()["items"]]
    assert any("has expired" in one for one in told)


@pytest.mark.req("AUT-12")
def test_an_override_still_passes_the_policy_gate_and_nobody_approves_their_own(tmp_path):
    world = World(tmp_path, a_service("web", replicas=1))
    try:
        world.substrate.boot("web", 1)
        world.look()
        both = world.client_of(world.token("both", Role.OPERATOR, Role.APPROVER, person="ada"))
        assert both.put("/services/web/override", json={"replicas": 4, "reason": "load"}).status_code == 200
        later(world)
        assert len(world.substrate.instances("web")) == 1
        [waiting] = world.client().get("/approvals", params={"status": "pending"}).json()["items"]
        assert (waiting["kind"], waiting["requested_by"]) == ("scale_service", "ada")
        order = {"job_id": waiting["job_id"], "decision": "approved", "reason": ""}
        own = both.post("/approvals/grant", json=order)
        assert (own.status_code, own.json()["code"]) == (403, "self_approval")
        assert world.client(Role.APPROVER).post("/approvals/grant", json=order).status_code == 200
        later(world)
        assert len(world.substrate.instances("web")) == 4
    finally:
        world.close()


@pytest.mark.req("AUT-11")
def test_only_an_override_sets_the_count_of_a_service_with_a_scaling_block(tmp_path):
    scaled = a_service("web", replicas=1, scaling=ScalingBlock(line=3))
    world = World(tmp_path, scaled, tier=Tier.AUTO)
    try:
        world.substrate.boot("web", 2)
        world.look()
        assert service(world)["reason_code"] == "follows_load"
        assert put(world, replicas=3).status_code == 200
        later(world)
        assert len(world.substrate.instances("web")) == 3
    finally:
        world.close()


@pytest.mark.req("AUT-12")
@pytest.mark.parametrize(
    ("name", "body", "status", "says"),
    [
        ("nobody", {"replicas": 1}, 404, "no service"),
        ("web", {}, 400, "ask for something"),
        ("web", {"replicas": -1}, 400, "replicas"),
        ("web", {"replicas": 100_001}, 400, "replicas"),
        ("web", {"replicas": True}, 400, "replicas"),
        ("web", {"state": "paused"}, 400, "state"),
        ("web", {"replicas": 1, "for_s": 0}, 400, "for_s"),
        ("web", {"replicas": 1, "reason": "  "}, 400, "reason"),
        ("web", {"replicas": 1, "reason": "x" * 501}, 400, "too long"),
        ("web", {"replicas": 1, "unit": "a"}, 400, "unknown field"),
    ],
)
def test_an_override_that_makes_no_sense_is_refused_and_changes_nothing(free, name, body, status, says):
    refused = put(free, name, **body)
    assert refused.status_code == status, refused.text
    assert says in refused.text
    assert free.client().get("/service_overrides").json()["items"] == []
    assert free.client(Role.OPERATOR).delete("/services/web/override").status_code == 404


@pytest.mark.req("AUT-12")
@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"scaling": ScalingBlock(line=3, controller_mode="external_hpa")}, "external_hpa"),
        ({"mode": Mode.OBSERVE}, "observe"),
    ],
)
def test_an_override_that_could_have_no_effect_is_refused_naming_why(tmp_path, fields, says):
    world = World(tmp_path, a_service("web", **fields), tier=Tier.AUTO)
    try:
        for body in ({"replicas": 2}, {"state": "stopped"}):
            refused = put(world, **body)
            assert refused.status_code in (403, 409), refused.text
            assert says in refused.json()["detail"]
    finally:
        world.close()


@pytest.mark.req("REC-9")
def test_a_change_by_somebody_else_is_shown_with_what_ends_it(free):
    free.substrate.scaled("web", 5, by="joe")
    later(free)
    shown = service(free)
    assert shown["reason_code"] == "foreign_held"
    assert [(one["field"], one["before"], one["after"], one["writer"]) for one in shown["foreign"]] == [
        ("replicas", "2", "5", "joe")
    ]
    explained = free.client().get("/services/web/explain").json()
    for told in (shown["reason"], explained["reason"], free.browser().page()):
        assert "fleetwarden adopt web" in told
        assert "fleetwarden reassert web" in told
    refused = free.client(Role.VIEWER).post("/services/web/reassert", json={})
    assert refused.status_code == 403
    answer = free.client(Role.OPERATOR).post("/services/web/reassert", json={"reason": "ours"})
    assert answer.json()["changes"][0]["state"] == "reasserted"
    later(free)
    later(free)
    assert len(free.substrate.instances("web")) == 2
    assert free.client(Role.OPERATOR).post("/services/web/adopt", json={}).status_code == 404


@pytest.mark.req("REC-9")
def test_an_override_ends_what_is_held_of_the_same_field(free):
    free.substrate.scaled("web", 5)
    later(free)
    put(free, replicas=4)
    later(free)
    later(free)
    assert len(free.substrate.instances("web")) == 4
    [change] = free.client().get("/foreign").json()["items"]
    assert (change["state"], change["note"]) == ("replaced", "override O-1")


@pytest.mark.req("RUN-5")
def test_the_plan_says_what_a_pass_would_do_and_does_nothing(free):
    free.configuration.declare_service(a_service("web", replicas=4))
    free.configuration.declare_service(a_service("api", desired=DesiredState.STOPPED))
    free.clock.advance(60)
    before = free.client().get("/journal").json()
    plan = free.client(Role.VIEWER).get("/plan").json()
    assert {(one["service"], one["kind"], one["would"]) for one in plan["steps"]} == {
        ("web", "scale_service", "act"),
        ("api", "stop_service", "act"),
    }
    for topic in ("decisions", "actions", "approvals"):
        assert free.client().get(f"/{topic}").json()["items"] == []
    assert free.client().get("/journal").json() == before
    free.work()
    assert free.called() == []
    free.look()
    assert sorted(free.called()) == ["scale_service web", "stop_service api"]


@pytest.mark.req("RUN-5")
def test_the_plan_foresees_a_change_by_somebody_else(free):
    free.substrate.scaled("web", 9)
    free.clock.advance(60)
    plan = free.client().get("/plan").json()
    assert plan["steps"] == []
    assert plan["at_rest"]["web"]["code"] == "foreign_held"
    assert free.client().get("/foreign").json()["items"] == []


@pytest.mark.req("RUN-5")
def test_history_is_one_timeline_of_everything_page_by_page(free):
    put(free, replicas=3)
    later(free)
    free.substrate.scaled("web", 6, by="joe")
    later(free)
    whole = free.client(Role.VIEWER).get("/services/web/history", params={"limit": 500}).json()
    assert whole["next"] is None
    kinds = {one["what"] for one in whole["items"]}
    assert {"decision", "execution", "override", "foreign_change", "notice"} <= kinds
    times = [one["at"] for one in whole["items"]]
    assert times == sorted(times, reverse=True)
    paged, cursor = [], ""
    while True:
        query = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = free.client().get("/services/web/history", params=query).json()
        paged += page["items"]
        cursor = page["next"]
        if cursor is None:
            break
    assert paged == whole["items"]
    assert free.client().get("/services/api/history").json()["items"] == []
    assert free.client().get("/services/web/history", params={"cursor": "Z9"}).status_code == 400
