"""The `scaling:` block: a strict reading, and the one answer to "who writes this service's replica count".

A block is valid as a whole or not at all, because half a block is a surprise: a misspelt key must never fall to its
default and scale something.  An invalid one is no reason to reject its service; it is reported with field, reason and
line, and its service is governed without it.  Nothing here evaluates a block.  Until a controller consumes blocks, a
valid one means only that its service's count is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from fleetwarden.domain.fleet import ScalingBlock, ScalingError
from fleetwarden.domain.located import Node
from fleetwarden.domain.located_values import close, problem_of_number, problem_of_whole, quoted

__all__ = ["CONTROLLER_MODES", "controller_mode", "read_block"]

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
_SIGNAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_REQUIRED = ("max", "signal", "target")
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


def read_block(node: Node, *, on_kubernetes: bool) -> ScalingBlock | ScalingError:
    """Read a block.  `on_kubernetes`: whether its service runs there, which external controllers need."""
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
    for name in _REQUIRED:
        if name not in found:
            return _error(node, name, "is missing")
    for name, value in found.items():
        if problem := _CHECKS[name](value):
            return _error(value, name, problem)
    return _together(node, found, on_kubernetes=on_kubernetes)


def _together(node: Node, found: Mapping[str, Node], *, on_kubernetes: bool) -> ScalingBlock | ScalingError:
    """The rules between fields, each of which is valid by itself."""
    low = found["min"].value if "min" in found else 1
    high = found["max"]
    if high.value < low:
        return _error(high, "max", f"{high.value} is below min, {low}{'' if 'min' in found else ' (the default)'}")
    if "behavior" in found:
        for name in _NOT_WITH_BEHAVIOR:
            if name in found:
                return _error(found[name], name, "cannot stand beside behavior, which replaces it")
    written = found.get("controller_mode")
    mode = CONTROLLER_MODES[written.value] if written is not None else NATIVE
    if written is not None and mode != NATIVE and not on_kubernetes:
        reason = f"{written.value} needs a service on Kubernetes: elsewhere nothing but fleetwarden can write its count"
        return _error(written, "controller_mode", reason)
    return ScalingBlock(line=node.line, controller_mode=mode, raw=node.plain())


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


def _mode(node: Node) -> str | None:
    if isinstance(node.value, str) and node.value in CONTROLLER_MODES:
        return None
    hint = close(node.value, CONTROLLER_MODES) if isinstance(node.value, str) else ""
    return f"{quoted(node)} is no controller mode: native, external_hpa (hpa) or external_keda (keda){hint}"


def _mapping(node: Node) -> str | None:
    return None if node.mapping else f"{quoted(node)} is {node.shape}, a mapping is needed"


_CHECKS: Final[Mapping[str, Callable[[Node], str | None]]] = {
    "min": _whole(0, REPLICAS_MAX),
    "max": _whole(0, REPLICAS_MAX),
    "signal": _signal,
    "target": _number(0, 1e12, above=True),
    "scale_up_step": _whole(1, REPLICAS_MAX),
    "scale_down_step": _whole(1, REPLICAS_MAX),
    "cooldown_s": _number(0, COOLDOWN_S_MAX),
    "cooldown_up_s": _number(0, COOLDOWN_S_MAX),
    "cooldown_down_s": _number(0, COOLDOWN_S_MAX),
    "deadband": _number(0, 1),
    "scale_up_stabilization_samples": _whole(1, 60),
    "scale_down_stabilization_samples": _whole(1, 60),
    "stabilization_window_s": _number(0, WINDOW_S_MAX),
    "controller_mode": _mode,
    "behavior": _mapping,
}
