"""Reading a maintenance window: `"22:00-04:00"` in UTC, or a mapping with hours, zone, days and exceptions.

A window that cannot be understood is refused, because both ways of guessing are wrong: always open acts at noon, never
open stops every repair.  That includes hours that end where they begin, which some read as always and some as never.
"""

from __future__ import annotations

import re
import zoneinfo
from datetime import UTC, date, tzinfo

from fleetwarden.domain.located import Findings, Node
from fleetwarden.domain.located_values import close, quoted
from fleetwarden.domain.windows import DAYS, MINUTES_A_DAY, MaintenanceWindow

__all__ = ["MAX_EXCEPTIONS", "read_window"]

MAX_EXCEPTIONS = 366
_HOURS = re.compile(r"([0-9]{2}):([0-9]{2})-([0-9]{2}):([0-9]{2})")
_ZONE = re.compile(r"[A-Z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NAME = "maintenance_window"


def read_window(node: Node, findings: Findings) -> MaintenanceWindow | None:
    """The window, or None with the problem in `findings`."""
    before = len(findings.problems)
    if not node.mapping:
        hours = _hours(node, _NAME, findings)
        return None if hours is None else MaintenanceWindow(start_minute=hours[0], end_minute=hours[1])
    parts = findings.keys(node, ("hours", "zone", "days", "except"))
    if "hours" not in parts:
        findings.problem(node, f'{_NAME} has no hours, such as "22:00-04:00"')
    hours = _hours(parts["hours"], f"{_NAME}.hours", findings) if "hours" in parts else None
    zone_name, zone = _zone(parts["zone"], findings) if "zone" in parts else ("UTC", UTC)
    days = _days(parts["days"], findings) if "days" in parts else frozenset(range(len(DAYS)))
    except_dates = _dates(parts["except"], findings) if "except" in parts else frozenset[date]()
    if hours is None or len(findings.problems) > before:
        return None
    return MaintenanceWindow(
        start_minute=hours[0],
        end_minute=hours[1],
        zone_name=zone_name,
        zone=zone,
        days=days,
        except_dates=except_dates,
    )


def _hours(node: Node, name: str, findings: Findings) -> tuple[int, int] | None:
    """Start and end in minutes after midnight."""
    form = '"HH:MM-HH:MM", such as "22:00-04:00"'
    if not isinstance(node.value, str):
        findings.problem(node, f"{name}: {quoted(node)} is not of the form {form}; leave it out for always")
        return None
    match = _HOURS.fullmatch(node.value)
    if match is None:
        findings.problem(node, f"{name}: {quoted(node)} is not of the form {form}")
        return None
    hour, minute, end_hour, end_minute = map(int, match.groups())
    start, end = hour * 60 + minute, end_hour * 60 + end_minute
    if hour > 23 or minute > 59 or end_minute > 59 or end > MINUTES_A_DAY:
        findings.problem(node, f"{name}: {quoted(node)}: hours go from 00:00 to 23:59 (24:00 as an end is midnight)")
        return None
    if start == end:
        meant = "leave the window out (or write 00:00-24:00) for always, tier: forbidden for never"
        findings.problem(node, f"{name}: {quoted(node)} ends where it begins: {meant}")
        return None
    return start, end


def _zone(node: Node, findings: Findings) -> tuple[str, tzinfo]:
    name = node.value
    if name == "UTC":
        return "UTC", UTC
    if isinstance(name, str) and _ZONE.fullmatch(name) and name != "Factory":
        try:
            return name, zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            pass  # said below, with the nearest name
    hint = close(name[:64], zoneinfo.available_timezones()) if isinstance(name, str) else ""
    findings.problem(
        node, f"{_NAME}.zone: {quoted(node)} is no time zone{hint or ' (IANA names look like Europe/Berlin)'}"
    )
    return "UTC", UTC


def _days(node: Node, findings: Findings) -> frozenset[int]:
    name = f"{_NAME}.days"
    if not node.is_list or not node.items():
        what = "an empty list is never open" if node.is_list else f"{quoted(node)} is no list"
        findings.problem(node, f"{name}: {what}: write days such as [mon, tue]")
        return frozenset()
    days: set[int] = set()
    for item in node.items():
        if item.value not in DAYS:
            guess = str(item.value)[:3].lower()
            hint = f" (did you mean {guess}?)" if guess in DAYS else ""
            findings.problem(item, f"{name}: {quoted(item)} is none of {', '.join(DAYS)}{hint}")
        elif (day := DAYS.index(item.value)) in days:
            findings.problem(item, f"{name}: {item.value} stands there twice")
        else:
            days.add(day)
    return frozenset(days)


def _dates(node: Node, findings: Findings) -> frozenset[date]:
    name = f"{_NAME}.except"
    if not node.is_list:
        findings.problem(node, f'{name}: {quoted(node)} is no list of dates such as ["2027-12-24"]')
        return frozenset()
    if len(node.items()) > MAX_EXCEPTIONS:
        findings.problem(node, f"{name}: {len(node.items())} dates, the limit is {MAX_EXCEPTIONS}")
        return frozenset()
    dates: set[date] = set()
    for item in node.items():
        day = _date(item.value)
        if day is None:
            findings.problem(item, f'{name}: {quoted(item)} is no date such as "2027-12-24"')
        else:
            dates.add(day)
    return frozenset(dates)


def _date(value: object) -> date | None:
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        return None
    try:
        return date.fromisoformat(value)
    except ValueError:
        return None
