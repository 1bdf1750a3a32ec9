"""One metric of a HorizontalPodAutoscaler as a signal: what has to be measured, and how much of it one replica carries.

Source of the meanings: the autoscaling/v2 API as published.  A target of type AverageValue on something that is not a
pod divides the whole value by the replicas (a fleet total); every other one is a ratio that multiplies the count, which
is what a per-replica value does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Final

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import canonical_json
from fleetwarden.domain.located import Findings, Node
from fleetwarden.domain.located_values import quoted
from fleetwarden.domain.signals import Aggregation, SignalKind

__all__ = ["BARE_CPU", "ImportedSignal", "quantity", "read_metric"]

_SUFFIXES: Final[Mapping[str, Decimal]] = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{name: Decimal(1000) ** power for power, name in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{f"{name}i": Decimal(1024) ** power for power, name in enumerate(("K", "M", "G", "T", "P", "E"), 1)},
}
_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(?:([eE][-+]?[0-9]{1,2})|([A-Za-z]{0,2}))")
_NO_NAME = re.compile(r"[^A-Za-z0-9_.:-]")
_PARTS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {  # type: where it stands, and its keys
    "Resource": ("resource", ("name", "target")),
    "Pods": ("pods", ("metric", "target")),
    "Object": ("object", ("describedObject", "metric", "target")),
    "External": ("external", ("metric", "target")),
}
_TARGETS: Final[Mapping[str, str]] = {
    "Utilization": "averageUtilization",
    "AverageValue": "averageValue",
    "Value": "value",
}
_ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {
    "Resource": ("Utilization", "AverageValue"),
    "Pods": ("AverageValue",),
    "Object": ("Value", "AverageValue"),
    "External": ("Value", "AverageValue"),
}
_RESOURCES: Final[Mapping[str, tuple[SignalKind, str]]] = {
    "cpu": (SignalKind.CPU, "cores"),
    "memory": (SignalKind.RAM, "bytes"),
}


class ImportedSignal(Record):
    """A signal to be defined in signals.yml.  `about`: what it has to measure, in words."""

    name: str
    kind: SignalKind
    unit: str
    aggregation: Aggregation
    target: float | int
    about: str


BARE_CPU: Final = ImportedSignal(
    name="cpu",
    kind=SignalKind.CPU,
    unit="percent",
    aggregation=Aggregation.PER_REPLICA,
    target=80,
    about="CPU used, in percent of what is requested, on average over the replicas",
)


def quantity(found: Findings, field: str, node: Node) -> Decimal | None:
    """A quantity of Kubernetes such as 500m, 1Ki or 2e3; None after a finding."""
    text = node.text if type(node.value) in (int, float) else node.value
    matched = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if matched is None or (matched[3] or "") not in _SUFFIXES:
        found.problem(node, f"{field}: {quoted(node)} is no quantity such as 500m, 100 or 1Gi")
        return None
    try:
        return Decimal(f"{matched[1]}{matched[2] or ''}") * _SUFFIXES[matched[3] or ""]
    except InvalidOperation:
        found.problem(node, f"{field}: {quoted(node)} is no quantity that can be computed with")
        return None


def read_metric(
    found: Findings, field: str, node: Node, taken: frozenset[str], notes: list[str]
) -> ImportedSignal | None:
    """The signal of one metric; None after a finding.  `taken`: names that are used already."""
    if not node.mapping:
        found.problem(node, f"{field}: {quoted(node)} is {node.shape}, a mapping is needed")
        return None
    kind = node.get("type")
    name = str(kind.value) if kind is not None else ""
    if name == "ContainerResource":
        found.problem(
            kind or node,
            f"{field}: ContainerResource has no counterpart: define a per_replica signal whose query measures that "
            "container alone, and import the object without this metric",
        )
        return None
    if name not in _PARTS:
        found.problem(kind or node, f"{field}.type: {name or 'nothing'!r} is none of {', '.join(_PARTS)}")
        return None
    where, known = _PARTS[name]
    body = found.keys(node, ("type", where)).get(where)
    if body is None or not body.mapping:
        found.problem(body or node, f"{field}.{where} is missing")
        return None
    keys = found.keys(body, known)
    target = _target(found, f"{field}.{where}", name, body, keys.get("target"))
    told = _named(found, f"{field}.{where}", name, body, keys, notes)
    if target is None or told is None:
        return None
    metric, about = told
    kind_of, value = target
    signal = _free(metric, taken)
    if signal != metric:
        notes.append(f"the metric {metric} is called {signal} here")
    return _signal(name, kind_of, value, metric, signal, about)


def _target(found: Findings, field: str, metric: str, body: Node, node: Node | None) -> tuple[str, float | int] | None:
    """Its type and value."""
    if node is None or not node.mapping:
        found.problem(node or body, f"{field}.target is missing")
        return None
    keys = {name: one for name, one in found.keys(node, ("type", *_TARGETS.values())).items() if one.value is not None}
    named = keys.pop("type", None)
    kind = str(named.value) if named is not None else ""
    if kind not in _ALLOWED[metric]:
        allowed = " or ".join(_ALLOWED[metric])
        found.problem(named or node, f"{field}.target.type: {kind or 'nothing'!r}, {allowed} is needed for {metric}")
        return None
    wanted = _TARGETS[kind]
    for name, one in keys.items():
        if name != wanted:
            found.problem(one, f"{field}.target.{name} does not belong to a target of type {kind}")
    if wanted not in keys:
        found.problem(node, f"{field}.target.{wanted} is missing")
        return None
    value = quantity(found, f"{field}.target.{wanted}", keys[wanted])
    if value is None:
        return None
    return kind, int(value) if value == value.to_integral_value() else float(value)


def _named(
    found: Findings, field: str, metric: str, body: Node, keys: Mapping[str, Node], notes: list[str]
) -> tuple[str, str] | None:
    """The metric's name, and what it measures."""
    if metric == "Resource":
        name = keys.get("name")
        if name is None or name.value not in _RESOURCES:
            found.problem(name or body, f"{field}.name: cpu or memory is needed")
            return None
        return str(name.value), f"{name.value} used by the pods"
    identity = keys.get("metric")
    if identity is None or not identity.mapping:
        found.problem(identity or body, f"{field}.metric is missing")
        return None
    parts = found.keys(identity, ("name", "selector"))
    name = parts.get("name")
    if name is None or not isinstance(name.value, str) or not name.value:
        found.problem(name or identity, f"{field}.metric.name is missing")
        return None
    about = f"{name.value} of the {'pods' if metric == 'Pods' else 'outside world'}"
    if metric == "Object":
        described = keys.get("describedObject")
        if described is None or not described.mapping:
            found.problem(described or body, f"{field}.describedObject is missing")
            return None
        of = {key: one.plain() for key, one in found.keys(described, ("apiVersion", "kind", "name")).items()}
        about = f"{name.value} of the {of.get('kind', 'object')} {of.get('name', '')}".rstrip()
    selector = parts.get("selector")
    if selector is not None and selector.value is not None:
        chosen = canonical_json(selector.plain()).decode()
        about += f", where {chosen}"
        notes.append(f"the selector of {name.value} belongs into its signal's query: {chosen}")
    return name.value, about


def _free(name: str, taken: frozenset[str]) -> str:
    """The metric's name as a signal's, another one than those that are used."""
    made = _NO_NAME.sub("_", name)[:120]
    made = made if made[:1].isalnum() else f"m{made}"
    number, free = 2, made
    while free in taken:
        free, number = f"{made}_{number}", number + 1
    return free


def _signal(metric: str, target: str, value: float, name: str, signal: str, about: str) -> ImportedSignal:
    if metric == "Resource":
        kind, unit = _RESOURCES[name]
        if target == "Utilization":
            unit, about = "percent", f"{about}, in percent of what is requested, on average over the replicas"
        else:
            about = f"{about}, in {unit}, on average over the replicas"
        total = False
    else:
        kind, unit = SignalKind.REQUEST, "items"
        total = target == "AverageValue" and metric != "Pods"
        about += ": the whole of it" if total else ", on average over the pods" if metric == "Pods" else ": as it is"
    return ImportedSignal(
        name=signal,
        kind=kind,
        unit=unit,
        aggregation=Aggregation.FLEET_TOTAL if total else Aggregation.PER_REPLICA,
        target=value,
        about=about,
    )
