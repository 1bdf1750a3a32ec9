"""What `explain` says of load: a missing sample is never shown as a count, and counts agree with their words."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.cli.scaling_screen import show_scaling
from fleetwarden.cli.times import parsed
from tests.unit.cli.conftest import Paper

NOW = "2026-12-02T12:00:00Z"
SIGNAL = {
    "signal": "jobs_waiting", "value": 240.0, "target": 50.0, "unit": "jobs", "aggregation": "fleet_total",
    "age_s": -0.1, "source": "queue",
}  # fmt: skip


def told(**scaling: Any) -> list[str]:
    body: dict[str, Any] = {
        "code": "at_target", "signals": [SIGNAL], "limits": {"min": 1, "max": 6}, "raw": 5, "current": 4,
        "streak": "", "samples": 0, "needed": 0,
    }  # fmt: skip
    paper = Paper()
    show_scaling(paper.screen, {"scaling": {**body, **scaling}, "intent": None}, parsed(NOW))
    return paper.lines


@pytest.mark.req("AUT-4", "RUN-5")
def test_the_load_and_what_it_makes() -> None:
    assert told() == [
        "Load: jobs_waiting 240 jobs in all (target 50 a replica, 0.0 s old then, queue)",
        "  5 replicas would carry it, 4 are there; at least 1, at most 6",
    ]
    assert told(raw=1, current=1)[1] == "  1 replica would carry it, 1 is there; at least 1, at most 6"


@pytest.mark.parametrize("code", ["skip_metrics", "skip_down", "skip_unobserved"])
def test_without_a_usable_sample_no_count_is_shown(code: str) -> None:
    missing = {**SIGNAL, "value": None, "reason": "missing: no sample of kind queue"}
    assert told(code=code, raw=0, signals=[missing]) == [
        "Load: jobs_waiting: no usable sample (missing: no sample of kind queue); target 50 a replica",
        "  no count follows from that; 4 are there; at least 1, at most 6",
    ]


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (1, "1 of 3 samples in a row say down"),
        (3, "enough samples in a row say down (3 samples needed)"),
        (18, "enough samples in a row say down (3 samples needed)"),
    ],
)
def test_more_samples_than_needed_are_enough(samples: int, words: str) -> None:
    assert told(streak="down", samples=samples, needed=3)[2].strip() == words
