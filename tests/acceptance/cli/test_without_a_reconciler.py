"""A plane that reconciles nothing still does what people have said yes to, and nothing else."""

from __future__ import annotations

import pytest

from tests.acceptance.cli.world import ASKS, SETTINGS, World, eventually


@pytest.mark.req("REC-5")
def test_what_a_person_grants_is_carried_out_and_nothing_else_is_begun(world: World) -> None:
    world.write(".env", SETTINGS.replace("FLEET_RECONCILER=true", "FLEET_RECONCILER=false"))
    world.write("policy.yml", ASKS)
    world.up()
    bob = ("--token", world.run("token", "create", "bob", "--role", "operator").lines[1].strip())
    asked = world.json("action", "propose", "start", "web", "--reason", "the day begins", *bob)
    assert asked["decision"] == "queue_approval"
    assert (world.pids("web"), world.pids("worker")) == ([], [])
    granted = world.run("approvals", "grant", asked["approval_id"], "--reason", "looked")
    assert granted.code == 0, granted
    eventually(lambda: len(world.pids("web")) == 2)
    [done] = world.ask("/actions?limit=50")["items"]
    assert (done["approval_id"], world.pids("worker")) == (asked["approval_id"], [])
