"""Percent and fraction mistaken for each other: a target of 60 beside values of 0 to 1, and the reverse.

A unit that is held against itself shows nothing: the file says percent, and so does the sample.  What gives the mistake
away is the target, and what is measured.  Nothing is corrected here; what is doubtful moves nothing, and says so.
"""

from __future__ import annotations

from typing import Final

__all__ = ["UTILISATION", "declared_problem", "looks_like_a_fraction", "looks_like_percent"]

_PERCENT: Final = frozenset({"percent", "percentage", "pct", "%"})
_BOUNDED: Final = frozenset({"fraction", "share"})  # never above 1
_FRACTION: Final = _BOUNDED | {"ratio"}  # above 1 now and then, as of a processor beside what was asked for
UTILISATION: Final = _PERCENT | _FRACTION  # units that can be mistaken for each other
RATIO_MAX: Final = 5.0
CLEARLY_PERCENT: Final = 10.0


def declared_problem(unit: str, target: float) -> str:
    """What is wrong with a target in that unit, "" if nothing is."""
    if unit in _PERCENT and target <= 1:
        return f"a target of {target:g} in {unit} looks like a fraction: {target * 100:g} may be meant"
    if unit in _FRACTION and target > 1:
        return f"a target of {target:g} as a {unit} looks like percent: {target / 100:g} may be meant"
    return ""


def looks_like_percent(unit: str, each: float) -> str:
    """Why a value of one replica is no fraction although its unit says so, "" if it may be one."""
    most = 1.0 if unit in _BOUNDED else RATIO_MAX if unit in _FRACTION else None
    if most is None or each <= most:
        return ""
    return f"{each:g} is no {unit}: it looks like percent"


def looks_like_a_fraction(unit: str, target: float, each: float) -> str:
    """Why a value of one replica may be a fraction although its unit says percent, "" if it cannot be.

    An idle replica may really be at half a percent, so this is a doubt: it is no reason to shrink.
    """
    if unit not in _PERCENT or target < CLEARLY_PERCENT or not 0 < each <= 1:
        return ""
    return f"{each:g} {unit} beside a target of {target:g} looks like a fraction of 1; no value above 1 was seen yet"
