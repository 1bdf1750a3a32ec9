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


def test_a_long_item_of_a_list_takes_a_line_a_value(paper: Paper) -> None:
    show_record(paper.screen, {"history": [{"id": "X-1", "detail": "w" * 160}]}, NOW)
    assert paper.lines == ["history", "  -", "    id      X-1", f"    detail  {'w' * 160}"]


def test_what_was_done_about_an_event_is_a_row_a_step_with_the_ids_that_can_be_given_back(paper: Paper) -> None:
    steps = [{"kind": "confirm"}, {"kind": "wait", "wait_s": 60.0}, {"kind": "decide", "action": "restart_service"}]
    log = [
        {"kind": "triage", "at": AT, "outcome": "answered", "answered_by": "gentle", "steps": steps, "outages": 2},
        {"kind": "confirm", "at": AT, "outcome": "confirmed", "playbook": "gentle", "ok": True, "reason": "it is down"},
        {"kind": "decide", "at": AT, "outcome": "authorised", "decision": "D-2", "action": "X-3", "reason": "allowed"},
        {"kind": "escalate", "at": AT, "outcome": "put before a person", "approval": "A-1", "step": 3, "reason": ""},
    ]
    show_record(paper.screen, {"id": "E-3", "remediation_log": log}, NOW)
    assert [" ".join(line.split()) for line in paper.lines] == [
        "id E-3",
        "what was done about it, by the playbook gentle",
        "TIME STEP CAME TO SAID",
        "14:00:00 triage answered confirm → wait 1 min → decide restart; outages 2",
        "14:00:00 confirm confirmed it is down",
        "14:00:00 decide authorised D-2, X-3: allowed",
        "14:00:00 escalate put before a person A-1",
    ]
