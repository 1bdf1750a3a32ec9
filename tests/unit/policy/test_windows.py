"""A window is open while the clock on the wall of its zone shows a time inside it, on a day that it opens."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fleetwarden.domain.identifiers import SECOND, instant, moment
from fleetwarden.domain.windows import DAYS, MaintenanceWindow

MINUTE = 60 * SECOND
BERLIN = ZoneInfo("Europe/Berlin")
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/Havana",
    "Pacific/Apia",
]


def window(hours: str, zone: str = "UTC", days: str = "", excepting: tuple[str, ...] = ()) -> MaintenanceWindow:
    start, end = hours.split("-")
    return MaintenanceWindow(
        start_minute=int(start[:2]) * 60 + int(start[3:]),
        end_minute=int(end[:2]) * 60 + int(end[3:]),
        zone_name=zone,
        zone=UTC if zone == "UTC" else ZoneInfo(zone),
        days=frozenset(map(DAYS.index, days.split())) or frozenset(range(7)),
        except_dates=frozenset(date.fromisoformat(day) for day in excepting),
    )


def at(text: str, zone: str = "UTC", fold: int = 0) -> int:
    local = datetime.fromisoformat(text).replace(tzinfo=UTC if zone == "UTC" else ZoneInfo(zone), fold=fold)
    return instant(local)


@pytest.mark.req("POL-3")
def test_the_start_belongs_to_the_window_and_the_end_does_not() -> None:
    night = window("02:00-05:00")
    assert not night.is_open(at("2026-12-02T01:59:59.999999"))
    assert night.is_open(at("2026-12-02T02:00"))
    assert night.is_open(at("2026-12-02T04:59:59.999999"))
    assert not night.is_open(at("2026-12-02T05:00"))


@pytest.mark.req("POL-3")
def test_a_window_may_cross_midnight() -> None:
    night = window("22:00-04:00")
    assert night.is_open(at("2026-12-02T23:00"))
    assert night.is_open(at("2026-12-03T03:59"))
    assert not night.is_open(at("2026-12-03T04:00"))
    assert not night.is_open(at("2026-12-03T21:59"))


@pytest.mark.req("POL-3")
@pytest.mark.parametrize("hours", ["22:00-24:00", "22:00-00:00"])
def test_midnight_can_be_written_as_the_end_of_the_day_or_the_beginning_of_the_next(hours: str) -> None:
    late = window(hours)
    assert late.is_open(at("2026-12-02T23:59:59"))
    assert not late.is_open(at("2026-12-03T00:00"))


@pytest.mark.req("POL-3")
def test_days_and_exceptions_name_the_day_on_which_the_window_opens() -> None:
    monday_night = window("22:00-04:00", days="mon", excepting=("2026-12-14",))
    assert monday_night.is_open(at("2026-12-08T03:00"))  # Tuesday morning, opened on Monday
    assert not monday_night.is_open(at("2026-12-07T03:00"))  # Monday morning would belong to Sunday
    assert not monday_night.is_open(at("2026-12-14T23:00"))
    assert not monday_night.is_open(at("2026-12-15T03:00"))


@pytest.mark.req("POL-3")
def test_hours_are_those_of_the_zone_also_after_the_clocks_changed() -> None:
    night = window("02:30-03:30", "Europe/Berlin")
    assert night.is_open(at("2026-12-02T01:45"))  # winter: UTC+1
    assert not night.is_open(at("2026-07-02T01:45"))  # summer: UTC+2
    assert night.is_open(at("2026-07-02T00:45"))


@pytest.mark.req("POL-3")
def test_an_hour_that_daylight_saving_skips_never_opens_and_the_rest_of_the_window_does() -> None:
    assert not any(
        window("02:00-03:00", "Europe/Berlin").is_open(at("2027-03-28T00:00") + minute * MINUTE)
        for minute in range(1440)
    )
    half = window("02:30-03:30", "Europe/Berlin")
    before = at("2027-03-28T00:59:59")
    assert not half.is_open(before)
    assert half.opens_at(before) == at("2027-03-28T01:00")  # the clock jumps from 02:00 to 03:00, into the window


@pytest.mark.req("POL-3")
def test_an_hour_that_daylight_saving_repeats_is_open_both_times() -> None:
    early = window("02:00-02:30", "Europe/Berlin")
    first, second = (at("2027-10-31T02:10", "Europe/Berlin", fold=fold) for fold in (0, 1))
    assert second - first == 3600 * SECOND
    assert early.is_open(first)
    assert early.is_open(second)
    between = at("2027-10-31T02:40", "Europe/Berlin", fold=0)
    assert not early.is_open(between)
    assert early.opens_at(between) == at("2027-10-31T02:00", "Europe/Berlin", fold=1)


@pytest.mark.req("POL-3")
def test_an_open_window_opens_now_and_a_closed_one_says_when() -> None:
    night = window("02:00-05:00", days="mon", excepting=("2026-12-07",))
    inside = at("2026-12-14T03:00")
    assert night.opens_at(inside) == inside
    assert night.opens_at(at("2026-12-02T12:00")) == at("2026-12-14T02:00")


def test_a_window_is_told_as_it_could_be_written() -> None:
    assert window("02:00-05:00").plain() == "02:00-05:00"
    full = window("22:00-24:00", "Europe/Berlin", "mon tue", ("2027-12-24",))
    assert full.plain() == {
        "hours": "22:00-24:00",
        "zone": "Europe/Berlin",
        "days": ["mon", "tue"],
        "except": ["2027-12-24"],
    }
    assert full.words() == "22:00-24:00 Europe/Berlin, mon tue, not on 2027-12-24"


# The model: spans of naive wall time, one for each opening day, and a moment is inside if its wall time is.


def open_in_the_model(one: MaintenanceWindow, now: int) -> bool:
    wall = moment(now).astimezone(one.zone).replace(tzinfo=None)
    for back in (0, 1):
        day = wall.date() - timedelta(days=back)
        if day.weekday() not in one.days or day in one.except_dates:
            continue
        opens = datetime.combine(day, time()) + timedelta(minutes=one.start_minute)
        closes = datetime.combine(day, time()) + timedelta(minutes=one.end_minute)
        if closes <= opens:
            closes += timedelta(days=1)
        if opens <= wall < closes:
            return True
    return False


@st.composite
def windows(draw: st.DrawFn) -> MaintenanceWindow:
    start, end = draw(st.integers(0, 1439)), draw(st.integers(0, 1440))
    assume(start != end)
    zone = draw(st.sampled_from(ZONES))
    around = draw(st.lists(st.integers(-3, 10), max_size=4))
    return MaintenanceWindow(
        start_minute=start,
        end_minute=end,
        zone_name=zone,
        zone=UTC if zone == "UTC" else ZoneInfo(zone),
        days=draw(st.sets(st.integers(0, 6), min_size=1).map(frozenset)),
        except_dates=frozenset(date(2027, 3, 28) + timedelta(days=day) for day in around),
    )


# Days on which some of the zones change their clocks, and the days around them.
CHANGES = [
    "2026-11-01",
    "2027-03-14",
    "2027-03-28",
    "2027-10-31",
    "2027-04-04",
    "2027-10-03",
    "2011-12-29",
    "2027-06-15",
]
MOMENTS = st.builds(
    lambda day, minute, micro: at(day) - 1440 * MINUTE + minute * MINUTE + micro,
    st.sampled_from(CHANGES),
    st.integers(0, 3 * 1440),
    st.sampled_from([0, 1, 30 * SECOND, MINUTE - 1]),
)


@pytest.mark.req("POL-3")
@given(one=windows(), now=MOMENTS)
def test_a_window_agrees_with_the_model_of_wall_time(one: MaintenanceWindow, now: int) -> None:
    assert one.is_open(now) is open_in_the_model(one, now)


@pytest.mark.req("POL-3")
@given(one=windows(), now=MOMENTS)
def test_the_next_opening_is_the_first_open_minute_of_the_model(one: MaintenanceWindow, now: int) -> None:
    opens = one.opens_at(now)
    if open_in_the_model(one, now):
        assert opens == now
        return
    first = -(-now // MINUTE) * MINUTE  # wall clocks of these years are whole minutes from UTC
    minutes = range(first, first + 3 * 1440 * MINUTE, MINUTE)
    expected = next((minute for minute in minutes if open_in_the_model(one, minute)), None)
    if expected is None:
        assert opens >= minutes.stop
    else:
        assert opens == expected


@given(start=st.integers(0, 1439), end=st.integers(0, 1440), now=MOMENTS)
def test_the_short_way_for_plain_windows_in_utc_gives_the_long_way_s_answer(start: int, end: int, now: int) -> None:
    assume(start != end)
    plain = MaintenanceWindow(start_minute=start, end_minute=end)
    same = MaintenanceWindow(start_minute=start, end_minute=end, zone=ZoneInfo("UTC"))
    assert plain.is_open(now) is same.is_open(now)
