"""The decision against a slow and obvious model of it, and what must hold for any policy at all.

The model shares no code with the product: it reads the policy as the plain mapping that a file would hold, looks at
every rule, and counts every use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.domain.located import located
from fleetwarden.domain.policy import Policy, Ruling, Situation, decide, read_override, read_policy
from tests.unit.policy.ledgers import NOW, UseList, asking

TIERS = ["auto", "auto_notify", "approval_required", "forbidden"]
VERDICTS = ["allow", "allow_notify", "queue_approval", "deny"]
QUIET = ["diagnose", "notify", "noop"]
SHIPPED_DEFAULTS = {
    "tier": "approval_required",
    "rate_limit": {"max": 3, "window_s": 3600},
    "blast_radius": {"max_targets": 3, "window_s": 3600},
}
NOON = NOW

# What is generated: plain values only.  One number stands for a whole record, which makes an example cheap.

LEFT_OUT = object()


def one_of_each(**choices: Sequence[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A mapping with one choice for each key; a key whose choice is LEFT_OUT is absent."""

    def decoded(number: int) -> dict[str, Any]:
        record = {}
        for name, among in choices.items():
            number, place = divmod(number, len(among))
            record[name] = among[place]
        return {name: value for name, value in record.items() if value is not LEFT_OUT}

    return st.integers(0, prod(map(len, choices.values())) - 1).map(decoded)


def blocks(most: str) -> list[Any]:
    return [LEFT_OUT, LEFT_OUT, *({most: count, "window_s": span} for count in range(4) for span in (10, 100, 3600))]


WINDOWS = [LEFT_OUT, LEFT_OUT, "12:00-13:00", "11:00-12:00", "13:00-12:30", "22:00-04:00", "00:00-24:00"]
LIMITS = {"rate_limit": blocks("max"), "blast_radius": blocks("max_targets"), "maintenance_window": WINDOWS}
RULE = one_of_each(
    kind=["restart_service", "restart_*", "*", "?estart_service", "own", "diagnose", "deploy_service"],
    target=["a1", "a2", "a*", "*1", "*", "??", "b", "*a*"],
    tier=TIERS,
    group=[LEFT_OUT, LEFT_OUT, "g"],
    source=[LEFT_OUT, LEFT_OUT, "api", "operator"],
    direction=[LEFT_OUT, LEFT_OUT, "up"],
    final=[LEFT_OUT, False, True],
    **LIMITS,
)
DEFAULTS = one_of_each(tier=[LEFT_OUT, *TIERS], **LIMITS)
RULES = st.lists(RULE, max_size=6)
REQUEST = one_of_each(
    kind=["restart_service", "own", "diagnose", "deploy_service"],
    target=["a1", "a2", "b"],
    group=["", "g"],
    source=["api", "operator"],
    direction=["", "up"],
    dry_run=[False, True],
    irreversible=[False, True],
)
USES = st.lists(
    one_of_each(
        kind=["restart_service", "own", "diagnose"],
        target=["a1", "a2", "b", "c"],
        age=[0, 5, 10, 50, 100, 500, 3599, 3600],
        dry_run=[False, True],
    ).map(lambda use: (use["kind"], use["target"], use["age"], use["dry_run"])),
    max_size=8,
)
SITUATION = one_of_each(
    freezes=[LEFT_OUT, LEFT_OUT, LEFT_OUT, ("frozen",)],
    storm=[LEFT_OUT, LEFT_OUT, LEFT_OUT, "storm"],
    min_healthy=[LEFT_OUT, "too few"],
)
WAIVES = st.frozensets(st.sampled_from(["tier", "min_healthy", "blast", "window", "rate", "freeze"]))


# The model


def modelled(
    rules: Sequence[Mapping[str, Any]],
    defaults: Mapping[str, Any],
    overrides: Sequence[Mapping[str, Any]],
    request: Mapping[str, Any],
    uses: Sequence[tuple[str, str, int, bool]],
    situation: Mapping[str, Any],
    waives: frozenset[str],
) -> tuple[str, str, tuple[str, ...]]:
    """(verdict, code, who asked)."""
    quiet = request["kind"] in QUIET
    if situation.get("freezes") and not quiet:
        return "deny", "freeze", ()
    binding = binding_rules(rules, defaults, overrides, request)
    tier = max((one["tier"] for one in binding), key=TIERS.index)
    if tier == "forbidden":
        return "deny", "tier", ()
    if request["kind"] == "deploy_service" and request["irreversible"]:
        tier = "approval_required"
    asked = ["tier"] if tier == "approval_required" else []

    def used(limit: Mapping[str, int]) -> list[str]:
        return [
            target
            for kind, target, age, dry in uses
            if kind == request["kind"] and dry is request["dry_run"] and age < limit["window_s"]
        ]

    for one in binding:
        limit = one.get("rate_limit")
        if limit is not None and used(limit).count(request["target"]) >= limit["max"]:
            return "deny", "rate", ()
    if situation.get("storm") and not quiet:
        return "deny", "storm", ()
    if situation.get("min_healthy") and not quiet:
        asked.append("min_healthy")
    spans = [one["blast_radius"] for one in binding if "blast_radius" in one]
    if any(len({request["target"], *used(span)}) > span["max_targets"] for span in spans):
        asked.append("blast")
    closed = {"11:00-12:00", "22:00-04:00"}  # of the generated windows, those that are closed at NOON
    if tier != "approval_required" and any(one.get("maintenance_window") in closed for one in binding):
        asked.append("window")
    open_questions = tuple(code for code in asked if code not in waives)
    if open_questions:
        return "queue_approval", open_questions[0], open_questions
    return ("allow_notify" if tier == "auto_notify" else "allow"), "ok", ()


def binding_rules(
    rules: Sequence[Mapping[str, Any]],
    defaults: Mapping[str, Any],
    overrides: Sequence[Mapping[str, Any]],
    request: Mapping[str, Any],
) -> list[Mapping[str, Any]]:
    """The deciding rule and all final ones, with what the defaults add to each."""
    shipped = [{"kind": kind, "target": "*", "tier": "auto"} for kind in QUIET]
    whole = {**SHIPPED_DEFAULTS, **defaults}
    chosen: Mapping[str, Any] = {"tier": whole["tier"]}
    for source in (overrides, rules, [] if "tier" in defaults else shipped):  # a written tier is the file's own word
        matching = [rule for rule in source if applies(rule, request)]
        if matching:  # a weaker source is not asked any more
            chosen = max(matching, key=strength)  # the first of equals
            break
    finals = [rule for rule in (*rules, *overrides) if rule.get("final") and applies(rule, request)]
    found = [chosen, *finals]
    if request["kind"] in QUIET:
        return found
    fill: dict[str, Any] = {
        name: whole[name] for name in ("rate_limit", "blast_radius", "maintenance_window") if name in whole
    }
    return [{**fill, **one} for one in found]


def applies(rule: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    selectors = all(name not in rule or rule[name] == request[name] for name in ("group", "source", "direction"))
    return selectors and fnmatchcase(request["kind"], rule["kind"]) and fnmatchcase(request["target"], rule["target"])


def strength(rule: Mapping[str, Any]) -> tuple[int, ...]:
    literal = {name: sum(char not in "*?" for char in rule[name]) for name in ("kind", "target")}
    return (
        int(literal["target"] == len(rule["target"])),
        literal["target"],
        int(literal["kind"] == len(rule["kind"])),
        literal["kind"],
        sum(name in rule for name in ("group", "source", "direction")),
        TIERS.index(rule["tier"]),
    )


# The product, given the same values


def policy_of(rules: Sequence[Any], defaults: Mapping[str, Any]) -> Policy:
    value = {"version": 1, "rules": list(rules), "defaults": dict(defaults)}
    return read_policy(located(value, "policy.yml"), text_digest="sha256:test")


def decided(
    rules: Sequence[Any],
    defaults: Mapping[str, Any],
    overrides: Sequence[Any],
    request: Mapping[str, Any],
    uses: Sequence[tuple[str, str, int, bool]],
    situation: Mapping[str, Any],
    waives: frozenset[str] = frozenset(),
) -> Ruling:
    stored = [read_override(f"o{place}", rule, active=True) for place, rule in enumerate(overrides)]
    fields = {name: request[name] for name in ("group", "source", "direction", "dry_run")}
    params = {"version": "2", "irreversible": request["irreversible"]} if request["kind"] == "deploy_service" else {}
    return decide(
        policy_of(rules, defaults),
        [rule for rule in stored if rule is not None],
        asking(request["kind"], request["target"], params, **fields),
        UseList(*uses),
        Situation(**situation),
        NOON,
        waives=waives,
    )


@pytest.mark.req("POL-2", "POL-3", "POL-5", "POL-14", "POL-16", "POL-19", "AUT-24")
@given(rules=RULES, defaults=DEFAULTS, overrides=st.lists(RULE, max_size=3), request=REQUEST, uses=USES,
       situation=SITUATION, waives=WAIVES)  # fmt: skip
def test_the_decision_is_the_model_s(
    rules: Any, defaults: Any, overrides: Any, request: Any, uses: Any, situation: Any, waives: Any
) -> None:
    said = decided(rules, defaults, overrides, request, uses, situation, waives)
    expected = modelled(rules, defaults, overrides, request, uses, situation, waives)
    assert (said.verdict.value, said.code, said.queued_by) == expected
    assert said.notify is (said.verdict.value == "allow_notify")
    assert said.reason
    assert said.rule
    assert said.rule_source


def strictness(said: Ruling) -> int:
    return VERDICTS.index(said.verdict.value)


@pytest.mark.req("POL-5")
@given(rules=st.lists(RULE, min_size=1, max_size=6), defaults=DEFAULTS, overrides=st.lists(RULE, max_size=2),
       request=REQUEST, uses=USES, place=st.integers(0, 5))  # fmt: skip
def test_making_a_rule_final_never_loosens(
    rules: Any, defaults: Any, overrides: Any, request: Any, uses: Any, place: int
) -> None:
    place %= len(rules)
    made_final = [rule | {"final": True} if at == place else rule for at, rule in enumerate(rules)]
    before = decided(rules, defaults, overrides, request, uses, {})
    assert strictness(decided(made_final, defaults, overrides, request, uses, {})) >= strictness(before)


@pytest.mark.req("POL-5")
@given(rules=RULES, defaults=DEFAULTS, overrides=st.lists(RULE, max_size=3), request=REQUEST, uses=USES)
def test_nothing_loosens_what_a_final_rule_says_by_itself(
    rules: Any, defaults: Any, overrides: Any, request: Any, uses: Any
) -> None:
    said = decided(rules, defaults, overrides, request, uses, {})
    for final in (rule for rule in rules if rule.get("final") and applies(rule, request)):
        alone = decided([final], defaults, [], request, uses, {})
        assert strictness(said) >= strictness(alone)


@pytest.mark.req("POL-3", "POL-12")
@given(rules=RULES, defaults=DEFAULTS, request=REQUEST, uses=USES, more=USES, situation=SITUATION)
def test_neither_a_further_use_nor_a_freeze_ever_loosens(
    rules: Any, defaults: Any, request: Any, uses: Any, more: Any, situation: Any
) -> None:
    before = decided(rules, defaults, [], request, uses, {})
    after = decided(rules, defaults, [], request, [*uses, *more], situation)
    assert strictness(after) >= strictness(before)


@pytest.mark.req("AUT-24")
@given(rules=RULES, defaults=DEFAULTS, request=REQUEST, uses=USES, situation=SITUATION, waives=WAIVES)
def test_a_grant_only_ever_turns_a_question_into_an_allowance(
    rules: Any, defaults: Any, request: Any, uses: Any, situation: Any, waives: Any
) -> None:
    asked = decided(rules, defaults, [], request, uses, situation)
    granted = decided(rules, defaults, [], request, uses, situation, waives)
    if asked.verdict.value != "queue_approval":
        assert granted == asked
    else:
        assert granted.verdict.value != "deny"
        assert set(granted.queued_by) == set(asked.queued_by) - waives
    fully = decided(rules, defaults, [], request, uses, situation, frozenset(asked.queued_by))
    assert fully.verdict.value != "queue_approval"
