"""One service on plain numbers against the columns: every feature, many ticks, the same answer to each."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

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

EXAMPLES = 4_000 if DEPTH == "full" else 120
TARGETS = st.sampled_from([0.1, 1, 7, 10, 33.3, 60])
ABSURD = [math.nan, math.inf, -math.inf, -1.0, -0.0, 1e308, 5e-324, 1e18]


def block(fields: dict[str, Any]) -> ScalingBlock:
    made = read_block(located(fields, "fleet.yml", 1), on_kubernetes=False)
    assert isinstance(made, ScalingBlock), made
    return made


@st.composite
def blocks(draw: st.DrawFn) -> ScalingBlock:
    """Every field that the evaluation reads, in every combination that is valid."""
    low = draw(st.integers(0, 4))
    fields: dict[str, Any] = {"min": low, "max": draw(st.integers(max(low, 1), 60))}
    if draw(st.booleans()):
        fields |= {"signal": "s0", "target": draw(TARGETS)}
    else:
        names = [f"s{number}" for number in range(draw(st.integers(1, 3)))]
        fields["signals"] = [{"signal": name, "target": draw(TARGETS)} for name in names]
    if draw(st.booleans()):
        windows = st.sampled_from([0, 30, 300, 3600])
        fields["behavior"] = {
            way: {"stabilizationWindowSeconds": draw(windows), "tolerance": draw(st.sampled_from([0, 0.1, 0.5]))}
            for way in ("scaleUp", "scaleDown")
        }
    else:
        fields |= {
            "deadband": draw(st.sampled_from([0, 0.05, 0.3, 1])),
            "scale_up_step": draw(st.sampled_from([1, 2, 100, "10%", "150%"])),
            "scale_down_step": draw(st.sampled_from([1, 3, 100, "25%"])),
            "scale_up_stabilization_samples": draw(st.integers(1, 3)),
            "scale_down_stabilization_samples": draw(st.integers(1, 4)),
            "stabilization_window_s": draw(st.sampled_from([0, 0, 45, 600])),
        }
    if low == 0 and draw(st.booleans()):
        fields["activation"] = draw(st.sampled_from([0.5, 5, 50]))
    if draw(st.booleans()):
        fields["warmup_s"] = 30
    if draw(st.booleans()):
        fields["cost"] = {"per_replica_hour": "0.30", "ceiling_per_hour": draw(st.sampled_from(["1", "4.5", "99"]))}
    if draw(st.booleans()):
        floor = draw(st.integers(low, fields["max"]))
        fields["schedules"] = [{"window": draw(st.sampled_from(["00:02-00:20", "23:00-01:00"])), "min": floor}]
    return block(fields)


class Tick(NamedTuple):
    """What becomes of the world at one tick."""

    gap_s: int
    status: Words
    reason: Reason | None
    lacking: int  # replicas that are not ready
    gone: int  # and that do not exist
    young_s: int
    pairs: list[tuple[float, int, bool, bool]]  # by signal: value, fault, per replica, no reason to shrink
    carried_out: bool


VALUES = st.one_of(st.floats(0, 800), st.integers(0, 600).map(float), st.sampled_from(ABSURD))
PAIRS = st.tuples(VALUES, st.sampled_from([0] * 8 + [1, 2]), st.booleans(), st.sampled_from([False] * 7 + [True]))
TICKS = st.builds(
    Tick,
    gap_s=st.sampled_from([1, 5, 15, 15, 15, 60, 400]),
    status=st.sampled_from([Words.UP] * 12 + [Words.DEGRADED, Words.UNKNOWN, Words.DOWN, Words.UNOBSERVED]),
    reason=st.sampled_from([None] * 12 + [Reason.SKIP_ROLLOUT, Reason.SKIP_PAUSED]),
    lacking=st.sampled_from([0, 0, 0, 1]),
    gone=st.sampled_from([0, 0, 0, 0, 1]),
    young_s=st.sampled_from([5, 29, 30, 1000]),
    pairs=st.lists(PAIRS, min_size=3, max_size=3),
    carried_out=st.booleans(),
)


@pytest.mark.req("ASC-14", "ASC-15", "ASC-13")
@settings(max_examples=EXAMPLES, deadline=None)
@given(one=blocks(), first=st.integers(0, 65), start=st.booleans(), ticks=st.lists(TICKS, min_size=1, max_size=25))
def test_plain_numbers_and_columns_say_the_same_at_every_tick(
    one: ScalingBlock, first: int, start: bool, ticks: list[Tick]
) -> None:
    table = compile_blocks([("web", one)])
    memory, single = new_memory(table), Single(one)
    glance, width = Glance(len(one.signals)), len(one.signals)
    now, current = 0, first
    if start:
        memory.put_earlier([(now, {0: current})])
        single.begin_window(now, current)
    for tick in ticks:
        now += tick.gap_s * 1_000_000
        seen = Seen.blank(table)
        seen.current[0] = glance.current = current
        seen.ready[0] = glance.ready = max(0, current - tick.lacking)
        seen.existing[0] = glance.existing = max(0, current - tick.gone)
        seen.status[0] = glance.status = tick.status
        glance.reason = tick.reason
        seen.reason[0] = 255 if tick.reason is None else tick.reason
        seen.youngest_us[0] = glance.youngest_us = tick.young_s * 1_000_000
        glance.values, glance.faults, glance.per_replica, glance.no_down = zip(*tick.pairs[:width], strict=True)
        seen.value[:], seen.fault[:] = glance.values, glance.faults
        seen.per_replica[:], seen.no_down[:] = glance.per_replica, glance.no_down
        columns, plain = evaluate(table, seen, memory, now), single.tick(glance, now)
        told = [int(one[0]) for one in (columns.desired, columns.raw, columns.reason, columns.streak, columns.count)]
        assert list(plain) == told, (tick, Reason(told[2]), plain.reason)
        if plain.desired != current and tick.carried_out:
            current = plain.desired
            memory.consume({0: slice(0, len(one.signals))})
            single.consume()


@pytest.mark.req("ASC-13", "ORC-4")
@settings(max_examples=5, deadline=None)
@given(window=st.sampled_from([300, 3600]), pace=st.sampled_from([1, 4, 15]), values=st.lists(VALUES, min_size=200))
def test_windows_with_more_steps_than_are_kept_are_the_same_too(window: int, pace: int, values: list[float]) -> None:
    one = block({"min": 0, "max": 50, "signal": "q", "target": 10, "stabilization_window_s": window, "deadband": 0})
    table = compile_blocks([("web", one)])
    memory, single, glance = new_memory(table), Single(one), Glance(1)
    seen = Seen.blank(table)
    seen.current[0] = seen.ready[0] = seen.existing[0] = glance.current = glance.ready = glance.existing = 20
    seen.status[0] = glance.status = Words.UP
    seen.fault[0], glance.faults = 0, [0]
    for number, value in enumerate(values):
        seen.value[0], glance.values = value, [value]
        columns, plain = (
            evaluate(table, seen, memory, number * pace * 1_000_000),
            single.tick(glance, number * pace * 1_000_000),
        )
        assert (plain.desired, plain.reason) == (int(columns.desired[0]), Reason(int(columns.reason[0])))


@pytest.mark.req("ASC-3")
@given(st.one_of(st.floats(0, allow_nan=False), st.integers(0, 2**31).map(float), st.floats(2**31 - 3, 2**31 + 3)))
def test_rounding_up_is_that_of_the_columns(quotient: float) -> None:
    assert _ceil(quotient) == int(ceil_exact(np.array([quotient]))[0])
    near = quotient * (1 + 2.9e-10)
    assert _ceil(near) == int(ceil_exact(np.array([near]))[0])
