"""Plain words for what the API answers in its own: states, actions, spans and times, as a person would say them.

Works on the JSON of `app.views` alone, so that whatever shows a fleet to people can say it the same way.  Times are
local, ages are by the plane's own clock (`at` of the same answer).  A dry run says "would".  Nothing is invented: what
is unknown is called unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

__all__ = [
    "ago",
    "approval_facts",
    "asked",
    "clock_time",
    "execution_in_words",
    "freeze_in_words",
    "last_action",
    "load_in_words",
    "localised",
    "outcome_in_words",
    "ready",
    "seen_in_words",
    "service_state",
    "spelled",
    "status_facts",
]

Item = Mapping[str, Any]
STOPPED = "stopped, as declared"
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z", re.ASCII)

_DONE = {
    "restart_service": "restarted",
    "scale_service": "scaled",
    "stop_service": "stopped",
    "start_service": "started",
    "deploy_service": "deployed",
    "rollback_service": "rolled back",
}
_ACT = {
    "restart_service": "restart",
    "scale_service": "scale",
    "stop_service": "stop",
    "start_service": "start",
    "deploy_service": "deploy",
    "rollback_service": "roll back",
}
_OUTCOMES = {
    "prepared": "about to begin",
    "running": "running",
    "recovery_pending": "outcome unknown",
    "succeeded": "done",
    "failed": "failed",
    "simulated": "nothing was changed",
    "abandoned": "never begun",
}


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


def clock_time(at: str, now: str) -> str:
    """A time as one says it: `14:20:07` today, `tomorrow 14:02`, `yesterday 09:30`, else `2027-01-31 14:02`; local."""
    then, today = datetime.fromisoformat(at).astimezone(), datetime.fromisoformat(now).astimezone()
    days = (then.date() - today.date()).days
    if days == 0:
        return then.strftime("%H:%M:%S")
    return then.strftime({1: "tomorrow %H:%M", -1: "yesterday %H:%M"}.get(days, "%Y-%m-%d %H:%M"))


def _age_s(at: str, now: str) -> float:
    return (datetime.fromisoformat(now) - datetime.fromisoformat(at)).total_seconds()


def ago(at: str, now: str) -> str:
    """`12 s ago`, `4 min ago`, or `in 3 h` where it lies ahead.  One unit is precise enough here."""
    age = _age_s(at, now)
    coarse = " ".join(spelled(abs(age)).split(" ")[:2])
    return f"in {coarse}" if age < -0.05 else f"{coarse} ago"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def status_facts(status: Item) -> list[str]:
    """The first line of `status`, fact by fact: what is on, off, frozen and dry run."""
    facts = [_count(status["services_total"], "service", "services")]
    gone = sum(service_state(one) == STOPPED for one in status["services"])
    counts = {**status["services_by_status"]}
    if gone and counts.get("up", 0) >= gone:  # what is gone as it is declared is well, and not up
        counts |= {"up": counts["up"] - gone, "stopped": gone}
    facts += [f"{number} {state}" for state, number in counts.items() if number]
    acting = ", ".join(name or "injected substrates" for name in status["acting_on"])
    facts.append(f"acting on {acting}" if acting else "dry run: nothing will change")
    if status["reconciler"] != "on":
        facts.append("reconciler off")
    facts.append(f"autoscaler {status['autoscaler']}")
    last = status["last_pass_s"]
    facts.append("no pass yet" if last is None else f"last pass {spelled(last)} ago")
    facts.append(_frozen(status))
    facts.append(f"{status['approvals_waiting'] or 'nothing'} waiting for approval")
    if status["outcome_unknown"]:
        facts.append(f"{_count(status['outcome_unknown'], 'outcome', 'outcomes')} unknown")
    if status["health"] != "healthy":
        facts.append(f"health {status['health']}")
    return facts


def _frozen(status: Item) -> str:
    if status["freeze_file"] or any(one["scope"] == "all" for one in status["freezes"]):
        return "FROZEN: nothing acts"
    parts = [f"{one['scope']} {one['value']}" for one in status["freezes"]]
    return f"FROZEN in part: {', '.join(parts)}" if parts else "nothing frozen"


def freeze_in_words(freeze: Item, now: str) -> str:
    """Who froze what, why, and until when."""
    until = f"until {clock_time(freeze['until'], now)}" if freeze["until"] else "until somebody lifts it"
    reason = f": {freeze['reason']}" if freeze["reason"] else ""
    what = f"{freeze['scope']} {freeze['value']} " if freeze["value"] else ""
    return f"{what}frozen by {freeze['owner']} {ago(freeze['at'], now)}, {until}{reason}"


def load_in_words(signal: Item) -> str:
    """A signal beside its target: `jobs_waiting 154 jobs, target 50 a replica`; without a value, why there is none."""
    target = f"target {signal['target']:g} a replica"
    if signal.get("value") is None:
        return f"{signal['signal']}: no usable sample ({signal.get('reason')}); {target}"
    each = "" if signal.get("aggregation") == "fleet_total" else " a replica"
    return f"{signal['signal']} {signal['value']:g} {signal.get('unit') or ''}{each}, {target}"


def service_state(service: Item) -> str:
    """`up`, `down`, …; and what it is meant to be where that is not to run."""
    wanted = service["desired"]["state"]
    if wanted == "stopped":
        seen = service["observed"]
        gone = seen is not None and seen["existing"] == 0
        return STOPPED if gone else f"{service['status']}, declared stopped"
    return str(service["status"])


def ready(service: Item) -> str:
    """`2/3`: ready of declared; `?/3` where nobody has looked."""
    wanted = service["desired"]["replicas"] if service["desired"]["state"] == "running" else 0
    return f"{service['ready'] if service['observed'] else '?'}/{wanted}"


def asked(item: Item) -> str:
    """What a request would do: `scale shop to 3 replicas`, `restart web#1`; kind and target where we have no words."""
    kind, params = item["kind"], item["params"]
    said = f"{_ACT.get(kind, kind)} {item['target']}"
    if params.get("replica") is not None:
        said += f"#{params['replica']}"
    counted = type(params.get("replicas")) is int  # of somebody else's kind it may be anything
    if counted:
        said += f" {'with' if kind == 'start_service' else 'to'} {_count(params['replicas'], 'replica', 'replicas')}"
    known = ("replica", "replicas") if counted else ("replica",)
    rest = ", ".join(f"{name} {value}" for name, value in params.items() if name not in known)
    said += f" ({rest})" if rest else ""
    return f"would {said} (dry run)" if item["dry_run"] else said


def execution_in_words(execution: Item) -> str:
    """What became of an action, without its time: `restarted`, `would restart (dry run)`, `restart failed`."""
    kind, state = execution["kind"], execution["state"]
    act = _ACT.get(kind, kind)
    if state == "simulated" or execution["dry_run"]:
        return f"would {act} (dry run)"
    if state == "recovery_pending":
        return f"{act}: outcome unknown"
    return _DONE.get(kind, f"{kind} done") if execution["ok"] else f"{act} failed"


def outcome_in_words(action: Item) -> str:
    """What became of an action, said beside what was asked: `done`, `failed`, `outcome unknown`, `running`, …"""
    return _OUTCOMES[action["state"]]


def seen_in_words(evidence: Item) -> str:
    """What was seen when something was asked for: `down, 0 of 2 ready: exited with code 1`; empty if nothing was."""
    if "status" not in evidence:
        return ""
    detail = f": {evidence['detail']}" if evidence.get("detail") else ""
    counts = f", {evidence['ready']} of {evidence['total']} ready" if {"ready", "total"} <= evidence.keys() else ""
    return f"{evidence['status']}{counts}{detail}"


def last_action(service: Item) -> str:
    """The action that is open, else the last one that ended."""
    opened, ended, now = service["open_action"], service["last_action"], service["at"]
    if opened is not None:
        if opened["state"] == "recovery_pending":
            return f"{asked(opened)}: outcome unknown, {ago(opened['started_at'] or opened['at'], now)}"
        begun = opened["started_at"]
        return f"{asked(opened)}: " + (f"running for {spelled(_age_s(begun, now))}" if begun else "about to begin")
    if ended is None:
        return "none yet"
    return f"{execution_in_words(ended)} {ago(ended['at'], now)}"


def localised(text: str, now: str) -> str:
    """A sentence of the plane with every UTC time in it turned into a local one."""
    return _STAMP.sub(lambda found: clock_time(found[0], now), text)


def _needs(approval: Item) -> str:
    needed = approval["needed"]
    if needed["nobody"]:
        return "nobody can grant it: the policy names no team"
    teams = f" of team {' or '.join(needed['teams'])}" if needed["teams"] else ""
    given = sum(one["decision"] == "approved" for one in approval["votes"])
    return f"needs {_count(needed['count'], 'approver', 'approvers')}{teams}" + (f", has {given}" if given else "")


def approval_facts(approval: Item, now: str) -> list[str]:
    """Who asked, when it expires and what it needs."""
    facts = [
        f"asked by {approval['requested_by']} {ago(approval['at'], now)}",
        f"expires {clock_time(approval['expires_at'], now)}",
        _needs(approval),
    ]
    if approval["votes"]:
        facts.append("answered so far: " + ", ".join(f"{one['by']} {one['decision']}" for one in approval["votes"]))
    return facts
