"""Shadow reports in lines that a person can judge a move by."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.cli.shadow_screen import show_report, show_reports
from fleetwarden.cli.times import parsed
from tests.unit.cli.answers import AT
from tests.unit.cli.conftest import Paper

NOW = parsed(AT)
OURS = {"replica_hours": 8.0, "actions": 1, "reversals": 0, "under_provisioned_s": 0.0}
THEIRS = {"replica_hours": 7.25, "actions": 4, "reversals": 2, "under_provisioned_s": 3600.0}
REPORT: dict[str, Any] = {
    "service": "web",
    "writer": "external_hpa",
    "since": AT,
    "until": AT,
    "judged_s": 10_800.0,
    "unjudged_s": 30.0,
    "agreement": 0.99999,
    "ours": OURS,
    "theirs": THEIRS,
    "runs": 3,
    "latest": {"at": AT, "until": None, "current": 3, "desired": 4, "raw": 5, "code": "scale_up"},
}


@pytest.mark.req("ASC-19")
def test_a_report_says_both_sides_and_never_rounds_to_full_agreement(paper: Paper) -> None:
    show_report(paper.screen, REPORT, NOW)
    assert "against its HorizontalPodAutoscaler" in paper.lines[0]
    assert paper.lines[1] == "both wanted the same count 99.9 % of 3 h"
    assert paper.lines[2] == "left out: 30 s without a usable sample or observation"
    table = [" ".join(line.split()) for line in paper.lines[3:8]]
    assert table == [
        "FLEETWARDEN THE OTHER",
        "replica-hours 8.00 7.25",
        "actions 1 4",
        "reversals 0 2",
        "too few replicas for 0 s 1 h",
    ]
    assert paper.lines[8].startswith("latest: 3 replicas, 4 wanted (scale_up), since ")


@pytest.mark.req("ASC-19")
def test_nothing_to_compare_is_said_with_what_it_takes(paper: Paper) -> None:
    show_report(paper.screen, {**REPORT, "runs": 0, "writer": None}, NOW)
    show_report(paper.screen, {**REPORT, "runs": 0}, NOW)
    show_report(paper.screen, {**REPORT, "agreement": None}, NOW)
    show_reports(paper.screen, [])
    assert "mode: observe" in paper.lines[0]
    assert "FLEET_AUTOSCALER=1" in paper.lines[1]
    assert any("no evaluation rests on evidence" in line for line in paper.lines)
    assert "no service is in shadow" in paper.lines[-1]


@pytest.mark.req("ASC-19")
def test_many_services_are_a_line_each(paper: Paper) -> None:
    show_reports(paper.screen, [REPORT, {**REPORT, "service": "api", "agreement": 1.0}])
    rows = [" ".join(line.split()) for line in paper.lines]
    assert rows[1] == "web external_hpa 99.9 % 8.00 / 7.25 1 / 4 0 / 2 0 s / 1 h"
    assert rows[2].startswith("api external_hpa 100.0 %")
