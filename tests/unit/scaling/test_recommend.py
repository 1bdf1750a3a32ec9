"""The public evaluation of one block: the equation to the integer, and each limit at its edge."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.autoscaler import Recommendation, recommend
from fleetwarden.domain.errors import Misconfigured

OPEN: dict[str, Any] = {
    "min": 0,
    "max": 100_000,
    "signal": "load",
    "target": 100,
    "deadband": 0,
    "scale_up_step": 100_000,
    "scale_down_step": 100_000,
    "scale_down_stabilization_samples": 1,
}


def ask(
    block: dict[str, Any], current: int, value: float | None, *, per: str = "fleet_total", **more: Any
) -> Recommendation:
    name = block.get("signal", "load")
    signals = {} if value is None else {name: value}
    return recommend(block, current=current, signals=signals, aggregation={name: per}, **more)


@pytest.mark.req("ASC-3", "ORC-2")
@pytest.mark.parametrize(
    ("current", "value", "per", "target", "low", "high", "desired"),
    [
        (3, 90, "per_replica", 60, 2, 4, 4),
        (6, 20, "per_replica", 60, 3, 100, 3),
        (3, 450, "fleet_total", 100, 1, 5, 5),
        (1, 0, "fleet_total", 100, 1, 5, 1),
        (1, 0, "fleet_total", 100, 0, 5, 0),
        (0, 450, "fleet_total", 100, 0, 5, 5),
        (0, 90, "per_replica", 60, 0, 5, 2),
        (3, 150, "fleet_total", 200, 1, 5, 1),
        (2, 200.1, "fleet_total", 100, 1, 5, 3),
        (7, 60, "per_replica", 60, 1, 20, 7),
        (1, 1e12, "fleet_total", 1, 1, 100_000, 100_000),
        (3, 300.0000001, "fleet_total", 100, 1, 5, 4),
        (3, 300.00000001, "fleet_total", 100, 1, 5, 3),
        (10, 0.3, "per_replica", 0.1, 1, 99, 30),
        (7, 0.7 / 7, "per_replica", 0.1, 1, 99, 7),
    ],
)
def test_the_published_equation_to_the_integer(
    current: int, value: float, per: str, target: float, low: int, high: int, desired: int
) -> None:
    found = ask(OPEN | {"target": target, "min": low, "max": high}, current, value, per=per)
    assert found.desired == desired


@pytest.mark.req("ASC-3")
@pytest.mark.parametrize("current", range(1, 60))
@pytest.mark.parametrize("each", [0.1, 0.3, 1 / 3, 7.7, 60, 1e-9, 1e11])
def test_on_target_no_rounding_error_ever_adds_a_replica(current: int, each: float) -> None:
    assert ask(OPEN | {"target": each}, current, each * current).desired == current
    assert ask(OPEN | {"target": each}, current, each, per="per_replica").desired == current


@pytest.mark.req("ASC-5", "ASC-20")
@pytest.mark.parametrize(
    ("current", "value", "reason"),
    [
        (10, 105.0, "deadband"),
        (10, 95.0, "deadband"),
        (10, 105.01, "scale_up"),
        (100, 94.99, "scale_down"),
        (2, 105.0, "deadband"),
        (0, 100.0, "scale_up"),  # no deadband at 0 replicas
        (1, 94.9, "at_target"),
    ],
)
def test_the_edge_of_the_deadband_is_inside(current: int, value: float, reason: str) -> None:
    block = OPEN | {"deadband": 0.05}
    assert ask(block, current, value, per="per_replica").reason == reason


@pytest.mark.req("ASC-20")
@pytest.mark.parametrize(("target", "share"), [(2, 0.05), (3, 0.1), (7, 0.3), (0.3, 0.1), (1e9, 0.07)])
def test_rounding_does_not_move_the_edge_of_the_deadband(target: float, share: float) -> None:
    block = OPEN | {"target": target, "deadband": share}
    for value in (target * (1 + share), target * (1 - share), target + target * share):
        assert ask(block, 10, value, per="per_replica").reason == "deadband"


@pytest.mark.req("ASC-5", "ASC-20")
def test_a_direction_needs_its_samples_in_a_row_and_turning_round_begins_anew() -> None:
    block = OPEN | {"scale_down_stabilization_samples": 3, "scale_up_stabilization_samples": 2, "min": 1}
    streak, told = ("", 0), []
    for value in (50, 50, 450, 450, 50, 50, None, 50, 50, 50):
        found = ask(block, 3, value, streak=streak)
        streak = found.streak
        told.append((found.reason, found.streak[1]))
    assert told == [
        ("stabilizing", 1),
        ("stabilizing", 2),
        ("stabilizing", 1),
        ("scale_up", 2),
        ("stabilizing", 1),
        ("stabilizing", 2),
        ("skip_metrics", 0),
        ("stabilizing", 1),
        ("stabilizing", 2),
        ("scale_down", 3),
    ]


@pytest.mark.req("ASC-16")
@pytest.mark.parametrize(
    ("current", "value", "desired"),
    [(9, 100, 8), (9, 900, 8), (1, 100, 2), (0, 0, 1), (6, 100, 5)],
)
def test_a_count_out_of_bounds_comes_nearer_by_a_step_even_when_the_load_is_on_target(
    current: int, value: float, desired: int
) -> None:
    block = {"min": 3, "max": 5, "signal": "load", "target": 100}
    found = ask(block, current, value, per="per_replica")
    assert found.desired == desired


@pytest.mark.req("ASC-13")
@pytest.mark.parametrize(
    ("current", "step", "up", "down"), [(10, "25%", 13, 7), (1, "10%", 2, 0), (100, "10%", 110, 90), (3, 2, 5, 1)]
)
def test_steps_cap_a_change_in_replicas_or_in_exact_percent(current: int, step: Any, up: int, down: int) -> None:
    block = OPEN | {"scale_up_step": step, "scale_down_step": step}
    assert ask(block, current, 1e9).desired == up
    assert ask(block, current, 0).desired == down


@pytest.mark.req("ASC-13", "ORC-4")
def test_a_window_goes_down_to_its_highest_and_up_to_its_lowest_recommendation() -> None:
    block = OPEN | {"stabilization_window_s": 300}
    history = [(600, 10), (60, 4), (120, 5), (540, 9)]
    assert ask(block, 100, 300, history=history).desired == 5
    assert ask(block, 1, 10_000, history=history).desired == 4
    held = ask(block, 5, 300, history=history)
    assert (held.desired, held.reason, held.limits) == (5, "window", ("window",))
    assert ask(OPEN, 5, 300, history=history).desired == 3  # without one nothing is held
    assert ask(block, 5, 300, history=[(300, 9)]).desired == 3  # at exactly its length it is over


@pytest.mark.req("ASC-13")
def test_of_several_signals_the_highest_decides_and_a_missing_one_only_stops_shrinking() -> None:
    block = {key: OPEN[key] for key in OPEN if key not in ("signal", "target")}
    block["signals"] = [{"signal": "jobs", "target": 100}, {"signal": "cpu", "target": 50}]

    def both(**signals: float) -> Recommendation:
        return recommend(block, current=4, signals=signals, aggregation={"cpu": "per_replica"})

    assert both(jobs=300, cpu=75).desired == 6
    assert both(jobs=900, cpu=10).desired == 9
    assert both(jobs=100, cpu=10).desired == 1
    assert both(jobs=900).desired == 9
    assert (both(jobs=100).desired, both(jobs=100).reason) == (4, "blocked_down")
    assert both().reason == "skip_metrics"


@pytest.mark.req("ASC-13", "ORC-3")
def test_at_zero_only_demand_above_the_threshold_wakes_and_below_it_sends_to_sleep() -> None:
    block = OPEN | {"activation": 5}
    assert ask(block, 0, 5).reason == "inactive"
    assert ask(block, 0, 5.1).desired == 1
    assert ask(block, 2, 5).desired == 0
    assert ask(OPEN, 0, 0).reason == "inactive"
    assert ask(OPEN, 0, None).reason == "skip_metrics"  # never inferred from min: 0 alone


@pytest.mark.req("ASC-13")
def test_a_schedule_is_a_floor_while_its_window_is_open() -> None:
    block = OPEN | {"min": 1, "schedules": [{"window": "08:00-18:00", "min": 4}]}
    assert ask(block, 2, 100, now=9 * 3600).desired == 4
    assert ask(block, 4, 100, now=9 * 3600).desired == 4
    assert ask(block, 4, 100, now=19 * 3600).desired == 1


@pytest.mark.req("ASC-13")
@pytest.mark.parametrize(
    ("current", "each", "ceiling", "desired", "reason"),
    [
        (2, "0.9", "3.0", 3, "scale_up"),
        (4, "0.05", "0.1", 4, "skip_cost"),
        (1, "0.1", "0.3", 3, "scale_up"),  # decimal: three times 0.1 is 0.3
        (3, "0.1", "0.3", 3, "skip_cost"),
    ],
)
def test_growing_past_the_cost_ceiling_is_not_asked_for(
    current: int, each: str, ceiling: str, desired: int, reason: str
) -> None:
    block = OPEN | {"cost": {"per_replica_hour": each, "ceiling_per_hour": ceiling}}
    found = ask(block, current, 1000)
    assert (found.desired, found.reason) == (desired, reason)
    assert ask(block, 9, 0).desired == 0  # shrinking is never held by cost


@pytest.mark.req("ASC-3", "SGP-4")
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -1.0])
def test_what_is_no_number_moves_nothing(value: float) -> None:
    found = ask(OPEN, 5, value)
    assert (found.desired, found.reason) == (5, "skip_metrics")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"current": 10**30}, "current"),
        ({"current": True}, "current"),
        ({"current": 1.5}, "current"),
        ({"streak": ("down",)}, "streak"),
        ({"streak": "ud"}, "streak"),
        ({"streak": ("up", -1)}, "streak"),
        ({"now": float("nan")}, "now"),
        ({"now": -1}, "now"),
        ({"history": [(float("nan"), 3)]}, "history"),
        ({"history": [(-1.0, 3)]}, "history"),
        ({"history": [(1.0, -3)]}, "history"),
        ({"history": [(1.0,)]}, "history"),
        ({"history": [(1.0, "3")]}, "history"),
        ({"changes": [(float("nan"), 3)]}, "changes"),
        ({"changes": [(1.0, 2.5)]}, "changes"),
        ({"signals": {"load": "90"}}, "signal load"),
        ({"signals": {"load": True}}, "signal load"),
        ({"aggregation": {"other": "sum"}}, "aggregation of other"),
    ],
)
def test_an_argument_out_of_range_is_named_and_never_a_traceback(wrong: dict[str, Any], told: str) -> None:
    given: dict[str, Any] = {"current": 1, "signals": {"load": 1.0}, "aggregation": {}}
    with pytest.raises(Misconfigured, match=told):
        recommend(OPEN, **(given | wrong))


def test_a_number_beyond_every_float_is_no_sample() -> None:
    found = recommend(OPEN, current=5, signals={"load": 10**400}, aggregation={})
    assert (found.desired, found.reason) == (5, "skip_metrics")


def test_wrong_arguments_are_named() -> None:
    for wrong, told in (
        (lambda: ask(OPEN | {"targt": 3}, 1, 1), "unknown key"),
        (lambda: ask(OPEN | {"min": 5, "max": 3}, 1, 1), "max: 3 is below min, 5"),
        (lambda: ask(OPEN, -1, 1), "current"),
        (lambda: ask(OPEN, 1, 1, per="sum"), "aggregation of load"),
        (lambda: ask(OPEN, 1, 1, streak=("sideways", 1)), "streak"),
    ):
        with pytest.raises(Misconfigured, match=told):
            wrong()
