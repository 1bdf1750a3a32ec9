"""Plain words: what people read instead of states and kinds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.domain.actions import ExecutionState, Kind
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.web import words

NOW = "2027-01-15T12:00:00.000000Z"


@pytest.fixture(autouse=True)
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local times are those of a zone that is not UTC."""
    monkeypatch.setitem(os.environ, "TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-1, "0 s"),
        (0, "0 s"),
        (0.84, "0.8 s"),
        (9.96, "10 s"),
        (12, "12 s"),
        (59.6, "1 min"),
        (221, "3 min 41 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (86_400 * 3 + 4 * 3600, "3 d 4 h"),
    ],
)
def test_a_span_is_said_in_its_two_largest_units(seconds: float, said: str) -> None:
    assert words.spelled(seconds) == said


@given(st.floats(0, 1e9))
def test_every_span_can_be_said(seconds: float) -> None:
    assert words.spelled(seconds).split(" ")[1] in {"s", "min", "h", "d"}


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("2027-01-15T13:20:07.000000Z", "14:20:07"),
        ("2027-01-15T23:30:00.000000Z", "tomorrow 00:30"),
        ("2027-01-14T13:02:00.000000Z", "yesterday 14:02"),
        ("2027-07-01T13:02:00.000000Z", "2027-07-01 15:02"),
    ],
)
def test_a_time_is_local_and_as_short_as_it_can_be(at: str, said: str) -> None:
    assert words.clock_time(at, NOW) == said
    assert words.localised(f"not before {at}, then", NOW) == f"not before {said}, then"


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("2027-01-15T11:59:48.000000Z", "12 s ago"),
        ("2027-01-15T11:55:01.000000Z", "4 min ago"),
        ("2027-01-15T15:00:00.000000Z", "in 3 h"),
        (NOW, "0 s ago"),
    ],
)
def test_an_age_has_one_unit(at: str, said: str) -> None:
    assert words.ago(at, NOW) == said


def a_request(kind: str = "restart_service", *, dry_run: bool = False, **params: Any) -> dict[str, Any]:
    return {"kind": kind, "target": "shop", "params": params, "dry_run": dry_run}


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (a_request(), "restart shop"),
        (a_request(replica=1), "restart shop#1"),
        (a_request("scale_service", replicas=3), "scale shop to 3 replicas"),
        (a_request("start_service", replicas=1), "start shop with 1 replica"),
        (a_request("deploy_service", version="2.0"), "deploy shop (version 2.0)"),
        (a_request("merge_promotion", commit="abc"), "merge_promotion shop (commit abc)"),
        (a_request(replica=0, dry_run=True), "would restart shop#0 (dry run)"),
    ],
)
def test_a_request_reads_as_what_it_would_do(request_: dict[str, Any], said: str) -> None:
    assert words.asked(request_) == said


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("state", list(ExecutionState))
@pytest.mark.parametrize("dry_run", [True, False])
def test_every_end_of_every_kind_has_words(kind: Kind, state: ExecutionState, dry_run: bool) -> None:
    ok = state in (ExecutionState.EXECUTED, ExecutionState.SIMULATED)
    said = words.execution_in_words({"kind": kind.value, "state": state.value, "ok": ok, "dry_run": dry_run})
    assert "recovery_pending" not in said
    if dry_run or state is ExecutionState.SIMULATED:
        assert said.startswith("would ")
        assert "dry run" in said
    elif state is ExecutionState.RECOVERY_PENDING:
        assert "outcome unknown" in said
    elif state is ExecutionState.FAILED:
        assert "failed" in said


@pytest.mark.parametrize("state", list(OutboxState))
def test_every_state_of_an_action_has_words_that_are_not_its_name(state: OutboxState) -> None:
    said = words.outcome_in_words({"state": state.value})
    assert "_" not in said
    assert (said == "outcome unknown") == (state is OutboxState.RECOVERY_PENDING)
    assert (said == "done") == (state is OutboxState.SUCCEEDED)


def a_status(**changes: Any) -> dict[str, Any]:
    return {
        "services_total": 3,
        "services_by_status": {"up": 2, "degraded": 0, "down": 1, "unknown": 0},
        "services": [],
        "acting_on": ["process"],
        "reconciler": "on",
        "autoscaler": "off",
        "last_pass_s": 0.8,
        "freezes": [],
        "freeze_file": None,
        "approvals_waiting": 0,
        "outcome_unknown": 0,
        "health": "healthy",
        **changes,
    }


def test_the_first_line_says_what_is_on_off_and_frozen() -> None:
    assert " · ".join(words.status_facts(a_status())) == (
        "3 services · 2 up · 1 down · acting on process · autoscaler off · last pass 0.8 s ago · nothing frozen · "
        "nothing waiting for approval"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"acting_on": []}, "dry run: nothing will change"),
        ({"reconciler": "off"}, "reconciler off"),
        ({"freeze_file": "/srv/FREEZE"}, "FROZEN: nothing acts"),
        ({"freezes": [{"scope": "all", "value": ""}]}, "FROZEN: nothing acts"),
        ({"freezes": [{"scope": "group", "value": "web"}]}, "FROZEN in part: group web"),
        ({"approvals_waiting": 2}, "2 waiting for approval"),
        ({"outcome_unknown": 1}, "1 outcome unknown"),
        ({"health": "partial"}, "health partial"),
        ({"last_pass_s": None}, "no pass yet"),
        ({"services_total": 1}, "1 service"),
        ({"services": [{"desired": {"state": "stopped"}, "observed": {"existing": 0}, "status": "up"}]}, "1 stopped"),
    ],
    ids=str,
)
def test_whatever_is_out_of_the_ordinary_is_in_the_first_line(change: dict[str, Any], said: str) -> None:
    assert said in words.status_facts(a_status(**change))
    assert said not in words.status_facts(a_status())


def a_service(**changes: Any) -> dict[str, Any]:
    return {
        "at": NOW,
        "status": "up",
        "ready": 2,
        "desired": {"state": "running", "replicas": 2},
        "observed": {"existing": 2},
        "open_action": None,
        "last_action": None,
        **changes,
    }


def test_what_nobody_has_seen_is_not_counted_as_none() -> None:
    assert words.ready(a_service()) == "2/2"
    assert words.ready(a_service(observed=None, ready=0)) == "?/2"


def test_a_service_that_is_meant_to_be_stopped_is_not_called_down() -> None:
    stopped = {"state": "stopped", "replicas": 2}
    gone = a_service(desired=stopped, status="down", observed={"existing": 0})
    assert words.service_state(gone) == "stopped, as declared"
    assert words.service_state(a_service(desired=stopped)) == "up, declared stopped"
    assert (
        words.service_state(a_service(desired=stopped, observed=None, status="unknown")) == "unknown, declared stopped"
    )


def an_action(state: str, started_at: str | None = "2027-01-15T11:59:48.000000Z") -> dict[str, Any]:
    return {**a_request(replica=1), "state": state, "started_at": started_at, "at": "2027-01-15T11:59:40.000000Z"}


@pytest.mark.parametrize(
    ("service", "said"),
    [
        (a_service(), "none yet"),
        (a_service(open_action=an_action("running")), "restart shop#1: running for 12 s"),
        (a_service(open_action=an_action("prepared", None)), "restart shop#1: about to begin"),
        (a_service(open_action=an_action("recovery_pending")), "restart shop#1: outcome unknown, 12 s ago"),
        (
            a_service(
                last_action={
                    "kind": "restart_service",
                    "state": "executed",
                    "ok": True,
                    "dry_run": False,
                    "at": "2027-01-15T11:59:48.000000Z",
                }
            ),
            "restarted 12 s ago",
        ),
    ],
)
def test_the_last_action_is_the_open_one_or_the_last_that_ended(service: dict[str, Any], said: str) -> None:
    assert words.last_action(service) == said
