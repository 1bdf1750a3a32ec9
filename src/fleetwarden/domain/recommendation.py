"""One service's recommendation: the columns of target tracking with a single row, and what its limits made of it.

The same evaluation as a tick's, for whoever wants to ask about one block and one set of numbers: the public
`recommend`, backtests, explanations.  No store, no clock; a block that is not valid never comes here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.domain.signals import Aggregation
from fleetwarden.domain.tracking import evaluate, new_memory
from fleetwarden.domain.tracking_columns import Reason, Seen, Words, compile_blocks
from fleetwarden.domain.tracking_rates import limited

__all__ = ["Recommendation", "recommendation_for", "with_rates"]

_SIGNS = {"": 0, "up": 1, "down": -1}
_WORDS = {sign: word for word, sign in _SIGNS.items()}


class Recommendation(NamedTuple):
    """`desired`: the count to ask for, the current one where nothing is; `raw`: the equation's own answer before any
    limit; `reason`: a code (see the reference of reasons); `limits`: what held `raw` back, in the order in which it
    did; `streak`: the direction ("", up, down) and how many samples in a row it has, to be handed in the next time."""

    desired: int
    raw: int
    reason: str
    limits: tuple[str, ...]
    streak: tuple[str, int]


def recommendation_for(
    block: ScalingBlock,
    *,
    current: int,
    signals: Mapping[str, float],
    aggregation: Mapping[str, Aggregation],
    now: Micros = 0,
    history: Sequence[tuple[float, int]] = (),
    changes: Sequence[tuple[float, int]] = (),
    streak: tuple[str, int] = ("", 0),
) -> Recommendation:
    """Evaluate one block.  A signal that is not in `signals` is missing.

    `history`: earlier recommendations as (age in seconds, replicas); `changes`: earlier changes as (age in seconds,
    delta), which `behavior` limits; `now` matters to schedules only.
    """
    table = compile_blocks([("", block)])
    memory = new_memory(table)
    memory.streak[0], memory.count[0] = _SIGNS[streak[0]], streak[1]
    earlier = sorted(history, reverse=True)  # oldest first
    memory.put_earlier((now - round(age * 1e6), {0: count}) for age, count in earlier)
    seen = Seen.blank(table)
    seen.current[0] = seen.ready[0] = seen.existing[0] = current
    seen.status[0] = Words.UP
    for pair, name in enumerate(table.pair_signal):
        if (value := signals.get(name)) is not None:
            seen.value[pair], seen.fault[pair] = value, 0
        seen.per_replica[pair] = aggregation.get(name, Aggregation.FLEET_TOTAL) is Aggregation.PER_REPLICA
    verdicts = evaluate(table, seen, memory, now)
    desired, reason = int(verdicts.desired[0]), Reason(int(verdicts.reason[0]))
    desired, reason = with_rates(block, current, desired, reason, changes)
    raw = int(verdicts.raw[0])
    return Recommendation(
        desired=desired,
        raw=raw,
        reason=reason.code,
        limits=tuple(_limits(block, current, raw, desired, reason, int(table.floors(now)[0]))),
        streak=(_WORDS[int(verdicts.streak[0])], int(verdicts.count[0])),
    )


def with_rates(
    block: ScalingBlock, current: int, desired: int, reason: Reason, changes: Sequence[tuple[float, int]]
) -> tuple[int, Reason]:
    """What `behavior` leaves of a move; without it, everything."""
    if block.behavior is None or reason not in (Reason.SCALE_UP, Reason.SCALE_DOWN):
        return desired, reason
    allowed = limited(block.behavior, current, desired, changes)
    allowed = int(np.clip(allowed, min(current, block.min), max(current, block.max)))
    return allowed, reason if allowed != current else Reason.RATE_LIMIT


def _limits(block: ScalingBlock, current: int, raw: int, desired: int, reason: Reason, low: int) -> list[str]:
    """What stands between `raw` and `desired`, in words."""
    held = {
        Reason.WINDOW: "window",
        Reason.DEADBAND: "deadband",
        Reason.STABILIZING: "samples",
        Reason.SKIP_COST: "cost",
        Reason.RATE_LIMIT: "rate",
        Reason.BLOCKED_DOWN: "missing_signal",
        Reason.INACTIVE: "activation",
    }
    found = []
    if raw > block.max:
        found.append("max")
    if raw < low:
        found.append("min")
    bounded = min(max(raw, low), block.max)
    if reason in held:
        found.append(held[reason])
    elif desired != bounded:
        if block.behavior is not None:
            found.append("rate_or_window")
        elif block.cost is not None and desired == max(current, block.cost.affordable):
            found.append("cost")
        elif abs(desired - current) == (block.up_step if desired > current else block.down_step).of(current):
            found.append("step")
        else:
            found.append("window")
    return found
