"""Lists and single records as people see them: one row an item, plain words, ids that can be given back.

Pure: items as HTTP answers them in, lines out.  A single record is shown whole, as words and values, with nothing cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fleetwarden.cli.captured_screen import show_captured
from fleetwarden.cli.event_screen import show_log
from fleetwarden.cli.screen import Screen
from fleetwarden.cli.times import ago, localised, parsed, shown
from fleetwarden.cli.wording import TONES, asked_for, done_words, status_word, work_kind

__all__ = ["LAYOUTS", "Layout", "show_list", "show_record"]

Item = Mapping[str, Any]
Row = Callable[[Item, Any], Sequence[object]]
_STATE_KEYS = frozenset({"state", "status", "verdict"})
_ITEM_MAX = 160  # characters of an item of a list that stays one line


class Layout(NamedTuple):
    """How a list is shown: heads, one row an item, and what to say when it is empty."""

    head: Sequence[str]
    row: Row
    empty: str


def _decision(item: Item, now: Any) -> Sequence[object]:
    told = localised(str(item.get("reason") or ""), now)
    return (
        item["id"],
        shown(item["at"], now),
        asked_for(item),
        status_word(item["verdict"]),
        item.get("requested_by") or item.get("source"),
        item.get("action_id") or item.get("approval_id") or "–",
        told,
    )


def _execution(item: Item, now: Any) -> Sequence[object]:
    state = "done" if item.get("ok") and not item.get("dry_run") else status_word(item["state"])
    what = f"{item['target']}: {done_words(item)}"
    return item["id"], shown(item["at"], now), what, state, item["decision_id"], localised(str(item["detail"]), now)


def _action(item: Item, now: Any) -> Sequence[object]:
    told = item.get("note") or item.get("detail") or ""
    state = status_word(item["state"])
    return item["id"], shown(item["at"], now), asked_for(item), state, item["decision_id"], localised(str(told), now)


def _work(item: Item, now: Any) -> Sequence[object]:
    told = item.get("error") or (item.get("result") or {}).get("detail") or ""
    if item["state"] == "ready":
        told = f"next {ago(item['not_before'], now)}" + (f": {told}" if told else "")
    tries = f"{item['attempts']} of {item['attempts_max']}"
    about = f"{work_kind(item['kind'])}" + (f": {item['target']}" if item.get("target") else "")
    return item["id"], shown(item["at"], now), about, status_word(item["state"]), tries, localised(str(told), now)


def _message(item: Item, now: Any) -> Sequence[object]:
    lines = item.get("lines") or [{"summary": ""}]
    told = f"{lines[0]['summary']}" + (f" (and {item['notices'] - 1} more)" if item["notices"] > 1 else "")
    if item.get("error"):
        told = f"{item['error']}: {told}"
    state = item["state"]
    if state == "waiting" and item["attempts"]:
        state = f"failed, next {ago(item['next_at'], now)}"
    return item["id"], shown(item["at"], now), item["target"], state, item["attempts"], localised(told, now)


def _report(item: Item, now: Any) -> Sequence[object]:
    counts = ("proposed", "waiting", "deferred", "drained", "expired")
    parts = [f"{item[name]} {name}" for name in counts if item.get(name)]
    for name in ("prepared", "queued", "denied", "problems"):
        listed = item.get(name) or ()
        if listed:
            parts.append(f"{name}: {', '.join(map(str, listed))}")
    told = localised("; ".join(parts), now)
    return item["id"], shown(item["at"], now), item["kind"], status_word(item.get("status", "")), told or "–"


def _journal(item: Item, now: Any) -> Sequence[object]:
    summary = localised(str(item["summary"]), now)
    return item["id"], shown(item["at"], now), item["severity"], item["kind"], item.get("actor") or "–", summary


def _foreign_change(item: Item, now: Any) -> Sequence[object]:
    what = f"{item['target']}: {item['field']} {item['before']} → {item['after']}"
    until = f" until {shown(item['hold_until'], now)}" if item["state"] == "held" and item.get("hold_until") else ""
    told = localised(str(item.get("note") or ""), now)
    return item["id"], shown(item["at"], now), what, f"{item['state']}{until}", item.get("writer") or "–", told


def _intent(item: Item, now: Any) -> Sequence[object]:
    what = f"{item['service']} {item['observed']} → {item['desired']}"
    who = "a person" if item["operation"] == "override" else item["decision_id"]
    told = localised(str(item.get("note") or ""), now)
    state = "held by an override" if item["operation"] == "override" else status_word(item["state"])
    state = "done, overtaken" if item.get("overtaken_by") else state
    return item["id"], shown(item["at"], now), f"{what} (revision {item['revision']})", state, who, told


def _event(item: Item, now: Any) -> Sequence[object]:
    about = item.get("service") or f"{item['subject']} (no service)"
    told = f"{item['status']}, {item['class']}" if item["class"] != "none" else item["status"]
    then = item.get("remediation_status") or "–"
    return item["id"], shown(item["at"], now), item["severity"], about, told, item["source"], then, item["summary"]


def _watch(item: Item, now: Any) -> Sequence[object]:
    version = f" {item['version']}" if item.get("version") else ""
    after = f"{item['action_id']} ({item['kind']})" if item.get("action_id") else str(item["kind"])
    told = item.get("follow_up") or item.get("reason") or f"until {shown(item['deadline'], now)}"
    looks = f"{item['healthy']} of {item['looks']} well"
    what = f"{item['service']}{version}"
    return item["id"], shown(item["at"], now), what, after, item["status"], looks, localised(str(told), now)


def _quarantine(item: Item, now: Any) -> Sequence[object]:
    until = "stands" if item["stands"] else f"cleared by {item['cleared_by']}: {item['note']}"
    what = f"{item['service']} {item['version']}"
    return item["id"], shown(item["at"], now), what, until, item["watch_id"], localised(str(item["reason"]), now)


LAYOUTS: Mapping[str, Layout] = {
    "events": Layout(
        ("ID", "TIME", "SEVERITY", "ABOUT", "SAYS", "FROM", "THEN", "SUMMARY"), _event, "no event on record"
    ),
    "intents": Layout(("ID", "TIME", "WHAT", "STATE", "DECISION", "NOTE"), _intent, "no scale intent on record"),
    "decisions": Layout(
        ("ID", "TIME", "WHAT", "VERDICT", "ASKED BY", "LED TO", "WHY"), _decision, "no decision on record"
    ),
    "executions": Layout(("ID", "TIME", "WHAT", "STATE", "DECISION", "DETAIL"), _execution, "nothing was carried out"),
    "actions": Layout(("ID", "TIME", "WHAT", "STATE", "DECISION", "DETAIL"), _action, "no action on record"),
    "watches": Layout(("ID", "TIME", "WHAT", "AFTER", "STATUS", "LOOKS", "TOLD"), _watch, "no watch on record"),
    "quarantines": Layout(("ID", "TIME", "VERSION", "STATE", "WATCH", "WHY"), _quarantine, "nothing is in quarantine"),
    "work": Layout(("ID", "TIME", "WHAT", "STATE", "TRIES", "DETAIL"), _work, "no work on record"),
    "reports": Layout(("ID", "TIME", "KIND", "STATUS", "WHAT"), _report, "no report yet"),
    "foreign": Layout(("ID", "TIME", "WHAT", "NOW", "SET BY", "NOTE"), _foreign_change, "nobody else changed anything"),
    "messages": Layout(("ID", "TIME", "TO", "STATE", "TRIES", "WHAT"), _message, "no message on record"),
    "journal": Layout(("ID", "TIME", "SEVERITY", "TOPIC", "WHO", "WHAT"), _journal, "the journal is empty"),
}


def show_list(screen: Screen, topic: str, body: Item, now: Any, *, more: Callable[[object], str]) -> None:
    """A page of a list.  `more` makes the command that shows the next page from its cursor."""
    layout = LAYOUTS[topic]
    items = body.get("items") or []
    if not items:
        screen.line(layout.empty)
        return
    screen.table(layout.head, [layout.row(one, now) for one in items], tones=TONES)
    if body.get("next") is not None:
        screen.line(f"older ones:  {more(body['next'])}")


def show_record(screen: Screen, item: Item, now: Any) -> None:
    """One record, whole: a line a value, nested values under their name; what was captured before it, or what was done
    about it, at the end."""
    _values(screen, {key: value for key, value in item.items() if key not in ("captured", "remediation_log")}, now, 0)
    if item.get("remediation_log"):
        show_log(screen, item["remediation_log"], now)
    if item.get("captured"):
        show_captured(screen, item["captured"], now)


def _values(screen: Screen, item: Item, now: Any, depth: int) -> None:
    told = {key: value for key, value in item.items() if value is not None and value not in ("", [], {})}
    width = max((len(_label(key)) for key in told), default=0)
    for key, value in told.items():
        label = " " * (2 * depth) + _label(key).ljust(width)
        below = 2 * depth + width + 2
        if isinstance(value, Mapping):
            screen.line(label)
            _values(screen, value, now, depth + 1)
        elif isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
            screen.line(label)
            for one in value:
                _listed(screen, one, now, depth + 1)
        elif isinstance(value, list):
            screen.line(f"{label}  {', '.join(_told(key, one, now) for one in value)}", indent=below)
        elif isinstance(value, str) and "\n" in value:
            screen.line(label)
            for line in value.splitlines():
                screen.line(" " * (2 * depth + 2) + line, indent=2 * depth + 4)
        else:
            screen.line(f"{label}  {_told(key, value, now)}", indent=below)


def _listed(screen: Screen, one: Any, now: Any, depth: int) -> None:
    """An item of a list of records: on one line, or a line a value where that would be too much for one."""
    if not isinstance(one, Mapping):
        screen.line(" " * (2 * depth) + f"- {one}", indent=2 * depth + 2)
        return
    parts = [f"{_label(key)} {_told(key, value, now)}" for key, value in one.items() if value not in (None, "", [], {})]
    line = f"- {', '.join(parts)}"
    if len(line) <= _ITEM_MAX:
        screen.line(" " * (2 * depth) + line, indent=2 * depth + 2)
        return
    screen.line(" " * (2 * depth) + "-")
    _values(screen, one, now, depth + 1)


def _label(key: str) -> str:
    return key.replace("_", " ")


def _told(key: str, value: Any, now: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key in _STATE_KEYS:
        return status_word(value)
    if isinstance(value, Mapping):
        kept = [(name, one) for name, one in value.items() if one not in (None, "", [], {})]
        return "(" + ", ".join(f"{_label(name)} {_told(name, one, now)}" for name, one in kept) + ")"
    if isinstance(value, list):
        return ", ".join(_told(key, one, now) for one in value)
    if isinstance(value, str) and parsed(value) is not None:
        return shown(value, now)
    return localised(str(value), now)
