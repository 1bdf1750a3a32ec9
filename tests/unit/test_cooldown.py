"""The pause after a change: its edges, and what is unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.domain.cooldown import CooldownState, cooldown
from fleetwarden.domain.identifiers import SECOND

NOW = 1_000_000 * SECOND


@pytest.mark.req("ASC-6", "AUT-13")
@pytest.mark.parametrize(
    ("ago_us", "state"),
    [
        (0, CooldownState.RUNNING),
        (299 * SECOND, CooldownState.RUNNING),
        (300 * SECOND - 1, CooldownState.RUNNING),
        (300 * SECOND, CooldownState.OVER),
        (301 * SECOND, CooldownState.OVER),
        (-5 * SECOND, CooldownState.RUNNING),  # a little ahead: taken as now
        (-5 * SECOND - 1, CooldownState.UNKNOWN),
        (NOW, CooldownState.UNKNOWN),  # dated 0
        (NOW + 1, CooldownState.UNKNOWN),
    ],
)
def test_a_cooldown_is_over_at_exactly_its_end_and_unknown_where_the_time_makes_no_sense(
    ago_us: int, state: CooldownState
) -> None:
    assert cooldown(NOW - ago_us, NOW, 300).state is state


@pytest.mark.req("AUT-13")
def test_a_time_slightly_ahead_counts_as_now() -> None:
    found = cooldown(NOW + 3 * SECOND, NOW, 300)
    assert found.until == NOW + 300 * SECOND


@pytest.mark.req("AUT-13")
def test_no_change_yet_is_over_and_an_unknown_outcome_is_unknown() -> None:
    assert cooldown(None, NOW, 300).state is CooldownState.OVER
    found = cooldown(None, NOW, 300, unsettled="X-7")
    assert found.state is CooldownState.UNKNOWN
    assert "X-7" in found.reason


@pytest.mark.req("AUT-13")
@given(st.integers(0, 10**7))
def test_a_cooldown_of_zero_is_none(ago: int) -> None:
    assert cooldown(NOW - ago, NOW, 0).state is CooldownState.OVER
