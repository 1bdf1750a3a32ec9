"""The rates of `behavior:`: how far one change may go, given the changes of its period.  HPA's arithmetic, in integers.

Source of the formulas: the autoscaling/v2 scaling rules as published.  A percent upwards rounds up, one downwards
rounds the count that is left down.  Both are exact here: 10 percent of 100 is 10, where HPA's floating point makes 11.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleetwarden.domain.scaling_block import Behavior, PolicyType, RatePolicy, Rules, Select

__all__ = ["limited"]

Changes = Sequence[tuple[float, int]]  # (age in seconds, delta)


def limited(behavior: Behavior, current: int, desired: int, changes: Changes) -> int:
    """`desired`, as far as the rates allow.  `changes`: earlier ones of the service, ages in seconds, deltas signed."""
    if desired > current:
        return min(desired, max(current, _limit(behavior.up, current, changes, up=True)))
    if desired < current:
        return max(desired, min(current, _limit(behavior.down, current, changes, up=False)))
    return current


def _limit(rules: Rules, current: int, changes: Changes, *, up: bool) -> int:
    if rules.select is Select.DISABLED:
        return current
    allowed = [_by_policy(policy, current, changes, up=up) for policy in rules.policies]
    furthest = (rules.select is Select.MAX) == up  # the largest change: the highest count upwards, the lowest downwards
    return max(allowed) if furthest else min(allowed)


def _by_policy(policy: RatePolicy, current: int, changes: Changes, *, up: bool) -> int:
    """The count that the policy allows, from where the count stood when its period began."""
    began = current - sum(delta for age, delta in changes if age < policy.period_s)
    if policy.type is PolicyType.PODS:
        return began + policy.value if up else began - policy.value
    if up:
        return -(-began * (100 + policy.value) // 100)
    kept = began * (100 - policy.value)
    return kept // 100 if kept >= 0 else -(-kept // 100)  # towards zero
