"""What is legal in a policy and probably not meant.

Every finding here is a warning: it names a place and what follows from it, and the policy holds all the same.  The
reading of a file adds those that need nothing but the file; whether a limit would starve an autoscaler can only be said
beside the fleet.  Nothing here changes a policy or a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from math import inf

from fleetwarden.domain import structure
from fleetwarden.domain.actions import KNOWN_KINDS, ActionRequest, Kind, Record, Source, Tier
from fleetwarden.domain.budgets import BlastRadius, RateLimit
from fleetwarden.domain.errors import Problem
from fleetwarden.domain.fleet import Fleet, Service
from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.domain.located import Findings, Node
from fleetwarden.domain.policy_document import Policy, deciding_rule
from fleetwarden.domain.policy_rules import Rule, ranked

__all__ = ["throttle_warnings", "warn"]

DEFAULT_COOLDOWN_S = 300.0  # what a scaling block has that says nothing
SHORTEST_STEP_S = 1.0  # a cooldown of 0 still leaves a step no sooner than this
NAMED = 5  # services that a warning names
LIKELY = 0.85  # how alike two kinds must be for one to be taken as a slip of the pen


def warn(rules: Sequence[tuple[Node, Rule]], findings: Findings) -> None:
    """Warnings about each rule by itself and about rules that can never decide."""
    decides: dict[tuple[str, ...], Rule] = {}
    for rule in ranked(rule for _, rule in rules):
        decides.setdefault(_selection(rule), rule)
    for node, rule in rules:
        first = decides[_selection(rule)]
        if first is not rule and not rule.final:
            why = "stands first" if first.tier is rule.tier else f"is stricter ({first.tier.value})"
            findings.warn(node, f"this rule never decides: {first.where} selects the same and {why}")
        _warn_kind(node, rule, findings)
        _warn_idle_blocks(node, rule, findings)
        if rule.approvers is not None and rule.approvers.teams == () and rule.tier is not Tier.FORBIDDEN:
            findings.warn(node, "approvers: an empty list of teams is nobody: what this rule asks cannot be granted")


def _selection(rule: Rule) -> tuple[str, ...]:
    return rule.kind, rule.target, rule.group, rule.source, rule.substrate, rule.direction


def _warn_kind(node: Node, rule: Rule, findings: Findings) -> None:
    if not rule.kind_glob.exact:
        return
    if rule.kind not in KNOWN_KINDS:
        close = get_close_matches(rule.kind, [kind.value for kind in Kind], n=1, cutoff=LIKELY)
        if close:
            findings.warn(node, f"kind {rule.kind!r} is none of fleetwarden's own (did you mean {close[0]!r}?)")
    if rule.source and not structure.may_ask(rule.source, rule.kind):
        findings.warn(node, f"this rule never matches: the {rule.source} does not ask for {rule.kind}")


def _warn_idle_blocks(node: Node, rule: Rule, findings: Findings) -> None:
    if rule.tier is Tier.FORBIDDEN:
        given = {
            "rate_limit": rule.rate_limit,
            "blast_radius": rule.blast_radius,
            "maintenance_window": rule.window,
            "approvers": rule.approvers,
        }
        idle = [name for name, block in given.items() if block is not None]
        if idle:
            findings.warn(node, f"{', '.join(idle)} has no effect at tier forbidden: it is denied at any time")
    elif rule.tier is Tier.APPROVAL_REQUIRED and rule.window is not None:
        findings.warn(node, "maintenance_window has no effect at tier approval_required: a person decides at any hour")


class _Held(Record):
    """A limit in words, where it stands, what it allows, and the services that it would hold back."""

    where: str
    said: str
    most: int


def throttle_warnings(policy: Policy, fleet: Fleet) -> tuple[Problem, ...]:
    """Limits that would hold back a scaling block of this fleet, one warning a limit.

    A block may ask for a step every cooldown; a rate limit that allows fewer steps in its window denies the rest, and
    a blast radius smaller than the number of services that scale under it asks a person for each further one.
    """
    slow: dict[_Held, set[str]] = {}
    wide: dict[_Held, set[str]] = {}
    for service in fleet.services.values():
        for direction in ("up", "down") if service.scaling is not None else ():
            rule = deciding_rule(policy, (), _scale_request(service, direction))
            if (rule.tier if rule else policy.defaults.tier) not in (Tier.AUTO, Tier.AUTO_NOTIFY):
                continue  # nothing is automatic there that a limit could hold back
            rate, place = _rate(policy, rule)
            if rate.max < rate.window_s / max(_cooldown_s(service, direction), SHORTEST_STEP_S):
                held = _Held(where=place, said=f"rate_limit {rate.max} per {rate.window_s} s", most=rate.max)
                slow.setdefault(held, set()).add(service.name)
            blast, place = _blast(policy, rule)
            said = f"blast_radius {blast.max_targets} targets per {blast.window_s} s"
            wide.setdefault(_Held(where=place, said=said, most=blast.max_targets), set()).add(service.name)
    found = [
        _problem(held, f"allows fewer steps than the cooldown of {_named(names)} would ask for: the rest is denied")
        for held, names in slow.items()
    ]
    found += [
        _problem(
            held, f"is smaller than the {len(names)} services that scale under it ({_named(names)}): the rest waits"
        )
        for held, names in wide.items()
        if len(names) > held.most
    ]
    return tuple(sorted(found))


def _rate(policy: Policy, rule: Rule | None) -> tuple[RateLimit, str]:
    if rule is not None and rule.rate_limit is not None:
        return rule.rate_limit, rule.where
    return policy.defaults.rate_limit, policy.defaults.source_of("rate_limit")


def _blast(policy: Policy, rule: Rule | None) -> tuple[BlastRadius, str]:
    if rule is not None and rule.blast_radius is not None:
        return rule.blast_radius, rule.where
    return policy.defaults.blast_radius, policy.defaults.source_of("blast_radius")


def _scale_request(service: Service, direction: str) -> ActionRequest:
    """What the autoscaler would ask for this service."""
    return ActionRequest(
        kind=Kind.SCALE,
        target=service.name,
        params={"replicas": service.replicas},
        source=Source.AUTOSCALER,
        requested_by=Source.AUTOSCALER,
        key="",
        group=service.group,
        substrate=service.substrate,
        direction=direction,
    )


def _cooldown_s(service: Service, direction: str) -> float:
    raw: Mapping[str, JsonValue] = service.scaling.raw if service.scaling is not None else {}
    for name in (f"cooldown_{direction}_s", "cooldown_s"):
        value = raw.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < inf:
            return float(value)
    return DEFAULT_COOLDOWN_S


def _named(names: Iterable[str]) -> str:
    """The first few names, and how many more."""
    ordered = sorted(names)
    more = f" and {len(ordered) - NAMED} more" if len(ordered) > NAMED else ""
    return ", ".join(ordered[:NAMED]) + more


def _problem(held: _Held, what: str) -> Problem:
    file, _, line = held.where.rpartition(":")
    if file and line.isdigit():
        return Problem(file, int(line), f"{held.said} {what}")
    return Problem(held.where, 0, f"{held.said} {what}")
