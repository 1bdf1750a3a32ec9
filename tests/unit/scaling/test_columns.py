"""Columns against a slow, obvious model of one service, and against each other: no row disturbs another."""

from __future__ import annotations

import math
from fractions import Fraction
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
from fleetwarden.domain.tracking_memory import GRAIN

ABSURD = [math.nan, math.inf, -math.inf, -1.0, 1e308, -0.0, 5e-324, 1e18]
VALUES = st.one_of(st.floats(0, 1e6), st.integers(0, 10_000).map(float), st.sampled_from(ABSURD))


def block(**fields: Any) -> ScalingBlock:
    made = read_block(
        located({"min": 0, "max": 50, "signal": "load", "target": 10} | fields, "f", 1), on_kubernetes=False
    )
    assert isinstance(made, ScalingBlock), made
    return made


BLOCKS = st.builds(
    block,
    min=st.integers(0, 5),
    max=st.integers(5, 60),
    target=st.sampled_from([0.1, 1, 7, 10, 33.3, 60]),
    deadband=st.sampled_from([0, 0.05, 0.3, 1]),
    scale_up_step=st.sampled_from([1, 2, 100, "10%", "150%"]),
    scale_down_step=st.sampled_from([1, 3, 100, "25%"]),
    scale_up_stabilization_samples=st.integers(1, 3),
    scale_down_stabilization_samples=st.integers(1, 3),
)
ROW = st.tuples(BLOCKS, st.integers(0, 70), st.booleans())


def tenth_digit(whole: int) -> Fraction:
    """One in the tenth significant digit of a whole number, told by its decimal digits."""
    return Fraction(10 ** (len(str(max(whole, 1))) - 1), 10**9)


def model(one: ScalingBlock, current: int, value: float, per_replica: bool, streak: tuple[int, int]) -> tuple[Any, ...]:
    """One tick of one service in exact arithmetic: (desired, direction, count)."""
    if not math.isfinite(value) or value < 0:
        return current, 0, 0
    target = Fraction(one.signals[0].target)
    total = Fraction(value) * (max(current, 1) if per_replica else 1)
    quotient = total / target
    nearest = round(quotient)
    wanted = min(nearest if abs(quotient - nearest) < tenth_digit(nearest) else math.ceil(quotient), 2**31 - 1)
    if current > 0 and abs(quotient - current) < Fraction(one.deadband) * current + tenth_digit(current):
        wanted = current
    bounded = min(max(wanted, one.min), one.max)
    direction = (bounded > current) - (bounded < current)
    if direction == 0:
        return current, 0, 0
    count = streak[1] + 1 if streak[0] == direction else 1
    outside = not one.min <= current <= one.max
    needed = 1 if outside else one.up_samples if direction > 0 else one.down_samples
    if count < needed:
        return current, direction, count
    if direction > 0:
        return min(bounded, current + one.up_step.of(current)), direction, count
    return max(bounded, current - one.down_step.of(current)), direction, count


@pytest.mark.req("ASC-3", "ASC-5", "ASC-11", "ASC-15", "ASC-16")
@settings(max_examples=150, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=12), st.data())
def test_ticks_of_many_services_are_the_model_of_each_alone(rows: list[tuple[Any, ...]], data: st.DataObject) -> None:
    table = compile_blocks([(str(n), one) for n, (one, _, _) in enumerate(rows)])
    memory = new_memory(table)
    streaks = [(0, 0)] * len(rows)
    for tick in range(4):
        values = [data.draw(VALUES) for _ in rows]
        seen = Seen.blank(table)
        seen.current[:] = [current for _, current, _ in rows]
        seen.ready[:] = seen.existing[:] = seen.current
        seen.status[:] = Words.UP
        seen.value[:] = values
        seen.per_replica[:] = [per for _, _, per in rows]
        seen.fault[:] = 0
        found = evaluate(table, seen, memory, tick * 60_000_000)
        for n, (one, current, per) in enumerate(rows):
            desired, direction, count = model(one, current, values[n], per, streaks[n])
            told = (int(found.desired[n]), int(found.streak[n]), int(found.count[n]))
            assert told == (desired, direction, count), (n, one, current, values[n], per)
            streaks[n] = (direction, count)


@pytest.mark.req("ASC-11")
@given(st.lists(VALUES, min_size=2, max_size=40))
def test_one_absurd_value_disturbs_no_other_row(values: list[float]) -> None:
    def verdicts(which: list[float]) -> Any:
        table = compile_blocks([(str(n), block(max=40)) for n in range(len(which))])
        seen = Seen.blank(table)
        seen.current[:] = seen.ready[:] = seen.existing[:] = 4
        seen.status[:] = Words.UP
        seen.value[:], seen.fault[:] = which, 0
        return evaluate(table, seen, new_memory(table), 0)

    together = verdicts(values)
    for n, value in enumerate(values):
        alone = verdicts([value])
        assert (together.desired[n], together.reason[n]) == (alone.desired[0], alone.reason[0])


@pytest.mark.req("ASC-4", "ASC-16", "ASC-20")
@pytest.mark.parametrize(
    ("status", "fault", "reason", "keeps"),
    [
        (Words.UP, 1, Reason.SKIP_METRICS, False),
        (Words.UP, 2, Reason.NOT_ASKED, True),
        (Words.UNKNOWN, 0, Reason.SKIP_UNKNOWN, False),
        (Words.UNOBSERVED, 0, Reason.SKIP_UNOBSERVED, False),
        (Words.DOWN, 0, Reason.SKIP_DOWN, False),
    ],
)
def test_no_evidence_moves_nothing_and_only_what_was_not_asked_keeps_the_streak(
    status: Words, fault: int, reason: Reason, keeps: bool
) -> None:
    table = compile_blocks([("web", block())])
    memory = new_memory(table)
    memory.streak[0], memory.count[0] = -1, 2
    seen = Seen.blank(table)
    seen.current[0] = seen.ready[0] = seen.existing[0] = 5
    seen.status[0], seen.fault[0], seen.value[0] = status, fault, 0.0
    found = evaluate(table, seen, memory, 0)
    assert (Reason(int(found.reason[0])), int(found.desired[0])) == (reason, 5)
    assert int(memory.count[0]) == (2 if keeps else 0)


@pytest.mark.req("ASC-18")
def test_growing_waits_until_what_was_asked_for_is_there() -> None:
    table = compile_blocks([("web", block())])
    seen = Seen.blank(table)
    seen.current[0], seen.existing[0], seen.ready[0] = 5, 5, 4
    seen.status[0], seen.fault[0], seen.value[0] = Words.DEGRADED, 0, 500.0
    assert evaluate(table, seen, new_memory(table), 0).reason[0] == Reason.NOT_PLACED
    seen.value[0] = 0.0  # shrinking does not wait for it
    memory = new_memory(table)
    memory.streak[0], memory.count[0] = -1, 2
    assert evaluate(table, seen, memory, 0).reason[0] == Reason.SCALE_DOWN


@pytest.mark.req("ASC-13")
def test_fresh_replicas_make_an_average_say_nothing_and_a_total_is_not_affected() -> None:
    table = compile_blocks([("web", block(warmup_s=30)), ("api", block(warmup_s=30))])
    seen = Seen.blank(table)
    seen.current[:] = seen.ready[:] = seen.existing[:] = 2
    seen.status[:], seen.fault[:], seen.value[:] = Words.UP, 0, 90.0
    seen.per_replica[0], seen.youngest_us[:] = True, 29_999_999
    found = evaluate(table, seen, new_memory(table), 0)
    assert [Reason(int(one)) for one in found.reason] == [Reason.WARMING, Reason.SCALE_UP]
    seen.youngest_us[:] = 30_000_000
    assert evaluate(table, seen, new_memory(table), 0).reason[0] == Reason.SCALE_UP


@pytest.mark.req("ASC-13", "ORC-4")
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 90), st.integers(0, 40)), min_size=1, max_size=200), st.sampled_from([60, 300])
)
def test_a_windowed_column_holds_as_its_definition_says_however_often_it_is_asked(
    ticks: list[tuple[int, int]], window: int
) -> None:
    one = block(stabilization_window_s=window, deadband=0, scale_up_step=999, scale_down_step=999,
                scale_down_stabilization_samples=1)  # fmt: skip
    table = compile_blocks([("web", one)])
    memory = new_memory(table)
    now, history = 0, []
    for gap, wanted in ticks:
        now += gap * 1_000_000
        history.append((now, wanted))
        seen = Seen.blank(table)
        seen.current[0] = seen.ready[0] = seen.existing[0] = 20
        seen.status[0], seen.fault[0], seen.value[0] = Words.UP, 0, wanted * 10.0
        found = evaluate(table, seen, memory, now)
        inside = [count for at, count in history if now - at < window * 1_000_000]
        lowest, highest = min(inside), max(inside)
        longer = [count for at, count in history if now - at < window * 1_000_000 * (1 + 2 / GRAIN)]
        held = min(max(20, lowest), max(lowest, highest))
        loosest = min(max(20, min(longer)), max(longer))
        if len(history) <= GRAIN:
            assert int(found.desired[0]) == held
        assert int(found.desired[0]) in range(min(held, loosest), max(held, loosest) + 1)  # never shorter


@pytest.mark.req("ASC-13", "ASC-16")
@pytest.mark.parametrize(("window", "every"), [(300, 15), (900, 15), (960, 15), (3600, 15), (600, 5), (900, 2)])
def test_a_window_ends_however_many_ticks_it_holds(window: int, every: int) -> None:
    """One peak, then a load for fewer: the count is held for the window, and a small part of it longer at most."""
    table = compile_blocks([("web", block(stabilization_window_s=window, scale_down_stabilization_samples=1))])
    memory = new_memory(table)
    for tick in range(2 * window // every):
        seen = Seen.blank(table)
        seen.current[0] = seen.ready[0] = seen.existing[0] = 40
        seen.status[0], seen.fault[0], seen.value[0] = Words.UP, 0, 10.0 if tick else 400.0
        if evaluate(table, seen, memory, tick * every * 1_000_000).reason[0] == Reason.SCALE_DOWN:
            break
    assert window <= tick * every <= window * (1 + 2 / GRAIN) + every
    assert memory.entries < 4 * GRAIN + GRAIN * math.log(max(1, window / every / GRAIN))


@pytest.mark.req("ASC-5", "ASC-20", "SGP-4")
def test_a_sample_that_was_used_already_neither_counts_nor_resets() -> None:
    table = compile_blocks([("web", block())])
    memory = new_memory(table)
    reasons = []
    for again in (False, True, False, True, True, False):
        seen = Seen.blank(table)
        seen.current[0] = seen.ready[0] = seen.existing[0] = 5
        seen.status[0], seen.fault[0], seen.value[0], seen.again[0] = Words.UP, 0, 10.0, again
        reasons.append(Reason(int(evaluate(table, seen, memory, 0).reason[0])))
    counting, idle = Reason.STABILIZING, Reason.NO_NEWS
    assert reasons == [counting, idle, counting, idle, idle, Reason.SCALE_DOWN]


@pytest.mark.req("ASC-5", "ASC-13")
@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (90.0, 50.0, Reason.NO_NEWS),  # it asked for more when it was new: once is enough
        (50.0, 90.0, Reason.SCALE_UP),
        (90.0, 10.0, Reason.NO_NEWS),  # and it still stands against fewer
        (10.0, 10.0, Reason.STABILIZING),  # fewer need a sample of each
    ],
)
def test_of_two_signals_the_older_holds_and_never_asks_for_more(old: float, new: float, reason: Reason) -> None:
    signals = [{"signal": "a", "target": 10}, {"signal": "b", "target": 10}]
    made = read_block(
        located(
            {"min": 0, "max": 50, "signals": signals, "scale_down_stabilization_samples": 1, "deadband": 0}, "f", 1
        ),
        on_kubernetes=False,
    )
    assert isinstance(made, ScalingBlock), made
    table = compile_blocks([("web", made)])
    seen = Seen.blank(table)
    seen.current[0] = seen.ready[0] = seen.existing[0] = 5
    seen.status[0], seen.fault[:], seen.value[:], seen.again[:] = Words.UP, 0, [old, new], [True, False]
    assert Reason(int(evaluate(table, seen, new_memory(table), 0).reason[0])) is reason


@pytest.mark.req("ASC-3", "ASC-15")
@given(st.integers(0, 10**6), st.sampled_from([0.0, 1e-10, -1e-10, 5e-11, 1e-13]))
def test_a_quotient_next_to_a_whole_number_is_that_number(whole: int, off: float) -> None:
    assert int(ceil_exact(np.array([whole * (1 + off)]))[0]) == whole
    assert int(ceil_exact(np.array([whole + 0.001]))[0]) == whole + 1


@pytest.mark.req("ASC-15")
@pytest.mark.parametrize("whole", [1, 2, 3, 5, 9, 10, 47, 99, 100, 999, 1000, 9999, 100_000])
def test_the_tenth_significant_digit_is_a_difference_and_what_is_smaller_is_none(whole: int) -> None:
    """The edge is told by decimal digits here, not by the constant."""
    digits = 10 - len(str(whole))
    for tenths, expected in ((1, whole + 1), (2, whole + 1)):
        over = float(f"{whole}." + "0" * (digits - 1) + str(tenths))
        assert int(ceil_exact(np.array([over]))[0]) == expected, over
    for more in ("09", "05", "01"):
        over = float(f"{whole}." + "0" * (digits - 1) + more)
        assert int(ceil_exact(np.array([over]))[0]) == whole, over
    under = whole - float("0." + "0" * (digits - 1) + "09")
    assert int(ceil_exact(np.array([under]))[0]) == whole


def test_memory_is_carried_over_to_another_table() -> None:
    old = compile_blocks([("a", block(stabilization_window_s=60)), ("b", block(stabilization_window_s=60))])
    memory = new_memory(old)
    memory.streak[:], memory.count[:], memory.last_used[:] = [-1, 1], [2, 1], [7, 9]
    memory.put_earlier([(1, {0: 4, 1: 8})])
    new = compile_blocks([("b", block(stabilization_window_s=60)), ("c", block())])
    fresh = new_memory(new)
    fresh.carry_over(memory, {1: 0}, {1: 0}, 5)
    assert (fresh.streak.tolist(), fresh.count.tolist(), fresh.last_used.tolist()) == ([1, 0], [1, 0], [9, 0])
    lowest, highest = fresh.extremes(5, new.up_window_us, new.down_window_us)
    assert (lowest.tolist(), highest.tolist()) == ([8], [8])
