"""Readings of signals as people see them: one row a service and signal.

Pure: items in, lines out.  What is no data is said in words and never shown as 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwarden.cli.screen import Screen

__all__ = ["show_readings"]

HEAD = ("SIGNAL", "SERVICE", "VALUE", "UNIT", "AGE", "SOURCE", "")


def show_readings(screen: Screen, items: Sequence[Mapping[str, Any]]) -> None:
    """All readings."""
    if not items:
        screen.line("no service scales on a signal, and signals.yml declares none for one")
        return
    screen.table(HEAD, [_row(one) for one in items])


def _row(one: Mapping[str, Any]) -> list[object]:
    value = "no data" if one["value"] is None else f"{one['value']:g}"
    age = "–" if one.get("age_s") is None else f"{one['age_s']:.1f} s"
    told = f"{one['fault']}: {one['reason']}" if one["fault"] else one.get("aggregation") or ""
    return [one["signal"], one["service"], value, one.get("unit") or "–", age, one.get("source") or "–", told]
