"""Which rule decides: source before specificity, specificity in its fixed order, the stricter at a tie."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.domain.actions import Tier
from fleetwarden.domain.policy_rules import Rule, RuleIndex, best, ranked
from tests.unit.policy.ledgers import asking

AUTO, AUTO_NOTIFY, APPROVAL, FORBIDDEN = Tier


def rule(kind: str = "*", target: str = "*", tier: Tier = AUTO, **fields: Any) -> Rule:
    return Rule(kind=kind, target=target, tier=tier, **fields)


def deciding(request: Any, *rules: Rule) -> Rule | None:
    by_index, by_list = RuleIndex(rules).best(request), best(rules, request)
    assert by_index is by_list
    return by_index


@pytest.mark.req("POL-5")
@pytest.mark.parametrize(
    ("stronger", "weaker"),
    [
        # an exact target beats everything else that a pattern could offer
        (rule("*", "web-1"), rule("restart_service", "web-*", group="web", source="api", substrate="process")),
        # then the target's literal characters
        (rule("*", "web-*"), rule("restart_service", "we*", group="web")),
        (rule("*", "*eb-1"), rule("restart_service", "web?*", group="web")),
        # then an exact kind
        (rule("restart_service", "web-*"), rule("restart_servic*", "web-*", group="web", source="api")),
        # then the kind's literal characters
        (rule("restart_*", "web-*"), rule("re*", "web-*", group="web", source="api")),
        # then the number of selectors
        (rule("*", "*", group="web", source="api"), rule("*", "*", group="web")),
        (rule("*", "*", substrate="process"), rule("*", "*")),
    ],
)
def test_the_more_specific_rule_decides_wherever_it_stands(stronger: Rule, weaker: Rule) -> None:
    request = asking("restart_service", "web-1", group="web", substrate="process")
    assert stronger.matches(request)
    assert weaker.matches(request)
    assert deciding(request, stronger, weaker) is stronger
    assert deciding(request, weaker, stronger) is stronger


@pytest.mark.req("POL-5")
def test_at_a_tie_the_stricter_tier_decides() -> None:
    request = asking("restart_service", "web")
    rules = [rule("restart_service", "web", tier) for tier in (AUTO, FORBIDDEN, AUTO_NOTIFY, APPROVAL)]
    found = deciding(request, *rules)
    assert found is not None
    assert found.tier is FORBIDDEN
    other = deciding(asking("restart_service", "web", group="g"), rule(group="g"), rule(source="api", tier=AUTO_NOTIFY))
    assert other is not None
    assert other.source == "api"


def test_at_a_full_tie_the_one_that_stands_first_decides() -> None:
    first, second = rule("a*", "x*", where="f:1"), rule("a*", "x*", where="f:2")
    assert deciding(asking("ab", "xy"), first, second) is first
    assert deciding(asking("ab", "xy"), second, first) is second


@pytest.mark.req("POL-5")
@pytest.mark.parametrize(
    ("selector", "value", "other"),
    [("group", "web", "db"), ("source", "api", "operator"), ("substrate", "process", ""), ("direction", "up", "down")],
)
def test_a_selector_matches_only_its_own_word(selector: str, value: str, other: str) -> None:
    chosen = Rule(tier=AUTO, **{selector: value})  # type: ignore[arg-type]
    assert chosen.matches(asking("restart_service", "web", None, **{selector: value}))
    assert not chosen.matches(asking("restart_service", "web", None, **{selector: other}))


@pytest.mark.req("POL-5")
def test_case_matters() -> None:
    assert not rule("restart_service", "WEB-*").matches(asking("restart_service", "web-1"))


def test_a_rule_in_words_names_all_that_it_says() -> None:
    assert rule("restart_service", "web-*", AUTO_NOTIFY, group="web", final=True).words == (
        "restart_service web-*, group web, auto_notify, final"
    )


PATTERNS = st.text(alphabet="ab*?-", min_size=1, max_size=5) | st.sampled_from(
    ["*", "a*", "*b", "*ab*", "[ab]*", "a-b"]
)
RULES = st.lists(
    st.builds(
        rule,
        kind=st.sampled_from(["ab", "aa", "a*", "*", "?b", "b"]),
        target=PATTERNS,
        tier=st.sampled_from(Tier),
        group=st.sampled_from(["", "g"]),
        source=st.sampled_from(["", "api"]),
        direction=st.sampled_from(["", "up"]),
    ),
    max_size=14,
)
REQUESTS = st.builds(
    asking,
    st.sampled_from(["ab", "aa", "b", "zz"]),
    st.text(alphabet="ab-", min_size=1, max_size=6),
    group=st.sampled_from(["", "g"]),
    direction=st.sampled_from(["", "up"]),
)


@pytest.mark.req("POL-5")
@given(rules=RULES, request=REQUESTS)
def test_the_index_finds_what_looking_at_every_rule_finds(rules: list[Rule], request: Any) -> None:
    index = RuleIndex(rules)
    matching = [one for one in rules if one.matches(request)]
    assert index.matching(request) == ranked(matching)
    assert sorted(map(id, index.matching(request))) == sorted(map(id, matching))
    assert index.best(request) is (ranked(matching) or (None,))[0]
    assert bool(index) is bool(rules)
