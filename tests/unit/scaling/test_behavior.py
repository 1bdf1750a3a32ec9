"""`behavior:` as HPA has it: rates over periods, windows, tolerance; percents exact."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.autoscaler import Recommendation, recommend

Policy = tuple[str, int, int]


def rules(*policies: Policy, select: str | None = None, window: int | None = None) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if policies:
        body["policies"] = [{"type": kind, "value": value, "periodSeconds": s} for kind, value, s in policies]
    if select:
        body["selectPolicy"] = select
    if window is not None:
        body["stabilizationWindowSeconds"] = window
    return body


def ask(
    current: int, wanted: float, low: int = 1, high: int = 1000, *, up: Any = None, down: Any = None, **more: Any
) -> Recommendation:
    behavior: dict[str, Any] = {"scaleDown": {"stabilizationWindowSeconds": 0} | (down or {})}
    if up:
        behavior["scaleUp"] = up
    block = {"min": low, "max": high, "signal": "load", "target": 1, "behavior": behavior}
    return recommend(block, current=current, signals={"load": wanted}, aggregation={}, **more)


@pytest.mark.req("ASC-15")
@pytest.mark.parametrize(
    ("current", "wanted", "up", "desired"),
    [
        (10, 50, rules(("Pods", 30, 60)), 40),
        (10, 50, rules(("Percent", 200, 60)), 30),
        (3, 1000, rules(("Percent", 1, 60)), 4),
        (1, 100, rules(("Pods", 2, 60), ("Percent", 50, 60), select="Min"), 2),
        (1, 100, rules(("Pods", 2, 60), ("Percent", 50, 60)), 3),
        (100, 500, rules(("Percent", 10, 60)), 110),
        (1, 100, {}, 5),  # what HPA does by itself: 4 pods or 100 percent in 15 s
        (10, 100, {}, 20),
        (5, 100, rules(("Pods", 9, 60), select="Disabled"), 5),
    ],
)
def test_how_far_one_change_may_go_up(current: int, wanted: float, up: dict[str, Any], desired: int) -> None:
    assert ask(current, wanted, up=up).desired == desired


@pytest.mark.req("ASC-15")
@pytest.mark.parametrize(
    ("current", "wanted", "down", "desired"),
    [
        (100, 2, rules(("Pods", 2, 60), ("Percent", 1, 60)), 98),
        (100, 2, rules(("Pods", 2, 60), ("Percent", 1, 60), select="Min"), 99),
        (5, 1, rules(("Percent", 10, 60)), 4),  # what is left is rounded down: 4.5
        (10, 5, {}, 5),
        (10, 2, rules(("Percent", 100, 15), select="Disabled"), 10),
        (10, 0, rules(("Percent", 1000, 60)), 1),
    ],
)
def test_how_far_one_change_may_go_down(current: int, wanted: float, down: dict[str, Any], desired: int) -> None:
    assert ask(current, wanted, down=down).desired == desired


@pytest.mark.req("ASC-15")
def test_earlier_changes_of_the_period_count_and_older_ones_do_not() -> None:
    fell = [(100.0, -2), (60.0, -4), (20.0, -6)]
    assert ask(100, 0, down=rules(("Percent", 50, 120)), changes=fell).desired == 56
    assert ask(100, 2, down=rules(("Pods", 5, 120)), changes=fell).desired == 100
    rose = [(105.0, 8), (75.0, 12), (45.0, 9), (15.0, 11)]
    assert ask(100, 200, up=rules(("Pods", 1000, 60)), changes=rose).desired == 200
    assert ask(100, 200, up=rules(("Pods", 30, 60)), changes=rose).desired == 110
    assert ask(100, 200, up=rules(("Pods", 30, 45)), changes=rose).desired == 119  # at exactly its age it is past
    held = ask(100, 200, up=rules(("Pods", 20, 60)), changes=rose)
    assert (held.desired, held.reason, held.limits) == (100, "rate_limit", ("rate",))


@pytest.mark.req("ASC-15")
def test_bounds_stand_above_the_rates() -> None:
    assert ask(100, 1000, 100, 150).desired == 150
    assert ask(10, 2, 5, 1000).desired == 5


@pytest.mark.req("ASC-15")
def test_windows_of_both_directions_hold_a_count_between_them() -> None:
    free = ("Pods", 1_000_000, 60)
    up, down = rules(free, window=300), rules(free, window=300)
    assert ask(1, 7, up=up, down=rules(free, window=0), history=[(120, 4), (60, 5)]).desired == 4
    assert (
        ask(100, 3, up=rules(free), down=rules(free, window=180), history=[(600, 10), (60, 4), (120, 5)]).desired == 5
    )
    assert ask(2, 1, up=up, down=down, history=[(6000, 2), (180, 3)]).desired == 2
    assert ask(2, 3, up=up, down=down, history=[(6000, 2), (180, 1)]).desired == 2
    assert ask(100, 5, down=rules(free, window=0)).desired == 5


@pytest.mark.req("ASC-15")
def test_tolerance_is_of_each_direction_and_its_edge_is_inside() -> None:
    tight = {"tolerance": 0.01, **rules(("Pods", 99, 60))}
    assert ask(100, 109).reason == "deadband"
    assert ask(100, 110).reason == "deadband"
    assert ask(100, 111).desired == 111
    assert ask(100, 102, up=tight).desired == 102
    assert ask(100, 95, up=tight).reason == "deadband"


@pytest.mark.req("ASC-15")
def test_without_a_say_the_window_downwards_is_300_seconds() -> None:
    block = {"min": 1, "max": 99, "signal": "load", "target": 1, "behavior": {}}
    found = recommend(block, current=5, signals={"load": 3}, aggregation={}, history=[(299, 5)])
    assert (found.desired, found.reason) == (5, "window")
    assert recommend(block, current=5, signals={"load": 3}, aggregation={}, history=[(300, 5)]).desired == 3
