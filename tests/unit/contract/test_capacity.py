"""Whether a unit may get a count now: each limit at its edge, and who is held by it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.adapters.files.yaml_tree import parse
from fleetwarden.domain.contract.capacity import CountChange, Room, UnitRefusal, refusal
from fleetwarden.domain.fleet import Fleet
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.registry import read_fleet

NOON = 1_767_614_400 * SECOND  # 2026-01-05 12:00 UTC
WINDOW = 'maintenance: {window: "22:00-04:00", outside: %s}'


def fleet(units: dict[str, str], top: str = "") -> Fleet:
    lines = [
        f"  - {{name: {name}, scaling: {{min: 1, max: 6, signal: q, target: 5}}, unit: {{{body}}}}}"
        for name, body in units.items()
    ]
    text = "version: 1\n" + top + "\nservices:\n" + "\n".join(lines) + "\n"
    found = read_fleet(parse(text, "fleet.yml"), None, "/srv/fleet", "sha256:0")
    assert not found.problems, found.problems
    return found


def ask(
    known: Fleet,
    desired: int,
    *,
    current: int = 1,
    allocated: dict[str, int] | None = None,
    under_way: dict[str, int] | None = None,
    now: int = NOON,
    **over: Any,
) -> UnitRefusal | None:
    room = Room(known.catalogue, allocated=allocated or {}, under_way=under_way or {}, declared={})
    change = CountChange(**{"unit": "web", "current": current, "desired": desired, "follows_load": True, **over})
    return refusal(known.catalogue, known.unit_problems, change, lambda: room, now)


def code(found: UnitRefusal | None) -> str:
    return "" if found is None else found.code


POOL = "pools: {edge: {capacity: 12, headroom: 2}}"


@pytest.mark.req("CON-16", "CON-11")
def test_a_pool_gives_what_it_has_less_its_headroom_and_not_one_more() -> None:
    known = fleet({"web": "pool: edge", "api": "pool: edge"}, POOL)
    assert code(ask(known, 6, allocated={"api": 4})) == ""
    found = ask(known, 6, allocated={"api": 5})
    assert code(found) == "capacity" or code(found) == "quota"
    assert found is not None
    assert not found.lasting
    assert "others take 5, 6 are wanted" in found.reason
    assert code(ask(known, 5, current=6, allocated={"api": 9})) == ""  # what shrinks is never held by what is missing


@pytest.mark.req("CON-16")
def test_a_change_that_has_begun_counts_with_the_larger_of_its_two_counts() -> None:
    known = fleet({"web": "pool: edge", "api": "pool: edge"}, POOL)
    assert code(ask(known, 6, allocated={"api": 2}, under_way={"api": 5})) != ""
    assert code(ask(known, 6, allocated={"api": 5}, under_way={"api": 1})) != ""


def test_a_unit_that_was_never_changed_takes_its_floor() -> None:
    known = fleet({"web": "pool: edge", "api": "pool: edge"}, "pools: {edge: {capacity: 6}}")
    assert code(ask(known, 5)) == ""
    assert code(ask(known, 6)) != ""


@pytest.mark.req("CON-5")
def test_the_hard_ceiling_holds_everybody_and_the_reserve_holds_load_following_only() -> None:
    known = fleet({"web": "max_units: 8, burst_units: 3"})
    assert code(ask(known, 5)) == ""
    found = ask(known, 6)
    assert found is not None
    assert (found.code, found.lasting) == ("quota", True)
    assert "3 of 8 are kept for a person's wish" in found.reason
    assert code(ask(known, 8, follows_load=False)) == ""
    assert code(ask(known, 9, follows_load=False)) == "quota"


@pytest.mark.req("CON-4", "ASC-16")
@pytest.mark.parametrize(
    ("current", "desired", "expected"),
    [(1, 6, ""), (1, 7, "bounds"), (9, 8, ""), (9, 9, "bounds"), (9, 10, "bounds"), (3, 0, "bounds"), (0, 1, "")],
)
def test_outside_its_bounds_a_count_may_only_come_nearer(current: int, desired: int, expected: str) -> None:
    assert code(ask(fleet({"web": "max_units: 50"}), desired, current=current)) == expected


@pytest.mark.req("CON-2", "CON-11")
def test_no_more_units_of_a_workload_change_at_once_than_it_says() -> None:
    known = fleet(
        {"web": "workload: api", "api": "workload: api"},
        "pools: {edge: {capacity: 99}}\nworkloads: {api: {pool: edge, max_units: 50, concurrency: 1}}",
    )
    assert code(ask(known, 2)) == ""
    assert code(ask(known, 2, under_way={"api": 2})) == "concurrency"
    assert code(ask(known, 2, under_way={"web": 2})) == ""


@pytest.mark.req("CON-8", "CON-15", "AUT-24")
def test_outside_its_window_a_unit_queues_or_refuses_as_it_says() -> None:
    queueing = ask(fleet({"web": WINDOW % "queue"}), 2)
    assert queueing is not None
    assert queueing.queues_until == NOON + 10 * 3600 * SECOND
    refusing = ask(fleet({"web": WINDOW % "deny"}), 2)
    assert refusing is not None
    assert (refusing.code, refusing.queues_until) == ("maintenance", None)
    assert "22:00-04:00 UTC" in refusing.reason
    assert ask(fleet({"web": WINDOW % "deny"}), 2, now=NOON + 10 * 3600 * SECOND) is None
    assert ask(fleet({"web": WINDOW % "deny"}), 2, follows_load=False) is not None
    assert ask(fleet({"web": WINDOW % "deny"}), 2, follows_load=False, any_time=True) is None


@pytest.mark.req("CON-7")
def test_nothing_that_follows_load_is_accepted_for_an_offline_domain() -> None:
    known = fleet({"web": "failure_domain: hall"}, "failure_domains: {hall: {offline: true}}")
    assert code(ask(known, 2)) == "domain"
    assert code(ask(known, 2, current=4)) == "domain"
    assert code(ask(known, 2, follows_load=False)) == ""


@pytest.mark.req("CON-3", "AUT-25")
def test_a_broken_contract_stops_load_following_and_never_a_person() -> None:
    known = fleet({"web": "pool: small"}, "pools: {small: {capacity: 3}}")
    assert code(ask(known, 2)) == "contract"
    assert code(ask(known, 2, follows_load=False)) == ""


def test_a_service_that_is_no_unit_is_not_limited() -> None:
    assert ask(fleet({"api": ""}), 99) is None


@pytest.mark.req("CON-16")
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 6)), max_size=25), st.integers(4, 16))
def test_however_changes_follow_each_other_a_pool_is_never_over_full(steps: list[tuple[str, int]], most: int) -> None:
    known = fleet(dict.fromkeys("abcd", "pool: edge"), f"pools: {{edge: {{capacity: {max(most, 6)}}}}}")
    counts = dict.fromkeys("abcd", 1)
    for name, desired in steps:
        found = ask(known, desired, unit=name, current=counts[name], allocated=dict(counts))
        if found is None:
            counts[name] = desired
        else:
            assert sum(counts.values()) - counts[name] + desired > max(most, 6)
        assert sum(counts.values()) <= max(most, 6)
