"""The real plane, killed with SIGKILL in a playbook, a failing watch, another system's action and an intent.

Each story is told once without a kill, and once for each place that is its own.  The quick depth dies on one side of
each place, the full depth on both; databases alternate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.acceptance.crash.audit import gather
from tests.acceptance.crash.depth import FULL, KINDS, on
from tests.acceptance.crash.judging import checked
from tests.acceptance.crash.scenarios import ANYWHERE, stage
from tests.acceptance.crash.stories import STORIES, Story
from tests.acceptance.crash.world import World

SIDES = ("before", "after")
PROMISES = pytest.mark.req(
    "AUT-20", "RUN-1", "RUN-2", "PLB-1", "PLB-4", "DWH-1", "DWH-2", "DWH-5", "DWH-7", "POL-20", "ASC-1", "ASC-12",
)  # fmt: skip


class Death(NamedTuple):
    """A plane of that story on that database dies at `kill`."""

    story: Story
    kill: str
    database: str


def deaths(*, full: bool) -> Iterator[Death]:
    places = [(story, place) for story in STORIES for place in story.deaths]
    for number, (story, place) in enumerate(places):
        step, _, passing = place.partition("#")
        for side in (0, 1) if full else (number // 2 % 2,):
            yield Death(story, f"{step}.{SIDES[side]}#{passing or 1}", KINDS[(number + side) % 2])


def parameters() -> list[object]:
    return [
        pytest.param(one, id=f"{one.database}-{one.story.name.replace(' ', '_')}-{one.kill}", marks=on(one.database))
        for one in deaths(full=FULL)
    ]


def told_once() -> list[object]:
    return [
        pytest.param(story, KINDS[number % 2], id=story.name.replace(" ", "_"), marks=on(KINDS[number % 2]))
        for number, story in enumerate(STORIES)
    ]


@PROMISES
@pytest.mark.parametrize("death", parameters())
def test_the_next_plane_goes_on_in_the_original_window_and_does_nothing_twice(
    death: Death, make_world: Callable[..., World]
) -> None:
    world = make_world(death.database, **death.story.settings)
    world.run_on(stage(death.story, world), [*death.story.kills, death.kill, None])
    checked(world, death.story)


@PROMISES
@pytest.mark.parametrize(("story", "database"), told_once())
def test_a_story_that_nobody_interrupts_passes_the_steps_that_it_names(
    story: Story, database: str, make_world: Callable[..., World]
) -> None:
    world = make_world(database, **story.settings)
    world.run_on(stage(story, world), [None])
    passed = {place.partition("#")[0].rpartition(".")[0] for place in world.trace(world.runs)}
    assert passed - ANYWHERE == set(story.passes) - ANYWHERE
    assert {place.partition("#")[0] for place in story.deaths} <= passed
    facts = gather(world, story.declared, **story.facts)
    assert Counter(row["state"] for row in facts.tables["outbox"]) == story.expects
    checked(world, story)


def test_the_quick_depth_dies_in_every_story_on_both_sides_and_on_both_databases() -> None:
    chosen = list(deaths(full=False))
    assert {one.story.name for one in chosen} == {story.name for story in STORIES}
    assert {one.database for one in chosen} == set(KINDS)
    assert {one.kill.partition("#")[0].rpartition(".")[2] for one in chosen} == set(SIDES)
