"""The `watch:` block of a service: how long its watches last, how often they look, and which signals they check.

What is not written is left to the settings.  It says how to look and never what is done about what is seen.
"""

from __future__ import annotations

import re

from fleetwarden.domain.actions import Record
from fleetwarden.domain.located import Findings, Node
from fleetwarden.domain.located_values import number, quoted, text

__all__ = ["CHECKS_MAX", "GRACE_MAX_S", "POLL_MAX_S", "WINDOW_MAX_S", "SignalCheck", "WatchBlock", "read_watch"]

WINDOW_MAX_S = 86_400.0
POLL_MAX_S = 3_600.0
GRACE_MAX_S = 3_600.0
CHECKS_MAX = 8
BOUND_MAX = 1e12
_KEYS = ("window_s", "poll_s", "grace_s", "checks")
_CHECK_KEYS = ("signal", "max", "min")
_SIGNAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")


class SignalCheck(Record):
    """A bound on a signal of the service: the value has to lie within it, edges included.  At least one is set."""

    signal: str
    max: float | None = None
    min: float | None = None

    def problem(self, value: float) -> str:
        """Why this value breaks the bound, or ""."""
        if self.max is not None and value > self.max:
            return f"{self.signal} is {value:g}, at most {self.max:g} is allowed"
        if self.min is not None and value < self.min:
            return f"{self.signal} is {value:g}, at least {self.min:g} is needed"
        return ""


class WatchBlock(Record):
    """Seconds; None: as the settings say.  `window_s` 1 to 86,400, `poll_s` 1 to 3,600, `grace_s` 0 to 3,600."""

    window_s: float | None = None
    poll_s: float | None = None
    grace_s: float | None = None
    checks: tuple[SignalCheck, ...] = ()


def read_watch(findings: Findings, node: Node) -> WatchBlock | None:
    """The block, or None with findings for what is wrong with it."""
    before = len(findings.problems)
    if not node.mapping:
        findings.problem(node, f"watch: {quoted(node)} is {node.shape}, a block such as {{window_s: 300}} is needed")
        return None
    keys = findings.keys(node, _KEYS)
    ranges = {"window_s": (1.0, WINDOW_MAX_S), "poll_s": (1.0, POLL_MAX_S), "grace_s": (0.0, GRACE_MAX_S)}
    spans = {
        name: number(findings, f"watch {name}", keys[name], *bounds) for name, bounds in ranges.items() if name in keys
    }
    window, grace, poll = (spans.get(name) for name in ("window_s", "grace_s", "poll_s"))
    for name, span in (("grace_s", grace), ("poll_s", poll)):
        if window is not None and span is not None and span >= window:
            findings.problem(keys[name], f"watch {name}: {span:g} s leave nothing of a window of {window:g} s")
    checks = _checks(findings, keys["checks"]) if "checks" in keys else ()
    if len(findings.problems) > before:
        return None
    return WatchBlock(window_s=window, poll_s=poll, grace_s=grace, checks=checks)


def _checks(findings: Findings, node: Node) -> tuple[SignalCheck, ...]:
    if not node.is_list:
        findings.problem(node, f"watch checks: {quoted(node)} is {node.shape}, a list of {{signal, max}} is needed")
        return ()
    if len(node.items()) > CHECKS_MAX:
        findings.problem(node, f"watch checks: {len(node.items())} of them, the limit is {CHECKS_MAX}")
    found: list[SignalCheck] = []
    for item in node.items():
        one = _check(findings, item)
        if one is not None and any(one.signal == other.signal for other in found):
            findings.problem(item, f"watch checks: {one.signal} stands here twice")
        elif one is not None:
            found.append(one)
    return tuple(found)


def _check(findings: Findings, node: Node) -> SignalCheck | None:
    if not node.mapping:
        findings.problem(node, f"watch checks: {quoted(node)} is {node.shape}, {{signal: NAME, max: N}} is needed")
        return None
    keys = findings.keys(node, _CHECK_KEYS)
    signal = text(findings, "watch checks signal", keys["signal"], longest=128) if "signal" in keys else None
    if "signal" not in keys:
        findings.problem(node, "watch checks: a check without a signal")
    elif signal is not None and not _SIGNAL.fullmatch(signal):
        findings.problem(keys["signal"], f"watch checks signal: {quoted(keys['signal'])} is no name of a signal")
        signal = None
    bounds = {
        name: number(findings, f"watch checks {name}", keys[name], -BOUND_MAX, BOUND_MAX)
        for name in ("max", "min")
        if name in keys
    }
    if not bounds:
        findings.problem(node, "watch checks: a check needs max or min")
    if signal is None or not bounds or None in bounds.values():
        return None
    most, least = bounds.get("max"), bounds.get("min")
    if most is not None and least is not None and least > most:
        findings.problem(keys["min"], f"watch checks min: {least:g} lies above max {most:g}")
        return None
    return SignalCheck(signal=signal, max=most, min=least)
