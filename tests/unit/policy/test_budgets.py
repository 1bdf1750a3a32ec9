"""Budgets are counted from the ledger over a window that ends now and is open at its start."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.domain import budgets
from fleetwarden.domain.budgets import BlastRadius, BlastUse, RateLimit, RateUse, Use, Wave, blast, rate
from fleetwarden.domain.identifiers import SECOND, rfc3339
from tests.unit.policy.ledgers import NOW, UseList

RESTART = "restart_service"


def rated(ledger: UseList, most: int, window_s: int, *, exclude: int | None = None, dry_run: bool = False) -> RateUse:
    limit = RateLimit(max=most, window_s=window_s)
    return rate(limit, ledger, NOW, kind=RESTART, target="web", dry_run=dry_run, exclude_decision=exclude)


def spread(ledger: UseList, most: int, window_s: int, *, target: str = "web") -> BlastUse:
    limit = BlastRadius(max_targets=most, window_s=window_s)
    return blast(limit, ledger, NOW, kind=RESTART, target=target, dry_run=False)


@pytest.mark.req("POL-3")
def test_a_use_exactly_one_window_ago_no_longer_counts() -> None:
    assert rated(UseList((RESTART, "web", 60)), 1, 60).used == 0
    assert rated(UseList((RESTART, "web", 59.999999)), 1, 60).full


@pytest.mark.req("POL-3")
def test_the_next_slot_opens_when_the_oldest_counted_use_leaves() -> None:
    use = rated(UseList((RESTART, "web", 50), (RESTART, "web", 20), (RESTART, "web", 10)), 2, 60)
    assert use.full
    assert use.used_at == (NOW - 10 * SECOND, NOW - 20 * SECOND)
    assert use.next_slot_at == NOW + 40 * SECOND


@pytest.mark.req("POL-14")
def test_a_limit_of_0_is_full_at_once_and_no_waiting_opens_it() -> None:
    use = rated(UseList(), 0, 60)
    assert use.full
    assert use.next_slot_at is None


@pytest.mark.req("POL-3")
def test_other_kinds_other_targets_and_dry_runs_have_budgets_of_their_own() -> None:
    ledger = UseList(("stop_service", "web", 1), (RESTART, "shop", 1), (RESTART, "web", 1, True))
    assert rated(ledger, 1, 60).used == 0
    assert rated(ledger, 1, 60, dry_run=True).full


@pytest.mark.req("POL-21")
def test_a_recheck_does_not_count_its_own_decision() -> None:
    ledger = UseList((RESTART, "web", 30), (RESTART, "web", 1))
    assert rated(ledger, 2, 60).full
    assert rated(ledger, 2, 60, exclude=2).used == 1
    assert rated(ledger, 1, 60, exclude=2).full


def test_a_use_later_than_now_counts_so_that_a_stepped_clock_opens_nothing() -> None:
    assert rated(UseList((RESTART, "web", -30)), 1, 60).full


@pytest.mark.req("POL-3")
def test_blast_counts_distinct_targets_with_the_one_asked_for() -> None:
    ledger = UseList((RESTART, "a", 1), (RESTART, "a", 2), (RESTART, "b", 3), (RESTART, "web", 4))
    use = spread(ledger, 3, 60)
    assert (use.targets, use.exceeded, use.others) == (3, False, ("a", "b"))
    assert spread(ledger, 2, 60).exceeded
    assert spread(ledger, 3, 60, target="new").exceeded


@pytest.mark.req("POL-3")
def test_blast_says_when_enough_targets_will_have_left() -> None:
    ledger = UseList((RESTART, "a", 10), (RESTART, "b", 20), (RESTART, "c", 30))
    assert spread(ledger, 2, 60).next_slot_at == NOW + 40 * SECOND  # b leaves, c left before: a and web remain
    assert spread(ledger, 4, 60).next_slot_at is None
    assert spread(ledger, 0, 60).next_slot_at is None


@given(
    ages=st.lists(st.integers(0, 100), max_size=12),
    most=st.integers(0, 6),
    window_s=st.integers(1, 80),
)
@pytest.mark.req("POL-3", "POL-6")
def test_a_slot_is_free_exactly_when_fewer_than_max_uses_lie_in_the_window(
    ages: Sequence[int], most: int, window_s: int
) -> None:
    use = rated(UseList(*((RESTART, "web", age) for age in ages)), most, window_s)
    inside = sum(1 for age in ages if age < window_s)
    assert use.full is (inside >= most)
    assert use.used == min(inside, most)
    if use.next_slot_at is not None:
        wait_s = (use.next_slot_at - NOW) // SECOND

        def inside_after(seconds: int) -> int:
            return sum(1 for age in ages if age + seconds < window_s)

        assert inside_after(wait_s) < most <= inside_after(wait_s - 1)


@given(
    ages=st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 100)),
    most=st.integers(0, 6),
    window_s=st.integers(1, 80),
)
@pytest.mark.req("POL-3")
def test_the_moment_that_blast_names_is_the_first_at_which_it_would_pass(
    ages: dict[str, int], most: int, window_s: int
) -> None:
    use = spread(UseList(*((RESTART, name, age) for name, age in ages.items())), most, window_s, target="a")

    def targets_after(seconds: int) -> int:
        return len({"a"} | {name for name, age in ages.items() if age + seconds < window_s})

    assert use.targets == targets_after(0)
    if use.next_slot_at is not None:
        wait_s = (use.next_slot_at - NOW) // SECOND
        assert targets_after(wait_s) <= most < targets_after(wait_s - 1)
    elif use.exceeded:
        assert most == 0


def test_numbers_count_everything_and_say_how_many_they_do_not_list() -> None:
    ledger = UseList(*((RESTART, "web", second) for second in range(1, 41)))
    numbers = rated(ledger, 100, 60).numbers("policy.yml:3")
    assert numbers["used"] == 40
    assert len(numbers["used_at"]) == 32
    assert numbers["used_at_omitted"] == 8
    assert numbers["used_at"][0] == rfc3339(NOW - SECOND)
    assert numbers["source"] == "policy.yml:3"
    wide = UseList(*((RESTART, f"s{number}", 1) for number in range(40)))
    blast_numbers = spread(wide, 100, 60).numbers("policy.yml:3")
    assert (blast_numbers["targets"], blast_numbers["other_targets_omitted"]) == (41, 8)


@given(st.lists(st.sampled_from("abcdefgh"), max_size=80), st.sampled_from("abcdefghi"))
def test_the_listed_targets_of_a_wave_are_the_newest_others(added: list[str], asked: str) -> None:
    with patch.object(budgets, "LISTED", 3):
        wave = Wave([Use(decision_seq=1, target="a", at=0)])
        for at, target in enumerate(added, 1):
            wave.add(Use(decision_seq=1, target=target, at=at))
        assert wave.listed(asked) == tuple(use.target for use in wave.newest(asked, 3))
