"""Lists have one row an item in plain words; a record is shown whole."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.cli.ledger_screens import LAYOUTS, show_list, show_record
from fleetwarden.cli.times import parsed
from tests.unit.cli.answers import AT, action, decision, execution
from tests.unit.cli.conftest import Paper

NOW = parsed(AT)
WORK = {
    "id": "W-4",
    "at": AT,
    "kind": "approved_action",
    "target": "web",
    "params": {"approval": 17},
    "state": "ready",
    "attempts": 2,
    "attempts_max": 8,
    "not_before": "2026-12-02T12:00:05Z",
    "deadline": None,
    "lease_until": None,
    "holder": "",
    "error": "busy",
    "result": {},
}
REPORT = {"id": "R-1", "at": AT, "kind": "reconcile", "status": "not_ready", "proposed": 0, "denied": ["web: no"]}
NOTE = {
    "id": "N-1",
    "at": AT,
    "kind": "freeze",
    "target": "",
    "actor": "ana",
    "severity": "warning",
    "summary": "froze",
}


@pytest.mark.parametrize(
    ("topic", "item", "row"),
    [
        (
            "decisions",
            decision(reason="no"),
            "D-238 14:02:11 restart clumsy#0 denied reconciler – no",
        ),
        (
            "decisions",
            decision(dry_run=True, verdict="allow", action_id="X-1", reason="ok"),
            "D-238 14:02:11 would restart clumsy#0 (dry run) allowed reconciler X-1 ok",
        ),
        ("executions", execution(), "X-91 13:59:48 web: restarted done D-237 restarted web#1"),
        (
            "executions",
            execution(ok=False, state="recovery_pending", detail="no answer"),
            "X-91 13:59:48 web: restart: outcome unknown outcome unknown D-237 no answer",
        ),
        (
            "executions",
            execution(dry_run=True, state="simulated", detail=""),
            "X-91 13:59:48 web: would restart (dry run) simulated D-237",
        ),
        ("actions", action(note="claimed"), "X-92 14:00:00 restart web#1 running D-238 claimed"),
        ("work", WORK, "W-4 14:00:00 carry out an approved action: web ready 2 of 8 next in 5 s: busy"),
        ("reports", REPORT, "R-1 14:00:00 reconcile not ready denied: web: no"),
        ("journal", NOTE, "N-1 14:00:00 warning freeze ana froze"),
    ],
)
def test_a_row_says_it_in_plain_words(topic: str, item: dict[str, Any], row: str) -> None:
    paper = Paper()
    show_list(paper.screen, topic, {"items": [item], "next": None}, NOW, more=str)
    assert " ".join(paper.lines[1].split()) == row


@pytest.mark.parametrize("topic", LAYOUTS)
def test_an_empty_list_says_so(topic: str, paper: Paper) -> None:
    show_list(paper.screen, topic, {"items": [], "next": None}, NOW, more=str)
    assert paper.lines == [LAYOUTS[topic].empty]


def test_a_page_that_is_not_the_last_names_the_next_command(paper: Paper) -> None:
    body = {"items": [execution()], "next": 91}
    show_list(paper.screen, "executions", body, NOW, more=lambda cursor: f"next --cursor {cursor}")
    assert paper.lines[-1] == "older ones:  next --cursor 91"


def test_a_record_is_shown_whole_with_its_nested_values(paper: Paper) -> None:
    record = {
        "id": "D-1",
        "at": "2026-12-02T11:59:48Z",
        "verdict": "queue_approval",
        "dry_run": False,
        "numbers": {"rate": {"used": 1, "used_at": ["2026-12-02T11:58:00Z"]}},
        "votes": [{"by": "ana", "at": "2026-12-02T11:58:00Z", "about": {"x": 1, "y": None}}],
        "approval_id": None,
        "note": "",
    }
    show_record(paper.screen, record, NOW)
    assert paper.lines == [
        "id       D-1",
        "at       13:59:48",
        "verdict  waits for approval",
        "dry run  no",
        "numbers",
        "  rate",
        "    used     1",
        "    used at  13:58:00",
        "votes",
        "  - by ana, at 13:58:00, about (x 1)",
    ]
