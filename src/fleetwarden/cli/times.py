"""Times on screen: local, short, and relative to the moment at which the plane answered.

The API speaks RFC 3339 in UTC; people read the clock on their wall.  `now` is always the answer's own time, so that a
skewed clock on this side never makes an action look old.  A text that cannot be read as a time is shown as it came.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from fleetwarden.cli.durations import span_s, spelled
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.identifiers import SECOND, rfc3339

__all__ = ["ago", "instant_of", "localised", "parsed", "shown", "since_of"]

_STAMP = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})(?:T| )(?P<time>\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)(?:Z|\+00:00| UTC)", re.ASCII
)
_HEADER_S = 1.0  # the Date of an answer has whole seconds: what is younger than that has happened
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parsed(text: object) -> datetime | None:
    """The aware moment that an API time names, or None if it is no time."""
    if not isinstance(text, str):
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    return when if when.tzinfo is not None else None


def instant_of(micros: int) -> datetime:
    """Microseconds since the epoch as an aware moment."""
    return _EPOCH + timedelta(microseconds=micros)


def shown(text: object, now: datetime | None, *, seconds: bool = True) -> str:
    """A time as one says it today: `14:20:07`, `tomorrow 14:02`, `yesterday 9:30`, else `2026-12-31 14:02`.

    `seconds` false leaves them out of a time of today.
    """
    when = parsed(text)
    return "" if text is None else str(text) if when is None else _told(when, now, seconds=seconds)


def _told(when: datetime, now: datetime | None, *, seconds: bool) -> str:
    local = when.astimezone()
    if now is None:
        return local.strftime("%Y-%m-%d %H:%M:%S")
    days = (local.date() - now.astimezone().date()).days
    if days == 0:
        return local.strftime("%H:%M:%S" if seconds else "%H:%M")
    name = {1: "tomorrow", -1: "yesterday"}.get(days)
    return local.strftime(f"{name} %H:%M" if name else "%Y-%m-%d %H:%M")


def ago(text: object, now: datetime | None) -> str:
    """How long ago, or how far ahead: `12 s ago`, `4 min ago`, `in 3 h`.  One unit is precise enough here."""
    when = parsed(text)
    if when is None or now is None:
        return shown(text, now)
    span = (now - when).total_seconds()
    if -_HEADER_S < span < 0:
        return "now"
    told = _coarse(abs(span))
    return f"{told} ago" if span >= 0 else f"in {told}"


def _coarse(seconds: float) -> str:
    """`4 min 12 s` is read as `4 min`."""
    return " ".join(spelled(seconds).split(" ")[:2])


def localised(text: str, now: datetime | None) -> str:
    """A sentence of the plane with every UTC time in it turned into a local one."""

    def local(found: re.Match[str]) -> str:
        when = parsed(f"{found['date']}T{found['time']}+00:00")
        return found[0] if when is None else _told(when, now, seconds=True)

    return _STAMP.sub(local, text)


def since_of(text: object, now_micros: int) -> str | None:
    """A moment that somebody typed as the API wants it: `2h` (that long ago), or RFC 3339 with a zone.

    None stays None.  Raises Misconfigured.
    """
    if text is None:
        return None
    said = str(text).strip()
    when = parsed(said.replace("z", "Z"))
    if when is not None:
        return when.astimezone(UTC).isoformat().replace("+00:00", "Z")
    try:
        return rfc3339(now_micros - int(span_s(said) * SECOND))
    except ValueError as error:
        raise Misconfigured(
            f"--since {said!r} is no time", hint="a span such as 2h, or a time with its zone: 2027-01-31T12:00:00Z"
        ) from error
