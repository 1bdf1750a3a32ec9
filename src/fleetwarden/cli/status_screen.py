"""`status` as people see it: one line that says what is on, off, frozen and dry run; one row a service; the warnings.

Pure: an answer of the plane in, lines out.  It leaves nothing out that would change what a person does next, and it
never turns a dry run or an unknown outcome into something done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleetwarden.cli.durations import spelled
from fleetwarden.cli.screen import Screen
from fleetwarden.cli.times import ago, localised, parsed, shown
from fleetwarden.cli.wording import TONES, asked_for, counted, done_words, freeze_words, state_of

__all__ = ["first_line", "last_action", "pid_of", "show_one", "show_status", "why"]

Item = Mapping[str, Any]
HEAD = ("SERVICE", "STATE", "READY", "VERSION", "WRITER", "LAST ACTION", "WHY NOTHING NOW")
_STATES = ("up", "degraded", "down", "unknown", "stopped")
_ASKED = ("queued", "waiting")  # a person was asked for just what is needed now


def show_status(screen: Screen, body: Item) -> None:
    """The whole fleet."""
    now = parsed(body.get("at"))
    screen.line(first_line(body), indent=2)
    for one in body.get("freezes") or ():
        screen.line(f"  {freeze_words(one, shown(one.get('until'), now))}", indent=4, tone="warn")
    if body.get("freeze_file"):
        screen.line(f"  frozen by the file {body['freeze_file']}, until it is removed", indent=4, tone="warn")
    services = body.get("services") or []
    screen.table(HEAD, [_row(one, now) for one in services], tones=TONES)
    if not services:
        screen.line("no services are declared")
    for warning in _warnings(body):
        screen.line(f"! {localised(str(warning), now)}", indent=2, tone="warn")


def first_line(body: Item) -> str:
    """What is on, off, frozen and dry run, and what waits."""
    counts = dict(body.get("services_by_status") or {})
    stopped = [one for one in body.get("services") or () if state_of(one) == "stopped"]
    if stopped and counts.get("up", 0) >= len(stopped):
        counts |= {"up": counts["up"] - len(stopped), "stopped": len(stopped)}
    parts = [counted(int(body.get("services_total", 0)), "service")]
    parts += [f"{counts[state]} {state}" for state in _STATES if counts.get(state)]
    acting = body.get("acting_on") or []
    parts.append(f"acting on {', '.join(acting)}" if acting else "dry run: nothing will change")
    if body.get("reconciler") != "on":
        parts.append("reconciler off")
    parts.append(f"autoscaler {body.get('autoscaler', 'off')}")
    since = body.get("last_pass_s")
    if body.get("reconciler") == "on":
        parts.append("no pass yet" if since is None else f"last pass {spelled(float(since))} ago")
    parts.append(_frozen(body))
    if body.get("health") != "healthy":
        parts.append(f"health {body.get('health')}")
    waiting, unknown = int(body.get("approvals_waiting") or 0), int(body.get("outcome_unknown") or 0)
    if waiting:
        parts.append(f"{waiting} waiting for approval")
    if unknown:
        parts.append(f"{counted(unknown, 'outcome')} unknown")
    return " · ".join(parts)


def _frozen(body: Item) -> str:
    """Nothing acts only while the whole fleet is frozen; the lines below name the parts."""
    freezes = body.get("freezes") or ()
    if body.get("freeze_file") or any(one.get("scope") == "all" for one in freezes):
        return "FROZEN: nothing acts"
    parts = [f"{one.get('scope')} {one.get('value')}" for one in freezes]
    return f"FROZEN in part: {', '.join(parts)}" if parts else "nothing frozen"


def _row(item: Item, now: Any) -> list[str]:
    observed = item.get("observed") or {}
    total = observed.get("total")
    wanted = item["desired"]["replicas"] if item["desired"]["state"] == "running" else 0
    known = bool(observed)
    return [
        str(item["name"]),
        state_of(item),
        f"{item['ready']}/{wanted if total is None else max(int(total), int(wanted))}" if known else "–",
        str(observed.get("version") or item["desired"].get("version") or "–"),
        str(item["controller_mode"]) + ("" if item.get("acts") else " (dry run)" if item["mode"] != "observe" else ""),
        last_action(item, now),
        why(item, now),
    ]


def last_action(item: Item, now: Any) -> str:
    """What was done last, or is under way, and when."""
    opened = item.get("open_action")
    if opened:
        if opened["state"] == "recovery_pending":
            return f"{asked_for(opened)}: outcome unknown ({opened['id']})"
        state = "under way" if opened["state"] == "running" else "about to begin"
        return f"{asked_for(opened)}: {state} ({opened['id']})"
    done = item.get("last_action")
    if not done:
        return "–"
    decision = item.get("last_decision") or {}
    params = (decision.get("params") or {}) if decision.get("action_id") == done["id"] else {}
    return f"{done_words(done, replica=params.get('replica'))} {ago(done['at'], now)}"


def why(item: Item, now: Any) -> str:
    """Why nothing happens with it now."""
    reason = localised(str(item.get("reason") or ""), now)
    waiting = item.get("approval")
    if waiting and waiting["short_id"] not in reason:
        if item.get("reason_code") in _ASKED:
            return f"waiting for approval {waiting['short_id']}: {reason}"
        return f"{reason} · {waiting['short_id']} waits for approval: {asked_for(waiting)}"  # of something else
    return reason


def _warnings(body: Item) -> list[str]:
    told = [str(one) for one in body.get("warnings") or ()]
    told += [str(note) for one in body.get("services") or () for note in one.get("notes") or ()]
    return told + [str(one["scaling_warning"]) for one in body.get("services") or () if one.get("scaling_warning")]


def show_one(screen: Screen, item: Item) -> None:
    """One service with its instances."""
    now = parsed(item.get("at"))
    screen.table(HEAD, [_row(item, now)], tones=TONES)
    rows = [
        [
            f"#{one['id']}",
            one["status"],
            "–" if one.get("pid") is None else one["pid"],
            "–" if one.get("port") is None else one["port"],
            one.get("version") or "–",
            ago(one["started_at"], now) if one.get("started_at") else "–",
            localised(str(one.get("detail") or ""), now),
        ]
        for one in item.get("instances") or ()
    ]
    if rows:
        screen.line()
        screen.table(("INSTANCE", "STATE", "PID", "PORT", "VERSION", "STARTED", "DETAIL"), rows, tones=TONES)
    for note in item.get("notes") or ():
        screen.line(f"! {localised(str(note), now)}", indent=2, tone="warn")
    if item.get("scaling_warning"):
        screen.line(f"! {item['scaling_warning']}", indent=2, tone="warn")


def pid_of(item: Item, instance: int) -> int | None:
    """The process id of an instance that lives, or None."""
    for one in item.get("instances") or ():
        if str(one["id"]) == str(instance):
            pid = one.get("pid")
            return None if pid is None or one.get("status") == "down" else int(pid)
    return None
