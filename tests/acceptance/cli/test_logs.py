"""`logs`: what replicas wrote last, as a person asks for it at a terminal."""

from __future__ import annotations

import pytest

from tests.acceptance.cli.world import World, eventually

REGISTRY = """\
version: 1
services:
  - name: web
    replicas: 2
    process:
      command: [sh, -c, "for n in 1 2 3; do echo line $n of {index}; done; echo password=hunter2; exec sleep 1000"]
  - name: mute
    process: {command: [sleep, "1000"]}
  - name: off
    desired: stopped
    process: {command: [sleep, "1000"]}
"""


@pytest.mark.req("RUN-5", "RUN-14")
def test_the_last_lines_of_each_replica_are_shown_without_secrets(world: World) -> None:
    world.write("fleet.yml", REGISTRY)
    world.up()
    eventually(lambda: len(world.pids("web")) == 2 and len(world.pids("mute")) == 1)
    eventually(lambda: "password" in world.run("logs", "web").out)
    told = world.run("logs", "web")
    assert told.code == 0, told
    assert all(f"line {line} of {index}" in told.out for line in (1, 2, 3) for index in (0, 1)), told.out
    assert "hunter2" not in told.out

    one = world.run("logs", "web", "--replica", "1", "--lines", "2")
    assert (one.code, "line 3 of 1" in one.out) == (0, True), one
    assert not any(words in one.out for words in ("line 2 of 1", "of 0")), one.out
    assert "earlier lines are not shown" in one.out
    body = world.json("logs", "web", "--lines", "1", "--json")
    assert (body["service"], [len(each["lines"]) for each in body["instances"]]) == ("web", [1, 1])

    assert "no output" in world.run("logs", "mute").out
    assert "nothing of off is there" in world.run("logs", "off").out
    for words, says in (
        (("logs", "nobody"), "no service 'nobody' in the registry"),
        (("logs", "web", "--replica", "7"), "web has no replica 7"),
    ):
        refused = world.run(*words)
        assert (refused.code, refused.out) == (1, ""), refused
        assert says in refused.err, refused.err
    assert world.run("logs", "web", "--lines", "0").code == 2
