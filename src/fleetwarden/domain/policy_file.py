"""From a located tree to a policy, or to a list of everything that is wrong with it.

A policy file is taken whole or rejected whole: one bad limit must never leave a file in force that lacks it.  So every
value is checked for type and range, every unknown key is refused with a suggestion, and nothing is read as a default
because it could not be understood.  Stored overrides are read by the same rules.  Nothing here decides anything, and
nothing here reads a file; the one thing it fetches is the data of a time zone, from the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fleetwarden.domain import policy_advice
from fleetwarden.domain.actions import Source, Tier
from fleetwarden.domain.approvers import read_approvers
from fleetwarden.domain.budgets import MAX_USES, MAX_WINDOW_S, BlastRadius, RateLimit
from fleetwarden.domain.errors import Misconfigured, Problem
from fleetwarden.domain.globs import Glob
from fleetwarden.domain.identifiers import JsonValue, name_problem
from fleetwarden.domain.located import Findings, Node, located
from fleetwarden.domain.located_values import quoted, text, whole, word
from fleetwarden.domain.policy_document import Options, Policy
from fleetwarden.domain.policy_rules import Defaults, Rule
from fleetwarden.domain.window_file import read_window
from fleetwarden.domain.windows import MaintenanceWindow

__all__ = ["MAX_RULES", "check", "read_override", "read_policy"]

MAX_RULES = 100_000
MAX_PATTERN = 256  # characters of a kind or target pattern
MAX_EXPIRY_S = 31_536_000
_FILE_KEYS = ("version", "defaults", "rules", "options")
_BLOCKS = ("rate_limit", "blast_radius", "maintenance_window")
_SELECTORS = ("kind", "target", "group", "source", "substrate", "direction")
_RULE_KEYS = (*_SELECTORS, "tier", *_BLOCKS, "approvers", "final")
_OVERRIDE_KEYS = ("scope", "active", "rule_json")
_SCOPE = "action_policy"
_TIERS = tuple(tier.value for tier in Tier)
_SOURCES = tuple(source.value for source in Source)
_Blocks = tuple[RateLimit | None, BlastRadius | None, MaintenanceWindow | None]


def read_policy(tree: Node, *, text_digest: str) -> Policy:
    """The policy that a file holds, with its warnings.

    `text_digest` is the digest of the file's bytes.  Raises Misconfigured with every problem; then nothing of the file
    may be used.
    """
    findings = Findings()
    policy = _policy(tree, text_digest, findings)
    findings.raise_if_any(f"{tree.file} is no valid policy")
    assert policy is not None
    return policy


def check(tree: Node) -> Findings:
    """Everything that can be said about a policy file without a fleet: problems and warnings.  Never raises."""
    findings = Findings()
    policy = _policy(tree, "", findings)
    findings.warnings.extend(policy.warnings if policy is not None else ())
    return findings


def read_override(id: str, rule: Mapping[str, JsonValue], *, active: bool) -> Rule | None:  # noqa: A002 - the stored record's word
    """The rule of a stored `governance_rule` record, flat or under `rule_json`; None if it is switched off.

    Raises Misconfigured if it cannot be read.  Whoever decides must then deny: to go on without it would loosen.
    """
    if not active:
        return None
    findings, name = Findings(), f"override:{id}"
    made = None
    try:
        tree = _payload(located(dict(rule), name), findings)
        made = None if tree is None else _rule(tree, findings, where=name)
    except (RecursionError, TypeError, ValueError) as error:
        findings.problem(Node(None, name, 0), f"not readable as a rule ({type(error).__name__})")
    if findings.problems:
        raise Misconfigured(f"the stored override {id!r} cannot be read", findings.problems)
    return made


def _payload(tree: Node, findings: Findings) -> Node | None:
    """The mapping of a record that holds the rule itself; None if it says that it is switched off."""
    about = {key.value: value for key, value in tree.pairs() if key.value in _OVERRIDE_KEYS}
    flat = tuple((key, value) for key, value in tree.pairs() if key.value not in _OVERRIDE_KEYS)
    scope, active, payload = (about.get(name) for name in _OVERRIDE_KEYS)
    if scope is not None and scope.value != _SCOPE:
        findings.problem(scope, f"scope: {quoted(scope)} is not {_SCOPE}")
    if active is not None and _flag(findings, "active", active) is False:
        return None
    if payload is None:
        return Node(flat, tree.file, tree.line, mapping=True)
    if flat:
        findings.problem(
            tree, f"rule_json stands beside {', '.join(str(key.value) for key, _ in flat)}: one or the other"
        )
    if payload.mapping:
        return payload
    if not isinstance(payload.value, str):
        findings.problem(payload, f"rule_json: {quoted(payload)} is no JSON object")
        return payload
    try:
        return located(msgspec.json.decode(payload.value), tree.file)
    except msgspec.DecodeError as error:
        findings.problem(payload, f"rule_json is no JSON: {error}")
        return payload


def _policy(tree: Node, text_digest: str, findings: Findings) -> Policy | None:
    if not tree.mapping or not tree.pairs():  # an empty file is one that is being written, or was lost
        what = "nothing" if tree.mapping else tree.shape
        findings.problem(tree, f"the file holds {what}: a policy is a mapping with the keys {', '.join(_FILE_KEYS)}")
        return None
    parts = findings.keys(tree, _FILE_KEYS)
    version = parts.get("version")
    if version is not None and (type(version.value) is not int or version.value != 1):
        findings.problem(version, f"version: {quoted(version)} is not 1, the only version that this release reads")
    defaults = _defaults(parts.get("defaults"), tree.file, findings)
    rules = _rules(parts.get("rules"), findings)
    options = _options(parts.get("options"), findings)
    if findings.problems:
        return None
    advice = Findings()
    policy_advice.warn(rules, advice)
    return Policy(
        rules=tuple(rule for _, rule in rules),
        defaults=defaults,
        options=options,
        digest=text_digest,
        source=tree.file,
        warnings=tuple(advice.warnings),
    )


def _defaults(node: Node | None, file: str, findings: Findings) -> Defaults:
    shipped = Defaults()
    if node is None or not _is_mapping(findings, "defaults", node):
        return shipped
    parts = findings.keys(node, ("tier", *_BLOCKS))
    tier = word(findings, "defaults.tier", parts["tier"], _TIERS) if "tier" in parts else None
    rate, blast, window = _blocks(parts, findings)
    return Defaults(
        tier=shipped.tier if tier is None else Tier(tier),
        rate_limit=rate or shipped.rate_limit,
        blast_radius=blast or shipped.blast_radius,
        window=window,
        where=f"defaults of {file}",
        shipped=shipped.shipped - parts.keys(),
    )


def _rules(node: Node | None, findings: Findings) -> list[tuple[Node, Rule]]:
    if node is None:
        return []
    if not node.is_list:
        findings.problem(node, f"rules: {quoted(node)} is no list of rules (write [] for none)")
        return []
    if len(node.items()) > MAX_RULES:
        findings.problem(node, f"rules: {len(node.items()):,} rules, the limit is {MAX_RULES:,}")
        return []
    read = [(item, _rule_of_list(item, place, findings)) for place, item in enumerate(node.items(), 1)]
    return [(item, rule) for item, rule in read if rule is not None]


def _rule_of_list(node: Node, place: int, findings: Findings) -> Rule | None:
    """A rule that says where it stands: by its line, or by its place where the policy was given as a value."""
    if node.line:
        return _rule(node, findings, where=node.where)
    own = Findings()
    rule = _rule(node, own, where=f"{node.file} rule {place}")
    findings.problems += [Problem(one.file, one.line, f"rule {place}: {one.reason}") for one in own.problems]
    return rule


def _rule(node: Node, findings: Findings, *, where: str) -> Rule | None:
    """One rule, or None with the problems in `findings`."""
    before = len(findings.problems)
    if not _is_mapping(findings, "a rule", node):
        return None
    parts = findings.keys(node, _RULE_KEYS)
    selectors = {name: _selector(findings, name, parts[name]) for name in _SELECTORS if name in parts}
    tier = word(findings, "tier", parts["tier"], _TIERS) if "tier" in parts else None
    if len(findings.problems) == before:  # a misspelt key already says what is missing
        if not selectors:
            findings.problem(node, 'the rule selects nothing: say what it is for (kind: "*" is every kind)')
        if tier is None:
            findings.problem(node, f"the rule has no tier: one of {', '.join(_TIERS)}")
    rate, blast, window = _blocks(parts, findings)
    approvers = read_approvers(findings, parts["approvers"]) if "approvers" in parts else None
    final = _flag(findings, "final", parts["final"]) if "final" in parts else False
    if len(findings.problems) > before or tier is None:
        return None
    return Rule(
        **selectors,
        tier=Tier(tier),
        rate_limit=rate,
        blast_radius=blast,
        window=window,
        approvers=approvers,
        final=bool(final),
        where=where,
    )


def _selector(findings: Findings, name: str, node: Node) -> str:
    """What a rule is for: a pattern for kind and target, one word or name for the rest."""
    if name == "source":
        return word(findings, name, node, _SOURCES) or ""
    if name == "direction":
        return word(findings, name, node, ("up", "down")) or ""
    if node.value == "":
        findings.problem(node, f'{name}: an empty selection selects nothing: write "*" for all, or leave it out')
        return ""
    value = text(findings, name, node, longest=MAX_PATTERN)
    if value is None:
        return ""
    if name in ("group", "substrate"):
        problem = name_problem(value)
    elif value != value.strip() or not value.isprintable():
        problem = f"{quoted(node)} has blanks around it or characters that cannot be printed"
    else:
        problem = "a [ is never closed (write [[] for the character itself)" if Glob(value).unclosed else None
    if problem:
        findings.problem(node, f"{name}: {problem}")
    return value


def _blocks(parts: Mapping[str, Node], findings: Findings) -> _Blocks:
    rate = blast = window = None
    if "rate_limit" in parts and (figures := _limit(findings, "rate_limit", parts["rate_limit"], "max")):
        rate = RateLimit(max=figures[0], window_s=figures[1])
    if "blast_radius" in parts and (figures := _limit(findings, "blast_radius", parts["blast_radius"], "max_targets")):
        blast = BlastRadius(max_targets=figures[0], window_s=figures[1])
    if "maintenance_window" in parts:
        window = read_window(parts["maintenance_window"], findings)
    return rate, blast, window


def _limit(findings: Findings, name: str, node: Node, most: str) -> tuple[int, int] | None:
    """The two figures of a limit block, `most` and window_s."""
    example = f"{{{most}: 3, window_s: 3600}}"
    if not node.mapping:
        if node.value is None or node.value is False:
            findings.problem(node, f"{name}: a limit cannot be switched off, write a larger one, such as {example}")
        else:
            findings.problem(node, f"{name}: {quoted(node)} is no limit, write one such as {example}")
        return None
    parts = findings.keys(node, (most, "window_s"))
    written = {key.value for key, _ in node.pairs() if isinstance(key.value, str)}
    for key in (most, "window_s"):
        if key not in written:
            findings.problem(node, f"{name} has no {key}; both are needed, such as {example}")
    figures = [
        whole(findings, f"{name}.{key}", parts[key], low, high)
        for key, low, high in ((most, 0, MAX_USES), ("window_s", 1, MAX_WINDOW_S))
        if key in parts
    ]
    count, window_s = figures if len(figures) == 2 else (None, None)
    return None if count is None or window_s is None else (count, window_s)


def _options(node: Node | None, findings: Findings) -> Options:
    if node is None or not _is_mapping(findings, "options", node):
        return Options()
    values: dict[str, JsonValue] = {}
    for name, part in findings.keys(node, Options.__struct_fields__).items():
        if name in ("approval_expires_s", "event_max_age_s"):
            values[name] = whole(findings, f"options.{name}", part, 1, MAX_EXPIRY_S)
        elif name == "approval_warns_s":
            values[name] = whole(findings, f"options.{name}", part, 0, MAX_EXPIRY_S)
        else:
            values[name] = _flag(findings, f"options.{name}", part)
    return Options(**values)


def _is_mapping(findings: Findings, name: str, node: Node) -> bool:
    if not node.mapping:
        findings.problem(node, f"{name}: {quoted(node)} is no mapping of keys to values")
    return node.mapping


def _flag(findings: Findings, name: str, node: Node) -> bool | None:
    if isinstance(node.value, bool):
        return node.value
    findings.problem(node, f"{name}: {quoted(node)} is neither true nor false")
    return None
