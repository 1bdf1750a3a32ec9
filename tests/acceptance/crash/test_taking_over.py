"""How soon the next plane goes on where a dead one stopped, and when it must not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.acceptance.crash.audit import audit, gather
from tests.acceptance.crash.scenarios import SCENARIOS, stage
from tests.acceptance.crash.world import World

AT_ONCE = {
    "lost replica": ("admit.after#1", "commit_1.before#1", "call.after#1", "commit_2.before#1", "commit_2.after#1"),
    "approval": (
        "grant.after#1",
        "drain.after#1",
        "claim_work.after#1",
        "admit_grant.before#1",
        "admit_grant.after#1",
        "commit_2.before#1",
    ),
}


@pytest.mark.req("RUN-5", "PRO-14")
@pytest.mark.parametrize(("story", "kill"), [(story, kill) for story, kills in AT_ONCE.items() for kill in kills])
def test_on_sqlite_nobody_waits_for_what_a_dead_plane_held(
    story: str, kill: str, make_world: Callable[..., World]
) -> None:
    scenario = next(one for one in SCENARIOS if one.name == story)
    world = make_world("sqlite")
    steps = stage(scenario, world)
    assert world.run(steps, kill=kill)
    impatient = [[verb, 0.0] if verb == "settle" else [verb, *rest] for verb, *rest in steps]
    world.run(impatient, start=world.killed_in)
    assert [row for row in world.database.rows("SELECT * FROM outbox WHERE state <> 'succeeded'")] == []
    assert sorted((one.service, one.index) for one in world.living()) == [("queue", 0), ("shop", 0), ("shop", 1)]
