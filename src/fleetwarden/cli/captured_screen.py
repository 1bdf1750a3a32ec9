"""What was seen before an action, and the versions of a service, as people see them.

Pure: what HTTP answers in, lines out.  Output of a service is shown line by line, as it was kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleetwarden.cli.screen import Screen
from fleetwarden.cli.times import localised, shown

__all__ = ["show_captured", "show_output", "show_versions"]

Item = Mapping[str, Any]


def show_captured(screen: Screen, captured: Item, now: Any) -> None:
    """The evidence of one action: each replica with its last lines."""
    screen.line(f"captured right before it, {shown(captured['at'], now)} ({captured['digest'][:23]})")
    _show_replicas(screen, captured, now)


def show_output(screen: Screen, body: Item, now: Any) -> None:
    """What each replica of a service wrote last."""
    if not body["instances"]:
        screen.line(f"nothing of {body['service']} is there")
    _show_replicas(screen, body, now)


def _show_replicas(screen: Screen, captured: Item, now: Any) -> None:
    if captured.get("problem"):
        screen.line(str(captured["problem"]), indent=2)
    for one in captured.get("instances") or ():
        screen.line(f"  #{one['id']}: {', '.join(_about(one, now))}", indent=4)
        if one.get("cut"):
            screen.line("    … (earlier lines are not shown)")
        for line in one.get("lines") or ():
            screen.line(f"    {line}", indent=6)


def _about(one: Item, now: Any) -> list[str]:
    told = [str(one["status"])]
    told += [f"pid {one['pid']}"] if one.get("pid") else []
    told += [f"version {one['version']}"] if one.get("version") else []
    told += [f"started {shown(one['started_at'], now)}"] if one.get("started_at") else []
    told += [str(one["ended"])] if one.get("ended") else []
    return told if one.get("lines") else [*told, "no output"]


def show_versions(screen: Screen, body: Item, now: Any) -> None:
    """One service's versions."""
    declared, running = body.get("declared") or "none", ", ".join(body.get("running") or ()) or "not known"
    screen.line(f"{body['service']}: version {declared} is declared, running: {running}")
    if body.get("note"):
        screen.line(localised(str(body["note"]), now), indent=2)
    known = [f"{one['version']}{' (irreversible)' if one['irreversible'] else ''}" for one in body.get("known") or ()]
    screen.line(f"known: {', '.join(known) or 'none'}")
    rows = [
        (
            shown(one["at"], now),
            one["version"] if one["complete"] else f"{one['version']} (in part)",
            one.get("before") or "–",
            str(one["kind"]).partition("_")[0],
            one["action_id"],
        )
        for one in body.get("history") or ()
    ]
    if rows:
        screen.table(("SINCE", "VERSION", "BEFORE", "BY", "ACTION"), rows)
