"""Approvals as people see them: what is asked, by whom, until when, why, and what exactly would change.

Pure: items as HTTP answers them in, lines out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwarden.cli.screen import Screen
from fleetwarden.cli.times import ago, localised, shown
from fleetwarden.cli.wording import counted, status_word

__all__ = ["changes", "show_approval", "show_approvals"]

Item = Mapping[str, Any]


def show_approvals(screen: Screen, items: Sequence[Item], now: Any, *, every_state: bool) -> None:
    """Two lines each: the first to choose by, the second to decide by."""
    if not items:
        screen.line("no approvals" if every_state else "nothing waits for approval")
        return
    width = max(len(str(one["short_id"])) for one in items)
    for one in items:
        head = f"{str(one['short_id']).ljust(width)}  {'  '.join(_head(one, now))}"
        screen.line(head, indent=width + 2)
        screen.line(" " * (width + 2) + _because(one, now), indent=width + 2)


def _head(one: Item, now: Any) -> list[str]:
    parts = [str(one["kind"]), str(one["target"])]
    asked = f"asked by {one['requested_by']} {ago(one['at'], now)}"
    parts.append(asked + (" (dry run)" if one.get("dry_run") else ""))
    if one["status"] == "pending":
        parts += [f"expires {shown(one['expires_at'], now, seconds=False)}", _needs(one)]
    else:
        ended = f" {ago(one['ended_at'], now)}" if one.get("ended_at") else ""
        parts.append(status_word(one["status"]) + ended)
    return parts


def _needs(one: Item) -> str:
    needed = one.get("needed") or {}
    count, teams = int(needed.get("count", 1)), needed.get("teams") or []
    if needed.get("nobody"):
        return "nobody can grant it: the policy names no team"
    given = sum(1 for vote in one.get("votes") or () if vote["decision"] == "approved")
    said = f"needs {count}" + (f" of team {' or '.join(teams)}" if teams else f" approver{'s' if count > 1 else ''}")
    return said + (f", has {given}" if given else "")


def _because(one: Item, now: Any) -> str:
    parts = [f"because: {localised(str(one['reason']), now)}"]
    if one.get("request_reason"):
        parts.append(f"need: {localised(str(one['request_reason']), now)}")
    parts.append(f"changes: {changes(one)}")
    if one.get("note"):
        parts.append(localised(str(one["note"]), now))
    return " · ".join(parts)


def changes(one: Item) -> str:
    """What would be done to what exists, with pids and ports as they were when it was asked."""
    kind, params, evidence = one["kind"], one.get("params") or {}, one.get("evidence") or {}
    instances = [each for each in evidence.get("instances") or () if isinstance(each, Mapping)]
    living = [each for each in instances if each.get("pid")]
    if kind == "start_service":
        return f"start {counted(int(params.get('replicas', 1)), 'process', 'processes')}"
    if kind == "stop_service":
        return f"stop {_named(living)}"
    if kind == "scale_service":
        return f"from {evidence.get('total', '?')} to {counted(int(params.get('replicas', 0)), 'replica')}"
    if kind == "restart_service":
        replica = params.get("replica")
        chosen = instances if replica is None else [each for each in instances if str(each.get("id")) == str(replica)]
        which = counted(len(chosen), "process", "processes") if replica is None else f"{one['target']}#{replica}"
        return f"restart {which}{_places(chosen)}"
    said = ", ".join(f"{name} {value}" for name, value in params.items())
    return f"{kind} {one['target']}" + (f" ({said})" if said else "")


def _named(instances: Sequence[Item]) -> str:
    return counted(len(instances), "process", "processes") + _places(instances)


def _places(instances: Sequence[Item]) -> str:
    told = ""
    for key in ("pid", "port"):
        values = [str(one[key]) for one in instances if one.get(key)]
        if values:
            told += f", {key}{'s' if len(values) > 1 else ''} {' '.join(values)}"
    return told


def show_approval(screen: Screen, one: Item, now: Any, *, grant: str, reject: str) -> None:
    """One approval, with its votes and, while it waits, the commands that answer it."""
    show_approvals(screen, [one], now, every_state=True)
    rows = [
        ("status", status_word(one["status"])),
        ("decision", str(one["decision_id"])),
        ("exactly", f"{one['digest']} (what is granted is this request and no other)"),
        ("skips", ", ".join(one.get("waives") or ()) or "nothing"),
    ]
    if one.get("superseded_by"):
        rows.append(("instead", str(one["superseded_by"])))
    for vote in one.get("votes") or ():
        said = f"{vote['by']} {vote['decision']} {ago(vote['at'], now)}"
        rows.append(("vote", f"{said}: {vote['reason']}" if vote["reason"] else said))
    screen.table(("", ""), rows, indent=2)
    if one["status"] == "pending":
        screen.line(f"grant it:   {grant}")
        screen.line(f"reject it:  {reject}")
