"""The parts of a `scaling:` block that are more than a single value: steps, several signals, schedules, cost.

The first thing that is wrong in one ends the reading of the whole block, as it must.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

from fleetwarden.domain.located import Findings, Node
from fleetwarden.domain.located_values import close, problem_of_whole, quoted
from fleetwarden.domain.scaling_block import CostCeiling, Schedule, SignalTarget, Step
from fleetwarden.domain.window_file import read_window

__all__ = ["PartProblem", "read_cost", "read_mapping", "read_schedules", "read_signals", "read_step"]

SCHEDULES_MAX = 32
_MONEY = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


class PartProblem(Exception):
    """What is wrong in one part of a block, and where."""

    def __init__(self, node: Node, field: str, reason: str) -> None:
        super().__init__(reason)
        self.node = node
        self.field = field
        self.reason = reason


def read_mapping(node: Node, field: str, known: tuple[str, ...], needed: tuple[str, ...] = ()) -> dict[str, Node]:
    """The keys of a mapping inside a block.  Raises PartProblem for an unknown, doubled or missing one."""
    if not node.mapping:
        raise PartProblem(node, field, f"{quoted(node)} is {node.shape}, a mapping is needed")
    found: dict[str, Node] = {}
    for key, value in node.pairs():
        name = str(key.value)
        if name not in known:
            raise PartProblem(key, f"{field}.{name}", f"unknown key{close(name, known)}")
        if name in found:
            raise PartProblem(key, f"{field}.{name}", "stands here twice")
        found[name] = value
    for name in needed:
        if name not in found:
            raise PartProblem(node, f"{field}.{name}", "is missing")
    return found


def read_step(field: str, node: Node) -> Step:
    """`3`, or `"25%"`; checked already."""
    if isinstance(node.value, str):
        return Step(amount=int(node.value[:-1]), percent=True)
    assert type(node.value) is int, field
    return Step(amount=node.value)


def read_signals(
    node: Node, *, most: int, signal: Callable[[Node], str | None], target: Callable[[Node], str | None]
) -> tuple[SignalTarget, ...]:
    """`[{signal: queue_depth, target: 100}, {signal: cpu, target: 60}]`: the one that asks for the most decides."""
    items = node.items()
    if not 1 <= len(items) <= most:
        raise PartProblem(node, "signals", f"{len(items)} signals, 1 to {most} can be followed")
    found: dict[str, SignalTarget] = {}
    for place, item in enumerate(items):
        field = f"signals[{place}]"
        keys = read_mapping(item, field, ("signal", "target"), ("signal", "target"))
        for name, check in (("signal", signal), ("target", target)):
            if problem := check(keys[name]):
                raise PartProblem(keys[name], f"{field}.{name}", problem)
        name = keys["signal"].value
        if name in found:
            raise PartProblem(item, field, f"signal {name!r} stands here twice")
        found[name] = SignalTarget(signal=name, target=float(keys["target"].value))
    return tuple(found.values())


def read_schedules(node: Node, *, low: int, high: int) -> tuple[Schedule, ...]:
    """`[{window: "08:00-18:00", min: 4}]`: floors by the time of day, windows as in a policy file."""
    items = node.items()
    if not 1 <= len(items) <= SCHEDULES_MAX:
        raise PartProblem(node, "schedules", f"{len(items)} schedules, 1 to {SCHEDULES_MAX} can be kept")
    found = []
    for place, item in enumerate(items):
        field = f"schedules[{place}]"
        keys = read_mapping(item, field, ("window", "min"), ("window", "min"))
        if problem := problem_of_whole(keys["min"], low, high):
            raise PartProblem(keys["min"], f"{field}.min", f"{problem} (between min and max of the block)")
        wrong = Findings()
        window = read_window(keys["window"], wrong)
        if window is None:
            raise PartProblem(keys["window"], f"{field}.window", wrong.problems[0].reason)
        found.append(Schedule(window=window, min=int(keys["min"].value)))
    return tuple(found)


def read_cost(node: Node) -> CostCeiling:
    """`{per_replica_hour: "0.12", ceiling_per_hour: "3.00"}`: decimal, because money is."""
    keys = read_mapping(
        node, "cost", ("per_replica_hour", "ceiling_per_hour"), ("per_replica_hour", "ceiling_per_hour")
    )
    each, most = (_money(keys[name], f"cost.{name}") for name in ("per_replica_hour", "ceiling_per_hour"))
    if each <= 0:
        raise PartProblem(keys["per_replica_hour"], "cost.per_replica_hour", "0 costs nothing: leave cost out")
    return CostCeiling(per_replica_hour=each, ceiling_per_hour=most)


def _money(node: Node, field: str) -> Decimal:
    text = node.text if type(node.value) in (int, float) else node.value
    if not isinstance(text, str) or not _MONEY.fullmatch(text):
        raise PartProblem(node, field, f'{quoted(node)} is no amount such as "0.12", 0 to 999,999,999.999999999')
    return Decimal(text)
