"""Warnings: what is legal in a policy and probably not meant."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.domain.fleet import Fleet, ScalingBlock, Service
from fleetwarden.domain.policy import SHIPPED
from fleetwarden.domain.policy_advice import throttle_warnings
from tests.unit.policy.ledgers import policy_of


def warnings_of(*rules: str) -> list[str]:
    text = "rules:\n" + "".join(f"  - {{{rule}}}\n" for rule in rules)
    return [str(warning) for warning in policy_of(text).warnings]


def scaling(*names: str, **block: Any) -> Fleet:
    services = {
        name: Service(name=name, group="g", scaling=ScalingBlock(line=3, raw={"max": 5, "target": 1} | block))
        for name in names
    }
    return Fleet(services=services | {"static": Service(name="static")})


@pytest.mark.req("POL-10")
def test_a_rule_behind_a_stricter_one_with_the_same_selectors_never_decides() -> None:
    assert warnings_of(
        "kind: stop_service, target: web, tier: auto", "kind: stop_service, target: web, tier: forbidden"
    ) == ["policy.yml:2  this rule never decides: policy.yml:3 selects the same and is stricter (forbidden)"]


@pytest.mark.req("POL-10")
def test_a_rule_that_stands_again_with_the_same_tier_never_decides() -> None:
    again = "kind: stop_service, target: web, group: g, tier: auto"
    assert warnings_of(again, again, again) == [
        "policy.yml:3  this rule never decides: policy.yml:2 selects the same and stands first",
        "policy.yml:4  this rule never decides: policy.yml:2 selects the same and stands first",
    ]


def test_a_final_rule_binds_also_where_it_does_not_decide_and_is_not_warned_of() -> None:
    rule = "kind: stop_service, target: web"
    assert warnings_of(f"{rule}, tier: auto, final: true", f"{rule}, tier: forbidden") == []


def test_rules_that_differ_in_any_selector_can_both_decide() -> None:
    rule = "kind: stop_service, target: web, tier: auto"
    assert warnings_of(rule, f"{rule}, group: g", f"{rule}, source: api", f"{rule}, direction: down") == []


@pytest.mark.parametrize(
    ("kind", "meant"), [("restart_servce", "restart_service"), ("scale_services", "scale_service"), ("nop", "noop")]
)
def test_a_kind_that_is_nearly_one_of_ours_is_pointed_out(kind: str, meant: str) -> None:
    (warning,) = warnings_of(f"kind: {kind}, tier: auto")
    assert f"did you mean {meant!r}?" in warning


@pytest.mark.parametrize("kind", ["merge_promotion", "redeploy_stack", '"*"', '"restart_*"', "deploy_service"])
def test_any_other_kind_is_nobody_s_slip(kind: str) -> None:
    assert warnings_of(f"kind: {kind}, tier: auto") == []


def test_a_rule_for_a_kind_that_its_source_never_asks_for_is_pointed_out() -> None:
    assert warnings_of("kind: restart_service, source: autoscaler, tier: auto") == [
        "policy.yml:2  this rule never matches: the autoscaler does not ask for restart_service"
    ]
    assert warnings_of("kind: scale_service, source: autoscaler, tier: auto") == []


def test_a_block_that_the_tier_leaves_without_effect_is_pointed_out() -> None:
    assert warnings_of('kind: a, tier: approval_required, maintenance_window: "02:00-05:00"') == [
        "policy.yml:2  maintenance_window has no effect at tier approval_required: a person decides at any hour"
    ]
    assert warnings_of(
        'kind: a, tier: forbidden, rate_limit: {max: 1, window_s: 1}, maintenance_window: "02:00-05:00"'
    ) == ["policy.yml:2  rate_limit, maintenance_window has no effect at tier forbidden: it is denied at any time"]
    assert warnings_of("kind: a, tier: approval_required, rate_limit: {max: 1, window_s: 1}") == []


# Beside a fleet


AUTO = "defaults: {blast_radius: {max_targets: 100, window_s: 60}}\nrules:\n  - {kind: scale_service, tier: auto"


@pytest.mark.req("POL-5", "POL-10")
def test_a_rate_limit_that_allows_fewer_steps_than_the_cooldown_is_pointed_out() -> None:
    policy = policy_of(f"{AUTO}, rate_limit: {{max: 11, window_s: 3600}}}}\n")
    (warning,) = throttle_warnings(policy, scaling("web", cooldown_s=300))
    assert str(warning) == (
        "policy.yml:3  rate_limit 11 per 3600 s allows fewer steps than the cooldown of web would ask for: "
        "the rest is denied"
    )
    enough = policy_of(f"{AUTO}, rate_limit: {{max: 12, window_s: 3600}}}}\n")
    assert throttle_warnings(enough, scaling("web", cooldown_s=300)) == ()
    assert throttle_warnings(policy, scaling("web", cooldown_s=600)) == ()


@pytest.mark.parametrize("block", [{}, {"cooldown_s": "soon"}, {"cooldown_s": True}, {"cooldown_s": float("nan")}])
def test_a_block_without_a_usable_cooldown_has_the_usual_300_s(block: dict[str, Any]) -> None:
    for most, warned in ((11, 1), (12, 0)):
        policy = policy_of(f"{AUTO}, rate_limit: {{max: {most}, window_s: 3600}}}}\n")
        assert len(throttle_warnings(policy, scaling("web", **block))) == warned


def test_each_direction_has_its_own_cooldown_and_its_own_rule() -> None:
    text = f"{AUTO}, direction: up, rate_limit: {{max: 4, window_s: 60}}}}\n  - {{kind: scale_service, tier: auto}}\n"
    fleet = scaling("web", cooldown_up_s=10, cooldown_down_s=3600)
    assert [one.line for one in throttle_warnings(policy_of(text), fleet)] == [3]
    slower = scaling("web", cooldown_up_s=30, cooldown_s=3600)
    assert throttle_warnings(policy_of(text), slower) == ()


def test_a_limit_of_the_defaults_is_named_as_theirs() -> None:
    (warning,) = throttle_warnings(policy_of("defaults: {tier: auto}\n"), scaling("web"))
    assert str(warning).startswith("shipped default  rate_limit 3 per 3600 s allows fewer")


@pytest.mark.req("POL-5", "POL-10")
def test_a_blast_radius_smaller_than_the_services_that_scale_under_it_is_pointed_out() -> None:
    wide = "rules:\n  - {kind: scale_service, tier: auto, rate_limit: {max: 100, window_s: 3600}}\n"
    names = [f"s{number}" for number in range(7)]
    (warning,) = throttle_warnings(policy_of(wide), scaling(*names))
    assert str(warning) == (
        "shipped default  blast_radius 3 targets per 3600 s is smaller than the 7 services that scale under it "
        "(s0, s1, s2, s3, s4 and 2 more): the rest waits"
    )
    assert throttle_warnings(policy_of(wide), scaling(*names[:3])) == ()


def test_where_a_person_is_asked_anyway_no_limit_holds_anything_back() -> None:
    assert throttle_warnings(SHIPPED, scaling(*"abcdefgh")) == ()
    assert throttle_warnings(policy_of("rules:\n  - {kind: scale_service, tier: forbidden}\n"), scaling("web")) == ()


@pytest.mark.req("POL-18")
def test_a_rule_that_lets_nobody_approve_says_so() -> None:
    assert warnings_of("kind: a, tier: approval_required, approvers: {teams: []}") == [
        "policy.yml:2  approvers: an empty list of teams is nobody: what this rule asks cannot be granted"
    ]
    assert warnings_of("kind: a, tier: approval_required, approvers: {teams: [dba], count: 2}") == []
    assert warnings_of("kind: a, tier: approval_required, approvers: {count: 2}") == []
    assert warnings_of("kind: a, tier: forbidden, approvers: {teams: [dba]}") == [
        "policy.yml:2  approvers has no effect at tier forbidden: it is denied at any time"
    ]
