"""The decision: its checks in their order, what each says, and that it fails closed."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.domain.actions import Verdict
from fleetwarden.domain.errors import StoreUnavailable
from fleetwarden.domain.identifiers import SECOND, rfc3339
from fleetwarden.domain.policy import SHIPPED, Situation, decide, refuse
from fleetwarden.domain.policy_file import read_override
from fleetwarden.domain.policy_rules import Rule
from tests.unit.policy.ledgers import NOW, BrokenLedger, UseList, asking, policy_of, ruling

ALLOW, ALLOW_NOTIFY, QUEUE, DENY = Verdict
RESTART = "restart_service"
AUTO = 'rules:\n  - {kind: restart_service, target: "*", tier: auto}\n'
FROZEN = Situation(freezes=("frozen by ann: lunch",))


def override(name: str = "o", **rule: Any) -> Rule:
    made = read_override(name, rule, active=True)
    assert made is not None
    return made


# Tiers and sources


@pytest.mark.req("POL-2")
@pytest.mark.parametrize(
    ("tier", "verdict", "code"),
    [
        ("auto", ALLOW, "ok"),
        ("auto_notify", ALLOW_NOTIFY, "ok"),
        ("approval_required", QUEUE, "tier"),
        ("forbidden", DENY, "tier"),
    ],
)
def test_each_tier_has_its_verdict(tier: str, verdict: Verdict, code: str) -> None:
    said = ruling(f"rules:\n  - {{kind: restart_service, target: web, tier: {tier}}}\n", asking(RESTART, "web"))
    assert (said.verdict, said.code) == (verdict, code)
    assert said.rule == f"restart_service web, {tier}"
    assert said.rule_source == "policy.yml:2"
    assert (
        said.reason
        == {
            "auto": "allowed by policy.yml:2: restart_service web, auto",
            "auto_notify": "allowed by policy.yml:2: restart_service web, auto_notify",
            "approval_required": "by policy.yml:2 a person is asked first: approve or reject it",
            "forbidden": "denied by policy.yml:2: restart_service on web is forbidden; only another rule allows it",
        }[tier]
    )
    assert said.policy_digest == "sha256:test"
    assert said.notify is (tier == "auto_notify")
    assert said.queued_by == (("tier",) if verdict is QUEUE else ())


@pytest.mark.req("POL-4")
@pytest.mark.parametrize(
    "kind", ["restart_service", "stop_service", "start_service", "merge_promotion", "rollback_service"]
)
def test_shipped_everything_that_changes_something_waits_for_a_person(kind: str) -> None:
    said = ruling(SHIPPED, asking(kind, "web"))
    assert (said.verdict, said.code, said.rule, said.rule_source) == (QUEUE, "tier", "defaults", "shipped default")
    assert said.reason == "no rule matches, and by the shipped default a person is asked first: approve or reject it"


@pytest.mark.req("POL-4")
@pytest.mark.parametrize("kind", ["diagnose", "notify", "noop"])
def test_shipped_what_changes_nothing_goes_ahead_also_under_a_file_that_does_not_speak_of_it(kind: str) -> None:
    for policy in (SHIPPED, policy_of("defaults: {rate_limit: {max: 1, window_s: 60}}\n")):
        said = ruling(policy, asking(kind, "web"))
        assert (said.verdict, said.rule_source) == (ALLOW, "shipped default")
    said = ruling('rules:\n  - {kind: "*", tier: forbidden}\n', asking(kind, "web"))
    assert said.verdict is DENY


@pytest.mark.req("POL-4", "POL-5")
@pytest.mark.parametrize("kind", ["diagnose", "notify", "noop", "restart_service"])
def test_a_tier_that_the_file_writes_into_its_defaults_comes_before_the_rules_that_ship(kind: str) -> None:
    said = ruling("defaults: {tier: forbidden}\n", asking(kind, "web"))
    assert (said.verdict, said.rule, said.rule_source) == (DENY, "defaults", "defaults of policy.yml")


@pytest.mark.req("POL-5")
def test_the_file_s_defaults_decide_where_none_of_its_rules_matches() -> None:
    said = ruling("defaults: {tier: auto}\n", asking(RESTART, "web"))
    assert (said.verdict, said.rule, said.rule_source) == (ALLOW, "defaults", "defaults of policy.yml")
    assert said.numbers["rate"]["source"] == "shipped default"


@pytest.mark.req("POL-4", "POL-5")
def test_an_override_beats_a_rule_of_the_file_however_specific() -> None:
    text = "rules:\n  - {kind: restart_service, target: web, group: g, tier: forbidden}\n"
    said = ruling(text, asking(RESTART, "web", group="g"), overrides=[override(kind="*", tier="auto")])
    assert (said.verdict, said.rule_source) == (ALLOW, "override:o")


@pytest.mark.req("POL-5")
def test_among_overrides_the_most_specific_decides_and_the_stricter_at_a_tie() -> None:
    overrides = [
        override("a", kind="*", target="web", tier="auto"),
        override("b", kind="*", target="web", tier="auto_notify"),
        override("c", kind=RESTART, target="w*", tier="forbidden"),
    ]
    assert ruling(SHIPPED, asking(RESTART, "web"), overrides=overrides).rule_source == "override:b"


# Final rules


FINAL = """\
rules:
  - {kind: "*", target: "db-*", tier: approval_required, rate_limit: {max: 1, window_s: 600}, final: true}
  - {kind: restart_service, target: db-1, tier: auto, rate_limit: {max: 9, window_s: 600}}
  - {kind: stop_service, target: db-1, tier: forbidden}
"""


@pytest.mark.req("POL-5")
def test_a_final_rule_is_not_loosened_by_a_more_specific_one() -> None:
    said = ruling(FINAL, asking(RESTART, "db-1"))
    assert (said.verdict, said.code, said.rule_source) == (QUEUE, "tier", "policy.yml:2")
    assert said.numbers["final"] == ["policy.yml:2: * db-*, approval_required, rate 1 per 600 s, final"]


@pytest.mark.req("POL-5")
def test_a_final_rule_is_not_loosened_by_an_override() -> None:
    said = ruling(FINAL, asking(RESTART, "db-2"), overrides=[override(kind=RESTART, target="db-2", tier="auto")])
    assert (said.verdict, said.rule_source) == (QUEUE, "policy.yml:2")


@pytest.mark.req("POL-5")
def test_another_rule_may_be_stricter_than_a_final_one() -> None:
    said = ruling(FINAL, asking("stop_service", "db-1"))
    assert (said.verdict, said.rule_source) == (DENY, "policy.yml:4")


@pytest.mark.req("POL-5")
def test_the_limits_of_a_final_rule_bind_as_well() -> None:
    said = ruling(FINAL, asking(RESTART, "db-1"), ledger=UseList((RESTART, "db-1", 60)))
    assert (said.verdict, said.code, said.rule_source) == (DENY, "rate", "policy.yml:2")
    assert said.numbers["rate"]["max"] == 1


@pytest.mark.req("POL-5")
def test_a_final_rule_without_limits_binds_by_the_defaults_that_it_would_have_alone() -> None:
    text = 'rules:\n  - {kind: "*", target: "db-*", tier: auto, final: true}\n'
    loose = override(kind=RESTART, target="db-1", tier="auto", rate_limit={"max": 100, "window_s": 3600})
    uses = UseList(*((RESTART, "db-1", second) for second in (1, 2, 3)))
    assert ruling(text, asking(RESTART, "db-1"), overrides=[loose], ledger=uses).code == "rate"


@pytest.mark.req("POL-5")
def test_the_window_of_a_final_rule_binds_as_well() -> None:
    text = """\
rules:
  - {kind: "*", target: "db-*", tier: auto, maintenance_window: "02:00-05:00", final: true}
  - {kind: restart_service, target: db-1, tier: auto, maintenance_window: "00:00-24:00"}
"""
    said = ruling(text, asking(RESTART, "db-1"))
    assert (said.verdict, said.code, said.rule_source) == (QUEUE, "window", "policy.yml:2")


@pytest.mark.req("POL-5")
def test_a_final_override_binds_beside_the_override_that_decides() -> None:
    overrides = [
        override("lock", kind="*", tier="approval_required", final=True),
        override("open", kind=RESTART, target="web", tier="auto"),
    ]
    said = ruling(SHIPPED, asking(RESTART, "web"), overrides=overrides)
    assert (said.verdict, said.rule_source) == (QUEUE, "override:lock")


@pytest.mark.req("POL-5")
def test_of_several_binding_limits_the_one_that_keeps_closed_longest_is_named() -> None:
    text = """\
rules:
  - {kind: "*", target: "*", tier: auto, rate_limit: {max: 1, window_s: 3600}, final: true}
  - {kind: restart_service, target: web, tier: auto, rate_limit: {max: 1, window_s: 60}}
"""
    said = ruling(text, asking(RESTART, "web"), ledger=UseList((RESTART, "web", 10)))
    assert said.numbers["rate"]["next_slot_at"] == rfc3339(NOW + 3590 * SECOND)
    assert said.rule_source == "policy.yml:2"


@pytest.mark.req("POL-5")
def test_of_several_binding_blast_radii_the_one_that_keeps_closed_longest_is_named() -> None:
    text = """\
rules:
  - {kind: "*", target: "*", tier: auto, blast_radius: {max_targets: 1, window_s: 600}, final: true}
  - {kind: "restart_*", target: "*", tier: auto, blast_radius: {max_targets: 1, window_s: 3600}, final: true}
  - {kind: restart_service, target: web, tier: auto, blast_radius: {max_targets: 1, window_s: 60}}
"""
    said = ruling(text, asking(RESTART, "web"), ledger=UseList((RESTART, "shop", 10)))
    assert (said.code, said.rule_source) == ("blast", "policy.yml:3")
    assert said.numbers["blast"]["next_slot_at"] == rfc3339(NOW + 3590 * SECOND)
    none = ruling(
        text.replace("max_targets: 1, window_s: 60}", "max_targets: 0, window_s: 60}"), asking(RESTART, "web")
    )
    assert none.rule_source == "policy.yml:4"  # no waiting opens a radius of 0


# Structure and irreversible requests


@pytest.mark.req("POL-13", "POL-14")
def test_a_malformed_request_is_denied_before_anything_else() -> None:
    said = ruling(AUTO, asking("scale_service", "web", {"replicas": "3"}), situation=FROZEN)
    assert (said.verdict, said.code, said.rule, said.rule_source) == (DENY, "structure", "structural check", "built in")
    assert "param 'replicas' of scale_service is '3'" in said.reason
    assert said.numbers == {}


@pytest.mark.req("POL-16")
@pytest.mark.parametrize("tier", ["auto", "auto_notify"])
def test_a_deploy_that_cannot_be_undone_waits_for_a_person_whatever_a_rule_says(tier: str) -> None:
    text = f"rules:\n  - {{kind: deploy_service, target: web, tier: {tier}, final: true}}\n"
    marked = asking("deploy_service", "web", {"version": "2", "irreversible": True})
    said = ruling(text, marked, overrides=[override(kind="deploy_service", target="web", tier="auto")])
    assert (said.verdict, said.code, said.rule_source, said.queued_by) == (QUEUE, "tier", "built in", ("tier",))
    assert ruling(text, asking("deploy_service", "web", {"version": "2"})).verdict in (ALLOW, ALLOW_NOTIFY)
    assert ruling(text, marked, waives=frozenset({"tier"})).verdict is ALLOW


@pytest.mark.req("POL-16")
def test_a_forbidden_deploy_stays_forbidden_when_it_cannot_be_undone() -> None:
    text = "rules:\n  - {kind: deploy_service, target: web, tier: forbidden}\n"
    assert ruling(text, asking("deploy_service", "web", {"version": "2", "irreversible": True})).verdict is DENY


# Freeze


@pytest.mark.req("POL-12", "POL-14")
def test_a_freeze_denies_before_the_tier_is_asked_and_says_whose_it_is() -> None:
    for text in (AUTO, AUTO.replace("auto", "forbidden")):
        said = ruling(text, asking(RESTART, "web"), situation=FROZEN)
        assert (said.verdict, said.code) == (DENY, "freeze")
        assert said.reason == "denied, frozen by ann: lunch; ask again once that is lifted"
        assert said.numbers == {"freeze": ["frozen by ann: lunch"]}


@pytest.mark.req("POL-12")
def test_a_freeze_file_freezes_too() -> None:
    said = ruling(AUTO, asking(RESTART, "web"), situation=Situation(freeze_file="/data/FREEZE"))
    assert (said.verdict, said.code) == (DENY, "freeze")
    assert "the file /data/FREEZE exists" in said.reason


@pytest.mark.parametrize("kind", ["diagnose", "notify", "noop"])
def test_what_changes_nothing_is_neither_frozen_nor_held_back_by_default_limits(kind: str) -> None:
    uses = UseList(*((kind, name, second) for second in range(5) for name in ("web", "a", "b", "c", "d")))
    all_of_it = Situation(freezes=("x",), freeze_file="F", storm="storm", min_healthy="too few")
    said = ruling('rules:\n  - {kind: "*", tier: auto}\n', asking(kind, "web"), ledger=uses, situation=all_of_it)
    assert (said.verdict, said.numbers) == (ALLOW, {})


@pytest.mark.parametrize("kind", ["diagnose", "notify", "noop"])
def test_a_limit_that_a_rule_itself_gives_to_what_changes_nothing_holds(kind: str) -> None:
    text = f"rules:\n  - {{kind: {kind}, tier: auto, rate_limit: {{max: 1, window_s: 60}}}}\n"
    assert ruling(text, asking(kind, "web"), ledger=UseList((kind, "web", 1))).code == "rate"


# Budgets


@pytest.mark.req("POL-3")
def test_a_full_rate_limit_denies_with_the_uses_and_the_next_slot() -> None:
    uses = UseList((RESTART, "web", 2900), (RESTART, "web", 1300), (RESTART, "web", 100))
    said = ruling(AUTO, asking(RESTART, "web"), ledger=uses)
    assert (said.verdict, said.code, said.rule_source) == (DENY, "rate", "policy.yml:2")
    assert said.numbers["rate"] == {
        "used": 3,
        "max": 3,
        "window_s": 3600,
        "used_at": [rfc3339(NOW - age * SECOND) for age in (100, 1300, 2900)],
        "next_slot_at": "2026-12-02T12:11:40.000000Z",
        "source": "shipped default",
    }
    assert said.reason == (
        "denied, restart_service web was allowed 3 times in the last 3600 s, the limit is 3 (shipped default); "
        "the next slot opens 2026-12-02 12:11:40 UTC"
    )


@pytest.mark.req("POL-14")
def test_a_limit_of_0_means_none() -> None:
    said = ruling(AUTO.replace("auto}", "auto, rate_limit: {max: 0, window_s: 60}}"), asking(RESTART, "web"))
    assert (said.verdict, said.code) == (DENY, "rate")
    assert said.reason == "denied, no restart_service on web is allowed at any time (max 0, policy.yml:2)"
    wide = ruling(AUTO.replace("auto}", "auto, blast_radius: {max_targets: 0, window_s: 60}}"), asking(RESTART, "web"))
    assert (wide.verdict, wide.code) == (QUEUE, "blast")


@pytest.mark.req("POL-19")
def test_a_rule_s_block_replaces_the_default_s_whole() -> None:
    text = """\
defaults: {tier: auto, rate_limit: {max: 1, window_s: 3600}, blast_radius: {max_targets: 1, window_s: 3600}}
rules:
  - {kind: restart_service, target: "*", tier: auto, rate_limit: {max: 2, window_s: 10}}
"""
    uses = UseList((RESTART, "web", 5), (RESTART, "web", 11), (RESTART, "web", 12))
    assert ruling(text, asking(RESTART, "web"), ledger=uses).verdict is ALLOW
    assert ruling(text, asking(RESTART, "shop"), ledger=uses).code == "blast"


@pytest.mark.req("POL-3")
def test_a_wave_that_grows_too_wide_asks_a_person() -> None:
    uses = UseList((RESTART, "a", 30), (RESTART, "b", 20), (RESTART, "c", 10))
    said = ruling(AUTO, asking(RESTART, "web"), ledger=uses)
    assert (said.verdict, said.code, said.queued_by) == (QUEUE, "blast", ("blast",))
    assert (said.numbers["blast"]["targets"], said.numbers["blast"]["max"]) == (4, 3)
    assert said.numbers["blast"]["other_targets"] == ["c", "b", "a"]
    assert said.reason == (
        "restart_service would have reached 4 targets within 3600 s, the limit is 3 (shipped default): "
        "a person decides; without a person 2026-12-02 12:59:30 UTC at the earliest"
    )
    assert ruling(AUTO, asking(RESTART, "c"), ledger=uses).verdict is ALLOW


@pytest.mark.req("POL-3")
def test_a_dry_run_is_measured_against_dry_runs_only() -> None:
    real = UseList(*((RESTART, "web", second) for second in (1, 2, 3)))
    dry = UseList(*((RESTART, "web", second, True) for second in (1, 2, 3)))
    assert ruling(AUTO, asking(RESTART, "web", dry_run=True), ledger=real).verdict is ALLOW
    assert ruling(AUTO, asking(RESTART, "web", dry_run=True), ledger=dry).verdict is DENY
    assert ruling(AUTO, asking(RESTART, "web"), ledger=dry).verdict is ALLOW


@pytest.mark.req("POL-21")
def test_the_re_check_before_the_side_effect_counts_its_own_decision_once() -> None:
    uses = UseList((RESTART, "web", 100), (RESTART, "web", 50), (RESTART, "web", 1))
    assert ruling(AUTO, asking(RESTART, "web"), ledger=uses, exclude_decision=3).verdict is ALLOW
    assert ruling(AUTO, asking(RESTART, "web"), ledger=uses, exclude_decision=9).verdict is DENY


# Windows


NIGHTLY = 'rules:\n  - {kind: restart_service, target: "*", tier: TIER, maintenance_window: "02:00-05:00"}\n'


@pytest.mark.req("POL-3")
@pytest.mark.parametrize("tier", ["auto", "auto_notify"])
def test_outside_the_window_the_automatic_tiers_ask_a_person(tier: str) -> None:
    said = ruling(NIGHTLY.replace("TIER", tier), asking(RESTART, "web"))
    assert (said.verdict, said.code, said.queued_by, said.notify) == (QUEUE, "window", ("window",), False)
    assert said.numbers["window"] == {
        "hours": "02:00-05:00",
        "zone": "UTC",
        "open": False,
        "opens_at": "2026-12-03T02:00:00.000000Z",
        "source": "policy.yml:2",
    }
    assert said.reason.endswith("a person decides; it opens 2026-12-03 02:00:00 UTC")
    night = NOW - 9 * 3600 * SECOND
    inside = ruling(NIGHTLY.replace("TIER", tier), asking(RESTART, "web"), now=night)
    assert inside.verdict in (ALLOW, ALLOW_NOTIFY)
    assert inside.numbers["window"]["open"] is True


@pytest.mark.req("POL-3")
def test_what_a_person_decides_anyway_does_not_wait_for_the_window() -> None:
    said = ruling(NIGHTLY.replace("TIER", "approval_required"), asking(RESTART, "web"))
    assert said.queued_by == ("tier",)
    assert "window" not in said.numbers
    granted = ruling(NIGHTLY.replace("TIER", "approval_required"), asking(RESTART, "web"), waives=frozenset({"tier"}))
    assert granted.verdict is ALLOW


def test_a_default_window_holds_for_every_rule_without_one_and_not_for_what_changes_nothing() -> None:
    text = """\
defaults: {tier: auto, maintenance_window: "02:00-05:00"}
rules:
  - {kind: stop_service, tier: auto, maintenance_window: "00:00-24:00"}
  - {kind: start_service, tier: auto}
"""
    assert ruling(text, asking(RESTART, "web")).code == "window"
    assert ruling(text, asking("start_service", "web")).numbers["window"]["source"] == "defaults of policy.yml"
    assert ruling(text, asking("start_service", "web")).code == "window"
    assert ruling(text, asking("stop_service", "web")).verdict is ALLOW
    assert ruling(text, asking("notify", "web")).verdict is ALLOW


# The order of the checks


WIDE = UseList((RESTART, "a", 30), (RESTART, "b", 20), (RESTART, "c", 10))
FULL = UseList(*((RESTART, name, 5) for name in ("a", "b", "c", "web", "web", "web")))
EVERYTHING_ASKS = """\
rules:
  - {kind: restart_service, target: "*", tier: auto, maintenance_window: "02:00-05:00"}
"""


@pytest.mark.req("POL-14", "POL-15")
def test_the_first_check_that_denies_ends_it_and_the_order_is_fixed() -> None:
    denying: dict[str, dict[str, Any]] = {
        "structure": {"request": asking(RESTART, "*")},
        "freeze": {"situation": FROZEN},
        "tier": {"text": AUTO.replace("auto", "forbidden")},
        "rate": {"ledger": FULL},
        "storm": {"situation": Situation(storm="a storm is on")},
    }
    order = list(denying)
    for place, code in enumerate(order):
        merged: dict[str, Any] = {}
        for later in reversed(order[place:]):  # this one and all after it would deny
            merged |= denying[later]
        if code == "freeze":
            merged["situation"] = Situation(freezes=FROZEN.freezes, storm="a storm is on")
        text, request = merged.pop("text", AUTO), merged.pop("request", asking(RESTART, "web"))
        said = ruling(text, request, **merged)
        assert (said.verdict, said.code) == (DENY, code)


@pytest.mark.req("POL-14", "POL-15")
def test_of_several_checks_that_ask_the_first_is_the_reason_and_all_are_named() -> None:
    few = Situation(min_healthy="web would have 0 of 1 healthy")
    said = ruling(EVERYTHING_ASKS, asking(RESTART, "web"), ledger=WIDE, situation=few)
    assert (said.verdict, said.code, said.queued_by) == (QUEUE, "min_healthy", ("min_healthy", "blast", "window"))
    assert said.reason == "web would have 0 of 1 healthy"
    asked = ruling(SHIPPED, asking(RESTART, "web"), ledger=WIDE, situation=few)
    assert (asked.code, asked.queued_by) == ("tier", ("tier", "min_healthy", "blast"))


@pytest.mark.req("POL-14")
def test_a_later_denial_beats_an_earlier_question() -> None:
    said = ruling(SHIPPED, asking(RESTART, "web"), ledger=FULL)
    assert (said.verdict, said.code, said.queued_by) == (DENY, "rate", ())
    storm = ruling(SHIPPED, asking(RESTART, "web"), situation=Situation(storm="9 of 10 are down"))
    assert (storm.verdict, storm.code, storm.reason) == (DENY, "storm", "denied, 9 of 10 are down")


# What a grant answers


@pytest.mark.req("AUT-24", "POL-14")
def test_a_grant_answers_exactly_what_was_asked() -> None:
    few = Situation(min_healthy="web would have 0 of 1 healthy")

    def granted(*waives: str) -> Any:
        request = asking(RESTART, "web")
        return ruling(EVERYTHING_ASKS, request, ledger=WIDE, situation=few, waives=frozenset(waives))

    assert granted("min_healthy", "blast").queued_by == ("window",)
    assert granted("tier").queued_by == ("min_healthy", "blast", "window")
    assert granted("min_healthy", "blast", "window").verdict is ALLOW
    assert granted("min_healthy", "blast", "window").reason == (
        "allowed, a person's grant answers min_healthy, blast, window"
    )


@pytest.mark.req("AUT-24")
@pytest.mark.parametrize(
    ("text", "more"),
    [
        (AUTO, {"situation": FROZEN}),
        (AUTO.replace("auto", "forbidden"), {}),
        (AUTO, {"ledger": FULL}),
        (AUTO, {"situation": Situation(storm="a storm is on")}),
    ],
)
def test_no_grant_answers_a_denial(text: str, more: dict[str, Any]) -> None:
    everything = frozenset({"structure", "freeze", "tier", "rate", "storm", "min_healthy", "blast", "window", "error"})
    assert ruling(text, asking(RESTART, "web"), waives=everything, **more).verdict is DENY


@pytest.mark.req("AUT-24")
def test_a_granted_notification_tier_still_notifies() -> None:
    said = ruling(NIGHTLY.replace("TIER", "auto_notify"), asking(RESTART, "web"), waives=frozenset({"window"}))
    assert (said.verdict, said.notify) == (ALLOW_NOTIFY, True)


# Failing closed


@pytest.mark.req("POL-2", "POL-14")
def test_whatever_goes_wrong_inside_is_a_denial_that_names_it() -> None:
    said = ruling(AUTO, asking(RESTART, "web"), ledger=BrokenLedger())
    assert (said.verdict, said.code, said.rule_source) == (DENY, "error", "built in")
    assert "ConnectionError: the ledger is gone" in said.reason


@pytest.mark.req("POL-2")
@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("merge_promotion", {"x": object()}),
        ("merge_promotion", {1: 2, "a": {3}}),
        ("scale_service", {"replicas": 10**400}),
        ("restart_service", {"replica": object()}),
    ],
)
def test_no_request_makes_it_raise(kind: str, params: Any) -> None:
    assert ruling('rules:\n  - {kind: "*", tier: auto}\n', asking(kind, "web", params)).verdict is DENY


@pytest.mark.req("POL-2")
def test_a_time_past_the_calendar_is_a_denial() -> None:
    assert ruling(NIGHTLY.replace("TIER", "auto"), asking(RESTART, "web"), now=10**20).verdict is DENY


@pytest.mark.req("POL-14")
def test_overrides_that_cannot_be_read_can_be_answered_with_a_denial() -> None:
    error = StoreUnavailable("the store is gone")
    said = refuse(SHIPPED, "error", f"denied, overrides cannot be read: {error}")
    assert (said.verdict, said.code, said.policy_digest) == (DENY, "error", SHIPPED.digest)


def test_deciding_changes_nothing_that_it_was_given() -> None:
    policy, uses, request = policy_of(FINAL), UseList((RESTART, "db-1", 60)), asking(RESTART, "db-1")
    before = (policy.plain(), list(uses.rows), request.digest())
    first = decide(policy, (), request, uses, Situation(), NOW)
    assert decide(policy, (), request, uses, Situation(), NOW) == first
    assert (policy.plain(), list(uses.rows), request.digest()) == before
