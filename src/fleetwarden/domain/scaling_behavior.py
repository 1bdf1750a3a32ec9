"""Reading `behavior:`, HPA's own field (autoscaling/v2), with HPA's own names, bounds and defaults.

Whoever moves over from HPA copies the field unchanged.  What is left out of one direction is HPA's default for it; what
HPA would not accept is not accepted here, so that no field of it is ever silently different.
"""

from __future__ import annotations

from fleetwarden.domain.located import Node
from fleetwarden.domain.located_values import problem_of_number, problem_of_whole, quoted
from fleetwarden.domain.scaling_block import HPA_BEHAVIOR, Behavior, PolicyType, RatePolicy, Rules, Select
from fleetwarden.domain.scaling_parts import PartProblem, read_mapping

__all__ = ["read_behavior"]

_RULES = ("policies", "selectPolicy", "stabilizationWindowSeconds", "tolerance")
POLICIES_MAX = 16


def read_behavior(node: Node) -> Behavior:
    """The block.  Raises PartProblem."""
    keys = read_mapping(node, "behavior", ("scaleUp", "scaleDown"))
    up, down = HPA_BEHAVIOR.up, HPA_BEHAVIOR.down
    return Behavior(
        up=_rules(keys["scaleUp"], "behavior.scaleUp", up) if "scaleUp" in keys else up,
        down=_rules(keys["scaleDown"], "behavior.scaleDown", down) if "scaleDown" in keys else down,
    )


def _rules(node: Node, field: str, default: Rules) -> Rules:
    keys = read_mapping(node, field, _RULES)
    select, window, tolerance = default.select, default.window_s, default.tolerance
    if "selectPolicy" in keys:
        one = keys["selectPolicy"]
        if one.value not in list(Select):
            raise PartProblem(one, f"{field}.selectPolicy", f"{quoted(one)} is none of Max, Min, Disabled")
        select = Select(one.value)
    if "stabilizationWindowSeconds" in keys:
        one = keys["stabilizationWindowSeconds"]
        if problem := problem_of_whole(one, 0, 3600):
            raise PartProblem(one, f"{field}.stabilizationWindowSeconds", problem)
        window = int(one.value)
    if "tolerance" in keys:
        one = keys["tolerance"]
        if problem := problem_of_number(one, 0, 1):
            raise PartProblem(one, f"{field}.tolerance", problem)
        tolerance = float(one.value)
    policies = _policies(keys["policies"], f"{field}.policies") if "policies" in keys else default.policies
    return Rules(policies=policies, select=select, window_s=window, tolerance=tolerance)


def _policies(node: Node, field: str) -> tuple[RatePolicy, ...]:
    if not node.is_list or not 1 <= len(node.items()) <= POLICIES_MAX:
        raise PartProblem(node, field, f"{quoted(node)}: a list of 1 to {POLICIES_MAX} policies is needed")
    return tuple(_policy(item, f"{field}[{place}]") for place, item in enumerate(node.items()))


def _policy(node: Node, field: str) -> RatePolicy:
    keys = read_mapping(node, field, ("type", "value", "periodSeconds"), ("type", "value", "periodSeconds"))
    if keys["type"].value not in list(PolicyType):
        raise PartProblem(keys["type"], f"{field}.type", f"{quoted(keys['type'])} is none of Pods, Percent")
    for name, high in (("value", 2_147_483_647), ("periodSeconds", 1800)):
        if problem := problem_of_whole(keys[name], 1, high):
            raise PartProblem(keys[name], f"{field}.{name}", problem)
    return RatePolicy(
        type=PolicyType(keys["type"].value), value=int(keys["value"].value), period_s=int(keys["periodSeconds"].value)
    )
