"""A policy file is taken whole or rejected whole, and every refusal names file, line and reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.adapters.files import yaml_tree
from fleetwarden.domain import policy_file
from fleetwarden.domain.actions import Tier
from fleetwarden.domain.budgets import BlastRadius, RateLimit
from fleetwarden.domain.errors import Misconfigured, Problem
from fleetwarden.domain.located import Node, located
from fleetwarden.domain.policy_file import read_override, read_policy
from fleetwarden.domain.policy_rules import Defaults, Rule
from tests.unit.policy.ledgers import policy_of, problems_of

WHOLE = """\
version: 1
defaults:
  tier: auto_notify
  rate_limit: {max: 5, window_s: 60}
  blast_radius: {max_targets: 7, window_s: 120}
rules:
  - {kind: restart_service, target: "web-*", tier: auto, rate_limit: {max: 2, window_s: 1800},
     maintenance_window: "02:00-05:00"}
  - kind: deploy_service
    target: "db-*"
    group: data
    source: operator
    substrate: process
    direction: up
    tier: approval_required
    blast_radius: {max_targets: 0, window_s: 31536000}
    maintenance_window: {hours: "22:00-24:00", zone: Europe/Berlin, days: [mon, tue], except: ["2027-12-24"]}
    final: true
options: {watch_scale_down: true, allow_self_approval: true, approval_expires_s: 60}
"""


def a_rule(text: str) -> str:
    """A policy whose one rule, on line 2, has these further keys."""
    return f"rules:\n  - {{kind: restart_service, target: web, {text}}}\n"


def only_problem(text: str) -> str:
    found = problems_of(text)
    assert len(found) == 1, found
    return found[0]


@pytest.mark.req("POL-19")
def test_every_part_of_a_file_is_read() -> None:
    policy = policy_of(WHOLE)
    first, second = policy.rules
    assert policy.defaults == Defaults(
        tier=Tier.AUTO_NOTIFY,
        rate_limit=RateLimit(max=5, window_s=60),
        blast_radius=BlastRadius(max_targets=7, window_s=120),
        where="defaults of policy.yml",
        shipped=frozenset(),
    )
    assert (first.kind, first.target, first.tier, first.where) == (
        "restart_service",
        "web-*",
        Tier.AUTO,
        "policy.yml:7",
    )
    assert first.rate_limit == RateLimit(max=2, window_s=1800)
    assert first.window is not None
    assert (first.window.hours, first.final) == ("02:00-05:00", False)
    assert (second.group, second.source, second.substrate, second.direction) == ("data", "operator", "process", "up")
    assert second.blast_radius == BlastRadius(max_targets=0, window_s=31_536_000)
    assert second.window is not None
    assert (second.window.start_minute, second.window.end_minute, second.window.zone_name) == (
        1320,
        1440,
        "Europe/Berlin",
    )
    assert second.window.days == {0, 1}
    assert second.window.except_dates == {date(2027, 12, 24)}
    assert (second.final, second.where) == (True, "policy.yml:9")
    assert policy.source == "policy.yml"
    assert policy.digest == "sha256:test"


@pytest.mark.req("POL-9")
def test_options_are_read_and_can_be_asked_for_by_name() -> None:
    policy = policy_of(WHOLE)
    assert [policy.option(name) for name in ("watch_scale_down", "allow_self_approval", "approval_expires_s")] == [
        True,
        True,
        60,
    ]
    assert policy_of("version: 1\n").option("watch_scale_down") is False
    with pytest.raises(KeyError):
        policy.option("watch_scale_dwon")


@pytest.mark.req("POL-19")
@pytest.mark.parametrize("text", ["version: 1\n", "rules: []\n", "defaults: {}\n", "options: {}\n"])
def test_what_a_file_leaves_out_is_as_shipped(text: str) -> None:
    policy = policy_of(text)
    assert policy.defaults.tier is Tier.APPROVAL_REQUIRED
    assert policy.defaults.rate_limit == RateLimit(max=3, window_s=3600)
    assert policy.defaults.blast_radius == BlastRadius(max_targets=3, window_s=3600)
    assert policy.options.approval_expires_s == 86_400


@pytest.mark.req("POL-19", "POL-5")
def test_a_decision_can_tell_the_file_s_defaults_from_the_shipped_ones() -> None:
    defaults = policy_of("defaults: {tier: auto}\n").defaults
    assert defaults.source_of("tier") == "defaults of policy.yml"
    assert defaults.source_of("rate_limit") == "shipped default"


def test_what_is_read_can_be_written_and_read_again() -> None:
    policy = policy_of(WHOLE)
    written = policy.plain() | {"version": 1}
    for about in ("digest", "source"):
        del written[about]
    for rule in written["rules"]:
        del rule["where"]
    again = read_policy(located(written, "policy.yml"), text_digest="sha256:test")
    assert [rule.plain() | {"where": ""} for rule in again.rules] == [
        rule.plain() | {"where": ""} for rule in policy.rules
    ]
    assert (again.defaults, again.options) == (policy.defaults, policy.options)


@pytest.mark.req("POL-14")
def test_one_reading_names_every_problem_with_its_line() -> None:
    text = """\
version: 1
rules:
  - {kind: restart_service, target: web, teir: auto}
  - {kind: restart_service, target: web, tier: auto, rate_limit: {max: oops, window_s: 60}}
  - {kind: restart_service, target: web, tier: auto}
  - {kind: restart_service, target: web, tier: auto, maintenance_window: "25:99-30:00"}
"""
    assert problems_of(text) == [
        "policy.yml:3  unknown key 'teir' (did you mean 'tier'?)",
        'policy.yml:4  rate_limit.max: "oops" is text, a whole number from 0 to 1,000,000 is needed',
        'policy.yml:6  maintenance_window: "25:99-30:00": hours go from 00:00 to 23:59 (24:00 as an end is midnight)',
    ]


@pytest.mark.req("POL-14", "POL-2")
@pytest.mark.parametrize("word", ["bogus", "off", "no", "on", "AUTO", "true", "null", "1", "[auto]", "{a: b}", '""'])
def test_a_tier_is_one_of_four_words(word: str) -> None:
    for text, line in ((a_rule(f"tier: {word}"), 2), (f"version: 1\ndefaults: {{tier: {word}}}\n", 2)):
        problem = only_problem(text)
        assert problem.startswith(f"policy.yml:{line}  ")
        assert "none of auto, auto_notify, approval_required, forbidden" in problem


@pytest.mark.req("POL-14")
@pytest.mark.parametrize(
    "block",
    ["{max: 3}", "{window_s: 60}", "{}", "null", "false", "3", "[3, 60]", '"3/60"', "{max: 3, window_s: 60, burst: 1}"],
)
def test_a_limit_is_complete_or_refused(block: str) -> None:
    assert problems_of(a_rule(f"tier: auto, rate_limit: {block}"))
    assert problems_of(a_rule(f"tier: auto, blast_radius: {block.replace('max', 'max_targets')}"))
    assert problems_of(f"defaults: {{rate_limit: {block}}}\n")


@pytest.mark.req("POL-14")
def test_a_limit_cannot_be_switched_off_and_the_refusal_says_what_to_write() -> None:
    assert "cannot be switched off, write a larger one, such as {max: 3, window_s: 3600}" in only_problem(
        a_rule("tier: auto, rate_limit: null")
    )


FIGURES = [
    "-1",
    "1000001",
    "1.5",
    "3.0",
    "true",
    "no",
    '"3"',
    "null",
    "1e3",
    ".inf",
    ".nan",
    "[3]",
    "0x10000000",
    "9" * 50,
]


@pytest.mark.req("POL-14")
@pytest.mark.parametrize("figure", FIGURES)
def test_a_limit_s_figures_are_whole_numbers_in_range(figure: str) -> None:
    assert "rate_limit.max" in only_problem(a_rule(f"tier: auto, rate_limit: {{max: {figure}, window_s: 60}}"))
    assert "blast_radius.max_targets" in only_problem(
        a_rule(f"tier: auto, blast_radius: {{max_targets: {figure}, window_s: 60}}")
    )


@pytest.mark.req("POL-14")
@pytest.mark.parametrize("figure", ["0", "31536001", *(one for one in FIGURES if one != "1000001")])
def test_a_limit_s_window_is_a_whole_number_of_seconds_in_range(figure: str) -> None:
    assert "rate_limit.window_s" in only_problem(a_rule(f"tier: auto, rate_limit: {{max: 1, window_s: {figure}}}"))


@pytest.mark.req("POL-14")
@pytest.mark.parametrize(("most", "window_s"), [(0, 1), (1_000_000, 31_536_000)])
def test_the_ends_of_the_ranges_are_in_them(most: int, window_s: int) -> None:
    (rule,) = policy_of(a_rule(f"tier: auto, rate_limit: {{max: {most}, window_s: {window_s}}}")).rules
    assert rule.rate_limit == RateLimit(max=most, window_s=window_s)


WINDOWS = [
    ("2-5", "is not of the form"),
    ("2:00-5:00", "is not of the form"),
    ("02:00 - 05:00", "is not of the form"),
    ("02:00-05:00 CET", "is not of the form"),
    ("02:00", "is not of the form"),
    ("", "is not of the form"),
    ("٠٢:00-05:00", "is not of the form"),
    ("24:00-05:00", "hours go from 00:00"),
    ("02:60-05:00", "hours go from 00:00"),
    ("02:00-24:01", "hours go from 00:00"),
    ("02:00-25:00", "hours go from 00:00"),
    ("00:00-00:00", "ends where it begins"),
    ("05:00-05:00", "ends where it begins"),
]


@pytest.mark.req("POL-14")
@pytest.mark.parametrize(("hours", "reason"), WINDOWS)
def test_hours_that_cannot_be_understood_are_refused(hours: str, reason: str) -> None:
    for window in (f'"{hours}"', f'{{hours: "{hours}"}}'):
        assert reason in only_problem(a_rule(f"tier: auto, maintenance_window: {window}"))


@pytest.mark.req("POL-14")
@pytest.mark.parametrize("window", ["null", "true", "2", "[]", "{}", "{hours: 3}", "{hours: null}", "{days: [mon]}"])
def test_a_window_of_another_shape_is_refused(window: str) -> None:
    assert "maintenance_window" in only_problem(a_rule(f"tier: auto, maintenance_window: {window}"))


@pytest.mark.req("POL-14")
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("zone: Europe/Berln", "did you mean 'Europe/Berlin'?"),
        ("zone: europe/berlin", "is no time zone"),
        ("zone: Europe", "is no time zone"),
        ("zone: localtime", "is no time zone"),
        ("zone: Factory", "is no time zone"),
        ("zone: posixrules", "is no time zone"),
        ("zone: right/Europe/Berlin", "is no time zone"),
        ("zone: ../../etc/passwd", "is no time zone"),
        ("zone: /etc/localtime", "is no time zone"),
        ("zone: +02:00", "is no time zone"),
        ("zone: 2", "is no time zone"),
        ("zone: null", "is no time zone"),
        ("days: []", "an empty list is never open"),
        ("days: mon", "is no list"),
        ("days: [monday]", "did you mean mon?"),
        ("days: [mon, mon]", "stands there twice"),
        ("days: [1]", "is none of mon"),
        ("days: [[mon]]", "is none of mon"),
        ("except: 2027-12-24", "is no list of dates"),
        ("except: [2027-02-30]", "is no date"),
        ("except: [20271224]", "is no date"),
        ("except: [2027-W52-5]", "is no date"),
        ("except: [null]", "is no date"),
        ("excpet: []", "did you mean 'except'?"),
    ],
)
def test_zone_days_and_exceptions_are_refused_when_they_mean_nothing(more: str, reason: str) -> None:
    assert reason in only_problem(a_rule(f'tier: auto, maintenance_window: {{hours: "02:00-05:00", {more}}}'))


@pytest.mark.req("POL-3")
@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "America/Argentina/Ushuaia", "Etc/GMT+5", "Asia/Kolkata"])
def test_any_zone_of_the_iana_list_is_understood(zone: str) -> None:
    (rule,) = policy_of(a_rule(f'tier: auto, maintenance_window: {{hours: "02:00-05:00", zone: {zone}}}')).rules
    assert rule.window is not None
    assert rule.window.zone_name == zone


@pytest.mark.req("POL-16")
@pytest.mark.parametrize("name", ["kind", "target", "group", "substrate"])
def test_an_empty_selector_selects_nothing_and_is_refused(name: str) -> None:
    assert "an empty selection selects nothing" in only_problem(f'rules:\n  - {{{name}: "", tier: auto}}\n')
    assert problems_of(f"rules:\n  - {{{name}: [], tier: auto}}\n")
    assert problems_of(f"rules:\n  - {{{name}: null, tier: auto}}\n")


@pytest.mark.req("POL-16")
def test_a_rule_that_selects_nothing_is_not_a_rule_for_everything() -> None:
    assert "the rule selects nothing" in only_problem("rules:\n  - {tier: auto}\n")
    (rule,) = policy_of('rules:\n  - {kind: "*", tier: forbidden}\n').rules
    assert (rule.kind, rule.target) == ("*", "*")
    (rule,) = policy_of("rules:\n  - {group: web, tier: auto}\n").rules
    assert (rule.kind, rule.target, rule.group) == ("*", "*", "web")


@pytest.mark.req("POL-14", "POL-5")
@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("{kind: a, target: b}", "the rule has no tier"),
        ("{kind: 5, tier: auto}", "text is needed"),
        ("{target: true, tier: auto}", "text is needed"),
        ('{target: "web-[1", tier: auto}', "a [ is never closed"),
        ('{target: " web", tier: auto}', "blanks around it"),
        (f"{{target: {'x' * 257}, tier: auto}}", "the limit is 256"),
        ('{group: "web*", tier: auto}', "is no name"),
        ("{source: autoscalar, tier: auto}", "did you mean 'autoscaler'?"),
        ("{direction: upwards, tier: auto}", "is none of up, down"),
        ("{kind: a, tier: auto, final: yes}", "is neither true nor false"),
        ("{kind: a, tier: auto, tier: forbidden}", "stands here twice"),
        ("{kind: a, tier: auto, 5: b}", "a key is text"),
        ("just text", "is no mapping"),
        ("[a]", "is no mapping"),
        ("null", "is no mapping"),
    ],
)
def test_a_bad_rule_is_refused_with_its_line(rule: str, reason: str) -> None:
    problem = only_problem(f"version: 1\nrules:\n  - {rule}\n")
    assert problem.startswith("policy.yml:3  ")
    assert reason in problem


@pytest.mark.req("POL-14")
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("dba", "is no mapping with teams and count"),
        ("{}", "approvers says nothing"),
        ("{teams: dba}", "is no list of teams"),
        ("{teams: [dba, dba]}", "'dba' stands here twice"),
        ("{teams: [5]}", "5 is no name of a team"),
        ("{teams: [two words]}", "approvers.teams: "),
        ("{count: 0}", "approvers.count"),
        ("{count: 21}", "approvers.count"),
        ("{count: true}", "approvers.count"),
        ("{team: [dba]}", "unknown key 'team' (did you mean 'teams'?)"),
    ],
)
def test_approvers_that_cannot_be_read_reject_the_file(said: str, reason: str) -> None:
    assert reason in only_problem(a_rule(f"tier: approval_required, approvers: {said}"))


@pytest.mark.req("POL-14", "POL-19")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the file holds nothing"),
        ("# only a comment\n", "the file holds nothing"),
        ("just text\n", "the file holds text"),
        ("- a list\n", "the file holds a list"),
        ("rules: 'not-a-list'\n", "is no list of rules"),
        ("rules:\n", "is no list of rules"),
        ("rules: {a: b}\n", "is no list of rules"),
        ("version: 2\n", "is not 1"),
        ('version: "1"\n', "is not 1"),
        ("version: true\n", "is not 1"),
        ("version: 1.0\n", "is not 1"),
        ("ruels: []\n", "did you mean 'rules'?"),
        ("defaults: auto\n", "is no mapping"),
        ("defaults: {tier: auto, final: true}\n", "unknown key 'final'"),
        ("options: []\n", "is no mapping"),
        ("options: {alow_self_approval: true}\n", "did you mean 'allow_self_approval'?"),
        ("options: {watch_scale_down: 1}\n", "is neither true nor false"),
        ("options: {approval_expires_s: 0}\n", "from 1 to 31,536,000"),
        ("options: {approval_expires_s: 1.5}\n", "from 1 to 31,536,000"),
        ("version: 1\nversion: 1\n", "stands here twice"),
    ],
)
def test_a_file_that_is_no_policy_is_refused(text: str, reason: str) -> None:
    assert reason in only_problem(text)


def test_there_is_a_limit_on_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_file, "MAX_RULES", 2)
    assert "3 rules, the limit is 2" in only_problem("rules:\n" + "  - {kind: a, tier: auto}\n" * 3)
    dates = ", ".join(f"2027-01-{day % 28 + 1:02d}" for day in range(367))
    assert "367 dates, the limit is 366" in only_problem(
        a_rule(f'tier: auto, maintenance_window: {{hours: "02:00-05:00", except: [{dates}]}}')
    )


def test_a_policy_given_as_a_value_names_the_place_of_a_rule() -> None:
    value = {"rules": [{"kind": "a", "tier": "auto"}, {"kind": "a", "tier": "bogus"}]}
    with pytest.raises(Misconfigured, match="rule 2: tier"):
        read_policy(located(value, "policy"), text_digest="")
    value["rules"].pop()
    (rule,) = read_policy(located(value, "policy"), text_digest="").rules
    assert rule.where == "policy rule 1"


@pytest.mark.req("POL-10")
def test_check_gives_problems_and_warnings_and_never_raises() -> None:
    bad = policy_file.check(yaml_tree.parse("version: 3\n", "p.yml"))
    assert [str(one) for one in bad.problems] == [
        "p.yml:1  version: 3 is not 1, the only version that this release reads"
    ]
    odd = policy_file.check(yaml_tree.parse("rules:\n  - {kind: restart_servce, tier: auto}\n", "p.yml"))
    assert odd.problems == []
    assert [str(one) for one in odd.warnings] == [
        "p.yml:2  kind 'restart_servce' is none of fleetwarden's own (did you mean 'restart_service'?)"
    ]


# Stored overrides


FLAT: dict[str, Any] = {"kind": "restart_service", "target": "web", "tier": "forbidden", "final": True}


@pytest.mark.req("POL-19", "POL-4")
@pytest.mark.parametrize(
    "record",
    [
        FLAT,
        FLAT | {"scope": "action_policy"},
        FLAT | {"active": True},
        {"rule_json": FLAT},
        {
            "scope": "action_policy",
            "rule_json": '{"kind": "restart_service", "target": "web", "tier": "forbidden", "final": true}',
        },
    ],
)
def test_a_stored_override_is_flat_or_a_payload(record: dict[str, Any]) -> None:
    expected = Rule(kind="restart_service", target="web", tier=Tier.FORBIDDEN, final=True, where="override:no-web")
    assert read_override("no-web", record, active=True) == expected


@pytest.mark.req("POL-4")
def test_an_override_that_is_switched_off_is_none_even_if_it_is_broken() -> None:
    assert read_override("x", {"tier": "bogus"}, active=False) is None
    assert read_override("x", FLAT | {"active": False}, active=True) is None


@pytest.mark.req("POL-14")
@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({}, "selects nothing"),
        ({"kind": "a"}, "no tier"),
        (FLAT | {"tier": "bogus"}, "none of auto"),
        (FLAT | {"rate_limit": {"max": "3", "window_s": 60}}, "whole number"),
        (FLAT | {"maintenance_window": "2-5"}, "not of the form"),
        (FLAT | {"approvers": {"count": 0}}, "approvers.count"),
        (FLAT | {"scope": "promotion"}, "is not action_policy"),
        (FLAT | {"scope": None}, "is not action_policy"),
        (FLAT | {"active": "no"}, "neither true nor false"),
        (FLAT | {"rule_json": "{}"}, "one or the other"),
        ({"rule_json": "{"}, "rule_json is no JSON"),
        ({"rule_json": "[]"}, "is no mapping"),
        ({"rule_json": 5}, "is no JSON object"),
        ({"rule_json": None}, "is no JSON object"),
        ({"rule_json": '{"kind": "a", "tier": "auto", "rule_json": "{}"}'}, "unknown key 'rule_json'"),
        ({"rule_json": "[" * 100_000}, "not readable as a rule"),
    ],
)
def test_an_override_that_cannot_be_read_raises_instead_of_being_left_out(record: dict[str, Any], reason: str) -> None:
    with pytest.raises(Misconfigured, match="override") as caught:
        read_override("x", record, active=True)
    assert reason in str(caught.value)


def test_an_override_of_any_depth_is_refused_with_words() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(Misconfigured):
        read_override("x", {"kind": deep, "tier": "auto"}, active=True)


# Whatever is thrown at it


KEYS = ["version", "defaults", "rules", "options", "kind", "target", "tier", "group", "source", "direction", "x"]
KEYS += ["rate_limit", "blast_radius", "max", "max_targets", "window_s", "maintenance_window", "hours", "zone", "days"]
KEYS += ["except", "final", "approvers", "scope", "rule_json"]
WORDS = ["auto", "forbidden", "restart_service", "*", "web-*", "02:00-05:00", "UTC", "mon", "2027-12-24", "up"]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from(WORDS)
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=30,
)


@pytest.mark.req("POL-14")
@given(junk=JUNK)
def test_any_value_is_a_policy_or_misconfigured(junk: object) -> None:
    assert_policy_or_misconfigured(lambda: located(junk, "junk.yml"))


@pytest.mark.req("POL-14")
@given(
    text=st.text(alphabet=st.characters(codec="utf-8"), max_size=60)
    | st.text(alphabet="rules: []{}-\n\"'kindt*a,0", max_size=60)
)
def test_any_text_is_a_policy_or_misconfigured(text: str) -> None:
    assert_policy_or_misconfigured(lambda: yaml_tree.parse(text, "junk.yml"))


def assert_policy_or_misconfigured(tree: Callable[[], Node]) -> None:
    problems: Sequence[Problem] = ()
    policy = None
    try:
        policy = read_policy(tree(), text_digest="")
    except Misconfigured as error:
        problems = error.problems
    assert (policy is None) is bool(problems)
    assert all(problem.reason and problem.file == "junk.yml" for problem in problems)
    assert policy is None or policy.plain()["source"] == "junk.yml"


@pytest.mark.req("POL-14")
@given(junk=st.dictionaries(st.sampled_from(["kind", "target", "tier", "scope", "rule_json", "rate_limit"]), JUNK))
def test_any_record_is_an_override_or_misconfigured(junk: dict[str, Any]) -> None:
    problems: Sequence[Problem] = ()
    rule = None
    try:
        rule = read_override("x", junk, active=True)
    except Misconfigured as error:
        problems = error.problems
    assert (rule is None) is bool(problems)
    assert rule is None or rule.where == "override:x"
