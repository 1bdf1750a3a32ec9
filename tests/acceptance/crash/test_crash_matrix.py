"""The real plane, killed with SIGKILL at every named step, started again, and audited.

Every story of `scenarios` is told once without a kill (which shows that all its steps are known here) and once for each
step and each side of it.  The quick depth dies at every step at least once, on alternating databases; the full depth
dies in every story at every step, on alternating databases as well (FLEETWARDEN_CRASH_DATABASES=both: on each), and at
every later passing of a step, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.acceptance.crash.audit import gather
from tests.acceptance.crash.depth import FULL, KINDS, TWICE, full_only, on
from tests.acceptance.crash.judging import checked
from tests.acceptance.crash.scenarios import ANYWHERE, SCENARIOS, Scenario, stage
from tests.acceptance.crash.world import World

PROMISES = pytest.mark.req(
    "AUT-7", "AUT-8", "AUT-10", "AUT-14", "AUT-15", "AUT-16", "AUT-20", "PRO-3", "PRO-6", "PRO-10", "PRO-11", "PRO-14",
    "PRO-15", "POL-6", "POL-8", "RUN-5",
)  # fmt: skip


class Case(NamedTuple):
    """A plane of that scenario on that database dies at `kill`."""

    scenario: Scenario
    kill: str
    database: str


def at_every_step() -> Iterator[Case]:
    for scenario in SCENARIOS:
        for step in scenario.passes:
            for side in ("before", "after"):
                for database in KINDS:
                    yield Case(scenario, f"{step}.{side}#1", database)


def at_every_step_once() -> list[Case]:
    """In every story at every step: before one step on one database and after it on the other, then the other way."""
    cases = [case for case in at_every_step() if case.database == KINDS[0]]
    return [case._replace(database=KINDS[(number + number // 2) % 2]) for number, case in enumerate(cases)]


def at_each_step_once() -> list[Case]:
    """Each kill point once, in the scenario that has had the fewest so far, on alternating databases."""
    chosen: list[Case] = []
    deaths: Counter[str] = Counter()
    by_kill: dict[str, list[Scenario]] = {}
    for case in at_every_step():
        if case.database == KINDS[0]:
            by_kill.setdefault(case.kill, []).append(case.scenario)
    for number, (kill, candidates) in enumerate(sorted(by_kill.items(), key=lambda item: len(item[1]))):
        scenario = min(candidates, key=lambda one: deaths[one.name])
        deaths[scenario.name] += 1
        chosen.append(Case(scenario, kill, KINDS[number % 2]))
    return chosen


def cases_of_this_depth() -> list[Case]:
    if not FULL:
        return at_each_step_once()
    return list(at_every_step()) if TWICE else at_every_step_once()


def parameters(cases: list[Case]) -> list[object]:
    return [
        pytest.param(
            case,
            id=f"{case.database}-{case.scenario.name.replace(' ', '_')}-{case.kill}",
            marks=on(case.database),
        )
        for case in cases
    ]


def on_databases() -> list[object]:
    """Every scenario; alternating databases in the quick depth."""
    return [
        pytest.param(
            scenario,
            database,
            id=f"{database}-{scenario.name.replace(' ', '_')}",
            marks=on(database),
        )
        for number, scenario in enumerate(SCENARIOS)
        for database in (KINDS if FULL else (KINDS[number % 2],))
    ]


@PROMISES
@pytest.mark.parametrize("case", parameters(cases_of_this_depth()))
def test_a_plane_that_is_killed_at_a_step_loses_and_doubles_nothing(
    case: Case, make_world: Callable[..., World]
) -> None:
    world = make_world(case.database, **case.scenario.settings)
    world.run_on(stage(case.scenario, world), [*case.scenario.kills, case.kill, None])
    checked(world, case.scenario)


@pytest.mark.req("AUT-20")
@pytest.mark.parametrize(("scenario", "database"), on_databases())
def test_every_step_of_a_story_is_a_kill_point_of_the_matrix(
    scenario: Scenario, database: str, make_world: Callable[..., World]
) -> None:
    world = make_world(database, **scenario.settings)
    world.run_on(stage(scenario, world), [*scenario.kills, None])
    passed = {place.partition("#")[0].rpartition(".")[0] for place in world.trace(world.runs)}
    assert passed - ANYWHERE == set(scenario.passes) - ANYWHERE
    assert set(scenario.passes) <= passed
    facts = gather(world, scenario.declared, **scenario.facts)
    assert Counter(row["state"] for row in facts.tables["outbox"]) == scenario.expects
    checked(world, scenario)


@full_only("dies at every passing of every step")
@PROMISES
@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "database"), on_databases())
def test_a_plane_may_die_at_every_later_passing_of_a_step(
    scenario: Scenario, database: str, make_world: Callable[..., World]
) -> None:
    calm = make_world(database, **scenario.settings)
    calm.run_on(stage(scenario, calm), [*scenario.kills, None])
    later = [
        place
        for place in calm.trace(calm.runs)
        if not place.endswith("#1") and place.rpartition(".")[0] not in ANYWHERE
    ]
    calm.close()
    half = later[KINDS.index(database) :: 2]  # the other half dies on the other database
    for place in half:
        world = make_world(database, **scenario.settings)
        world.run_on(stage(scenario, world), [*scenario.kills, place, None])
        checked(world, scenario)
        world.close()


def test_the_quick_depth_dies_at_every_step_and_on_both_databases() -> None:
    chosen = at_each_step_once()
    assert {case.kill for case in chosen} == {case.kill for case in at_every_step()}
    assert {case.database for case in chosen} == set(KINDS)
    assert {case.scenario.name for case in chosen} == {scenario.name for scenario in SCENARIOS}


def test_the_full_depth_dies_in_every_story_at_every_step_and_in_each_on_both_databases() -> None:
    chosen = at_every_step_once()
    assert {(one.scenario.name, one.kill) for one in chosen} == {
        (one.scenario.name, one.kill) for one in at_every_step()
    }
    for side in (".before#1", ".after#1"):
        for scenario in SCENARIOS:
            databases = [one.database for one in chosen if one.scenario is scenario and one.kill.endswith(side)]
            assert len(databases) < 2 or set(databases) == set(KINDS)
