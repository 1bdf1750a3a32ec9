"""An approval tells what would change, for whom it waits and until when, and how to answer it."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.cli.approvals_screen import changes, show_approval, show_approvals
from fleetwarden.cli.times import parsed
from tests.unit.cli.answers import AT, approval
from tests.unit.cli.conftest import Paper

NOW = parsed(AT)


def test_the_list_has_a_line_to_choose_by_and_a_line_to_decide_by(paper: Paper) -> None:
    show_approvals(paper.screen, [approval(needed={"count": 1, "teams": ["platform"]})], NOW, every_state=False)
    assert paper.lines == [
        "A-17  stop_service  web  asked by reconciler 2 min ago  expires tomorrow 14:02  needs 1 of team platform",
        (
            "      because: no rule matches and the shipped default asks a person first"
            " · need: declared stopped, 2 still running · changes: stop 2 processes, pids 4711 4712, ports 9100 9101"
        ),
    ]


def test_an_empty_list_says_what_is_empty(paper: Paper) -> None:
    show_approvals(paper.screen, [], NOW, every_state=False)
    show_approvals(paper.screen, [], NOW, every_state=True)
    assert paper.lines == ["nothing waits for approval", "no approvals"]


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("closed", "carried out 1 min ago"),
        ("voided", "not carried out 1 min ago"),
        ("rejected", "rejected 1 min ago"),
        ("expired", "expired 1 min ago"),
        ("superseded", "superseded 1 min ago"),
    ],
)
def test_an_ended_one_says_how_it_ended_instead_of_what_it_needs(paper: Paper, status: str, told: str) -> None:
    ended = approval(status=status, ended_at="2026-12-02T11:58:50Z", note="why")
    show_approvals(paper.screen, [ended], NOW, every_state=True)
    assert paper.lines[0].endswith(told)
    assert paper.lines[1].endswith(" · why")


def test_votes_that_were_given_count_against_what_is_needed(paper: Paper) -> None:
    vote = {"by": "ana", "decision": "approved", "reason": "fine", "at": "2026-12-02T11:59:00Z"}
    waiting = approval(needed={"count": 2, "teams": []}, votes=[vote])
    show_approvals(paper.screen, [waiting], NOW, every_state=False)
    assert paper.lines[0].endswith("needs 2 approvers, has 1")


def test_a_dry_run_is_called_one(paper: Paper) -> None:
    show_approvals(paper.screen, [approval(dry_run=True)], NOW, every_state=False)
    assert "2 min ago (dry run)" in paper.lines[0]


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        ({"kind": "start_service", "params": {"replicas": 2}}, "start 2 processes"),
        ({"kind": "scale_service", "params": {"replicas": 5}}, "from 2 to 5 replicas"),
        ({"kind": "restart_service", "params": {"replica": 1}}, "restart web#1, pid 4712, port 9101"),
        ({"kind": "restart_service", "params": {}}, "restart 2 processes, pids 4711 4712, ports 9100 9101"),
        ({"kind": "deploy_service", "params": {"version": "2.0"}}, "deploy_service web (version 2.0)"),
    ],
)
def test_changes_say_what_would_be_done_to_what_exists(request_: dict[str, Any], told: str) -> None:
    assert changes(approval(**request_)) == told


def test_the_instances_that_are_dead_are_not_stopped() -> None:
    evidence = {"instances": [{"id": "0", "pid": None, "port": 9100}, {"id": "1", "pid": 4712, "port": 9101}]}
    assert changes(approval(evidence=evidence)) == "stop 1 process, pid 4712, port 9101"


@pytest.mark.req("POL-17")
def test_one_approval_shows_who_answered_and_how_to_answer(paper: Paper) -> None:
    vote = {"by": "ana", "decision": "approved", "reason": "fine", "at": "2026-12-02T11:59:00Z"}
    show_approval(paper.screen, approval(votes=[vote]), NOW, grant="grant A-17", reject="reject A-17")
    assert "  vote      ana approved 1 min ago: fine" in paper.lines
    assert paper.lines[-2:] == ["grant it:   grant A-17", "reject it:  reject A-17"]


def test_an_answered_one_offers_no_answer(paper: Paper) -> None:
    ended = approval(status="superseded", superseded_by="A-18")
    show_approval(paper.screen, ended, NOW, grant="grant it", reject="reject it")
    assert "  instead   A-18" in paper.lines
    assert "grant it" not in paper.text
