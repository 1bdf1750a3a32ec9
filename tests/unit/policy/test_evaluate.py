"""The public, pure question: plain values in, plain values out, and never a guess."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.domain.errors import Misconfigured
from fleetwarden.policy import SHIPPED, ActionPolicy, ActionRequest, Verdict, evaluate
from tests.unit.policy.ledgers import NOW, UseList

NOON = datetime(2026, 12, 2, 12, 0, tzinfo=UTC)
AUTO = 'rules:\n  - {kind: restart_service, target: "*", tier: auto}\n'
RESTART = {"kind": "restart_service", "target": "web"}


def row(kind: str, target: str, verdict: str = "allow", at: Any = NOON, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "target": target, "verdict": verdict, "at": at, **more}


def sequence(policy: Any, *requests: tuple[str, str]) -> list[str]:
    """The verdicts on requests that come one after the other, each seeing the ledger of those before."""
    ledger: list[dict[str, Any]] = []
    for kind, target in requests:
        answer = evaluate(policy, {"kind": kind, "target": target}, ledger=ledger, now=NOON)
        ledger.append(row(kind, target, answer["verdict"]))
    return [entry["verdict"] for entry in ledger]


@pytest.mark.req("POL-5")
def test_the_answer_is_json_and_names_rule_source_and_numbers() -> None:
    answer = evaluate(AUTO, RESTART, ledger=[row("restart_service", "web", at="2026-12-02T11:59:00Z")], now=NOON)
    assert json.loads(json.dumps(answer)) == answer
    assert answer["verdict"] == "allow"
    assert answer["code"] == "ok"
    assert answer["rule"] == "restart_service *, auto"
    assert answer["source"] == "policy:2"
    assert answer["numbers"]["rate"]["used"] == 1
    assert answer["numbers"]["rate"]["used_at"] == ["2026-12-02T11:59:00.000000Z"]
    assert answer["policy_digest"].startswith("sha256:")
    assert "error" not in answer


@pytest.mark.req("POL-3")
def test_a_rate_limit_of_one_allows_once() -> None:
    one = "rules:\n- {kind: r, target: '*', tier: auto, rate_limit: {max: 1, window_s: 3600}}\n"
    assert sequence(one, ("r", "a"), ("r", "a"), ("r", "b")) == ["allow", "deny", "allow"]


@pytest.mark.req("POL-3", "POL-19")
def test_an_automatic_default_keeps_the_shipped_limits() -> None:
    verdicts = sequence({"defaults": {"tier": "auto"}, "rules": []}, *(("r", f"t{number}") for number in range(5)))
    assert verdicts == ["allow", "allow", "allow", "queue_approval", "queue_approval"]


@pytest.mark.req("POL-3")
@pytest.mark.parametrize("verdict", ["queue_approval", "deny"])
def test_queued_and_denied_rows_use_no_budget(verdict: str) -> None:
    ledger = [row("restart_service", "web", verdict) for _ in range(9)]
    assert evaluate(AUTO, RESTART, ledger=ledger, now=NOON)["verdict"] == "allow"
    allowed = [entry | {"verdict": "allow_notify"} for entry in ledger]
    assert evaluate(AUTO, RESTART, ledger=allowed, now=NOON)["code"] == "rate"


@pytest.mark.req("POL-14", "POL-4")
@pytest.mark.parametrize(
    "policy",
    [
        "rules:\n- {kind: restart_service, target: '*', tier: bogus}\n",
        "rules: 'not-a-list'\n",
        "rules:\n- {kind: restart_service, target: '*', tier: auto, rate_limit: {max: oops}}\n",
        "rules: [",
        "\t",
        "",
        {},
        {"rules": [{"kind": "restart_service", "tier": "auto", "maintenance_window": "25:99-30:00"}]},
        {"rules": [{"kind": "restart_service", "tier": {1, 2}}]},
        {1: 2},
        None,
        7,
    ],
)
def test_under_a_policy_that_is_none_the_shipped_one_decides_and_the_answer_says_why(policy: Any) -> None:
    answer = evaluate(policy, RESTART, now=NOON)
    assert (answer["verdict"], answer["source"]) == ("queue_approval", "shipped default")
    assert answer["policy_digest"] == SHIPPED.digest
    assert answer["error"]


@pytest.mark.req("POL-13", "POL-2")
@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({}, "it has no kind"),
        ({"kind": "restart_service"}, "it has no target"),
        (RESTART | {"parmas": {}}, "unknown key 'parmas'"),
        (RESTART | {"dry_run": "yes"}, "dry_run is true or false"),
        (RESTART | {"source": "cron"}, "unknown source"),
        (RESTART | {"target": ""}, "an empty selection selects nothing"),
        (RESTART | {"target": "*"}, "is a pattern"),
        (RESTART | {"target": ["web"]}, "an empty selection"),
        (RESTART | {"params": [1]}, "params are a mapping"),
        ({"kind": "scale_service", "target": "web"}, "needs the param 'replicas'"),
        ({"kind": "scale_service", "target": "web", "params": {"replicas": "3"}}, "'3'"),
        ({"kind": "scale_service", "target": "web", "params": {"replicas": True}}, "True"),
        ({"kind": "deploy_service", "target": "web"}, "'version' or 'image'"),
        (RESTART | {"source": "autoscaler"}, "may not ask for restart_service"),
        ({"kind": "secret.delete", "target": "a", "source": "reconciler"}, "does not know"),
        ("restart web", "not str"),
        (None, "not NoneType"),
    ],
)
def test_a_malformed_request_is_denied(request_: Any, reason: str) -> None:
    for policy in (AUTO, "broken: ["):
        answer = evaluate(policy, request_, now=NOON)
        assert (answer["verdict"], answer["code"]) == ("deny", "structure")
        assert reason in answer["reason"]


@pytest.mark.req("POL-5")
def test_group_and_substrate_come_from_the_fleet_and_not_from_the_request() -> None:
    policy = {"rules": [{"kind": "restart_service", "group": "web", "substrate": "process", "tier": "auto"}]}
    fleet = {
        "web": {"group": "web", "owner": "platform", "status": "up", "substrate": "process"},
        "db": {"group": "data"},
    }
    assert evaluate(policy, RESTART, fleet=fleet, now=NOON)["verdict"] == "allow"
    claimed = {"kind": "restart_service", "target": "db", "group": "web", "substrate": "process"}
    assert evaluate(policy, claimed, fleet=fleet, now=NOON)["verdict"] == "queue_approval"
    assert evaluate(policy, claimed, fleet={"db": {}}, now=NOON)["verdict"] == "queue_approval"
    assert evaluate(policy, claimed, now=NOON)["verdict"] == "allow"  # nothing is known of it: as it is told


@pytest.mark.req("POL-5")
@pytest.mark.parametrize(
    ("params", "more"),
    [
        ({"replicas": 3, "from_replicas": 2}, {}),
        ({"replicas": 3, "direction": "up"}, {}),
        ({"replicas": 3}, {"direction": "up"}),
        ({"replicas": 3}, {}),
    ],
)
def test_the_direction_of_a_scale_is_found_from_what_is_known(params: dict[str, Any], more: dict[str, Any]) -> None:
    policy = {"rules": [{"kind": "scale_service", "direction": "up", "tier": "auto"}]}
    fleet = {"web": {"replicas": 2}}
    request = {"kind": "scale_service", "target": "web", "params": params, **more}
    assert evaluate(policy, request, fleet=fleet, now=NOON)["verdict"] == "allow"
    down = {"kind": "scale_service", "target": "web", "params": {"replicas": 1}}
    assert evaluate(policy, down, fleet=fleet, now=NOON)["verdict"] == "queue_approval"


@pytest.mark.req("POL-3")
def test_times_may_be_of_any_zone_and_without_one_are_utc() -> None:
    one = AUTO.replace("auto}", "auto, rate_limit: {max: 1, window_s: 60}}")
    east = timezone(timedelta(hours=2))
    for at in (
        NOON - timedelta(seconds=30),
        datetime(2026, 12, 2, 13, 59, 30, tzinfo=east),
        datetime(2026, 12, 2, 11, 59, 30),  # noqa: DTZ001 - what this test is about
        "2026-12-02T11:59:30Z",
        "2026-12-02T13:59:30+02:00",
        "2026-12-02T11:59:30",
    ):
        answer = evaluate(one, RESTART, ledger=[row("restart_service", "web", at=at)], now=NOON)
        assert answer["numbers"]["rate"]["next_slot_at"] == "2026-12-02T12:00:30.000000Z"
    assert evaluate(one, RESTART, now=NOON.replace(tzinfo=None))["verdict"] == "allow"


@pytest.mark.req("POL-2")
@pytest.mark.parametrize(
    "given_",
    [
        {"ledger": [{"kind": "restart_service"}]},
        {"ledger": [row("restart_service", "web", "yes")]},
        {"ledger": [row("restart_service", "web", at="yesterday")]},
        {"ledger": [row("restart_service", "web", at=5)]},
        {"ledger": ["row"]},
        {"ledger": 5},
        {"fleet": {"web": 5}},
        {"overrides": [{"id": "o", "tier": "bogus"}]},
        {"overrides": [{"kind": "*", "tier": "auto"}]},
        {"freezes": 5},
        {"now": "noon"},
        {"now": None},
    ],
)
def test_what_cannot_be_read_beside_the_request_is_a_denial(given_: dict[str, Any]) -> None:
    answer = evaluate(AUTO, RESTART, **({"now": NOON} | given_))
    assert (answer["verdict"], answer["code"]) == ("deny", "error")


@pytest.mark.req("POL-4", "POL-12")
def test_overrides_and_freezes_can_be_tried() -> None:
    forbidding = {"id": "stop", "kind": "*", "tier": "forbidden", "scope": "action_policy"}
    answer = evaluate(AUTO, RESTART, overrides=[forbidding], now=NOON)
    assert (answer["verdict"], answer["source"]) == ("deny", "override:stop")
    assert evaluate(AUTO, RESTART, overrides=[forbidding | {"active": False}], now=NOON)["verdict"] == "allow"
    assert evaluate(AUTO, RESTART, freezes=["frozen by ann"], now=NOON)["code"] == "freeze"


@pytest.mark.req("POL-3")
@pytest.mark.parametrize(
    ("window", "clock", "verdict"),
    [
        (None, "00:00", "allow"),
        ("02:00-05:00", "02:00", "allow"),
        ("02:00-05:00", "04:59", "allow"),
        ("02:00-05:00", "05:00", "queue_approval"),
        ("22:00-04:00", "23:00", "allow"),
        ("22:00-04:00", "04:00", "queue_approval"),
    ],
)
def test_the_clock_that_is_given_is_the_only_one(window: str | None, clock: str, verdict: str) -> None:
    rule = {"kind": "restart_service", "tier": "auto"} | ({"maintenance_window": window} if window else {})
    now = NOON.replace(hour=int(clock[:2]), minute=int(clock[3:]))
    assert evaluate({"rules": [rule]}, RESTART, now=now)["verdict"] == verdict


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.req("POL-2")
@given(
    policy=JSON | st.just(AUTO),
    request=JSON | st.fixed_dictionaries({"kind": JSON, "target": JSON, "params": JSON}),
    ledger=JSON | st.lists(st.fixed_dictionaries({"kind": JSON, "target": JSON, "verdict": JSON, "at": JSON})),
    fleet=JSON,
)
def test_no_values_make_it_raise_and_none_of_them_is_allowed(
    policy: Any, request: Any, ledger: Any, fleet: Any
) -> None:
    answer = evaluate(policy, request, ledger=ledger, fleet=fleet, now=NOON)
    assert answer["verdict"] in {"deny", "queue_approval"}


# The record form


@pytest.mark.req("POL-9", "RUN-16")
def test_the_record_form_decides_and_reads_options() -> None:
    policy = ActionPolicy.from_text(AUTO + "options: {watch_scale_down: true}\n", "policy.yml")
    request = ActionRequest(kind="restart_service", target="web", source="api", requested_by="ann", key="k")
    assert policy.decide(request, UseList(), NOW).verdict is Verdict.ALLOW
    assert (
        policy.decide(request, UseList(*(("restart_service", "web", 1) for _ in range(3))), NOW).verdict is Verdict.DENY
    )
    assert ActionPolicy().decide(request, UseList(), NOW).verdict is Verdict.QUEUE_APPROVAL
    assert policy.option("watch_scale_down") is True
    assert policy.option("no_such_option", "x") == "x"
    with pytest.raises(Misconfigured, match=r"policy.yml:1"):
        ActionPolicy.from_text("version: 2\n", "policy.yml")
