"""Why one rule decides a request and the others do not, and what each of them would have said in its place.

A reading aid beside the decision: it asks `policy.decide` and the rules' own order, and adds no judgement of its own.
Pure, like the decision; it never weighs anything that the decision does not weigh.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fleetwarden.domain import policy as policies
from fleetwarden.domain.actions import OBSERVING_KINDS, ActionRequest, Record, Tier, Verdict
from fleetwarden.domain.budgets import BudgetLedger
from fleetwarden.domain.identifiers import JsonValue, Micros
from fleetwarden.domain.policy import DEFAULTS, SHIPPED, Policy, Ruling, Situation
from fleetwarden.domain.policy_rules import SHIPPED_NAME, Rule, ranked

__all__ = ["Considered", "Explained", "explain"]

OVERRIDES, FILE, SHIPPED_RULES = "override", "file", "shipped"
_STEPS = (
    "a pattern for the target, the rule above names it exactly",
    "fewer literal characters in its target",
    "a pattern for the kind, the rule above names it exactly",
    "fewer literal characters in its kind",
    "fewer selectors",
)


class Considered(Record):
    """One rule that matches, or the defaults.

    `role` is `decides`, `binds` (final: its tier and limits hold as well) or `outranked`; `why` says so in words.
    `limits` are those that would hold under it, each with its source.  `verdict`, `code` and `reason` are what would
    have been said if this were the only rule; `compared` is that beside the answer: looser, stricter or same.
    """

    rule: str
    source: str
    level: str
    role: str
    why: str
    tier: Tier
    limits: dict[str, JsonValue]
    final: bool
    verdict: Verdict
    code: str
    reason: str
    compared: str


class Explained(Record):
    """The ruling on a request, and everything that matched it, the deciding one first."""

    ruling: Ruling
    considered: tuple[Considered, ...]


def explain(
    policy: Policy,
    overrides: Sequence[Rule],
    request: ActionRequest,
    ledger: BudgetLedger,
    situation: Situation,
    now: Micros,
) -> Explained:
    """Decide, and say what every matching rule had to do with it."""
    ruling = policies.decide(policy, overrides, request, ledger, situation, now)
    winner = policies.deciding_rule(policy, overrides, request)
    found: list[Considered] = []
    before: tuple[str, Rule] | None = None
    for level, rule in _in_order(policy, overrides, request):
        alone = policies.decide(_only(policy, rule), (), request, ledger, situation, now)
        role, why = _role(level, rule, winner, before)
        if role == "binds" and rule is not None and (ruling.rule, ruling.rule_source) == (rule.words, rule.where):
            why = "final, and stricter than the most specific rule: the answer is by this one"
        found.append(
            Considered(
                rule=DEFAULTS if rule is None else rule.words,
                source=policy.defaults.source_of("tier") if rule is None else rule.where,
                level=level,
                role=role,
                why=why,
                tier=policy.defaults.tier if rule is None else rule.tier,
                limits=_limits(policy, rule, observing=request.kind in OBSERVING_KINDS),
                final=rule is not None and rule.final,
                verdict=alone.verdict,
                code=alone.code,
                reason=alone.reason,
                compared=_compared(alone.verdict, ruling.verdict),
            )
        )
        before = None if rule is None else (level, rule)
    return Explained(ruling=ruling, considered=tuple(found))


def _in_order(policy: Policy, overrides: Sequence[Rule], request: ActionRequest) -> Iterator[tuple[str, Rule | None]]:
    """Everything that matches, in the order in which it would decide."""
    for rule in ranked(one for one in overrides if one.matches(request)):
        yield OVERRIDES, rule
    for rule in policy.index.matching(request):
        yield FILE, rule
    if "tier" in policy.defaults.shipped:
        for rule in SHIPPED.index.matching(request) if policy is not SHIPPED else ():
            yield SHIPPED_RULES, rule
    yield DEFAULTS, None


def _only(policy: Policy, rule: Rule | None) -> Policy:
    """The policy as it would be with this rule alone, or with nothing but its defaults."""
    if rule is not None:
        return replace(policy, rules=(rule,))
    defaults = policy.defaults
    if "tier" in defaults.shipped:  # keeps the rules that ship from coming before them
        defaults = replace(defaults, where=SHIPPED_NAME, shipped=defaults.shipped - {"tier"})
    return replace(policy, rules=(), defaults=defaults)


def _role(level: str, rule: Rule | None, winner: Rule | None, before: tuple[str, Rule] | None) -> tuple[str, str]:
    if rule is winner:
        return "decides", "no rule matches" if rule is None else "the strongest source, and its most specific rule"
    if rule is not None and rule.final:
        return "binds", "final: its tier and its limits hold as well, whoever decides"
    if before is None or before[0] != level or rule is None:
        return "outranked", "a weaker source" if rule is not None else "a rule matches"
    above = before[1]
    for mine, others, words in zip(rule.specificity, above.specificity, _STEPS, strict=True):
        if mine != others:
            return "outranked", words
    return "outranked", "as specific, and looser" if rule.tier is not above.tier else "the same, and stands later"


def _limits(policy: Policy, rule: Rule | None, *, observing: bool) -> dict[str, JsonValue]:
    """The limits that hold under a rule, with their sources; what changes nothing has only those of its own rule."""
    defaults = policy.defaults
    own = {} if rule is None else rule.plain()
    usual = {} if observing else defaults.plain()
    limits: dict[str, JsonValue] = {}
    for name in ("rate_limit", "blast_radius", "maintenance_window"):
        if name in own and rule is not None:
            limits[name] = {"value": own[name], "source": rule.where}
        elif name in usual:
            source = defaults.where if name == "maintenance_window" else defaults.source_of(name)
            limits[name] = {"value": usual[name], "source": source}
    return limits


def _compared(one: Verdict, other: Verdict) -> str:
    order = list(Verdict)
    place = order.index(one) - order.index(other)
    return "looser" if place < 0 else "stricter" if place > 0 else "same"
