"""Overrides, plan and history as people meet them at a terminal, on real processes."""

from __future__ import annotations

import signal

import pytest

from tests.acceptance.cli.world import World, eventually


@pytest.mark.req("AUT-12", "RUN-5")
def test_an_override_is_set_survives_the_plane_and_is_cleared(world: World) -> None:
    plane = world.up(until="Try:")
    eventually(lambda: len(world.pids("web")) == 2)
    assert world.run("override").lines == ["nothing is overridden: the files say what is asked for"]
    made = world.run("override", "set", "web", "--replicas", "3", "--reason", "sale", "--for", "2h")
    assert made.code == 0, made.err
    assert made.lines[0].startswith("O-1: web: 3 replicas, until ")
    assert made.lines[-1] == "take it back:  fleetwarden override clear web"
    eventually(lambda: len(world.pids("web")) == 3)
    assert "override O-1 of admin" in world.run("status").out
    assert "override O-1 of admin" in world.run("explain", "web").out

    assert plane.ends(signal.SIGTERM) == 0
    listed = world.run("override", "list")  # the store itself, while no plane runs
    assert "O-1" in listed.out
    assert "in force" in listed.out
    world.up(until="Try:")
    eventually(lambda: world.ask("/services/web")["reason_code"] == "as_asked")
    assert len(world.pids("web")) == 3

    told = world.run("override", "clear", "web", "--reason", "over")
    assert (told.code, told.lines) == (0, ["O-1 of web is cleared: the files count again"])
    eventually(lambda: len(world.pids("web")) == 2)
    history = world.run("history", "web")
    assert "admin overrides web" in history.out
    assert "admin cleared override O-1" in history.out
    assert "scale_service" in history.out
    assert world.json("history", "web", "--limit", "1", "--json")["next"]

    unexplained = world.run("override", "set", "web", "--replicas", "2", "--for", "1h")
    assert (unexplained.code, unexplained.err) == (0, "")
    assert unexplained.lines[0].endswith("by admin: no reason was given")


@pytest.mark.req("AUT-12", "REC-9", "RUN-5")
def test_what_makes_no_sense_is_refused_with_what_would(world: World) -> None:
    world.up(until="Try:")
    eventually(lambda: len(world.pids("web")) == 2)
    for words, code, says in (
        (("override", "set", "nobody", "--replicas", "1", "--reason", "x"), 1, "known: web, worker"),
        (("override", "set", "web", "--reason", "x"), 2, "replicas, state, or both"),
        (("override", "set", "web", "--replicas", "-1", "--reason", "x"), 2, "replicas"),
        (("override", "set", "web", "--replicas", "1001", "--reason", "x"), 2, "0 to 1000"),
        (("override", "set", "web", "--state", "off", "--reason", "x"), 2, "state"),
        (("override", "clear", "web"), 1, "web has no override"),
        (("adopt", "web"), 1, "nothing that somebody else changed in web is held"),
        (("reassert", "web"), 1, "nothing that somebody else changed in web is held"),
    ):
        refused = world.run(*words)
        assert (refused.code, refused.out) == (code, ""), (words, refused)
        assert says in refused.err, (words, refused.err)
    plan = world.run("plan")
    assert plan.code == 0
    assert plan.lines[0] == "Nothing would be done now."
    assert world.run("foreign").lines == ["nobody else changed anything"]
    assert len(world.pids("web")) == 2
