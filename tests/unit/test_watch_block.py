"""The `watch:` block: what it may say, and what is refused with its line."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.domain.located import Findings, located
from fleetwarden.domain.watch_block import SignalCheck, WatchBlock, read_watch


def read(value: Any) -> tuple[WatchBlock | None, list[str]]:
    findings = Findings()
    found = read_watch(findings, located(value, "fleet.yml", 7))
    assert all(one.line == 7 for one in findings.problems)
    return found, [one.reason for one in findings.problems]


@pytest.mark.req("DWH-3", "DWH-8")
def test_what_is_not_written_is_left_to_the_settings() -> None:
    assert read({}) == (WatchBlock(), [])
    written = {"window_s": 60, "poll_s": 5, "grace_s": 0, "checks": [{"signal": "error_rate", "max": 0.01}]}
    checks = (SignalCheck(signal="error_rate", max=0.01),)
    assert read(written) == (WatchBlock(window_s=60, poll_s=5, grace_s=0, checks=checks), [])


@pytest.mark.req("DWH-3", "DWH-8")
@pytest.mark.parametrize(
    ("value", "told"),
    [
        (5, "a whole number, a block such as"),
        ({"window": 5}, "unknown key 'window' (did you mean 'window_s'?)"),
        ({"window_s": "60"}, "is text, a number"),
        ({"window_s": 0}, "out of range"),
        ({"window_s": 30, "grace_s": 30}, "leave nothing of a window of 30 s"),
        ({"window_s": 30, "poll_s": 60}, "leave nothing of a window of 30 s"),
        ({"checks": {}}, "a list of"),
        ({"checks": [{"max": 1}]}, "a check without a signal"),
        ({"checks": [{"signal": "a b", "max": 1}]}, "is no name of a signal"),
        ({"checks": [{"signal": "a"}]}, "needs max or min"),
        ({"checks": [{"signal": "a", "max": True}]}, "true/false"),
        ({"checks": [{"signal": "a", "max": float("nan")}]}, "out of range"),
        ({"checks": [{"signal": "a", "max": 1, "min": 2}]}, "lies above max 1"),
        ({"checks": [{"signal": "a", "max": 1}, {"signal": "a", "min": 0}]}, "stands here twice"),
        ({"checks": [{"signal": f"s{one}", "max": 1} for one in range(9)]}, "the limit is 8"),
    ],
)
def test_a_block_with_a_mistake_is_refused_with_its_line(value: Any, told: str) -> None:
    found, problems = read(value)
    assert found is None
    assert any(told in one for one in problems), problems


@pytest.mark.req("DWH-3")
@pytest.mark.parametrize(("value", "breaks"), [(0.5, False), (1.0, False), (1.1, True), (0.4, True)])
def test_a_bound_includes_its_edges(value: float, breaks: bool) -> None:
    assert bool(SignalCheck(signal="a", max=1.0, min=0.5).problem(value)) is breaks
