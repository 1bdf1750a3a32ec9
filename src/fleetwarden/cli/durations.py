"""Spans of time as people type and read them: `90s`, `10m`, `2h`, `7d` in; `3 min 41 s` out.

A number without a unit is refused: nobody should freeze a fleet for 2 seconds who meant 2 hours.  Nothing here knows
what time it is.
"""

from __future__ import annotations

import re

__all__ = ["span_s", "spelled"]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_FORM = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,6})?)(?P<unit>[smhd])", re.ASCII)
_EXPECTED = "write a number and a unit, such as 90s, 10m, 2h or 7d"


def span_s(text: str) -> float:
    """Seconds of a duration, more than 0.  Raises ValueError with what is wrong and what is expected."""
    said = text.strip()
    found = _FORM.fullmatch(said)
    if found is None:
        if re.fullmatch(r"\d+(?:\.\d+)?", said, re.ASCII):
            raise ValueError(f"{text!r} has no unit: {_EXPECTED}")
        raise ValueError(f"{text!r} is no duration: {_EXPECTED}")
    seconds = float(found["number"]) * _UNITS[found["unit"]]
    if seconds <= 0:
        raise ValueError(f"{text!r} is no time at all: {_EXPECTED}")
    return seconds


def spelled(seconds: float) -> str:
    """A span in its two largest units: `0.8 s`, `12 s`, `3 min 41 s`, `2 h 5 min`, `3 d 4 h`.  Negative counts as 0."""
    if seconds < 10:
        tenths = max(0, round(seconds * 10))
        return f"{tenths // 10} s" if tenths % 10 == 0 else f"{tenths / 10:.1f} s"
    whole = round(seconds)
    for size, name, below, smaller in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {name}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"
