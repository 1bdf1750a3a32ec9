"""Moving over from Kubernetes: an autoscaling/v2 HorizontalPodAutoscaler as a `scaling:` block that behaves the same.

Every field of the object is used, told of in a note, or refused with its line; none is dropped in silence.  What comes
out has been read by the very parser that a plane uses.  The numbers themselves come from somewhere else afterwards, so
that signals are named and described here, and their source is for a person to fill in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from fleetwarden.domain.actions import Record
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.fleet import ScalingError
from fleetwarden.domain.hpa_metrics import BARE_CPU, ImportedSignal, quantity, read_metric
from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.domain.located import Findings, Node, located
from fleetwarden.domain.located_values import quoted
from fleetwarden.domain.scaling import SIGNALS_MAX, read_block

__all__ = ["ImportedHpa", "import_hpa"]

API: Final = "autoscaling/v2"
_AS_V2 = "kubectl get hpa.v2.autoscaling NAME -o yaml answers in v2"
_DIRECTIONS = ("scaleUp", "scaleDown")
_RULES = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
_SERVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class ImportedHpa(Record):
    """`service`: what the object scales, as its name; `scaling`: the block; `signals`: what its numbers are; `notes`:
    what a person has to know or do."""

    service: str
    scaling: Mapping[str, JsonValue]
    signals: tuple[ImportedSignal, ...]
    notes: tuple[str, ...]


def import_hpa(node: Node) -> ImportedHpa:
    """The block.  Raises Misconfigured naming everything that has no counterpart, each with its line."""
    found, notes = Findings(), list[str]()
    spec = _object(found, node, notes)
    found.raise_if_any(f"{node.file} cannot be imported")
    assert spec is not None
    keys = found.keys(spec, ("scaleTargetRef", "minReplicas", "maxReplicas", "metrics", "behavior"))
    service = _target(found, spec, keys.get("scaleTargetRef"), notes)
    scaling: dict[str, JsonValue] = {"min": 1}
    if _there(keys.get("minReplicas")):
        scaling["min"] = keys["minReplicas"].plain()
    if _there(keys.get("maxReplicas")):
        scaling["max"] = keys["maxReplicas"].plain()
    else:
        found.problem(spec, "spec.maxReplicas is missing")
    signals = _metrics(found, keys.get("metrics"), notes)
    scaling |= _targets(signals)
    scaling["cooldown_s"] = 0  # HPA has none: what `behavior` allows is what there is
    scaling["behavior"] = _behavior(found, keys.get("behavior"))
    found.raise_if_any(f"{node.file} cannot be imported")
    block = read_block(located(scaling, node.file, spec.line), on_kubernetes=True)
    if isinstance(block, ScalingError):
        raise Misconfigured(f"{node.file}:{block.line}  what it says makes no block: {block.field}: {block.reason}")
    notes.append("cooldown_s: 0, because HPA has no pause after a change; without it 300 would hold")
    return ImportedHpa(service=service, scaling=scaling, signals=signals, notes=tuple(notes))


def _there(node: Node | None) -> bool:
    """Whether a field says anything: Kubernetes prints `null` for what is not set."""
    return node is not None and node.value is not None


def _object(found: Findings, node: Node, notes: list[str]) -> Node | None:
    """Its spec, if it is the object that it has to be."""
    if not node.mapping:
        found.problem(node, f"{quoted(node)} is no Kubernetes object")
        return None
    kind, version = node.get("kind"), node.get("apiVersion")
    if kind is None or kind.value != "HorizontalPodAutoscaler":
        hint = "; give one object: kubectl get hpa NAME -o yaml" if kind is not None and kind.value == "List" else ""
        found.problem(kind or node, f"kind: a HorizontalPodAutoscaler is needed{hint}")
        return None
    if version is None or version.value != API:
        found.problem(version or node, f"apiVersion: {API} is read here; {_AS_V2}")
        return None
    keys = found.keys(node, ("apiVersion", "kind", "metadata", "spec", "status"))
    spec = keys.get("spec")
    if spec is None or not spec.mapping:
        found.problem(spec or node, "spec is missing")
        return None
    if idle := [name for name in ("metadata", "status") if name in keys]:
        notes.append(f"{' and '.join(idle)}: not taken over, no count depends on it")
    return spec


def _target(found: Findings, spec: Node, node: Node | None, notes: list[str]) -> str:
    if node is None or not node.mapping:
        found.problem(node or spec, "spec.scaleTargetRef is missing: what it scales")
        return ""
    keys = found.keys(node, ("apiVersion", "kind", "name"))
    name = keys.get("name")
    if name is None or not isinstance(name.value, str) or not _SERVICE.fullmatch(name.value):
        found.problem(name or node, "spec.scaleTargetRef.name: a name of 1 to 63 characters is needed")
        return ""
    kind = keys["kind"].plain() if "kind" in keys else "object"
    notes.append(f"it scales the {kind} {name.value}: put the block under the service that stands for it")
    return name.value


def _metrics(found: Findings, node: Node | None, notes: list[str]) -> tuple[ImportedSignal, ...]:
    if node is None or node.value is None:
        notes.append("no metrics: HPA's default, 80 % of the CPU requested")
        return (BARE_CPU,)
    if not node.is_list or not 1 <= len(node.items()) <= SIGNALS_MAX:
        found.problem(node, f"spec.metrics: a list of 1 to {SIGNALS_MAX} metrics can be imported")
        return ()
    signals: list[ImportedSignal] = []
    for place, item in enumerate(node.items()):
        one = read_metric(found, f"spec.metrics[{place}]", item, frozenset(known.name for known in signals), notes)
        if one is not None:
            signals.append(one)
    return tuple(signals)


def _targets(signals: tuple[ImportedSignal, ...]) -> dict[str, JsonValue]:
    if len(signals) == 1:
        return {"signal": signals[0].name, "target": signals[0].target}
    return {"signals": [{"signal": one.name, "target": one.target} for one in signals]}


def _behavior(found: Findings, node: Node | None) -> dict[str, JsonValue]:
    """HPA's own field, copied; left out it is HPA's defaults, which an empty one means here."""
    if node is None or node.value is None:
        return {}
    if not node.mapping:
        found.problem(node, f"spec.behavior: {quoted(node)} is {node.shape}, a mapping is needed")
        return {}
    made: dict[str, JsonValue] = {}
    for direction, rules in found.keys(node, _DIRECTIONS).items():
        if rules.value is None:
            continue
        if not rules.mapping:
            found.problem(rules, f"spec.behavior.{direction}: {quoted(rules)} is {rules.shape}, a mapping is needed")
            continue
        keys = {name: one for name, one in found.keys(rules, _RULES).items() if one.value is not None}
        copied: dict[str, JsonValue] = {name: one.plain() for name, one in keys.items()}
        if "tolerance" in keys:
            value = quantity(found, f"spec.behavior.{direction}.tolerance", keys["tolerance"])
            copied["tolerance"] = _number(value or Decimal(0))
        made[direction] = copied
    return made


def _number(value: Decimal) -> float | int:
    return int(value) if value == value.to_integral_value() else float(value)
