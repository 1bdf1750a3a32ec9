"""Overrides, the plan and a service's history as people see them.

Pure: answers of the plane in, lines out.  Nothing that would not be carried out is called done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwarden.cli.screen import Screen
from fleetwarden.cli.times import localised, parsed, shown
from fleetwarden.cli.wording import TONES, asked_for, counted

__all__ = ["override_words", "show_history", "show_overrides", "show_plan"]

Item = Mapping[str, Any]
_WOULD = {
    "act": "would be done",
    "ask": "a person would be asked",
    "wait": "waits",
    "deny": "would be denied",
    "later": "a later pass",
    "hold": "held back",
}


def override_words(item: Item, now: Any) -> str:
    """What it asks for, of whom, until when and why."""
    asks = [str(item["state"])] if item.get("state") else []
    asks += [counted(int(item["replicas"]), "replica")] if item.get("replicas") is not None else []
    until = f"until {shown(item['until'], now)}" if item.get("until") else "until it is cleared"
    return f"{item['target']}: {' with '.join(asks)}, {until}, by {item['by']}: {item['reason']}"


def show_overrides(screen: Screen, items: Sequence[Item], now: Any) -> None:
    """A page of overrides."""
    if not items:
        screen.line("nothing is overridden: the files say what is asked for")
        return
    rows = [(one["id"], shown(one["at"], now), override_words(one, now), _standing(one, now)) for one in items]
    screen.table(("ID", "SINCE", "WHAT", "NOW"), rows, tones=TONES)


def _standing(item: Item, now: Any) -> str:
    if item.get("ended_how"):
        who = f" by {item['ended_by']}" if item["ended_how"] != "expired" else ""
        return f"{item['ended_how']}{who} {shown(item['ended_at'], now)}"
    until = parsed(item.get("until"))
    return "expired" if until is not None and now is not None and until <= now else "in force"


def show_plan(screen: Screen, body: Item) -> None:
    """What a pass would do now."""
    now = parsed(body.get("at"))
    if body.get("note"):
        screen.line(f"! {localised(str(body['note']), now)}", indent=2, tone="warn")
    rows = [
        (
            one["service"],
            asked_for({**one, "target": one["service"]}),
            _WOULD[one["would"]],
            localised(str(one["reason"]), now),
            localised(str(one["why"]), now) or "–",
        )
        for one in body.get("steps") or ()
    ]
    if rows:
        screen.table(("SERVICE", "WHAT", "WOULD", "BECAUSE", "NEEDED SINCE"), rows, tones=TONES)
    for one in body.get("grants") or ():
        screen.line(f"granted, carried out first: {asked_for({**one, 'target': one['service']})}", indent=2)
    resting = body.get("at_rest") or {}
    if not rows and not body.get("grants"):
        screen.line("Nothing would be done now.")
    for name, one in resting.items():
        screen.line(f"{name}: {localised(str(one['reason']), now)}", indent=2)


def show_history(screen: Screen, body: Item, now: Any) -> None:
    """One service's timeline."""
    items = body.get("items") or []
    if not items:
        screen.line(f"nothing is on record of {body['service']}")
        return
    rows = [
        (one["id"], shown(one["at"], now), str(one["what"]).replace("_", " "), one["actor"] or "–", one["summary"])
        for one in items
    ]
    screen.table(
        ("ID", "TIME", "WHAT", "WHO", "SAID"),
        [(*row[:4], localised(str(row[4]), now)) for row in rows],
        tones=TONES,
    )
