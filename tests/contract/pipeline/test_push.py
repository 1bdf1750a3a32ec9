"""Exits that are told make targeted passes: together where they come together, and none is lost."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fleetwarden.controllers.push import CADENCE, NAMES_MAX, Push
from fleetwarden.controllers.reconciler import CADENCE as RECONCILER
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.errors import StoreUnavailable
from fleetwarden.ports.stores import Page
from fleetwarden.testing import a_fleet, a_service
from tests.contract.pipeline.conftest import Bench


@pytest.fixture
def push(bench: Bench) -> Push:
    """Three services run and were looked at once."""
    bench.files.declare(fleet=a_fleet(*(a_service(name) for name in ("api", "db", "lone"))))
    for name in ("api", "db", "lone"):
        bench.substrate.boot(name)
    bench.look()
    return Push(bench.clock, bench.reconciler, bench.wakes, lambda: bench.fence(RECONCILER))


def targets(bench: Bench) -> list[list[str]]:
    """Of the targeted passes that did something, oldest first."""
    reports = bench.store.read(lambda tx: tx.reports.list(Page(limit=100)))
    return [list(one.body["targets"]) for one in reversed(reports) if one.body["targets"]]


@pytest.mark.req("REC-7")
def test_several_exits_make_one_pass_and_each_is_repaired(bench: Bench, push: Push) -> None:
    for name in ("db", "api", "db"):
        bench.substrate.crash(name, 0)
        push.ended(name)
    assert bench.wakes.event(CADENCE).is_set()
    assert push.run() == 2
    assert targets(bench) == [["api", "db"]]
    bench.act()
    assert {name: bench.substrate.instances(name) for name in ("api", "db")} == {"api": {0: True}, "db": {0: True}}
    assert push.run() == 0


@pytest.mark.req("REC-7")
def test_exits_during_a_pass_make_one_further_pass(bench: Bench, push: Push) -> None:
    def at(point: str) -> None:
        if point == "observe" and "api" not in push.waiting():
            bench.substrate.crash("api", 0)
            push.ended("api")
            push.ended("lone")

    bench.substrate.crash("db", 0)
    push.ended("db")
    bench.substrate._at = at
    assert push.run() == 1
    bench.substrate._at = lambda _: None
    assert push.waiting() == {"api", "lone"}
    assert push.run() == 2
    assert targets(bench) == [["db"], ["api", "lone"]]


@pytest.mark.req("REC-7")
def test_a_pass_that_fails_leaves_its_names_for_the_next_one(bench: Bench, push: Push) -> None:
    def fails() -> LeaseFence | None:
        raise StoreUnavailable("the disk is full")

    failing = Push(bench.clock, bench.reconciler, bench.wakes, fails)
    failing.ended("db")
    with pytest.raises(StoreUnavailable):
        failing.run()
    failing.ended("api")
    assert failing.waiting() == {"api", "db"}


@pytest.mark.req("REC-7")
def test_where_another_plane_leads_the_whole_pass_is_woken_instead(bench: Bench, push: Push) -> None:
    following = Push(bench.clock, bench.reconciler, bench.wakes, lambda: None)
    bench.wakes.event(RECONCILER).clear()
    bench.substrate.crash("db", 0)
    following.ended("db")
    assert following.run() == 0
    assert bench.wakes.event(RECONCILER).is_set()
    assert (bench.records(), following.waiting()) == ([], frozenset())


@pytest.mark.req("REC-7")
def test_a_storm_of_exits_is_left_to_the_whole_pass(bench: Bench, push: Push) -> None:
    bench.wakes.event(RECONCILER).clear()
    for number in range(NAMES_MAX + 1):
        push.ended(f"s{number}")
    assert push.run() == 0
    assert bench.wakes.event(RECONCILER).is_set()
    assert push.waiting() == frozenset()


@pytest.mark.req("REC-6", "REC-7")
def test_what_ends_again_and_again_is_looked_at_after_growing_pauses(bench: Bench, push: Push) -> None:
    looked = []
    for second in range(40):
        push.ended("db")
        looked += [second] if push.run() else []
        bench.clock.advance(1)
    assert looked[:3] == [0, 1, 2]  # a real failure a second after another is repaired at once
    gaps = [later - earlier for earlier, later in pairwise(looked[2:])]
    assert gaps == sorted(gaps)
    assert len(looked) < 12
    bench.clock.advance(200)
    push.run()
    push.ended("db")
    assert push.run() == 1  # what lived for long is looked at at once
