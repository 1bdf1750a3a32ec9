"""Where another controller writes the count, what would have been asked for is kept, and only where it changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import pytest

from fleetwarden.controllers.shadowing import last_seen, prune
from fleetwarden.domain.errors import StoreUnavailable
from fleetwarden.domain.fleet import DesiredState, Mode
from fleetwarden.domain.located import located
from fleetwarden.domain.scaling import read_block
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.domain.shadow import ShadowRun, compare
from fleetwarden.domain.signals import SampleFault
from fleetwarden.ports.shadows import SHADOW_KEPT
from fleetwarden.ports.stores import Store, Tx
from fleetwarden.testing import a_service
from tests.contract.pipeline.conftest import Bench
from tests.contract.pipeline.scaling import Scaling, scaled
from tests.contract.store.conftest import Database, sqlite

__all__ = ["sqlite"]  # the fixture
T = TypeVar("T")


@pytest.fixture
def timed(sqlite: Database) -> Bench:
    """Where the store goes by the clock that a test moves."""
    made = Bench(sqlite.open(), sqlite.clock)
    made.substrate.boot("web", 2)
    return made


class Watched:
    """The store, with the names of its write transactions noted; those in `broken` fail."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.written: list[str] = []
        self.broken: set[str] = set()

    def transact(self, name: str, fn: Callable[[Tx], T]) -> T:
        self.written.append(name)
        if name in self.broken:
            raise StoreUnavailable("the disk is full")
        return self._store.transact(name, fn)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def observed(**over: Any) -> Any:
    return scaled(mode=Mode.OBSERVE, **over)


def runs(bench: Bench, name: str = "web") -> list[ShadowRun]:
    return list(bench.store.read(lambda tx: tx.shadows.of(name)))


def verdicts(bench: Bench, name: str = "web") -> list[tuple[int, int, int, str]]:
    return [(one.current, one.desired, one.raw, one.reason) for one in runs(bench, name)]


@pytest.mark.req("ASC-19", "AUT-18")
def test_what_would_have_been_asked_for_is_kept_in_runs_and_nothing_follows(bench: Bench) -> None:
    world = Scaling(bench, observed())
    for load in (20, 20, 20, 45, 45):
        world.load(load)
        world.tick()
    bench.substrate.boot("web", 5)  # the other controller
    world.load(45)
    world.tick()
    assert verdicts(bench) == [(2, 2, 2, "deadband"), (2, 5, 5, "scale_up"), (5, 5, 5, "at_target")]
    first, second, third = runs(bench)
    assert (first.until, second.until, third.until) == (second.at, third.at, None)
    assert (world.intents(), bench.decisions(), bench.records()) == ([], [], [])


@pytest.mark.req("ASC-19", "AUT-18")
@pytest.mark.parametrize("mode", ["external_hpa", "external_keda"])
def test_external_modes_are_in_shadow_and_behavior_bounds_what_would_be_asked_for(bench: Bench, mode: str) -> None:
    behavior = {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}
    over: dict[str, Any] = {"min": 1, "max": 6, "signal": "q", "target": 10, "controller_mode": mode}
    block = read_block(located({**over, "behavior": behavior}, "fleet.yml", 3), on_kubernetes=True)
    assert isinstance(block, ScalingBlock)
    world = Scaling(bench, a_service("web", replicas=2, scaling=block))
    world.load(45)
    world.tick()
    assert verdicts(bench) == [(2, 3, 5, "scale_up")]
    assert world.intents() == []


@pytest.mark.req("ASC-19", "ASC-8")
def test_a_tick_that_says_nothing_new_writes_nothing_but_a_mark_every_few_minutes(timed: Bench) -> None:
    watched = Watched(timed.store)
    timed.store = watched
    world = Scaling(timed, observed(), scaled("api"))
    timed.substrate.boot("api", 2)
    for _ in range(3):
        world.load(20)
        world.load(20, "api")
        world.tick()
    watched.written.clear()
    for _ in range(41):  # ten minutes and a bit
        world.load(20)
        world.load(20, "api")
        world.tick()
    assert watched.written.count("shadow") == 2
    assert len(runs(timed)) == 1
    assert runs(timed, "api") == []  # native and live: not in shadow


@pytest.mark.req("ASC-19", "AUT-12")
def test_another_life_goes_on_with_the_run_of_what_is_to_be_stopped(timed: Bench) -> None:
    world = Scaling(timed, observed(desired=DesiredState.STOPPED))
    for _ in range(2):
        world.tick()
        world.restart()
    assert [one.reason for one in runs(timed)] == ["skip_override"]


@pytest.mark.req("ASC-19")
def test_another_life_goes_on_with_the_run_and_a_long_silence_ends_it(timed: Bench) -> None:
    world = Scaling(timed, observed())
    world.load(20)
    world.tick()
    world.restart()
    world.load(20)
    world.tick()
    assert len(runs(timed)) == 1
    for restarted in (True, False):
        seen = timed.store.read(last_seen)
        timed.clock.advance(3600)
        if restarted:
            world.restart()
        world.load(20)
        world.tick()
        *_, before, after = runs(timed)
        assert before.until is not None
        assert seen <= before.until < after.at - 3000 * 1_000_000
        assert verdicts(timed)[-1] == verdicts(timed)[0]
    told = compare(runs(timed), since=0, seen=timed.store.read(last_seen))
    assert told.judged_s < 60


@pytest.mark.req("ASC-19")
def test_who_may_act_again_is_in_shadow_no_more(timed: Bench) -> None:
    world = Scaling(timed, observed(), scaled("api", mode=Mode.OBSERVE))
    timed.substrate.boot("api", 2)
    world.load(20)
    world.load(20, "api")
    world.tick()
    world.declare(scaled(), scaled("api", mode=Mode.OBSERVE))
    world.load(20)
    world.load(20, "api")
    world.tick()
    assert [one.until is None for one in runs(timed)] == [False]
    assert [one.until is None for one in runs(timed, "api")] == [True]


@pytest.mark.req("ASC-19", "ASC-17")
def test_a_query_rotated_out_of_its_batch_changes_no_run(timed: Bench) -> None:
    world = Scaling(timed, observed())
    world.load(45)
    world.tick()
    world.signals.set_error("web", "q", SampleFault.NOT_ASKED, "the other half's turn")
    world.tick()
    assert world.code() == "not_asked"
    world.load(45)
    world.tick()
    assert verdicts(timed) == [(2, 5, 5, "scale_up")]


@pytest.mark.req("ASC-19")
def test_after_a_write_that_failed_the_store_is_read_anew(timed: Bench) -> None:
    watched = Watched(timed.store)
    timed.store = watched
    world = Scaling(timed, observed())
    world.load(20)
    world.tick()
    watched.broken = {"shadow"}
    world.load(45)
    with pytest.raises(StoreUnavailable):
        world.tick()
    watched.broken = set()
    world.load(45)
    world.tick()
    assert verdicts(timed) == [(2, 2, 2, "deadband"), (2, 5, 5, "scale_up")]


@pytest.mark.req("ASC-19")
def test_runs_are_kept_for_thirty_days(timed: Bench) -> None:
    world = Scaling(timed, observed())
    for load in (20, 45, 20):
        world.load(load)
        world.tick()
    assert len(runs(timed)) == 3
    assert prune(timed.store) == 0
    timed.clock.advance(SHADOW_KEPT / 1_000_000 + 1)
    assert prune(timed.store) == 2
    assert [one.until for one in runs(timed)] == [None]
    assert msgspec.structs.asdict(runs(timed)[0])["number"] == 3


@pytest.mark.req("ASC-19")
def test_a_tick_between_two_measurements_changes_no_run(timed: Bench) -> None:
    world = Scaling(timed, observed())
    world.signals.set("web", "q", 45, observed_at=timed.clock.now())
    world.tick()
    world.tick()  # the same sample once more
    assert world.code() == "no_news"
    world.load(45)
    world.tick()
    assert verdicts(timed) == [(2, 5, 5, "scale_up")]
