"""`status`: the first line says what is on, off, frozen and dry run; a row says why nothing happens now."""

from __future__ import annotations

import pytest

from fleetwarden.cli.status_screen import first_line, pid_of, show_one, show_status
from tests.unit.cli.answers import FREEZE, action, approval, decision, down, execution, service, status
from tests.unit.cli.conftest import Paper


def row_of(item: dict[str, object]) -> str:
    """The row of one service, blanks squeezed."""
    paper = Paper()
    show_status(paper.screen, status(item))
    return " ".join(paper.lines[2].split())


def test_the_first_line_says_what_is_on_and_what_waits() -> None:
    body = status(service(), down(), approvals_waiting=1)
    assert first_line(body) == (
        "2 services · 1 up · 1 down · acting on process · autoscaler off · last pass 0.8 s ago · nothing frozen"
        " · 1 waiting for approval"
    )


@pytest.mark.req("ORC-1")
def test_the_first_line_never_hides_that_nothing_can_happen() -> None:
    body = status(acting_on=[], reconciler="off", last_pass_s=None, health="partial", outcome_unknown=2)
    assert first_line(body) == (
        "0 services · dry run: nothing will change · reconciler off · autoscaler off · nothing frozen"
        " · health partial · 2 outcomes unknown"
    )


def test_a_plane_that_has_not_passed_yet_says_so() -> None:
    assert "no pass yet" in first_line(status(last_pass_s=None))


@pytest.mark.req("POL-12")
def test_a_freeze_shows_with_owner_reason_and_end(paper: Paper) -> None:
    show_status(paper.screen, status(service(), freezes=[FREEZE], freeze_file="fleet/FREEZE"))
    assert "FROZEN: nothing acts" in paper.lines[0]
    assert paper.lines[1] == "  frozen by ana: lunch, until 15:00:00 (F-3)"
    assert paper.lines[2] == "  frozen by the file fleet/FREEZE, until it is removed"


def test_a_freeze_of_a_part_does_not_claim_that_nothing_acts() -> None:
    part = {**FREEZE, "scope": "service", "value": "shop"}
    assert "FROZEN in part: service shop" in first_line(status(service(), freezes=[part]))
    assert "nothing acts" not in first_line(status(service(), freezes=[part]))
    assert "FROZEN: nothing acts" in first_line(status(service(), freezes=[part, FREEZE]))


def test_a_row_says_state_count_version_writer_and_why() -> None:
    assert row_of(service()) == "web up 2/2 1.0 static – as declared"


def test_a_service_nobody_has_seen_has_no_count() -> None:
    unseen = service(observed=None, status="unknown", ready=0, instances=[], reason="no observation")
    assert row_of(unseen) == "web unknown – 1.0 static – no observation"


def test_missing_instances_count_against_what_is_wanted() -> None:
    fewer = service(ready=1, observed={**service()["observed"], "total": 1, "ready": 1})
    assert row_of(fewer).startswith("web up 1/2")


def test_the_last_action_names_the_replica_that_its_decision_named() -> None:
    item = service(
        last_action=execution(), last_decision=decision(verdict="allow", action_id="X-91", params={"replica": 1})
    )
    assert "restarted #1 12 s ago" in row_of(item)
    other = service(last_action=execution(), last_decision=decision(params={"replica": 7}))
    assert "restarted 12 s ago" in row_of(other)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"ok": False, "state": "failed", "code": "exit_code"}, "restart failed (exit_code) 12 s ago"),
        ({"dry_run": True, "state": "simulated"}, "would restart (dry run) 12 s ago"),
        ({"ok": False, "state": "recovery_pending"}, "restart: outcome unknown 12 s ago"),
    ],
)
def test_what_was_not_done_is_never_called_done(changes: dict[str, object], told: str) -> None:
    assert told in row_of(service(last_action=execution(**changes)))


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("running", "restart web#1: under way (X-92)"),
        ("prepared", "restart web#1: about to begin (X-92)"),
        ("recovery_pending", "restart web#1: outcome unknown (X-92)"),
    ],
)
def test_an_open_action_stands_before_the_last_one(state: str, told: str) -> None:
    assert told in row_of(service(open_action=action(state=state), last_action=execution()))


def test_what_waits_for_a_person_names_the_approval_once() -> None:
    asked = down(approval=approval(), reason="no rule", reason_code="queued")
    assert "waiting for approval A-17: no rule" in row_of(asked)
    assert row_of(down(approval=approval(), reason="waiting for approval A-17")).count("A-17") == 1


def test_an_approval_of_something_else_is_not_given_as_the_reason() -> None:
    row = row_of(service(approval=approval(kind="failure_gap", params={}), reason="as declared"))
    assert row.endswith("as declared · A-17 waits for approval: failure_gap web")


def test_a_service_that_is_gone_as_declared_is_stopped_and_not_up(paper: Paper) -> None:
    gone = {**service()["observed"], "existing": 0, "ready": 0, "total": 0, "detail": "stopped"}
    wanted = {**service()["desired"], "state": "stopped"}
    body = status(service("db"), service(desired=wanted, observed=gone, ready=0, instances=[], reason="stopped"))
    show_status(paper.screen, body)
    assert "2 services · 1 up · 1 stopped" in paper.lines[0]
    assert " ".join(paper.lines[3].split()).startswith("web stopped 0/0")


def test_times_in_a_reason_are_local() -> None:
    denied = down(reason="denied; the next slot opens 2026-12-02 12:20:07 UTC")
    assert row_of(denied).endswith("denied; the next slot opens 14:20:07")


def test_a_dry_run_shows_in_the_writer_column() -> None:
    assert "static (dry run)" in row_of(service(acts=False, mode="dry_run"))


@pytest.mark.req("ORC-1")
def test_warnings_follow_and_name_scaling_blocks_that_nothing_consumes(paper: Paper) -> None:
    item = service(scaling_warning="fleet.yml:8: nothing consumes the scaling block; the count is left alone")
    show_status(paper.screen, status(item, warnings=["rejected: fleet.yml:3  unknown key"]))
    assert paper.lines[-2:] == [
        "! rejected: fleet.yml:3  unknown key",
        "! fleet.yml:8: nothing consumes the scaling block; the count is left alone",
    ]


def test_an_empty_fleet_says_so(paper: Paper) -> None:
    show_status(paper.screen, status())
    assert paper.lines[-1] == "no services are declared"


def test_what_a_service_printed_cannot_drive_the_terminal() -> None:
    assert "\\x1b[2J[bold]" in row_of(down(reason="\x1b[2J[bold]"))


def test_one_service_shows_its_instances(paper: Paper) -> None:
    show_one(paper.screen, service())
    assert paper.lines[3].split() == ["INSTANCE", "STATE", "PID", "PORT", "VERSION", "STARTED", "DETAIL"]
    assert paper.lines[4].split()[:4] == ["#0", "up", "4711", "9100"]


def test_the_pid_of_a_dead_instance_is_not_given_away() -> None:
    dead = {"id": "0", "pid": 4711, "port": None, "status": "down", "version": "", "started_at": None, "detail": ""}
    assert pid_of(service(), 1) == 4712
    assert pid_of(service(instances=[dead]), 0) is None
    assert pid_of(service(), 5) is None
