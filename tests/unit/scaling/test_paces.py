"""Signals of different paces, and windows over which nothing was measured: what counts as one more sample, and what a
window says of a time that nobody saw.  Both implementations, tick by tick."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.located import located
from fleetwarden.domain.scaling import read_block
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.domain.tracking import evaluate, new_memory
from fleetwarden.domain.tracking_columns import Reason, Seen, Words, compile_blocks
from fleetwarden.domain.tracking_single import Glance, Single


def block(**fields: Any) -> ScalingBlock:
    made = read_block(located({"min": 1, "max": 50, "deadband": 0} | fields, "f", 1), on_kubernetes=False)
    assert isinstance(made, ScalingBlock), made
    return made


class Both:
    """The columns and the plain numbers, fed alike."""

    def __init__(self, one: ScalingBlock, current: int = 5) -> None:
        self.table = compile_blocks([("web", one)])
        self.memory, self.single = new_memory(self.table), Single(one)
        self.glance = Glance(len(one.signals))
        self.current = current

    def tick(self, at_s: int, *values: float | None, again: tuple[bool, ...] = ()) -> Reason:
        """One value a signal, None where it is missing; `again`: those that were used before."""
        seen, glance, now = Seen.blank(self.table), self.glance, (1_000_000 + at_s) * SECOND
        for place in (seen.current, seen.ready, seen.existing):
            place[0] = self.current
        glance.current = glance.ready = glance.existing = self.current
        seen.status[0] = glance.status = Words.UP
        glance.values = [-1.0 if one is None else one for one in values]
        glance.faults = [int(one is None) for one in values]
        glance.again = list(again or (False,) * len(values))
        seen.value[:], seen.fault[:], seen.again[:] = glance.values, glance.faults, glance.again
        found = evaluate(self.table, seen, self.memory, now)
        desired, _, reason = self.single.tick(glance, now)
        assert (int(found.desired[0]), Reason(int(found.reason[0]))) == (desired, reason)
        assert (int(found.streak[0]), int(found.count[0])) == (self.single.streak, self.single.count)
        return reason


TWO = {"signals": [{"signal": "quick", "target": 10}, {"signal": "slow", "target": 10}]}
QUICK_ONLY = (False, True)


@pytest.mark.req("ASC-5", "ASC-13")
def test_fewer_need_three_samples_of_the_slow_signal_too() -> None:
    both = Both(block(**TWO))
    reasons = [both.tick(15 * n, 10.0, 20.0, again=(False, n % 4 != 0)) for n in range(9)]
    assert reasons == [Reason.STABILIZING] * 8 + [Reason.SCALE_DOWN]
    assert both.single.count == 3


@pytest.mark.req("ASC-5", "ASC-13")
def test_the_quick_signals_ticks_do_not_undo_what_the_slow_one_asks_for() -> None:
    both = Both(block(**TWO, scale_up_stabilization_samples=3))
    reasons = [both.tick(15 * n, 50.0, 90.0, again=(False, n % 4 != 0)) for n in range(9)]
    between = [Reason.NO_NEWS] * 3
    assert reasons == [Reason.STABILIZING, *between, Reason.STABILIZING, *between, Reason.SCALE_UP]


@pytest.mark.req("ASC-5", "ASC-13")
def test_what_the_slow_signal_said_holds_against_fewer_until_it_says_so_itself() -> None:
    both = Both(block(**TWO, scale_down_stabilization_samples=2))
    assert both.tick(0, 10.0, 50.0) is Reason.DEADBAND
    assert {both.tick(15 * n, 10.0, 50.0, again=QUICK_ONLY) for n in range(1, 8)} == {Reason.DEADBAND}
    assert both.tick(120, 10.0, 10.0) is Reason.STABILIZING
    assert {both.tick(120 + 15 * n, 10.0, 10.0, again=QUICK_ONLY) for n in range(1, 8)} == {Reason.STABILIZING}
    assert both.tick(240, 10.0, 10.0) is Reason.SCALE_DOWN


@pytest.mark.req("ASC-13", "ORC-4")
def test_a_window_remembers_what_the_slow_signal_asked_for_and_not_the_count_that_was_there() -> None:
    both = Both(block(**TWO, stabilization_window_s=60, scale_down_stabilization_samples=1))
    both.tick(0, 50.0, 90.0)
    assert both.tick(15, 50.0, 90.0, again=QUICK_ONLY) is Reason.NO_NEWS
    both.current = 9
    both.memory.consume({0: slice(0, 2)})
    both.single.consume()
    assert both.tick(30, 10.0, 10.0) is Reason.WINDOW  # 9 was wanted 15 s ago
    assert both.tick(74, 10.0, 10.0) is Reason.WINDOW
    assert both.tick(75, 10.0, 10.0) is Reason.SCALE_DOWN


@pytest.mark.req("ASC-13", "SGP-1")
@pytest.mark.parametrize("fields", [{"stabilization_window_s": 300}, {"behavior": {}}])
def test_after_an_outage_longer_than_the_window_no_single_sample_shrinks(fields: dict[str, Any]) -> None:
    steady = {} if "behavior" in fields else {"scale_down_stabilization_samples": 1, "deadband": 0}
    one = read_block(located({"max": 50, "signal": "q", "target": 10} | steady | fields, "f", 1), on_kubernetes=False)
    assert isinstance(one, ScalingBlock), one
    both = Both(one)
    for n in range(30):
        both.tick(15 * n, 50.0)
    for n in range(30, 60):
        assert both.tick(15 * n, None) is Reason.SKIP_METRICS
    after = [both.tick(15 * n, 10.0) for n in range(60, 81)]
    assert after == [Reason.WINDOW] * 19 + [Reason.SCALE_DOWN] * 2


@pytest.mark.req("ASC-13")
def test_one_missing_sample_makes_a_window_no_longer() -> None:
    both = Both(block(signal="q", target=10, stabilization_window_s=300, scale_down_stabilization_samples=1))
    both.tick(0, 50.0)
    for n in range(1, 20):
        both.tick(15 * n, None if n == 19 else 10.0)
    assert both.tick(300, 10.0) is Reason.SCALE_DOWN


@pytest.mark.req("ASC-13")
def test_while_the_signal_that_counts_is_missing_the_window_is_of_the_count_as_it_is() -> None:
    both = Both(block(**TWO, stabilization_window_s=300, scale_down_stabilization_samples=1))
    both.tick(0, 10.0, 50.0)
    for n in range(1, 40):
        assert both.tick(15 * n, 10.0, None) in (Reason.BLOCKED_DOWN, Reason.WINDOW)
    assert both.tick(600, 10.0, 10.0) is Reason.WINDOW  # it comes back with a low value at first
    assert both.tick(615, 10.0, 50.0) is Reason.DEADBAND


@pytest.mark.req("ASC-12")
def test_at_a_bound_the_reason_says_which_one_holds() -> None:
    both = Both(block(signal="q", target=10, max=5, min=2))
    assert both.tick(0, 90.0) is Reason.AT_MAX
    assert both.tick(15, 50.0) is Reason.DEADBAND
    both.current = 2
    assert both.tick(30, 5.0) is Reason.AT_MIN
    assert both.tick(45, 0.0) is Reason.AT_MIN
