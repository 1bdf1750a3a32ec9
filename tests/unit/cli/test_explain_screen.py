"""`explain`: what is, what is wanted, by which rule and numbers it was decided, and what would change the answer."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.cli.explain_screen import limit_rows, show_explanation
from fleetwarden.cli.invocation import pasteable
from fleetwarden.cli.times import parsed
from tests.unit.cli.answers import AT, action, approval, decision, down, execution, service
from tests.unit.cli.conftest import Paper

RATE = {
    "used": 3,
    "max": 3,
    "window_s": 3600,
    "used_at": ["2026-12-02T11:58:00Z", "2026-12-02T11:41:00Z", "2026-12-02T11:20:07Z"],
    "next_slot_at": "2026-12-02T12:20:07.000000Z",
    "source": "policy.yml:9",
}


def explanation(item: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "service": item["name"],
        "at": AT,
        "status": item["status"],
        "desired": item["desired"],
        "observed": item["observed"],
        "instances": item["instances"],
        "evidence": [],
        "decision": None,
        "signals": [],
        "last_action": item["last_action"],
        "open_action": item["open_action"],
        "approval": item["approval"],
        "verdict": "nothing",
        "reason": item["reason"],
        "proposed": None,
        "limits": [],
        "would_change_if": [],
        **changes,
    }


def denied() -> dict[str, Any]:
    told = decision()
    return explanation(
        down(last_action=execution(target="clumsy")),
        verdict="deny",
        reason="denied, the limit is 3 (policy.yml:9); the next slot opens 2026-12-02 12:20:07 UTC",
        proposed={"kind": "restart_service", "params": {"replica": 0}, "reason": "clumsy#0 is down"},
        decision={**told, "source": told["rule_source"], "at": "2026-12-02T11:59:11.000000Z"},
        now={"code": "rate", "rule": told["rule"], "rule_source": "policy.yml:9", "numbers": {"rate": RATE}},
        evidence=[
            {"what": "last observation", "status": "down"},
            {"what": "evidence of D-238", "reason": "clumsy#0 is down", "seen_by": "process", "observed_at": AT},
        ],
        would_change_if=[
            "the time is after 2026-12-02T12:20:07.000000Z",
            "a person asks (fleetwarden approvals grant A-17)",
        ],
    )


def lines_of(body: dict[str, Any], words: str = "fleetwarden") -> list[str]:
    paper = Paper()
    show_explanation(paper.screen, body, lambda text: pasteable(text, words))
    return paper.lines


def test_a_denial_names_rule_budget_evidence_and_what_would_satisfy_it() -> None:
    assert lines_of(denied()) == [
        "clumsy is down since 13:59:11 (exited with code 1; seen by: process, 49 s ago)",
        "Wanted: running, 1 replica, version 1.0 (fleet.yml:14). Existing: 0, ready: 0.",
        "Proposed: restart clumsy#0, because clumsy#0 is down.",
        "Policy now: denied, the limit is 3 (policy.yml:9); the next slot opens 14:20:07.",
        "  rule      policy.yml:9  restart_service clumsy, auto, rate 3 per 3600 s",
        "  budget    3 of 3 used in 3600 s: 13:20, 13:41, 13:58; the next slot opens 14:20:07  (policy.yml:9)",
        "  else      not frozen, no storm of failures, no maintenance window",
        "Decision D-238, 13:59:11: denied.",
        "  evidence  clumsy#0 is down; seen by: process; at 14:00:00",
        "It would be allowed if: the time is after 14:20:07; or a person asks (fleetwarden approvals grant A-17).",
        "Last action X-91, restarted 12 s ago:  fleetwarden executions show X-91",
    ]


def test_every_command_in_it_works_as_printed() -> None:
    told = lines_of(denied(), ".venv/bin/fleetwarden --config here")
    assert told[-1].endswith(":  .venv/bin/fleetwarden --config here executions show X-91")
    assert "(.venv/bin/fleetwarden --config here approvals grant A-17)" in told[-2]


def test_a_healed_service_shows_the_rule_numbers_and_evidence_that_healed_it() -> None:
    healed = decision(
        verdict="allow",
        code="ok",
        target="web",
        source="policy.yml:6",
        numbers={"rate": {**RATE, "used": 1, "used_at": ["2026-12-02T11:58:00Z"], "next_slot_at": None}},
        reason="allowed by policy.yml:6",
    )
    body = explanation(
        service(last_action=execution()),
        decision=healed,
        evidence=[{"what": "evidence of D-238", "reason": "web#0 is down (SIGKILL)", "seen_by": "process"}],
    )
    told = lines_of(body)
    assert told[2] == "Nothing is proposed: as declared."
    assert told[3] == "Last decision D-238, 14:02:11, restart web#0: allowed."
    assert told[5] == "  budget    1 of 3 used before it in 3600 s: 13:58  (policy.yml:9)"
    assert told[7] == "  because   allowed by policy.yml:6"
    assert told[8] == "  evidence  web#0 is down (SIGKILL); seen by: process"


def test_without_an_observation_nothing_is_pretended() -> None:
    told = lines_of(explanation(service(observed=None, status="unknown", reason="no observation")))
    assert told[0] == "web: no observation, so its state is unknown and nothing is done"
    assert told[1] == "Wanted: running, 2 replicas, version 1.0 (fleet.yml:8)."


def test_a_stopped_service_wants_none() -> None:
    desired = {"state": "stopped", "replicas": 2, "version": None, "source": "fleet.yml:8"}
    assert lines_of(explanation(service(desired=desired)))[1].startswith("Wanted: stopped, none (fleet.yml:8).")


def test_what_waits_and_what_is_open_can_be_looked_up() -> None:
    told = lines_of(explanation(service(approval=approval(), open_action=action(state="recovery_pending"))))
    assert told[-2] == "Approval A-17 (waiting for approval):  fleetwarden approvals show A-17"
    assert told[-1] == "Open action X-92, restart web#1: outcome unknown:  fleetwarden actions show X-92"


@pytest.mark.parametrize(
    ("numbers", "code", "rows"),
    [
        (
            {"window": {"hours": "02:00-05:00", "zone": "UTC", "open": False, "opens_at": "2026-12-03T02:00:00Z"}},
            "window",
            [("window", "02:00-05:00 UTC: closed; opens tomorrow 04:00")],
        ),
        ({"freeze": ["frozen by ana: lunch"]}, "freeze", [("freeze", "frozen by ana: lunch")]),
        (
            {"blast": {"targets": 4, "max": 3, "window_s": 60, "other_targets": ["a", "b", "c"]}},
            "blast",
            [("blast", "4 of at most 3 targets within 60 s: this one and a, b, c")],
        ),
        ({"final": ["policy.yml:12: deploy_service *"]}, "tier", [("final", "policy.yml:12: deploy_service *")]),
        ({}, "structure", []),
    ],
)
def test_each_limit_is_a_row(numbers: dict[str, Any], code: str, rows: list[tuple[str, str]]) -> None:
    assert limit_rows(numbers, code, parsed(AT)) == rows


def test_uses_that_are_not_listed_are_counted() -> None:
    [(_, told), *_] = limit_rows({"rate": {**RATE, "used_at_omitted": 8}}, "rate", parsed(AT))
    assert "13:58 and 8 earlier;" in told


def test_a_budget_says_what_is_left_and_a_long_one_stays_a_line() -> None:
    times = [f"2026-12-02T11:{minute:02d}:00Z" for minute in range(20, 8, -1)]
    rate = {**RATE, "max": 20, "used": 12, "used_at": times, "next_slot_at": None}
    [(_, told), *_] = limit_rows({"rate": rate}, "ok", parsed(AT))
    assert told.startswith("12 of 20 used in 3600 s, 8 left: ")
    assert told.count(":") - 1 <= 6
    assert "and 7 earlier" in told
