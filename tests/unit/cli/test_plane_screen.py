"""The first screen of a plane: a tick only for what was seen ready, and the command that helps for everything else."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.cli.plane_screen import outcome_of, settled, show_banner, show_outcome, show_tries
from tests.unit.cli.answers import action, approval, decision, down, execution, service, status
from tests.unit.cli.conftest import Paper


def command(rest: str) -> str:
    return f"fw {rest}"


def unstarted(**changes: Any) -> dict[str, Any]:
    return down("web", reason="never started", reason_code="prepared", **changes)


def test_the_banner_names_version_store_substrates_and_policy(paper: Paper) -> None:
    show_banner(paper.screen, status(service(), warnings=["take care"]))
    assert paper.lines == [
        "fleetwarden 0.1.0  ·  SQLite  ·  acting on: process  ·  policy: shipped default (3 rules)",
        "! take care",
    ]


def test_a_dry_run_and_a_freeze_stand_in_the_banner(paper: Paper) -> None:
    show_banner(paper.screen, status(acting_on=[], freeze_file="fleet/FREEZE"))
    assert "acting on: nothing (dry run)" in paper.lines[0]
    assert paper.lines[1].startswith("! frozen: nothing acts")


def test_a_tick_stands_before_what_this_plane_started_with_its_rule() -> None:
    by = decision(verdict="allow", action_id="X-91", rule="start_service *, auto", rule_source="policy.yml:6")
    item = service(last_action=execution(kind="start_service"), last_decision=by)
    assert outcome_of(item, command) == ("✓", "2 of 2 ready", "1.0", "started by policy.yml:6: start_service *, auto")


def test_what_ran_already_is_not_claimed_as_started() -> None:
    assert outcome_of(service(), command) == ("✓", "2 of 2 ready", "1.0", "as declared")
    by = decision(verdict="allow", action_id="X-91")
    earlier = service(last_action=execution(at="2026-12-02T11:00:00Z"), last_decision=by)
    assert outcome_of(earlier, command, began="2026-12-02T11:30:00Z")[3] == "as declared"


def test_what_waits_for_a_person_names_the_command_that_answers() -> None:
    item = unstarted(approval=approval(kind="start_service"))
    mark, ready, _, told = outcome_of(item, command)
    assert (mark, ready) == ("?", "0 of 1 ready")
    assert told == "start waits for approval A-17:  fw approvals grant A-17"


@pytest.mark.parametrize(
    ("item", "mark", "told"),
    [
        (down(reason="denied, the limit is 3", reason_code="denied"), "✗", "denied, the limit is 3"),
        (down(reason="wrong host", reason_code="refused"), "✗", "wrong host"),
        (down(reason="still starting", reason_code="starting"), "…", "still starting"),
        (
            down(last_action=execution(dry_run=True, state="simulated", kind="start_service")),
            "–",
            "would start (dry run)",
        ),
        (service(observed=None, ready=0, reason="no observation"), "…", "no observation"),
    ],
)
def test_what_is_not_ready_never_gets_a_tick(item: dict[str, Any], mark: str, told: str) -> None:
    found = outcome_of(item, command)
    assert (found[0], found[3]) == (mark, told)


def test_a_service_that_should_be_stopped_is_ready_when_nothing_is_left() -> None:
    desired = {"state": "stopped", "replicas": 2, "version": None, "source": "fleet.yml:8"}
    left = service(desired=desired)
    gone = service(desired=desired, ready=0, observed={**service()["observed"], "existing": 0, "ready": 0})
    assert outcome_of(gone, command)[:2] == ("✓", "stopped")
    assert outcome_of(left, command)[0] != "✓"
    assert settled(gone)
    assert not settled(left)


@pytest.mark.parametrize(
    ("item", "is_settled"),
    [
        (service(), True),
        (service(open_action=action()), False),
        (unstarted(), False),
        (unstarted(approval=approval()), True),
        (down(reason_code="denied"), True),
        (down(mode="observe"), True),
        (service(observed=None), False),
    ],
)
def test_a_service_is_settled_when_nothing_more_is_to_be_expected_soon(item: dict[str, Any], is_settled: bool) -> None:
    assert settled(item) is is_settled


def test_a_line_folds_on_a_terminal() -> None:
    paper = Paper(width=80)
    show_outcome(paper.screen, down(reason="word " * 30, reason_code="denied"), command, width=6)
    assert paper.lines[0].startswith("✗ clumsy  0 of 1 ready   1.0    word")
    assert all(len(line) <= 80 for line in paper.lines)


def test_five_things_to_try_fit_what_runs(paper: Paper) -> None:
    show_tries(paper.screen, [down(), service()], command)
    assert paper.lines[0].startswith("Try:  kill -9 $(fw status web --pid 0)")
    assert paper.lines[1].split()[0:3] == ["fw", "explain", "web"]
    assert len(paper.lines) == 5


def test_where_everything_waits_the_first_thing_to_try_is_to_answer(paper: Paper) -> None:
    show_tries(paper.screen, [unstarted(approval=approval(kind="start_service"))], command)
    assert paper.lines[0].split()[1:4] == ["fw", "approvals", "list"]
    assert paper.lines[1].split()[0:4] == ["fw", "approvals", "grant", "A-17"]
    assert "kill" not in paper.text
