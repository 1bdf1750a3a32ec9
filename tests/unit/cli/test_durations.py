"""Spans are read strictly and told in the words that people use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.cli.durations import span_s, spelled


@pytest.mark.parametrize(
    ("typed", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("7d", 604_800), ("1.5h", 5400), (" 5s ", 5)]
)
def test_a_number_and_a_unit_are_a_span(typed: str, seconds: float) -> None:
    assert span_s(typed) == seconds


def test_a_number_without_a_unit_is_refused_and_told_so() -> None:
    with pytest.raises(ValueError, match=r"'2' has no unit: .*2h"):
        span_s("2")


@pytest.mark.parametrize(
    "typed", ["", "h", "2 hours", "-2h", "2H", "1e3s", "inf", "nan", "٢h", "2h30m", "0x2h", "9" * 12 + "s"]
)
def test_everything_else_is_no_span(typed: str) -> None:
    with pytest.raises(ValueError, match="is no duration: write a number and a unit"):
        span_s(typed)


@pytest.mark.parametrize("typed", ["0s", "0.0h"])
def test_no_time_at_all_is_refused(typed: str) -> None:
    with pytest.raises(ValueError, match="is no time at all"):
        span_s(typed)


@given(st.integers(1, 999_999_999), st.sampled_from("smhd"))
def test_whole_spans_are_exact(number: int, unit: str) -> None:
    assert span_s(f"{number}{unit}") == number * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[unit]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.84, "0.8 s"),
        (0, "0 s"),
        (-3, "0 s"),
        (3.0, "3 s"),
        (9.96, "10 s"),
        (12.4, "12 s"),
        (60, "1 min"),
        (221, "3 min 41 s"),
        (7500, "2 h 5 min"),
        (3600, "1 h"),
        (86_400 * 3 + 4 * 3600, "3 d 4 h"),
        (86_399, "23 h 59 min"),
    ],
)
def test_a_span_is_told_in_its_two_largest_units(seconds: float, told: str) -> None:
    assert spelled(seconds) == told
