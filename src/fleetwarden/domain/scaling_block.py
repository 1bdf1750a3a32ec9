"""What a `scaling:` block says, typed: bounds, targets, and how fast a count may follow them.

Every field of the file is a field here, so that whatever was accepted can be acted upon.  These records hold values
that were checked already; they judge nothing and evaluate nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Final

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.domain.windows import MaintenanceWindow

__all__ = [
    "HPA_BEHAVIOR",
    "Behavior",
    "CostCeiling",
    "PolicyType",
    "RatePolicy",
    "Rules",
    "ScalingBlock",
    "Schedule",
    "Select",
    "SignalTarget",
    "Step",
]


class SignalTarget(Record):
    """One signal, and the value of it that one replica is meant to carry."""

    signal: str
    target: float


class Step(Record):
    """How far one change may go: so many replicas, or so many percent of those that there are (at least one)."""

    amount: int = 1
    percent: bool = False

    def of(self, current: int) -> int:
        """The step at this count.  Percents are exact: what is not whole counts as one more replica."""
        if not self.percent:
            return self.amount
        return max(1, -(-max(current, 1) * self.amount // 100))


class Schedule(Record, frozen=True):
    """A floor that holds while its window is open."""

    window: MaintenanceWindow
    min: int


class CostCeiling(Record):
    """What the replicas of a service may cost together, per hour, in whatever currency both are in."""

    per_replica_hour: Decimal
    ceiling_per_hour: Decimal

    @property
    def affordable(self) -> int:
        """The most replicas that cost no more than the ceiling."""
        return int(self.ceiling_per_hour // self.per_replica_hour)


class PolicyType(StrEnum):
    PODS = "Pods"
    PERCENT = "Percent"


class Select(StrEnum):
    """Which of several policies counts: that which allows the largest change, the smallest, or none at all."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


class RatePolicy(Record):
    """At most so much change within any period of `period_s` seconds (1 to 1800)."""

    type: PolicyType
    value: int
    period_s: int


class Rules(Record):
    """One direction of `behavior`.  `window_s` (0 to 3600): stabilization; `tolerance`: of the ratio value / target."""

    policies: tuple[RatePolicy, ...]
    select: Select = Select.MAX
    window_s: int = 0
    tolerance: float = 0.1


class Behavior(Record):
    """HPA's own field, with HPA's own defaults (autoscaling/v2)."""

    up: Rules
    down: Rules


HPA_BEHAVIOR: Final = Behavior(
    up=Rules(
        policies=(
            RatePolicy(type=PolicyType.PODS, value=4, period_s=15),
            RatePolicy(type=PolicyType.PERCENT, value=100, period_s=15),
        )
    ),
    down=Rules(policies=(RatePolicy(type=PolicyType.PERCENT, value=100, period_s=15),), window_s=300),
)


class ScalingBlock(Record):
    """A block that is valid as a whole.  `raw` is it as it was written, for people.

    Counts 0 to 100,000; `deadband` a share of the target; `samples`: how many in a row a direction needs; `cooldown_*`
    seconds; `activation`: the demand above which a service that may rest at zero is needed; `warmup_s`: how long fresh
    replicas make per-replica values a mixture that says nothing.
    """

    line: int
    controller_mode: str = "native"
    raw: Mapping[str, JsonValue] = {}
    min: int = 1
    max: int = 100_000
    signals: tuple[SignalTarget, ...] = ()
    up_step: Step = Step()
    down_step: Step = Step()
    cooldown_up_s: float = 300.0
    cooldown_down_s: float = 300.0
    deadband: float = 0.05
    up_samples: int = 1
    down_samples: int = 3
    window_s: float = 0.0
    behavior: Behavior | None = None
    schedules: tuple[Schedule, ...] = ()
    activation: float = 0.0
    cost: CostCeiling | None = None
    warmup_s: float = 0.0
    paused: bool = False

    def cooldown_s(self, *, up: bool) -> float:
        """The pause after a change, for a move in that direction."""
        return self.cooldown_up_s if up else self.cooldown_down_s
