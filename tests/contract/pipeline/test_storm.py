"""Storms and groups that must stay healthy, at the gate: on both databases, with the real reconciler and executor."""

from __future__ import annotations

import msgspec
import pytest

from fleetwarden.controllers.storm_watch import FACT, cleared, known_storms, severity_in
from fleetwarden.domain.actions import Kind, Source, Tier
from fleetwarden.domain.errors import Fenced
from fleetwarden.domain.fleet import Fleet, Service
from fleetwarden.domain.lifecycles import ApprovalState
from fleetwarden.domain.storm import FLEET
from fleetwarden.ports.stores import Page
from fleetwarden.testing import a_fleet, a_policy, a_request, a_service
from tests.contract.pipeline.conftest import Bench

NAMES = ("a", "b", "c", "d", "e", "f")


def running(bench: Bench, *names: str, group: str = "", **fields: object) -> Fleet:
    """These services run, and were seen up."""
    fleet = a_fleet(*(a_service(name, group=group) for name in names or NAMES), **fields)
    bench.files.declare(fleet=fleet)
    for name in names or NAMES:
        bench.substrate.boot(name)
    bench.look()
    bench.clock.advance(1)
    return fleet


def crash(bench: Bench, *names: str) -> None:
    for name in names:
        bench.substrate.crash(name, 0)


def decided(bench: Bench, code: str) -> set[tuple[str, str]]:
    found = bench.store.read(lambda tx: tx.decisions.list(Page()))
    return {(one.request.kind, one.request.target) for one in found if one.code == code}


def is_open(bench: Bench) -> bool:
    return bool(bench.store.read(known_storms).open)


def pages(bench: Bench) -> list[str]:
    return [one for one in bench.notices() if one.startswith("storm:")]


@pytest.mark.req("POL-15")
def test_from_three_sick_services_on_nothing_is_repaired_and_one_page_goes_out(bench: Bench) -> None:
    running(bench)
    crash(bench, "a", "b", "c")
    bench.look()
    assert bench.act() == 0
    assert decided(bench, "storm") == {(Kind.RESTART, name) for name in "abc"}
    bench.look()
    assert len(pages(bench)) == 1
    assert "3 of 6 services of the fleet are sick (a, b, c)" in pages(bench)[0]
    assert bench.calls() == 0


@pytest.mark.req("POL-15")
def test_two_sick_services_are_repaired_as_ever(bench: Bench) -> None:
    running(bench)
    crash(bench, "a", "b")
    bench.look()
    bench.act()
    assert not is_open(bench)
    assert bench.calls() == 2


@pytest.mark.req("POL-15", "PRO-1")
def test_what_was_authorised_before_the_storm_is_not_begun_in_it(bench: Bench) -> None:
    running(bench)
    crash(bench, "a")
    bench.look()  # prepared, and not executed yet
    crash(bench, "b", "c")
    bench.look()
    assert is_open(bench)
    bench.act()
    assert bench.calls() == 0


@pytest.mark.req("POL-15")
def test_a_person_is_not_held_by_a_storm_and_neither_is_a_start(bench: Bench) -> None:
    fleet = running(bench)
    crash(bench, "a", "b", "c")
    bench.look()
    bench.files.declare(fleet=msgspec.structs.replace(fleet, services={**fleet.services, "new": a_service("new")}))
    bench.look()
    own = a_request(fleet.services["a"], source=Source.OPERATOR, requested_by="ada", key="own")
    [answer] = bench.gate.admit([own], fence=None)
    assert answer.record is not None
    assert (Kind.START, "new") in decided(bench, "ok")


@pytest.mark.req("POL-15")
def test_it_ends_by_itself_when_it_is_calm_and_the_repairs_go_on(bench: Bench) -> None:
    running(bench)
    crash(bench, "a", "b", "c")
    bench.look()
    for name in "abc":
        bench.substrate.boot(name)  # by hand
    bench.look()
    assert is_open(bench)
    bench.clock.advance(301)
    bench.look()
    if bench.store.health().dialect == "sqlite":  # there the store goes by this clock
        assert not is_open(bench)
        assert any("the storm is over" in one for one in bench.notices())


@pytest.mark.req("POL-15")
def test_closed_by_a_person_the_same_services_are_repaired(bench: Bench) -> None:
    fleet = running(bench)
    crash(bench, "a", "b", "c")
    bench.look()
    bench.store.transact("clear", lambda tx: cleared(tx, fleet.services, by="ada", reason="power is back"))
    assert not is_open(bench)
    bench.look()
    bench.act()
    assert bench.calls() == 3
    assert any("ada closed the storm breaker (the fleet): power is back" in one for one in bench.notices())
    assert not is_open(bench)


def test_a_plane_that_starts_again_keeps_what_is_open_and_takes_an_old_outage_for_none(bench: Bench) -> None:
    running(bench)
    crash(bench, "a", "b", "c")
    bench.look()
    bench.build()
    bench.look()
    assert is_open(bench)
    bench.store.transact("calm", lambda tx: tx.facts.put(FACT, None))
    bench.build()
    bench.look()
    assert not is_open(bench), "they were down before this plane looked first"


def test_what_cannot_be_read_denies(bench: Bench) -> None:
    running(bench)
    bench.store.transact("spoil", lambda tx: tx.facts.put(FACT, {"open": 7}))
    ours = a_request(a_service("a"), key="ours")
    [answer] = bench.gate.admit([ours], fence=None)
    assert "cannot be read" in answer.reason


@pytest.mark.req("RUN-17")
def test_a_plane_that_lost_its_lease_opens_nothing(bench: Bench) -> None:
    fleet = running(bench)
    fence = bench.fence("fleet_reconciler")
    bench.store.transact("lease", lambda tx: tx.leases.release(fence))
    crash(bench, "a", "b", "c")
    look = bench.sightings.look(list(fleet.services.values()))
    with pytest.raises(Fenced):
        bench.reconciler._condition.run(fleet, look, fence)
    assert FLEET not in bench.store.read(known_storms).open


# ------------------------------------------------------------------------------------------------ min_healthy
def waits(bench: Bench) -> set[str]:
    found = bench.store.read(lambda tx: tx.approvals.in_state(ApprovalState.PENDING))
    return {one.request.target for one in found if "min_healthy" in one.waives}


def proposed(bench: Bench, kind: Kind, target: str, fleet: Fleet) -> str:
    ours = a_request(fleet.services[target], kind=kind, source=Source.OPERATOR, requested_by="ada")
    [answer] = bench.gate.admit([ours], fence=None)
    return answer.answer.value


@pytest.mark.req("POL-15")
def test_what_would_leave_a_group_with_too_few_waits_for_a_person(bench: Bench) -> None:
    fleet = running(bench, "a", "b", group="web", min_healthy={"web": 2})
    assert proposed(bench, Kind.RESTART, "a", fleet) == "queued"
    assert waits(bench) == {"a"}


@pytest.mark.req("POL-15")
def test_with_enough_left_or_on_one_that_is_down_nobody_is_asked(bench: Bench) -> None:
    fleet = running(bench, "a", "b", "c", group="web", min_healthy={"web": 2})
    assert proposed(bench, Kind.RESTART, "a", fleet) == "prepared"
    assert proposed(bench, Kind.RESTART, "b", fleet) == "queued", "a is under way, and so not healthy"
    bench.act()
    crash(bench, "c")
    bench.clock.advance(1)
    bench.look()
    assert (Kind.RESTART, "c") in decided(bench, "ok"), "what is down is not missed by being repaired"


@pytest.mark.req("POL-15")
def test_what_nobody_has_looked_at_is_not_healthy(bench: Bench) -> None:
    fleet = a_fleet(a_service("a", group="web"), a_service("b", group="web"), min_healthy={"web": 1})
    bench.files.declare(fleet=fleet)
    assert proposed(bench, Kind.STOP, "a", fleet) == "queued"


def test_a_group_without_the_limit_is_not_asked(bench: Bench) -> None:
    fleet = running(bench, "a", "b", group="web")
    bench.policy(a_policy(Tier.AUTO))
    assert proposed(bench, Kind.RESTART, "a", fleet) == "prepared"


@pytest.mark.req("POL-15")
def test_what_fails_in_a_storm_is_no_page_beside_the_storms_own(bench: Bench) -> None:
    running(bench, "a", "b", "c", group="left")
    running(bench, *(f"r{number}" for number in range(20)), group="right")
    bench.files.declare(fleet=a_fleet(*(a_service(name, group="left") for name in "abc"), *others()))
    bench.look()
    assert bench.store.read(lambda tx: severity_in(tx, "critical", "left")) == "critical"
    crash(bench, "a", "b", "c")
    bench.look()

    def told(severity: str, group: str) -> str:
        return bench.store.read(lambda tx: severity_in(tx, severity, group))

    assert bench.store.read(known_storms).for_group("left") is not None
    assert [told("critical", "left"), told("warning", "left"), told("critical", "right")] == [
        "error",
        "warning",
        "critical",
    ]


def others() -> list[Service]:
    return [a_service(f"r{number}", group="right") for number in range(20)]
