"""The doctor over HTTP, and what a probe tells without a token: what does not move, and what to do about it."""

from __future__ import annotations

import pytest

from fleetwarden.app.identity import Role, local_admin
from fleetwarden.controllers.epochs import begin_restored
from fleetwarden.ports.stores import WorkDraft
from tests.acceptance.http.world import World


def findings(world: World) -> dict[str, list[tuple[str, str]]]:
    """Of each check, the level and what was told."""
    found: dict[str, list[tuple[str, str]]] = {}
    body = world.client(Role.VIEWER).get("/doctor").json()
    for one in body["findings"]:
        assert (one["hint"] is None) == (one["level"] == "ok"), one
        found.setdefault(one["check"], []).append((one["level"], one["told"]))
    assert body["errors"] == sum(level == "error" for rows in found.values() for level, _ in rows)
    return found


@pytest.mark.req("RUN-11")
def test_a_plane_in_order_has_nothing_to_put_right(world: World) -> None:
    for name in world.plane.loop.states:
        world.plane.tick(name)
    found = findings(world)
    for check in ("store", "clock", "freeze", "queue", "outcomes", "pass", "lease"):
        assert [level for level, _ in found[check]] == ["ok"], found[check]
    assert world.bare.get("/readyz").json()["stalled"] == []


@pytest.mark.req("RUN-11")
def test_an_overdue_pass_is_named_by_doctor_and_by_the_probe(world: World) -> None:
    world.plane.tick("fleet_reconciler")
    world.clock.advance(3600)
    world.plane.loop.watch_over()
    [(level, told)] = findings(world)["pass"]
    assert (level, told.split(":")[0]) == ("error", "fleet_reconciler is overdue")
    assert any("fleet_reconciler is overdue" in one for one in world.bare.get("/readyz").json()["stalled"])


@pytest.mark.req("RUN-11")
def test_a_lease_that_nobody_holds_is_named(world: World) -> None:
    world.plane.tick("fleet_reconciler")
    assert findings(world)["lease"][0][0] == "ok"
    world.store.transact("void", lambda tx: tx.leases.void_all())
    assert ("error", "nobody holds the lease of fleet_reconciler") in findings(world)["lease"]
    assert "lease: nobody holds the lease of fleet_reconciler" in world.bare.get("/readyz").json()["stalled"]


@pytest.mark.req("RUN-11")
def test_a_queue_that_does_not_drain_is_named(world: World) -> None:
    world.store.transact("work", lambda tx: tx.work.enqueue(WorkDraft(kind="nobody", key="k", payload={})))
    world.clock.advance(60)
    assert findings(world)["queue"][0][0] == "ok"
    world.clock.advance(120)
    [(level, told)] = findings(world)["queue"]
    assert level == "error"
    assert "the queue does not drain" in told
    assert any("does not drain" in one for one in world.bare.get("/readyz").json()["stalled"])


@pytest.mark.req("RUN-11", "POL-12")
def test_each_freeze_is_named_with_what_ends_it_and_no_other(world: World) -> None:
    for scope in ({}, {"service": "web"}):
        world.client().post("/freeze", json={"on": True, **scope})
    hints = {one["hint"] for one in world.client().get("/doctor").json()["findings"] if one["check"] == "freeze"}
    assert hints == {"fleetwarden freeze off", "fleetwarden freeze off --service web"}


@pytest.mark.req("RUN-11", "RUN-13")
def test_a_restored_store_and_a_freeze_are_told_apart(world: World) -> None:
    world.plane.administration.freeze(local_admin(), reason="lunch", for_s=None)
    world.store.transact("restore", lambda tx: begin_restored(tx, {}, at=1, highest={}, by="test"))
    found = findings(world)
    assert [level for level, _ in found["freeze"]] == ["warning"]
    assert "lunch" in found["freeze"][0][1]
    assert [level for level, _ in found["epoch"]] == ["error"]
    denied = world.client(Role.OPERATOR).post("/epochs/release", json={"reason": "looked"})
    assert denied.status_code == 403
    assert world.client(Role.ADMIN).post("/epochs/release", json={"reason": ""}).status_code == 400
    released = world.client(Role.ADMIN).post("/epochs/release", json={"reason": "looked"})
    assert [one["holds"] for one in released.json()["items"]] == [False]
    assert world.client(Role.ADMIN).post("/epochs/release", json={"reason": "again"}).status_code == 409
    assert "epoch" not in findings(world)
    [epoch] = world.client(Role.VIEWER).get("/epochs").json()["items"]
    assert (epoch["kind"], epoch["reason"]) == ("restored", "looked")


@pytest.mark.req("RUN-11", "RUN-14")
def test_expired_tokens_and_the_lack_of_a_valid_admin_are_named(world: World) -> None:
    world.token("brief", "viewer", for_s=3600)
    assert any("brief expires at" in told for _, told in findings(world)["tokens"])
    world.clock.advance(3601)
    assert ("warning", "brief") in [(level, told.split()[2]) for level, told in findings(world)["tokens"]]


@pytest.mark.req("RUN-11")
def test_an_unreadable_store_is_the_first_thing_that_is_told(world: World) -> None:
    world.store.breaks_after(1)  # who asks is still known
    body = world.client(Role.VIEWER).get("/doctor").json()
    assert (body["findings"][0]["check"], body["findings"][0]["level"]) == ("store", "error")
    assert any("store" in one for one in world.bare.get("/readyz").json()["stalled"])
