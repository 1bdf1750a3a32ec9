"""Backtests: tick by tick what the autoscaler's own parts do, and sums that a person can do by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetwarden.domain.cooldown import CooldownState, cooldown
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.located import located
from fleetwarden.domain.recommendation import with_rates
from fleetwarden.domain.scaling import read_block
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.domain.signals import Aggregation
from fleetwarden.domain.tracking import evaluate, new_memory
from fleetwarden.domain.tracking_columns import Reason, Seen, Words, compile_blocks
from fleetwarden.lab.backtest import Backtest, backtest, load_of
from fleetwarden.lab.comparison import compare, cost_of
from fleetwarden.lab.recordings import Recording, Ticks, at_ticks

S = 1_000_000
START = 1_790_000_000


def block(**fields: Any) -> ScalingBlock:
    base = {"min": 1, "max": 10, "signal": "q", "target": 10, "scale_up_step": 99, "scale_down_step": 99}
    if "behavior" in fields:
        del base["scale_up_step"], base["scale_down_step"]
    made = read_block(located({**base, **fields}, "fleet.yml", 1), on_kubernetes=True)
    assert isinstance(made, ScalingBlock), made
    return made


def ticks(values: Sequence[float | None], step: int = 15, replicas: Sequence[float] | None = None) -> Ticks:
    times = [(START + number * step) * S for number in range(len(values))]
    column = [math.nan if one is None else one for one in values]
    return at_ticks(Recording(name="load.csv", times=times, values={"q": column}, replicas=replicas))


def play(one: ScalingBlock, values: Sequence[float | None], step: int = 15, **more: Any) -> Backtest:
    return backtest(one, load_of(ticks(values, step), one, {}), **more)


def reread(one: ScalingBlock, values: Sequence[float | None], **more: Any) -> Backtest:
    """Measured once a minute, ticked every 15 s."""
    times = [(START + number * 60) * S for number in range(len(values))]
    column = [math.nan if value is None else value for value in values]
    seen = at_ticks(Recording(name="load.csv", times=times, values={"q": column}), every_us=15 * S)
    kinds = more.pop("kinds", {})
    return backtest(one, load_of(seen, one, kinds, 5 if kinds else None), **more)


def changes(run: Backtest) -> list[tuple[float, int, int]]:
    return [(one.at / S - START, one.before, one.after) for one in run.actions]


def by_the_live_parts(one: ScalingBlock, seen: Ticks, current: int) -> list[int]:
    """The same replay through the columns, the ledger's cooldown and the rates, as the autoscaler chains them."""
    table = compile_blocks([("web", one)])
    memory, last, counts = new_memory(table), None, []
    made: list[tuple[int, int]] = []
    memory.put_earlier([(int(seen.times[0]), {0: current})])
    for now, value in zip(seen.times.tolist(), seen.values["q"].tolist(), strict=True):
        view = Seen.blank(table)
        view.current[0] = view.ready[0] = view.existing[0] = current
        view.status[0], view.value[0], view.fault[0] = Words.UP, value, 1 if math.isnan(value) else 0
        found = evaluate(table, view, memory, now)
        desired, reason = int(found.desired[0]), Reason(int(found.reason[0]))
        if desired != current:
            pause = cooldown(last, now, one.cooldown_s(up=desired > current))
            if pause.state is CooldownState.OVER:
                recent = [((now - at) / S, delta) for at, delta in made]
                desired, reason = with_rates(one, current, desired, reason, recent)
                if desired != current:
                    made.append((now, desired - current))
                    current, last = desired, now
                    memory.consume({0: table.pairs_of(0)})
        counts.append(current)
    return counts


BLOCKS: list[Mapping[str, Any]] = [
    {},
    {"cooldown_s": 0, "scale_down_stabilization_samples": 1, "deadband": 0},
    {"cooldown_up_s": 0, "cooldown_down_s": 60, "scale_up_step": 1, "scale_down_step": "25%"},
    {"stabilization_window_s": 120, "scale_up_stabilization_samples": 2},
    {"behavior": {}, "cooldown_s": 0},
    {"behavior": {"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}, "cooldown_s": 30},
    {"min": 0, "activation": 5, "cooldown_s": 30},
    {"schedules": [{"window": "00:00-23:59", "min": 4}], "cost": {"per_replica_hour": "1", "ceiling_per_hour": "6"}},
]


@pytest.mark.req("ASC-14")
@settings(max_examples=15, deadline=None)
@given(st.sampled_from(BLOCKS), st.integers(0, 2**32), st.integers(0, 12))
def test_a_replay_is_what_the_autoscalers_own_parts_make_of_it(fields: Any, seed: int, first: int) -> None:
    one, chance = block(**fields), Random(seed)
    values: list[float | None] = [50.0]
    for _ in range(80):
        last = values[-1] or 50.0
        values.append(
            None if chance.random() < 0.08 else max(0.0, last + chance.choice([0, 0, -30, -4, 4, 30, 120, -90]))
        )
    seen = ticks(values)
    run = backtest(one, load_of(seen, one, {}), replicas=first)
    assert run.replicas.tolist() == by_the_live_parts(one, seen, first)


@pytest.mark.req("ASC-14", "ASC-6")
def test_the_cooldown_is_over_at_its_very_end_and_samples_count_meanwhile() -> None:
    one = block(cooldown_s=60, scale_down_stabilization_samples=3)
    run = play(one, [50, 20, 20, 20, 20, 20, 20, 20, 20, 20], replicas=3)
    assert changes(run) == [(0, 3, 5), (60, 5, 2)]
    assert run.reasons["skip_cooldown"] == 1  # at 45 s: the third sample in a row, 15 s too early


@pytest.mark.req("ASC-14", "ASC-5")
def test_a_missing_sample_holds_the_count_starts_the_row_anew_and_is_no_zero() -> None:
    one = block(cooldown_s=0)
    run = play(one, [50, 20, 20, None, 20, 20, 20], replicas=5)
    assert changes(run) == [(90, 5, 2)]
    assert (run.unknown_s, run.reasons["skip_metrics"]) == (15, 1)


@pytest.mark.req("ASC-14")
def test_the_sums_are_those_that_one_does_by_hand() -> None:
    one = block(max=6, cooldown_s=60, scale_down_stabilization_samples=1, deadband=0,
                cost={"per_replica_hour": "0.36", "ceiling_per_hour": "99"})  # fmt: skip
    run = play(one, [20, 80, 80, None, 20, 20, 20, 80, 80], step=60, replicas=2)
    assert changes(run) == [(60, 2, 6), (240, 6, 2), (420, 2, 6)]
    assert run.replicas.tolist() == [2, 6, 6, 6, 2, 2, 2, 6, 6]  # each for a minute, the last for none
    assert math.isclose(run.replica_hours, (2 + 6 + 6 + 6 + 2 + 2 + 2 + 6) / 60)
    assert (run.short_s, run.at_max_s) == (180, 180)  # 8 are needed, 6 are allowed
    assert math.isclose(run.short_replica_hours, 3 * 2 / 60)
    assert (run.idle_replica_hours, run.unknown_s, run.reversals, run.ups, run.downs) == (0, 60, 2, 2, 1)
    assert str(cost_of(run)) == "0.19"  # 32 minutes of a replica


@pytest.mark.req("ASC-14", "ASC-18", "ASC-13")
def test_new_replicas_may_take_a_while_and_growing_waits_for_them() -> None:
    one = block(cooldown_s=0, max=20)
    run = play(one, [20, 50, 90, 90, 90, 90, 90], replicas=2, ready_after_s=45)
    assert changes(run) == [(15, 2, 5), (60, 5, 9)]
    assert (run.reasons["not_placed"], run.ready.tolist()) == (2, [2, 2, 2, 2, 5, 5, 5])
    down = play(block(cooldown_s=0, scale_down_stabilization_samples=1), [20, 50, 30, 30], replicas=2, ready_after_s=60)
    assert (changes(down)[1], down.ready.tolist()) == ((30, 5, 3), [2, 2, 2, 2])  # the youngest go first


@pytest.mark.req("ASC-14", "ASC-13")
def test_warm_up_and_pause_of_a_block_hold_in_a_replay_too() -> None:
    average = {"q": Aggregation.PER_REPLICA}
    seen = ticks([20, 20, 40, 40, 40, 40], replicas=[2, 2, 2, 2, 2, 2])
    one = block(cooldown_s=0, warmup_s=40)
    grown = ticks([10, 20, 30, 30, 30, 30], replicas=[2] * 6)
    run = backtest(one, load_of(grown, one, average), replicas=2)
    assert (changes(run), run.reasons["warming"]) == ([(15, 2, 4), (60, 4, 6)], 2)
    paused = block(paused=True)
    assert backtest(paused, load_of(seen, paused, average), replicas=2).actions == ()


@pytest.mark.req("ASC-14")
def test_an_average_needs_the_number_that_it_was_taken_over() -> None:
    one, average = block(cooldown_s=0), {"q": Aggregation.PER_REPLICA}
    with pytest.raises(Misconfigured, match="average over replicas") as caught:
        load_of(ticks([20, 20]), one, average)
    assert "--recorded-replicas" in caught.value.hint
    told = load_of(ticks([20, 20, 20]), one, average, 4)  # 80 in all
    assert changes(backtest(one, told, replicas=2)) == [(0, 2, 8)]
    known = load_of(ticks([20, 10, 10], replicas=[4, 8, 8]), one, average)  # the load never changed
    assert backtest(one, known, replicas=8).actions == ()


@pytest.mark.req("ASC-14")
def test_all_blocks_are_measured_by_what_the_first_one_says_is_needed() -> None:
    blocks = [("declared", block()), ("lazy", block(target=40))]
    found = compare("shop", "load.csv", ticks([50] * 5), blocks, {})
    (_, own), (_, lazy) = found.runs
    assert (own.short_s, changes(lazy), lazy.short_s) == (0, [(30, 5, 2)], 30)
    with pytest.raises(Misconfigured, match="two blocks are called"):
        compare("shop", "load.csv", ticks([50] * 5), [("a", block()), ("a", block())], {})


@pytest.mark.req("ASC-14", "ASC-5")
def test_a_row_that_is_read_again_counts_once_as_it_does_live() -> None:
    run = reread(block(cooldown_s=0, deadband=0), [50, 10, 10, 10, 10], replicas=5)
    assert changes(run) == [(180, 5, 1)]  # the third measurement that says so
    assert run.reasons["no_news"] == 12
    assert "skip_metrics" not in run.reasons
    assert reread(block(cooldown_s=0, deadband=0), [50, 10, None, None, None, 10, 10, 10], replicas=5).downs == 1


@pytest.mark.req("ASC-14", "ASC-5")
def test_what_was_measured_before_a_change_is_not_used_after_it() -> None:
    one = block(cooldown_s=0, deadband=0, scale_up_step=1)
    assert changes(reread(one, [90, 90, 90], replicas=5)) == [(0, 5, 6), (60, 6, 7), (120, 7, 8)]


@pytest.mark.req("ASC-12", "ASC-14")
def test_a_replay_says_which_bound_held_the_count() -> None:
    run = play(block(max=6, cooldown_s=0, deadband=0), [200, 200, 200, 60, 1, 1, 1, 1, 1], replicas=6)
    assert run.reasons["at_max"] == 3
    assert play(block(min=4, deadband=0), [1, 1, 1], replicas=4).reasons == {"at_min": 3}
