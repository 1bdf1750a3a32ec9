"""One service on plain numbers against the columns: every feature, many ticks, the same answer to each."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetwarden.domain.located import located
from fleetwarden.domain.scaling import read_block
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.domain.tracking import evaluate, new_memory
from fleetwarden.domain.tracking_columns import Reason, Seen, Words, ceil_exact, compile_blocks
from fleetwarden.domain.tracking_single import Glance, Single, _ceil
from tests.conftest import DEPTH

EXAMPLES = 600 if DEPTH == "full" else 40
TICKS = 60
ABSURD = [math.nan, math.inf, -math.inf, -1.0, -0.0, 1e308, 5e-324, 1e18]


def block(fields: dict[str, Any]) -> ScalingBlock:
    made = read_block(located(fields, "fleet.yml", 1), on_kubernetes=False)
    assert isinstance(made, ScalingBlock), made
    return made


def any_block(chance: Random) -> ScalingBlock:
    """Every field that the evaluation reads, in every combination that is valid."""
    pick, maybe = chance.choice, lambda: chance.random() < 0.5
    low = pick([0, 0, 1, 2, 4])
    fields: dict[str, Any] = {"min": low, "max": chance.randint(max(low, 1), 60)}
    targets = [0.1, 1, 7, 10, 33.3, 60]
    if maybe():
        fields |= {"signal": "s0", "target": pick(targets)}
    else:
        fields["signals"] = [{"signal": f"s{n}", "target": pick(targets)} for n in range(chance.randint(1, 3))]
    if maybe():
        fields["behavior"] = {
            way: {"stabilizationWindowSeconds": pick([0, 30, 300, 3600]), "tolerance": pick([0, 0.1, 0.5])}
            for way in ("scaleUp", "scaleDown")
        }
    else:
        fields |= {
            "deadband": pick([0, 0.05, 0.3, 1]),
            "scale_up_step": pick([1, 2, 100, "10%", "150%"]),
            "scale_down_step": pick([1, 3, 100, "25%"]),
            "scale_up_stabilization_samples": chance.randint(1, 3),
            "scale_down_stabilization_samples": chance.randint(1, 4),
            "stabilization_window_s": pick([0, 0, 45, 600]),
        }
    if low == 0 and maybe():
        fields["activation"] = pick([0.5, 5, 50])
    if maybe():
        fields["warmup_s"] = 30
    if maybe():
        fields["cost"] = {"per_replica_hour": "0.30", "ceiling_per_hour": pick(["1", "4.5", "99"])}
    if maybe():
        floor = chance.randint(low, fields["max"])
        fields["schedules"] = [{"window": pick(["00:02-00:20", "23:00-01:00"]), "min": floor}]
    return block(fields)


def any_value(chance: Random, one: ScalingBlock, target: float, current: int) -> float:
    """Likely loads, the very edges of whatever holds one back, and nonsense."""
    around = max(current, 1)
    tolerances = [one.deadband, 0.1, 0.5]
    edges = [one.activation, one.activation / around, target, target * around]
    edges += [scale * target * (1 + way * off) for off in tolerances for way in (-1, 1) for scale in (1, around)]
    kind = chance.random()
    if kind < 0.45:
        return chance.uniform(0, 2.5) * target * chance.choice([1, around])
    if kind < 0.9:
        return chance.choice(edges)
    return chance.choice([*ABSURD, 0.0])


def see(chance: Random, one: ScalingBlock, seen: Seen, glance: Glance, current: int) -> None:
    """The same world, as columns and as a glance."""
    pick = chance.choice
    seen.current[0] = glance.current = current
    seen.ready[0] = glance.ready = max(0, current - pick([0, 0, 0, 0, 1]))
    seen.existing[0] = glance.existing = max(0, current - pick([0, 0, 0, 0, 0, 1]))
    odd = chance.random() < 0.15
    seen.status[0] = glance.status = pick(list(Words)) if odd else pick([Words.UP, Words.UP, Words.DEGRADED])
    glance.reason = pick([Reason.SKIP_ROLLOUT, Reason.SKIP_PAUSED]) if chance.random() < 0.06 else None
    seen.reason[0] = 255 if glance.reason is None else glance.reason
    seen.youngest_us[0] = glance.youngest_us = pick([5_000_000, 29_999_999, 30_000_000, 10**9])
    glance.values = [any_value(chance, one, each.target, current) for each in one.signals]
    glance.faults = [pick([0] * 7 + [1, 2]) for _ in one.signals]
    glance.per_replica = [pick([False, True]) for _ in one.signals]
    glance.no_down = [chance.random() < 0.1 for _ in one.signals]
    glance.again = [chance.random() < 0.4 for _ in one.signals]
    seen.value[:], seen.fault[:] = glance.values, glance.faults
    seen.per_replica[:], seen.no_down[:], seen.again[:] = glance.per_replica, glance.no_down, glance.again


@pytest.mark.req("ASC-14", "ASC-15", "ASC-13")
@settings(max_examples=EXAMPLES, deadline=None)
@given(st.integers(0, 2**32))
def test_plain_numbers_and_columns_say_the_same_at_every_tick(seed: int) -> None:
    chance = Random(seed)
    one = any_block(chance)
    table = compile_blocks([("web", one)])
    memory, single, glance = new_memory(table), Single(one), Glance(len(one.signals))
    now, current = 0, chance.randint(0, 65)
    if chance.random() < 0.5:
        memory.put_earlier([(now, {0: current})])
        single.begin_window(now, current)
    pace = chance.choice([1, 5, 15])
    for number in range(TICKS):
        now += chance.choice([pace] * 9 + [400]) * 1_000_000
        seen = Seen.blank(table)
        see(chance, one, seen, glance, current)
        columns, plain = evaluate(table, seen, memory, now), single.tick(glance, now)
        told = [int(one[0]) for one in (columns.desired, columns.raw, columns.reason, columns.streak, columns.count)]
        assert [*plain, single.streak, single.count] == told, (number, Reason(told[2]), plain[2], one.raw)
        if plain[0] != current and chance.random() < 0.5:
            current = plain[0]
            memory.consume({0: slice(0, len(one.signals))})
            single.consume()


@pytest.mark.req("ASC-13", "ORC-4")
@pytest.mark.parametrize("window", [15, 45, 300, 3600])
@pytest.mark.parametrize("pace", [1, 5, 15])
def test_windows_are_the_same_too_to_the_second_and_beyond_what_is_remembered_step_by_step(
    window: int, pace: int
) -> None:
    chance = Random(window * pace)
    one = block({"min": 0, "max": 50, "signal": "q", "target": 10, "stabilization_window_s": window, "deadband": 0})
    table = compile_blocks([("web", one)])
    memory, single, glance = new_memory(table), Single(one), Glance(1)
    seen = Seen.blank(table)
    seen.current[0] = seen.ready[0] = seen.existing[0] = glance.current = glance.ready = glance.existing = 20
    seen.status[0] = glance.status = Words.UP
    for number in range(300):
        now = number * pace * 1_000_000
        value = chance.randint(0, 40) * 10.0 if chance.random() < 0.2 else 200.0
        fault = 0 if chance.random() < 0.9 else 1
        glance.reason = Reason.SKIP_ROLLOUT if chance.random() < 0.1 else None
        seen.reason[0] = 255 if glance.reason is None else glance.reason
        seen.value[0], glance.values, seen.fault[0], glance.faults = value, [value], fault, [fault]
        columns, plain = evaluate(table, seen, memory, now), single.tick(glance, now)
        assert (plain[0], plain[2]) == (int(columns.desired[0]), Reason(int(columns.reason[0])))


@pytest.mark.req("ASC-3")
@given(st.one_of(st.floats(0, allow_nan=False), st.integers(0, 2**31).map(float), st.floats(2**31 - 3, 2**31 + 3)))
def test_rounding_up_is_that_of_the_columns(quotient: float) -> None:
    assert _ceil(quotient) == int(ceil_exact(np.array([quotient]))[0])
    for share in (1 + 9e-11, 1 + 2.9e-10, 1 - 9e-10, 1 + 1.1e-9):
        near = quotient * share
        assert _ceil(near) == int(ceil_exact(np.array([near]))[0])
