"""The storm breaker: who counts as sick, from how many on it opens, and when it closes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.domain.fleet import DesiredState, ObservedService, Presence, Service, ServiceStatus
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.storm import (
    CALM,
    FLEET,
    RECENT,
    Memory,
    Sickness,
    StormLimits,
    Storms,
    after_clear,
    sickness,
    step,
)
from fleetwarden.testing import a_service

UP, DOWN, UNKNOWN, DEGRADED = ServiceStatus.UP, ServiceStatus.DOWN, ServiceStatus.UNKNOWN, ServiceStatus.DEGRADED
LIMITS = StormLimits()
NAMES = ("a", "b", "c", "d")


def fleet(*names: str, group: str = "") -> dict[str, Service]:
    return {name: a_service(name, group=group) for name in names or NAMES}


def seen(status: ServiceStatus, *names: str, presence: Presence = Presence.STARTED) -> dict[str, ObservedService]:
    return {
        name: ObservedService(name=name, observed_at=0, source="x", status=status, presence=presence) for name in names
    }


def memory_of(services: Mapping[str, Service], *looks: tuple[int, dict[str, ObservedService]]) -> Memory:
    made = Memory()
    for at, look in looks:
        made.look(services.values(), look, at)
    return made


@pytest.mark.req("POL-15")
@pytest.mark.parametrize(
    ("total", "threshold"), [(1, 3), (3, 3), (9, 3), (10, 3), (11, 4), (20, 6), (21, 7), (100, 30), (101, 31)]
)
def test_it_takes_three_or_thirty_percent(total: int, threshold: int) -> None:
    assert LIMITS.threshold(total) == threshold


@given(total=st.integers(1, 2000), percent=st.floats(0.1, 100), least=st.integers(1, 50))
def test_the_threshold_is_the_smallest_count_that_is_both(total: int, percent: float, least: int) -> None:
    threshold = StormLimits(least=least, percent=percent).threshold(total)
    assert threshold >= least
    assert threshold * 100 >= total * percent - 1e-6
    assert threshold == least or (threshold - 1) * 100 < total * percent + 1e-6


@pytest.mark.req("POL-15")
@pytest.mark.parametrize("status", [DOWN, UNKNOWN])
def test_who_was_up_and_fell_is_sick_for_ten_minutes(status: ServiceStatus) -> None:
    services = fleet()
    memory = memory_of(services, (0, seen(UP, *NAMES)), (5, seen(status, "a", "b")), (9, seen(status, "a", "b")))
    assert memory.fell == {"a": 5, "b": 5}
    assert sickness(services, memory.fell, {}, Storms(), 5 + RECENT)[FLEET].names == ("a", "b")
    assert sickness(services, memory.fell, {}, Storms(), 6 + RECENT)[FLEET].names == ()


@pytest.mark.req("POL-15")
@pytest.mark.parametrize(
    "looks",
    [
        [seen(DOWN, *NAMES)],  # nobody saw them up
        [seen(UP, *NAMES), seen(DOWN, *NAMES, presence=Presence.STOPPED_BY_OTHER)],
        [seen(UP, *NAMES), seen(DOWN, *NAMES, presence=Presence.NOT_SINCE_BOOT)],
        [seen(UP, *NAMES), seen(DOWN, *NAMES), seen(UP, *NAMES)],
        [seen(UP, *NAMES), seen(DEGRADED, *NAMES)],
        [seen(UP, *NAMES), {}],  # nobody looked: no evidence
    ],
)
def test_what_is_no_failure_is_no_sickness(looks: list[dict[str, ObservedService]]) -> None:
    services = fleet()
    memory = memory_of(services, *enumerate(looks))
    assert sickness(services, memory.fell, {}, Storms(), 10)[FLEET].names == ()


def test_what_is_meant_to_be_stopped_or_is_not_declared_any_more_is_forgotten() -> None:
    memory = memory_of(fleet(), (0, seen(UP, *NAMES)), (1, seen(DOWN, *NAMES)))
    memory.look([a_service("a", desired=DesiredState.STOPPED)], seen(DOWN, "a"), 2)
    memory.keep({"a", "b"})
    assert set(memory.fell) == {"b"}


@pytest.mark.req("POL-15")
def test_what_is_in_flight_counts_and_what_is_scaled_or_started_does_not() -> None:
    services = fleet()
    kinds = {
        "a": "restart_service",
        "b": "stop_service",
        "c": "scale_service",
        "d": "start_service",
        "x": "stop_service",
    }
    assert sickness(services, {}, kinds, Storms(), 0)[FLEET].names == ("a", "b")


@pytest.mark.req("POL-15")
def test_a_group_of_three_has_a_breaker_of_its_own_and_a_pair_has_none() -> None:
    services = {**fleet("a", "b", "c", group="web"), **fleet("d", "e", group="db"), **fleet(*"fghijklmno")}
    found = sickness(services, dict.fromkeys(("a", "b", "c", "d", "e"), 0), {}, Storms(), 1)
    assert set(found) == {FLEET, "group:web"}
    opened = step(Storms(), found, LIMITS, 1)
    assert set(opened.open) == {FLEET, "group:web"}
    assert opened.for_group("web") == opened.open[FLEET]
    only = Storms(open={"group:web": opened.open["group:web"]})
    assert only.for_group("web") is not None
    assert only.for_group("db") is None
    assert only.for_group("") is None


def of(sick: int, total: int = 8) -> dict[str, Sickness]:
    return {FLEET: Sickness(names=tuple(f"s{number}" for number in range(sick)), total=total)}


@pytest.mark.req("POL-15")
def test_it_closes_after_five_calm_minutes_in_a_row() -> None:
    storms = step(Storms(), of(3), LIMITS, 0)
    assert storms.open[FLEET].sick == 3
    storms = step(storms, of(2), LIMITS, 10)
    assert storms.open[FLEET].calm_since == 10
    storms = step(storms, of(3), LIMITS, 10 + CALM - 1)
    assert storms.open[FLEET].calm_since is None
    storms = step(storms, of(2), LIMITS, 10 + CALM)
    storms = step(storms, of(0), LIMITS, 10 + 2 * CALM - 1)
    assert FLEET in storms.open
    assert not step(storms, of(0), LIMITS, 10 + 2 * CALM).open


@pytest.mark.req("POL-15")
def test_closed_by_a_person_it_opens_again_only_for_new_sickness() -> None:
    services = fleet(*"abcdef")
    fell = dict.fromkeys(("a", "b", "c"), 5)
    storms = step(Storms(), sickness(services, fell, {}, Storms(), 6), LIMITS, 6)
    assert FLEET in storms.open
    storms = after_clear(storms, sickness(services, fell, {}, storms, 7), 7)
    repairing = {"a": "restart_service", "b": "restart_service", "c": "restart_service"}
    storms = step(storms, sickness(services, fell, repairing, storms, 8), LIMITS, 8)
    assert not storms.open
    storms = step(storms, sickness(services, {}, {}, storms, 9), LIMITS, 9, recovered={"a", "b", "c"})
    assert storms.excused == ()
    again = dict.fromkeys(("a", "b", "c"), 10 * SECOND)
    assert FLEET in step(storms, sickness(services, again, {}, storms, 11 * SECOND), LIMITS, 11 * SECOND).open


@given(st.lists(st.integers(0, 8), min_size=1, max_size=30), st.integers(1, 200))
def test_it_is_open_exactly_while_it_was_bad_within_the_last_five_minutes(sick: list[int], pace_s: int) -> None:
    storms, bad_at, calm_at = Storms(), None, None
    for number, count in enumerate(sick):
        now = number * pace_s * SECOND
        storms = step(storms, of(count), LIMITS, now)
        if count >= 3:
            bad_at, calm_at = now, None
        elif bad_at is not None and calm_at is None:
            calm_at = now
        expected = bad_at is not None and (calm_at is None or now - calm_at < CALM)
        if not expected:
            bad_at = None
        assert (FLEET in storms.open) == expected


def test_what_is_stored_is_read_back_as_it_was() -> None:
    storms = step(Storms(), of(5), LIMITS, 7)
    assert Storms.read(storms.document()) == storms
    assert Storms.read(None) == Storms()
