"""What `up` prints: what runs and acts, one line a service as it becomes ready, where to look, and what to try.

Pure: what the plane says of itself in, lines out.  A tick stands only before what was seen ready; what waits, is
refused or takes longer says so, with the command that helps.  Every command shown works as printed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fleetwarden.cli.invocation import from_here
from fleetwarden.cli.screen import Screen
from fleetwarden.cli.times import localised, parsed
from fleetwarden.cli.wording import act, counted

__all__ = ["LINES_MAX", "outcome_of", "settled", "show_banner", "show_console", "show_outcome", "show_tries"]

Item = Mapping[str, Any]
Command = Callable[[str], str]
LINES_MAX = 30  # services that get a line of their own
_STORES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_WILL_NOT_MOVE = frozenset({"host_silent", "denied", "repeated", "refused", "observe_only", "count_not_ours"})


def show_banner(screen: Screen, body: Item) -> None:
    """The first line: version, store, what may act, which policy."""
    acting = ", ".join(body["acting_on"]) or "nothing (dry run)"
    policy = body["policy"]
    parts = [
        f"fleetwarden {body['version']}",
        _STORES.get(str(body["store"]), str(body["store"])),
        f"acting on: {acting}",
        f"policy: {_place(policy['source'], body['config_dir'])} ({counted(int(policy['rules']), 'rule')})",
    ]
    screen.line("  ·  ".join(parts), indent=2)
    freezes = body.get("freezes") or ()
    if body.get("freeze_file") or any(one.get("scope", "all") == "all" for one in freezes):
        screen.line("! frozen: nothing acts until the freeze is lifted", indent=2, tone="warn")
    elif freezes:
        places = ", ".join(f"{one['scope']} {one['value']}" for one in freezes)
        screen.line(f"! frozen in part ({places}): nothing acts there until it is lifted", indent=2, tone="warn")
    for warning in body.get("warnings") or ():
        screen.line(f"! {localised(str(warning), parsed(body['at']))}", indent=2, tone="warn")


def _place(source: object, folder: object) -> str:
    """Where the policy stands, as one would name it from here."""
    file = Path(str(folder)) / str(source)
    return from_here(file) if file.is_file() else str(source)


def settled(item: Item) -> bool:
    """Whether nothing more is to be expected soon: it is as declared, or it waits for somebody or something."""
    if item["mode"] == "observe" or item.get("approval"):
        return True
    if item["reason_code"] in _WILL_NOT_MOVE:
        return True
    opened, observed, desired = item.get("open_action"), item.get("observed"), item["desired"]
    if opened or not observed:
        return False
    if desired["state"] == "stopped":
        return bool(observed["existing"] == 0)
    last = item.get("last_action") or {}
    return bool(item["ready"] >= desired["replicas"] or last.get("dry_run"))


def outcome_of(item: Item, command: Command, *, began: object = None) -> tuple[str, str, str, str]:
    """A mark, the readiness, the version, and what was done or stands in the way.

    `began`: when this plane did (an API time); only what was done since is claimed as its doing.
    """
    desired, observed = item["desired"], item.get("observed")
    now = parsed(item.get("at"))
    stopped = desired["state"] == "stopped"
    wanted = 0 if stopped else int(desired["replicas"])
    version = str((observed or {}).get("version") or desired.get("version") or "")
    ready = f"{item['ready']} of {wanted} ready" if observed else "not observed"
    waiting = item.get("approval")
    if observed and item["ready"] >= wanted and not (stopped and observed["existing"]):
        return "✓", "stopped" if stopped else ready, version, _how(item, now, parsed(began))
    if waiting and waiting["status"] == "pending":
        grant = command(f"approvals grant {waiting['short_id']}")
        return "?", ready, version, f"{act(waiting['kind'])} waits for approval {waiting['short_id']}:  {grant}"
    last = item.get("last_action") or {}
    if last.get("dry_run"):
        return "–", ready, version, f"would {act(last['kind'])} (dry run)"
    mark = "✗" if item["reason_code"] in ("denied", "repeated", "refused") else "…"
    return mark, ready, version, localised(str(item["reason"]), now)


def _how(item: Item, now: Any, began: Any) -> str:
    """By which rule it came to be so, if this plane had a hand in it."""
    decision, done = item.get("last_decision") or {}, item.get("last_action") or {}
    at = parsed(done.get("at"))
    ours = at is not None and (began is None or at >= began)
    if ours and done.get("ok") and decision.get("action_id") == done.get("id"):
        verb = {"start_service": "started", "restart_service": "restarted", "scale_service": "scaled"}
        how = verb.get(str(done["kind"]), str(item["reason"]))
        return f"{how} by {decision['rule_source']}: {decision['rule']}"
    return localised(str(item["reason"]), now)


def show_outcome(screen: Screen, item: Item, command: Command, *, width: int, began: object = None) -> None:
    """One line a service; `width` is that of the longest name."""
    mark, ready, version, told = outcome_of(item, command, began=began)
    tone = {"✓": "good", "✗": "bad", "?": "warn", "…": "warn"}.get(mark, "quiet")
    head = f"{screen.tone(mark, tone)} {item['name']!s:<{width}}  {ready:<14} {version:<5}  "
    screen.continued(head, told, indent=width + 26)


def show_console(screen: Screen, told: str) -> None:
    """Where the page is, and what is known of the token."""
    screen.line(f"Console  {told}", indent=9)


def show_tries(screen: Screen, services: Sequence[Item], command: Command) -> None:
    """Five things to try that fit what this fleet is doing now."""
    tries = _tries(services, command)
    width = max(len(one) for one, _ in tries)
    for number, (typed, about) in enumerate(tries):
        label = "Try:" if number == 0 else ""
        screen.continued(f"{label:<5} {typed:<{width}}  ", about, indent=8 + width)


def _tries(services: Sequence[Item], command: Command) -> list[tuple[str, str]]:
    by_size = sorted(services, key=lambda one: -len(one.get("instances") or ()))
    living = [
        (one["name"], each["id"])
        for one in by_size
        if one.get("acts")
        for each in one.get("instances") or ()
        if each.get("pid") and str(each["id"]).isdigit()
    ]
    waiting = [one for one in services if (one.get("approval") or {}).get("status") == "pending"]
    tries: list[tuple[str, str]] = []
    if waiting:
        first = waiting[0]["approval"]
        tries.append((command("approvals list"), "what waits for you, and what it would change"))
        grant = command(f"approvals grant {first['short_id']}")
        tries.append((grant, f"let it {act(first['kind'])} {first['target']}"))
    if living:
        name, instance = living[0]
        tries.append((f"kill -9 $({command(f'status {name} --pid {instance}')})", "and watch what happens"))
        tries.append((command(f"explain {name}"), "why it was, or was not, started again"))
    elif services:
        first_of = (waiting or services)[0]["name"]
        tries.append((command(f"explain {first_of}"), "why it was, or was not, acted upon"))
    tries += [
        (command('freeze on --reason "lunch"'), "nothing acts until you say: freeze off"),
        (command("status"), "the fleet at a glance"),
        (command("decisions"), "what was decided, and by which rule"),
        (command("policy check"), "look at a changed policy before it counts"),
    ]
    return tries[:5]
