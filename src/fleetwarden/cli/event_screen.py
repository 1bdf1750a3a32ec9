"""What became of an event, step by step: one row a step, what it came to, and the ids that can be given back.

Pure: the log as HTTP answers it in, lines out.  Nothing is left out that a step says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwarden.cli.durations import spelled
from fleetwarden.cli.screen import Screen
from fleetwarden.cli.times import localised, shown
from fleetwarden.cli.wording import TONES, act

__all__ = ["show_log"]

Item = Mapping[str, Any]
_IDS = ("decision", "action", "approval", "failure_gap")
_SAID = frozenset({"at", "kind", "outcome", "reason", "playbook", "step", "ok", "steps", "answered_by", *_IDS})
_GONE: tuple[object, ...] = (None, "", [], {})


def show_log(screen: Screen, entries: Sequence[Item], now: Any) -> None:
    """The steps, under the name of the playbook that answers."""
    names = [str(one["answered_by"]) for one in entries if one.get("answered_by")]
    screen.line(f"what was done about it, by the playbook {names[0]}" if names else "what was done about it")
    rows = [
        (shown(one.get("at"), now), str(one.get("kind", "")), _word(one), localised(_told(one), now)) for one in entries
    ]
    screen.table(("TIME", "STEP", "CAME TO", "SAID"), rows, tones=TONES, indent=2)


def _word(entry: Item) -> str:
    return str(entry.get("outcome", "")).replace("_", " ")


def _told(entry: Item) -> str:
    steps = entry.get("steps") or ()
    parts = [" → ".join(_step(one) for one in steps)] if steps else []
    ids = ", ".join(str(entry[name]) for name in _IDS if entry.get(name))
    reason = str(entry.get("reason") or "")
    parts += [f"{ids}: {reason}" if ids and reason else ids or reason]
    others = ((key, value) for key, value in entry.items() if key not in _SAID and value not in _GONE)
    parts += [f"{key.replace('_', ' ')} {value}" for key, value in others]
    return "; ".join(part for part in parts if part)


def _step(step: Item) -> str:
    """`confirm`, `wait 1 min`, `decide restart`."""
    kind = str(step.get("kind", ""))
    if kind == "wait":
        return f"wait {spelled(float(step.get('wait_s') or 0))}"
    return f"{kind} {act(step.get('action'))}" if kind == "decide" else kind
