"""A whole policy as it is in force: rules, defaults and options, indexed, with the digest of the text they came from.

A policy is replaced whole or not at all; nothing in it ever changes.  Also here: the policy that ships, which decides
wherever no other can, and the order of sources that finds the one rule for a request.  Nothing here is read from text
(see `policy_file`) and nothing here is decided (see `policy`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fleetwarden.domain import policy_rules
from fleetwarden.domain.actions import OBSERVING_KINDS, ActionRequest, Record, Tier
from fleetwarden.domain.errors import Problem
from fleetwarden.domain.identifiers import JsonValue, digest
from fleetwarden.domain.policy_default import SHIPPED_TEXT
from fleetwarden.domain.policy_rules import SHIPPED_NAME, Defaults, Rule, RuleIndex

__all__ = ["SHIPPED", "Options", "Policy", "deciding_rule"]


class Options(Record):
    """The file's `options:`.  `approval_expires_s` is 1 to 31,536,000.

    `approval_warns_s`: how long before an approval expires people are told once more (at most a quarter of its whole
    time; 0 for not at all).  `event_max_age_s` (1 to 31,536,000): how old an event may be and still lead to an action.
    """

    watch_scale_down: bool = False
    allow_self_approval: bool = False
    approval_expires_s: int = 86_400
    approval_warns_s: int = 3_600
    event_max_age_s: int = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A whole valid policy, indexed.  `digest` is that of the text it was read from, `source` what people call it."""

    rules: tuple[Rule, ...]
    defaults: Defaults
    options: Options
    digest: str
    source: str
    warnings: tuple[Problem, ...] = field(default=(), compare=False)
    index: RuleIndex = field(init=False, repr=False, compare=False)
    finals: RuleIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", RuleIndex(self.rules))
        object.__setattr__(self, "finals", RuleIndex(rule for rule in self.rules if rule.final))

    def option(self, name: str) -> JsonValue:
        """The value of one of the options; raises KeyError for any other name."""
        if name not in Options.__struct_fields__:
            raise KeyError(name)
        return getattr(self.options, name)

    def plain(self) -> dict[str, JsonValue]:
        """JSON-ready, in the file's own shape."""
        return {
            "digest": self.digest,
            "source": self.source,
            "defaults": self.defaults.plain(),
            "rules": [rule.plain() for rule in self.rules],
            "options": {name: self.option(name) for name in Options.__struct_fields__},
        }


SHIPPED = Policy(
    rules=tuple(
        Rule(kind=kind.value, target="*", tier=Tier.AUTO, where=SHIPPED_NAME) for kind in sorted(OBSERVING_KINDS)
    ),
    defaults=Defaults(),
    options=Options(),
    digest=digest(SHIPPED_TEXT.encode()),
    source=SHIPPED_NAME,
)


def deciding_rule(policy: Policy, overrides: Sequence[Rule], request: ActionRequest) -> Rule | None:
    """The rule that decides by source and specificity, or None where the defaults do.

    A tier that the policy itself writes into its defaults is its own word, so it comes before the rules that ship.
    """
    rule = policy_rules.best(overrides, request) if overrides else None
    rule = rule or policy.index.best(request)
    if rule is None and "tier" in policy.defaults.shipped:
        rule = SHIPPED.index.best(request)
    return rule
