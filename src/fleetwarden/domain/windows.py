"""Maintenance windows: at which hours, on which days, in which zone the automatic tiers may act.

A window is read off the clock on the wall of its zone: it is open whenever that clock shows a time in [start, end) that
belongs to an opening day.  So an hour that daylight saving skips never opens, and one that it repeats is open twice;
no rule about offsets is needed and none can be got wrong.  Days and exceptions name the day on which the window opens,
also where it closes after midnight.  Parsing lives in `policy_file`; a window that exists is a valid one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from fleetwarden.domain.identifiers import SECOND, JsonValue, Micros, instant, moment

__all__ = ["DAYS", "MINUTES_A_DAY", "MaintenanceWindow"]

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MINUTES_A_DAY = 1440
DAY_US: Micros = 86_400 * SECOND
_MINUTE_US: Micros = 60 * SECOND
_ONE_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceWindow:
    """[start, end) in minutes after local midnight.

    `start_minute` is 0 to 1439, `end_minute` 0 to 1440 (1440 = midnight at the end of the day) and never equal to the
    start.  An end at or before the start lies on the next day.  `days` are 0 (Monday) to 6.
    """

    start_minute: int
    end_minute: int
    zone_name: str = "UTC"
    zone: tzinfo = UTC
    days: frozenset[int] = frozenset(range(7))
    except_dates: frozenset[date] = frozenset()
    hours: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        assert 0 <= self.start_minute < MINUTES_A_DAY
        assert 0 <= self.end_minute <= MINUTES_A_DAY
        assert self.start_minute != self.end_minute
        assert self.days
        object.__setattr__(self, "hours", f"{_clock(self.start_minute)}-{_clock(self.end_minute)}")

    @property
    def every_day(self) -> bool:
        return len(self.days) == len(DAYS) and not self.except_dates

    def is_open(self, now: Micros) -> bool:
        """Whether the automatic tiers may act at `now`."""
        if self.zone is UTC and self.every_day:
            minute = now // _MINUTE_US % MINUTES_A_DAY
            if self.start_minute < self.end_minute:
                return self.start_minute <= minute < self.end_minute
            return minute >= self.start_minute or minute < self.end_minute
        local = moment(now).astimezone(self.zone)
        minute = local.hour * 60 + local.minute
        today = local.date()
        if self.start_minute < self.end_minute:
            return self.start_minute <= minute < self.end_minute and self._opens_on(today)
        if minute >= self.start_minute:
            return self._opens_on(today)
        return minute < self.end_minute and self._opens_on(today - _ONE_DAY)

    def opens_at(self, now: Micros) -> Micros:
        """The first moment at or after `now` at which it is open.

        Costs about 10 us for each day looked at, which are seven unless exceptions lie ahead.
        """
        if self.is_open(now):
            return now
        last = max(self.except_dates, default=date.min)
        days_ahead = max(0, (last - moment(now).date()).days) + 28  # some day of four weeks without exceptions opens
        for day in range(days_ahead):
            begin = now + day * DAY_US
            openings = [at for at in self._candidates(begin, begin + DAY_US) if self.is_open(at)]
            if openings:
                return min(openings)
        raise AssertionError(f"the window {self.words()} never opens")

    def words(self) -> str:
        """As a person would say it: `22:00-04:00 Europe/Berlin, mon tue, not on 2027-12-24`."""
        text = f"{self.hours} {self.zone_name}"
        if len(self.days) < len(DAYS):
            text += ", " + " ".join(DAYS[day] for day in sorted(self.days))
        if self.except_dates:
            text += ", not on " + " ".join(day.isoformat() for day in sorted(self.except_dates))
        return text

    def plain(self) -> JsonValue:
        """As it may be written in a policy file."""
        if self.zone_name == "UTC" and self.every_day:
            return self.hours
        return {
            "hours": self.hours,
            "zone": self.zone_name,
            "days": [DAYS[day] for day in sorted(self.days)],
            "except": [day.isoformat() for day in sorted(self.except_dates)],
        }

    def _opens_on(self, day: date) -> bool:
        return day.weekday() in self.days and day not in self.except_dates

    def _candidates(self, begin: Micros, end: Micros) -> Iterator[Micros]:
        """Every moment in (begin, end] at which it may open: its start on the wall clock, or a jump of that clock."""
        first, last = (moment(at).astimezone(self.zone).date() for at in (begin, end))
        start = time(self.start_minute // 60, self.start_minute % 60)
        day = first
        while day <= last:
            for fold in (0, 1):
                at = instant(datetime.combine(day, start, self.zone).replace(fold=fold))
                if begin < at <= end:
                    yield at
            day += _ONE_DAY
        jump = self._jump(begin, end)
        if jump is not None:
            yield jump

    def _jump(self, begin: Micros, end: Micros) -> Micros | None:
        """The second at which the zone's offset changes between `begin` and `end`, if it does."""
        before = self._offset(begin)
        if self._offset(end) == before:
            return None
        low, high = begin // SECOND, -(-end // SECOND)
        while high - low > 1:
            middle = (low + high) // 2
            if self._offset(middle * SECOND) == before:
                low = middle
            else:
                high = middle
        return high * SECOND

    def _offset(self, at: Micros) -> timedelta | None:
        return moment(at).astimezone(self.zone).utcoffset()


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"
