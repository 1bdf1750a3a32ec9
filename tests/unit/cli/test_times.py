"""Times on screen are local and relative to the moment of the answer; what is no time stays as it came."""

from __future__ import annotations

import pytest

from fleetwarden.cli.times import ago, localised, parsed, shown, since_of
from fleetwarden.domain.errors import Misconfigured

NOW = parsed("2026-12-02T12:00:00.000000Z")  # 14:00 on the wall of these tests


@pytest.mark.parametrize(
    ("time", "told"),
    [
        ("2026-12-02T12:20:07.000000Z", "14:20:07"),
        ("2026-12-02T22:30:00.000000Z", "tomorrow 00:30"),
        ("2026-12-01T21:59:59Z", "yesterday 23:59"),
        ("2026-12-31T12:02:00Z", "2026-12-31 14:02"),
        (None, ""),
        ("soon", "soon"),
        ("2026-12-02T12:20:07", "2026-12-02T12:20:07"),  # without a zone it is not known which moment it is
    ],
)
def test_a_time_is_said_as_on_the_wall(time: object, told: str) -> None:
    assert shown(time, NOW) == told


def test_seconds_can_be_left_out() -> None:
    assert shown("2026-12-02T11:20:07Z", NOW, seconds=False) == "13:20"


def test_without_a_now_the_whole_date_is_said() -> None:
    assert shown("2026-12-02T12:20:07Z", None) == "2026-12-02 14:20:07"


@pytest.mark.parametrize(
    ("time", "told"),
    [
        ("2026-12-02T11:59:48Z", "12 s ago"),
        ("2026-12-02T11:55:48Z", "4 min ago"),
        ("2026-12-02T12:00:00.400Z", "now"),  # an answer's own time has whole seconds
        ("2026-12-02T12:00:04Z", "in 4 s"),
        ("2026-12-02T15:10:00Z", "in 3 h"),
        ("2026-11-30T11:00:00Z", "2 d ago"),
        ("never", "never"),
    ],
)
def test_how_long_ago_takes_one_unit(time: str, told: str) -> None:
    assert ago(time, NOW) == told


def test_times_in_a_sentence_of_the_plane_become_local_ones() -> None:
    told = "the next slot opens 2026-12-02 12:20:07 UTC, not 2026-12-03T12:20:07.000000Z"
    assert localised(told, NOW) == "the next slot opens 14:20:07, not tomorrow 14:20"


def test_what_only_looks_like_a_time_stays() -> None:
    told = "version 2026-13-45 12:99:99 UTC and 2026-12-02 12:20:07 somewhere"
    assert localised(told, NOW) == told


def test_since_takes_a_span_or_a_time_with_its_zone() -> None:
    now = 1_800_000_000_000_000
    assert since_of("2h", now) == "2027-01-15T06:00:00.000000Z"
    assert since_of("2027-01-31T12:00:00Z", now) == "2027-01-31T12:00:00Z"
    assert since_of("2027-01-31T14:00:00+02:00", now) == "2027-01-31T12:00:00Z"
    assert since_of(None, now) is None


@pytest.mark.parametrize("typed", ["yesterday", "2", "2027-01-31T12:00:00", "2027-01-31"])
def test_since_refuses_what_names_no_moment(typed: str) -> None:
    with pytest.raises(Misconfigured, match="is no time"):
        since_of(typed, 0)
