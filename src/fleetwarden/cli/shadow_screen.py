"""Shadow reports as people see them.  Pure: what HTTP answers in, lines out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwarden.cli.durations import spelled
from fleetwarden.cli.screen import Screen
from fleetwarden.cli.times import shown
from fleetwarden.cli.wording import counted

__all__ = ["show_report", "show_reports"]

Item = Mapping[str, Any]
_HOW = "that takes mode: observe, or controller_mode: external_hpa or external_keda"
_WRITERS = {
    "observe": "whoever writes its count (mode observe)",
    "external_hpa": "its HorizontalPodAutoscaler",
    "external_keda": "KEDA",
}


def show_report(screen: Screen, one: Item, now: Any) -> None:
    """One service."""
    if not one["runs"]:
        why = f"{_HOW}, and a scaling block" if one["writer"] is None else "is the autoscaler on? FLEET_AUTOSCALER=1"
        screen.line(f"{one['service']}: nothing was evaluated in shadow in that time ({why})")
        return
    other = _WRITERS.get(str(one["writer"]), "whoever wrote its count then")
    screen.line(f"{one['service']}  {shown(one['since'], now)} to {shown(one['until'], now)}, against {other}")
    if one["agreement"] is None:
        screen.line("no evaluation rests on evidence: nothing to compare", indent=2, tone="warn")
    else:
        screen.line(f"both wanted the same count {_share(one['agreement'])} of {spelled(one['judged_s'])}", indent=2)
    if one["unjudged_s"]:
        screen.line(f"left out: {spelled(one['unjudged_s'])} without a usable sample or observation", indent=2)
    ours, theirs = one["ours"], one["theirs"]
    screen.table(
        ("", "FLEETWARDEN", "THE OTHER"),
        [
            ("replica-hours", f"{ours['replica_hours']:.2f}", f"{theirs['replica_hours']:.2f}"),
            ("actions", ours["actions"], theirs["actions"]),
            ("reversals", ours["reversals"], theirs["reversals"]),
            ("too few replicas for", spelled(ours["under_provisioned_s"]), spelled(theirs["under_provisioned_s"])),
        ],
        indent=2,
    )
    latest = one["latest"]
    wish = "the same" if latest["desired"] == latest["current"] else f"{latest['desired']} wanted"
    screen.line(
        f"latest: {counted(latest['current'], 'replica')}, {wish} ({latest['code']}), since {shown(latest['at'], now)}",
        indent=2,
    )


def show_reports(screen: Screen, items: Sequence[Item]) -> None:
    """Many services, a line each: ours / theirs."""
    if not items:
        screen.line(f"no service is in shadow ({_HOW}, and a scaling block)")
        return
    rows = [
        (
            one["service"],
            str(one["writer"]),
            "–" if one["agreement"] is None else _share(one["agreement"]),
            _pair(one, "replica_hours", ".2f"),
            _pair(one, "actions", "d"),
            _pair(one, "reversals", "d"),
            " / ".join(spelled(one[side]["under_provisioned_s"]) for side in ("ours", "theirs")),
        )
        for one in items
    ]
    screen.table(("SERVICE", "WRITER", "AGREE", "REPLICA-HOURS", "ACTIONS", "REVERSALS", "TOO FEW"), rows)
    screen.line("pairs: what fleetwarden would have asked for / what the other did", tone="quiet")


def _share(value: float) -> str:
    """`99.9 %`; a share below one whole is never rounded up to it."""
    return f"{min(value * 100, 100.0 if value >= 1 else 99.9):.1f} %"


def _pair(one: Item, field: str, form: str) -> str:
    return " / ".join(format(one[side][field], form) for side in ("ours", "theirs"))
