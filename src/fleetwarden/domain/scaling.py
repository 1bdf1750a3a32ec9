"""The `scaling:` block: a strict reading, and the one answer to "who writes this service's replica count".

A block is valid as a whole or not at all, because half a block is a surprise: a misspelt key must never fall to its
default and scale something.  An invalid one is no reason to reject its service; it is reported with field, reason and
line, and its service is governed without it.  Nothing here evaluates a block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from fleetwarden.domain.fleet import ScalingError
from fleetwarden.domain.located import Node
from fleetwarden.domain.located_values import close, problem_of_number, problem_of_whole, quoted
from fleetwarden.domain.scaling_behavior import read_behavior
from fleetwarden.domain.scaling_block import ScalingBlock, SignalTarget, Step
from fleetwarden.domain.scaling_parts import PartProblem, read_cost, read_schedules, read_signals, read_step

__all__ = ["CONTROLLER_MODES", "NATIVE", "SIGNALS_MAX", "controller_mode", "read_block"]

NATIVE: Final = "native"
CONTROLLER_MODES: Final[Mapping[str, str]] = {
    NATIVE: NATIVE,
    "external_hpa": "external_hpa",
    "external_keda": "external_keda",
    "hpa": "external_hpa",
    "keda": "external_keda",
}
REPLICAS_MAX = 100_000
COOLDOWN_S_MAX = 86_400
WINDOW_S_MAX = 3_600
SIGNALS_MAX = 16
_SIGNAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_NOT_WITH_BEHAVIOR = (
    "scale_up_step",
    "scale_down_step",
    "scale_up_stabilization_samples",
    "scale_down_stabilization_samples",
    "deadband",
    "stabilization_window_s",
)


def controller_mode(text: str) -> str | None:
    """The mode that `text` means, aliases included, or None if it means none."""
    return CONTROLLER_MODES.get(text)


def read_block(node: Node, *, on_kubernetes: bool, most: int = REPLICAS_MAX) -> ScalingBlock | ScalingError:
    """Read a block.

    `on_kubernetes`: whether its service runs there, which external controllers need; `most`: how many replicas its
    substrate can have.
    """
    if not node.mapping:
        return _error(
            node, "", f"{quoted(node)} is {node.shape}, a block such as {{max: 6, signal: cpu, target: 50}} is needed"
        )
    found: dict[str, Node] = {}
    for key, value in node.pairs():
        name = key.value
        if not isinstance(name, str) or name not in _CHECKS:
            return _error(key, str(name), f"unknown key{close(str(name), _CHECKS)}")
        if name in found:
            return _error(key, name, "stands here twice")
        found[name] = value
    for name in ("max",) if "signals" in found else ("max", "signal", "target"):
        if name not in found:
            return _error(node, name, "is missing")
    for name, value in found.items():
        if problem := _CHECKS[name](value):
            return _error(value, name, problem)
    if (wrong := _together(found, on_kubernetes=on_kubernetes, most=most)) is not None:
        return wrong
    try:
        return _build(node, found)
    except PartProblem as problem:
        return _error(problem.node, problem.field, problem.reason)


def _together(found: Mapping[str, Node], *, on_kubernetes: bool, most: int) -> ScalingError | None:
    """The rules between fields, each of which is valid by itself."""
    low = found["min"].value if "min" in found else 1
    high = found["max"]
    if high.value < low:
        return _error(high, "max", f"{high.value} is below min, {low}{'' if 'min' in found else ' (the default)'}")
    if high.value > most:
        return _error(high, "max", f"{high.value} is more than the {most:,} replicas that can run there")
    for name in ("signal", "target"):
        if name in found and "signals" in found:
            return _error(found[name], name, "cannot stand beside signals, each of which has its own")
    if "behavior" in found:
        for name in _NOT_WITH_BEHAVIOR:
            if name in found:
                return _error(found[name], name, "cannot stand beside behavior, which replaces it")
    if "activation" in found and low > 0:
        return _error(found["activation"], "activation", "only a service with min: 0 rests at zero and is woken")
    written = found.get("controller_mode")
    mode = CONTROLLER_MODES[written.value] if written is not None else NATIVE
    if written is not None and mode != NATIVE and not on_kubernetes:
        reason = f"{written.value} needs a service on Kubernetes: elsewhere nothing but fleetwarden can write its count"
        return _error(written, "controller_mode", reason)
    return None


def _build(node: Node, found: Mapping[str, Node]) -> ScalingBlock:
    """The typed block.  Raises PartProblem for a part that is more than a single value."""

    def number(name: str, default: float) -> float:
        return float(found[name].value) if name in found else default

    def whole(name: str, default: int) -> int:
        return int(found[name].value) if name in found else default

    low, high = whole("min", 1), int(found["max"].value)
    if "signals" in found:
        signals = read_signals(found["signals"], most=SIGNALS_MAX, signal=_signal, target=_target)
    else:
        signals = (SignalTarget(signal=found["signal"].value, target=float(found["target"].value)),)
    cooldown = number("cooldown_s", 300.0)
    written = found.get("controller_mode")
    return ScalingBlock(
        line=node.line,
        controller_mode=NATIVE if written is None else CONTROLLER_MODES[written.value],
        raw=node.plain(),
        min=low,
        max=high,
        signals=signals,
        up_step=read_step("scale_up_step", found["scale_up_step"]) if "scale_up_step" in found else Step(),
        down_step=read_step("scale_down_step", found["scale_down_step"]) if "scale_down_step" in found else Step(),
        cooldown_up_s=number("cooldown_up_s", cooldown),
        cooldown_down_s=number("cooldown_down_s", cooldown),
        deadband=number("deadband", 0.05),
        up_samples=whole("scale_up_stabilization_samples", 1),
        down_samples=whole("scale_down_stabilization_samples", 3),
        window_s=number("stabilization_window_s", 0.0),
        behavior=read_behavior(found["behavior"]) if "behavior" in found else None,
        schedules=read_schedules(found["schedules"], low=low, high=high) if "schedules" in found else (),
        activation=number("activation", 0.0),
        cost=read_cost(found["cost"]) if "cost" in found else None,
        warmup_s=number("warmup_s", 0.0),
        paused=bool(found["paused"].value) if "paused" in found else False,
    )


def _error(node: Node, field: str, reason: str) -> ScalingError:
    return ScalingError(field=field, reason=reason, line=node.line, file=node.file)


def _whole(low: int, high: int) -> Callable[[Node], str | None]:
    return lambda node: problem_of_whole(node, low, high)


def _number(low: float, high: float, *, above: bool = False) -> Callable[[Node], str | None]:
    return lambda node: problem_of_number(node, low, high, above=above)


def _signal(node: Node) -> str | None:
    if isinstance(node.value, str) and _SIGNAL.fullmatch(node.value):
        return None
    return f"{quoted(node)} is no signal's name: letters, digits, '_', '.', ':', '-', at most 128, such as queue_depth"


_target = _number(0, 1e12, above=True)


def _mode(node: Node) -> str | None:
    if isinstance(node.value, str) and node.value in CONTROLLER_MODES:
        return None
    hint = close(node.value, CONTROLLER_MODES) if isinstance(node.value, str) else ""
    return f"{quoted(node)} is no controller mode: native, external_hpa (hpa) or external_keda (keda){hint}"


def _mapping(node: Node) -> str | None:
    return None if node.mapping else f"{quoted(node)} is {node.shape}, a mapping is needed"


def _list(node: Node) -> str | None:
    return None if node.is_list else f"{quoted(node)} is {node.shape}, a list is needed"


def _switch(node: Node) -> str | None:
    return None if isinstance(node.value, bool) else f"{quoted(node)} is {node.shape}, true or false is needed"


def _step(node: Node) -> str | None:
    if isinstance(node.value, str):
        return None if re.fullmatch(r"[1-9][0-9]{0,3}%", node.value) else f'{quoted(node)} is no step: 2, or "25%"'
    return problem_of_whole(node, 1, REPLICAS_MAX)


_CHECKS: Final[Mapping[str, Callable[[Node], str | None]]] = {
    "min": _whole(0, REPLICAS_MAX),
    "max": _whole(0, REPLICAS_MAX),
    "signal": _signal,
    "target": _target,
    "signals": _list,
    "scale_up_step": _step,
    "scale_down_step": _step,
    "cooldown_s": _number(0, COOLDOWN_S_MAX),
    "cooldown_up_s": _number(0, COOLDOWN_S_MAX),
    "cooldown_down_s": _number(0, COOLDOWN_S_MAX),
    "deadband": _number(0, 1),
    "scale_up_stabilization_samples": _whole(1, 60),
    "scale_down_stabilization_samples": _whole(1, 60),
    "stabilization_window_s": _number(0, WINDOW_S_MAX),
    "controller_mode": _mode,
    "behavior": _mapping,
    "schedules": _list,
    "activation": _number(0, 1e12),
    "cost": _mapping,
    "warmup_s": _number(0, WINDOW_S_MAX),
    "paused": _switch,
}
