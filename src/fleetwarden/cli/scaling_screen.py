"""The part of an explanation that is about load: values against targets, what they make, and the latest intent.

Pure: an explanation in, lines out.  A signal without a value says why; it is never shown as 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleetwarden.cli.screen import Screen
from fleetwarden.cli.times import ago, localised
from fleetwarden.cli.wording import counted, status_word

__all__ = ["show_scaling"]

Item = Mapping[str, Any]
_WITHOUT_A_COUNT = frozenset({"skip_metrics", "skip_unobserved", "skip_unknown", "skip_down", "not_asked"})


def show_scaling(screen: Screen, body: Item, now: Any) -> None:
    """Nothing for a service that does not follow load."""
    told, intent = body.get("scaling"), body.get("intent")
    if told:
        for one in told["signals"]:
            screen.line(f"Load: {_signal(one)}", indent=6)
        screen.line(f"  {_outcome(told)}", indent=8)
        if told.get("streak") and told.get("needed"):
            screen.line(f"  {_in_a_row(told)}", indent=8)
    if intent:
        what = f"{intent['observed']} → {intent['desired']} replicas"
        note = localised(str(intent.get("note") or ""), now)
        state = "a person's override" if intent["operation"] == "override" else status_word(intent["state"])
        line = f"Intent {intent['id']} (revision {intent['revision']}): {what}, {state} {ago(intent['moved_at'], now)}"
        screen.line(line + (f": {note}" if note else ""), indent=2)


def _outcome(told: Item) -> str:
    """What the load makes, or that it makes nothing: a missing sample is never shown as a count."""
    limits = told.get("limits") or {}
    bounds = f"; at least {limits['min']}, at most {limits['max']}" if limits else ""
    there = f"{told['current']} {'is' if told['current'] == 1 else 'are'} there{bounds}"
    if told.get("code") in _WITHOUT_A_COUNT:
        return f"no count follows from that; {there}"
    return f"{counted(int(told['raw']), 'replica')} would carry it, {there}"


def _in_a_row(told: Item) -> str:
    samples, needed = int(told["samples"]), int(told["needed"])
    if samples >= needed:
        return f"enough samples in a row say {told['streak']} ({counted(needed, 'sample')} needed)"
    return f"{samples} of {needed} samples in a row say {told['streak']}"


def _signal(one: Item) -> str:
    target = f"target {one['target']:g} a replica"
    if one.get("value") is None:
        return f"{one['signal']}: no usable sample ({one.get('reason')}); {target}"
    aggregation = "in all" if one.get("aggregation") == "fleet_total" else "a replica"
    age = "" if one.get("age_s") is None else f", {max(0.0, one['age_s']):.1f} s old then"
    return (
        f"{one['signal']} {one['value']:g} {one.get('unit') or ''} {aggregation} ({target}{age}, {one.get('source')})"
    )
