"""Reading another system's configuration, and writing out ours: text in, text to be copied out.

What is printed is read back by the parsers of the two files that it is for; a line that they would refuse is never
shown.  No file is written.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path

from fleetwarden.adapters.files import yaml_tree
from fleetwarden.adapters.files.documents import read_tree
from fleetwarden.domain.actions import Record
from fleetwarden.domain.errors import FleetError
from fleetwarden.domain.fleet import ScalingError
from fleetwarden.domain.hpa_import import ImportedHpa, import_hpa
from fleetwarden.domain.hpa_metrics import ImportedSignal
from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.domain.located import Node
from fleetwarden.domain.scaling import read_block
from fleetwarden.domain.signal_file import PUSHED, read_signals_file

__all__ = ["Imported", "imported_hpa"]

_BARE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off"})


class Imported(Record):
    """What was read, and how it is written."""

    found: ImportedHpa

    def as_json(self) -> dict[str, JsonValue]:
        one = self.found
        return {
            "service": one.service,
            "scaling": dict(one.scaling),
            "signals": {signal.name: {**_entry(signal), "about": signal.about} for signal in one.signals},
            "notes": list(one.notes),
        }

    def text(self) -> str:
        """Both blocks as YAML, with what a person has to know as comments."""
        one = self.found
        return "\n".join(
            [
                f"# fleet.yml, under the service {one.service}:",
                *(f"# - {_commented(note)}" for note in one.notes),
                *_scaling_lines(one.scaling),
                "",
                "# signals.yml: samples are pushed; for a Prometheus give source, query and by instead,",
                "# and kind and unit as they are",
                *_signal_lines(one.signals),
            ]
        )


def imported_hpa(name: str, text: bytes | None) -> Imported:
    """Read the object from `text`, or from the file called `name`.  Raises Misconfigured with file, line and reason."""
    node = read_tree(Path(name), name) if text is None else _parsed(name, text)
    made = Imported(found=import_hpa(node))
    _check(made)
    return made


def _parsed(name: str, text: bytes) -> Node:
    return yaml_tree.parse(yaml_tree.decode(text, name), name)


def _check(made: Imported) -> None:
    """Read back what will be printed."""
    node = _parsed("the printed block", made.text().encode())
    scaling, signals = node.get("scaling"), node.get("signals")
    if scaling is None or signals is None or isinstance(read_block(scaling, on_kubernetes=True), ScalingError):
        raise FleetError("what was made of the object cannot be read back", hint="please report this object")
    read_signals_file(_without(node, "scaling"))


def _without(node: Node, name: str) -> Node:
    """The mapping without one of its keys."""
    kept = tuple((key, value) for key, value in node.pairs() if key.value != name)
    return Node(kept, node.file, node.line, node.text, mapping=True)


def _entry(one: ImportedSignal) -> dict[str, JsonValue]:
    return {"source": PUSHED, "kind": one.kind.value, "aggregation": one.aggregation.value, "unit": one.unit}


def _scaling_lines(scaling: Mapping[str, JsonValue]) -> list[str]:
    return ["scaling:", *(f"  {name}: {_flow(value)}" for name, value in scaling.items())]


def _signal_lines(signals: tuple[ImportedSignal, ...]) -> list[str]:
    lines = ["signals:"]
    for one in signals:
        lines += [f"  # {_commented(one.about)}", f"  {_flow(one.name)}: {_flow(_entry(one))}"]
    return lines


def _commented(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


def _flow(value: JsonValue) -> str:
    """A value in YAML's flow style."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(name)}: {_flow(one)}" for name, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str) and _BARE.fullmatch(value) and value.lower() not in _WORDS:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    return json.dumps(value)
