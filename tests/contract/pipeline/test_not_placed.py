"""Replicas that were asked for and are not there: no more are asked for; people are told once, after ten minutes."""

from __future__ import annotations

import pytest

from fleetwarden.controllers import missing_replicas
from fleetwarden.domain.fleet import Mode
from fleetwarden.domain.lifecycles import IntentState
from tests.contract.pipeline.conftest import Bench
from tests.contract.pipeline.scaling import Scaling, scaled
from tests.contract.pipeline.test_shadow import Watched
from tests.contract.store.conftest import Database, sqlite

__all__ = ["sqlite"]  # the fixture


@pytest.fixture
def timed(sqlite: Database) -> Bench:
    """Where the store goes by the clock that a test moves."""
    made = Bench(sqlite.open(), sqlite.clock)
    made.substrate.boot("web", 3)
    return made


def pages(bench: Bench) -> list[str]:
    return [one for one in bench.notices() if "that were asked for are ready" in one]


def minutes(world: Scaling, number: float, *, load: float = 60) -> None:
    """A tick a minute; nobody carries out what the passes would repair."""
    for _ in range(round(number)):
        world.load(load)
        world.tick(60)


def sick(bench: Bench) -> None:
    assert bench.substrate.sicken("web", 2)


@pytest.mark.req("ASC-18", "ORC-7")
def test_what_is_not_there_after_ten_minutes_is_told_once_and_holds_more(timed: Bench) -> None:
    world = Scaling(timed)
    sick(timed)
    world.load(60)
    world.tick()
    assert world.code() == "not_placed"
    minutes(world, 9)
    assert (pages(timed), world.intents()) == ([], [])
    minutes(world, 2)
    [told] = pages(timed)
    assert told.startswith("web: 2 of the 3 replicas that were asked for are ready, for 10 minutes (since ")
    minutes(world, 30)
    assert len(pages(timed)) == 1
    assert world.intents() == []
    assert world.code() == "not_placed"


@pytest.mark.req("ASC-18")
def test_a_restart_neither_begins_the_time_anew_nor_tells_again(timed: Bench) -> None:
    world = Scaling(timed)
    sick(timed)
    minutes(world, 6)
    world.restart()
    minutes(world, 6)
    assert len(pages(timed)) == 1
    world.restart()
    minutes(world, 20)
    assert len(pages(timed)) == 1


@pytest.mark.req("ASC-18")
def test_replicas_that_came_and_go_again_are_a_time_of_their_own(timed: Bench) -> None:
    world = Scaling(timed)
    sick(timed)
    minutes(world, 8)
    timed.substrate.heal("web", 2)
    minutes(world, 1, load=30)
    assert timed.store.read(lambda tx: tx.missing_replicas.all()) == {}
    sick(timed)
    minutes(world, 8)
    assert pages(timed) == []
    timed.substrate.blurred.add("web")  # a look that shows nothing ends nothing
    minutes(world, 1)
    timed.substrate.blurred.clear()
    minutes(world, 3)
    assert len(pages(timed)) == 1


@pytest.mark.req("ASC-18", "ASC-8")
def test_what_lasts_a_moment_writes_nothing(timed: Bench) -> None:
    watched = Watched(timed.store)
    timed.store = watched
    world = Scaling(timed)
    sick(timed)
    for _ in range(3):
        world.load(60)
        world.tick()
    timed.substrate.heal("web", 2)
    world.load(30)
    world.tick()
    assert watched.written.count("missing_replicas") == 0
    sick(timed)
    minutes(world, 14)
    assert watched.written.count("missing_replicas") == 2  # that it lasts, and that it was told


@pytest.mark.req("ASC-18", "AUT-9")
def test_an_executed_change_that_never_holds_is_told_by_its_own_watch_alone(timed: Bench) -> None:
    world = Scaling(timed)
    timed.substrate.start_s = 10**9  # what is started never becomes ready
    world.load(60)
    world.round()
    assert world.states() == ["executed"]
    minutes(world, 9)
    for _ in range(40):
        world.load(60)
        world.tick(30)
    assert world.intents()[-1].state is IntentState.FAILED
    assert sum("did not get there" in one for one in timed.notices()) == 1
    assert pages(timed) == []


@pytest.mark.req("ASC-18")
@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.DRY_RUN])
def test_what_is_not_ours_to_bring_about_is_not_told(timed: Bench, mode: Mode) -> None:
    world = Scaling(timed, scaled(mode=mode))
    sick(timed)
    minutes(world, 15)
    assert pages(timed) == []


@pytest.mark.req("ASC-18", "ASC-11")
def test_one_that_stays_due_keeps_nobody_else_from_being_told_of(timed: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of `a` its own watch will tell, so it is looked at in every tick; there is room for one in each."""
    monkeypatch.setattr(missing_replicas, "AT_ONCE", 1)
    monkeypatch.setattr(missing_replicas, "TOLD_AFTER", 120_000_000)
    timed.substrate.boot("a", 2)
    world = Scaling(timed, scaled("a"), scaled())
    world.load(45, "a")
    world.load(30)
    world.round()
    assert [(one.intent.service, one.state) for one in world.intents()] == [("a", IntentState.EXECUTED)]
    assert timed.substrate.sicken("a", 2)
    sick(timed)
    for _ in range(7):
        world.load(60, "a")
        minutes(world, 1)
    assert [one.split(":")[0] for one in pages(timed)] == ["web"]
