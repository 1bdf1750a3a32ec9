"""Overrides, the plan and a history in lines that a person can act on."""

from __future__ import annotations

import pytest

from fleetwarden.cli.times import parsed
from fleetwarden.cli.wishes_screen import override_words, show_history, show_overrides, show_plan
from tests.unit.cli.answers import AT
from tests.unit.cli.conftest import Paper

NOW = parsed(AT)
OVERRIDE = {
    "id": "O-1",
    "at": AT,
    "target": "web",
    "replicas": 3,
    "state": None,
    "reason": "sale",
    "by": "ada",
    "until": None,
    "ended_at": None,
    "ended_by": None,
    "ended_how": None,
}
STEP = {
    "service": "web",
    "would": "ask",
    "kind": "scale_service",
    "params": {"replicas": 3},
    "reason": "a person is asked",
    "why": "3 declared, 2 there",
    "dry_run": False,
}


@pytest.mark.req("AUT-12")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "web: 3 replicas, until it is cleared, by ada: sale"),
        ({"replicas": 1, "state": "running"}, "web: running with 1 replica, until it is cleared, by ada: sale"),
        ({"replicas": None, "state": "stopped"}, "web: stopped, until it is cleared, by ada: sale"),
    ],
)
def test_an_override_says_what_it_asks_for_until_when_of_whom_and_why(changes, words):
    assert override_words({**OVERRIDE, **changes}, NOW) == words


@pytest.mark.req("AUT-12")
@pytest.mark.parametrize(
    ("changes", "now"),
    [
        ({}, "in force"),
        ({"until": "2020-01-01T00:00:00Z"}, "expired"),
        ({"ended_how": "cleared", "ended_by": "bob", "ended_at": AT}, "cleared by bob"),
        ({"ended_how": "expired", "ended_by": "reconciler", "ended_at": AT}, "expired"),
    ],
)
def test_a_list_tells_overrides_in_force_from_those_that_have_ended(paper: Paper, changes, now):
    show_overrides(paper.screen, [{**OVERRIDE, **changes}], NOW)
    assert now in paper.lines[-1]


@pytest.mark.req("RUN-5")
def test_a_plan_never_calls_anything_done(paper: Paper):
    body = {"at": AT, "note": "", "steps": [STEP], "grants": [], "at_rest": {"api": {"reason": "as declared"}}}
    show_plan(paper.screen, body)
    assert "scale web to 3" in paper.text
    assert "a person would be asked" in paper.text
    assert "done" not in paper.text
    assert paper.lines[-1] == "api: as declared"


@pytest.mark.req("RUN-5")
def test_a_plan_with_nothing_in_it_says_so_and_why(paper: Paper):
    show_plan(paper.screen, {"at": AT, "note": "the reconciler is off", "steps": [], "grants": [], "at_rest": {}})
    assert paper.lines == ["! the reconciler is off", "Nothing would be done now."]


@pytest.mark.req("RUN-5")
def test_a_history_has_one_line_for_each_thing(paper: Paper):
    entry = {"id": "N-4", "at": AT, "what": "foreign_change", "actor": "joe", "summary": "web was scaled", "record": {}}
    show_history(paper.screen, {"service": "web", "items": [entry], "next": None}, NOW)
    assert "foreign change" in paper.lines[-1]
    assert "joe" in paper.lines[-1]
    show_history(paper.screen, {"service": "api", "items": [], "next": None}, NOW)
    assert paper.lines[-1] == "nothing is on record of api"
