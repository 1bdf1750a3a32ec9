"""The action policy for users: ask what a policy says, without a plane, a store or a clock.

`evaluate` takes a policy as text or as a mapping, one request and the ledger's rows as plain values, and answers with
plain values: for a notebook, a test of your own rules, or a check in a pipeline.  `ActionPolicy` is the same decision
for programs that hold records.  Everything here stands on `fleetwarden.domain.policy`, which the live plane uses too;
nothing is decided in this module, and whatever cannot be understood is answered with a denial, never with a guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from fleetwarden.adapters.files import yaml_tree
from fleetwarden.domain.actions import (
    ActionApproval,
    ActionDecision,
    ActionRequest,
    Tier,
    Verdict,
)
from fleetwarden.domain.budgets import BudgetLedger
from fleetwarden.domain.errors import FleetError, Misconfigured
from fleetwarden.domain.identifiers import JsonValue, Micros, digest
from fleetwarden.domain.located import Node, located
from fleetwarden.domain.policy import (
    SHIPPED,
    Policy,
    Rule,
    Ruling,
    Situation,
    decide,
    read_policy,
    refuse,
)
from fleetwarden.domain.policy_plain import Rows, micros_of, override_of, request_of, request_problem

__all__ = [
    "SHIPPED",
    "ActionApproval",
    "ActionDecision",
    "ActionPolicy",
    "ActionRequest",
    "Policy",
    "Ruling",
    "Tier",
    "Verdict",
    "evaluate",
]

FILE = "policy"  # what findings call a policy that was given as a value


def evaluate(
    policy: str | Mapping[str, JsonValue],
    request: Mapping[str, JsonValue],
    *,
    ledger: Sequence[Mapping[str, Any]] = (),
    fleet: Mapping[str, Mapping[str, JsonValue]] = {},
    now: datetime,
    overrides: Sequence[Mapping[str, JsonValue]] = (),
    freezes: Sequence[str] = (),
) -> dict[str, JsonValue]:
    """What `policy` (YAML text, or the same as a mapping) says to `request` at `now`.

    `request`: kind and target, optionally params, source (default `api`), direction, dry_run; its group and substrate
    are those of `fleet` (name → group, owner, status, substrate, replicas) where the target is listed there.
    `ledger`: earlier decisions as {kind, target, verdict, at, dry_run?}; those allowed count in the budgets.
    `overrides`: stored overrides as {id, active?, and the rule's own keys}.  `freezes`: sentences; any freezes all.
    Times are aware datetimes or RFC 3339 text; one without a zone is taken as UTC.

    Answers {verdict, code, reason, rule, source, policy_digest, numbers, queued_by, notify}.  Where the policy is not
    valid, `error` says why and the shipped default decides; anything else that cannot be understood is a denial.
    """
    error = ""
    in_force = SHIPPED
    try:
        in_force = _policy(policy)
    except Misconfigured as invalid:
        error = str(invalid)
    answer = _answer(_rule(in_force, request, ledger, fleet, now, overrides, freezes))
    return answer | {"error": error} if error else answer


class ActionPolicy:
    """A policy, and the stored overrides that outrank it, ready to be asked."""

    def __init__(self, policy: Policy = SHIPPED, overrides: Sequence[Rule] = ()) -> None:
        self.policy = policy
        self.overrides = tuple(overrides)

    @classmethod
    def from_text(cls, text: str, file: str = FILE) -> ActionPolicy:
        """Read YAML text.  Raises Misconfigured naming every problem with `file` and line."""
        return cls(_read_text(text, file))

    def decide(
        self, request: ActionRequest, ledger: BudgetLedger, now: Micros, situation: Situation | None = None
    ) -> Ruling:
        """Decide a request on the ledger's budgets.  Never raises: what goes wrong inside is a denial."""
        return decide(self.policy, self.overrides, request, ledger, situation or Situation(), now)

    def option(self, name: str, default: JsonValue = None) -> JsonValue:
        """One of the file's `options:`, or `default` where there is no such option."""
        try:
            return self.policy.option(name)
        except KeyError:
            return default


def _policy(policy: str | Mapping[str, JsonValue]) -> Policy:
    if isinstance(policy, str):
        return _read_text(policy, FILE)
    try:
        tree, text_digest = located(dict(policy), FILE), digest(policy)
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError) as error:
        raise Misconfigured(f"the policy is no plain mapping ({type(error).__name__}: {error})") from error
    return read_policy(tree, text_digest=text_digest)


def _read_text(text: str, file: str) -> Policy:
    tree: Node = yaml_tree.parse(text, file)
    return read_policy(tree, text_digest=digest(text.encode("utf-8", "surrogatepass")))


def _rule(
    policy: Policy,
    request: Mapping[str, JsonValue],
    ledger: Sequence[Mapping[str, Any]],
    fleet: Mapping[str, Mapping[str, JsonValue]],
    now: datetime,
    overrides: Sequence[Mapping[str, JsonValue]],
    freezes: Sequence[str],
) -> Ruling:
    if (problem := request_problem(request)) is not None:
        return refuse(policy, "structure", f"denied, the request is malformed: {problem}")
    try:
        rows, at = Rows(ledger), micros_of(now)
        rules = [rule for one in overrides if (rule := override_of(one)) is not None]
        asked = request_of(request, fleet)
        situation = Situation(freezes=tuple(freezes))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, FleetError) as error:
        said = f"{type(error).__name__}: {error}"
        return refuse(policy, "error", f"denied, what was given beside the request cannot be read ({said})")
    return decide(policy, rules, asked, rows, situation, at)


def _answer(ruling: Ruling) -> dict[str, JsonValue]:
    return {
        "verdict": ruling.verdict.value,
        "code": ruling.code,
        "reason": ruling.reason,
        "rule": ruling.rule,
        "source": ruling.rule_source,
        "policy_digest": ruling.policy_digest,
        "numbers": dict(ruling.numbers),
        "queued_by": list(ruling.queued_by),
        "notify": ruling.notify,
    }
