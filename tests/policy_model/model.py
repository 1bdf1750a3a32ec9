"""What policy should answer, written down slowly: every rule looked at, every use counted, every window walked.

Shares no code with the product, not even the standard library's glob matcher that the product builds on: it reads the
policy as the plain mapping that a file holds.  If the two differ, one of them is wrong, and this one can be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

TIERS = ("auto", "auto_notify", "approval_required", "forbidden")
OBSERVING = ("diagnose", "notify", "noop")
SHIPPED_TIER = "approval_required"
SHIPPED_RATE = {"max": 3, "window_s": 3600}
SHIPPED_BLAST = {"max_targets": 3, "window_s": 3600}
BLOCKS = ("rate_limit", "blast_radius", "maintenance_window")
NARROWING = ("group", "source", "substrate", "direction")
WEEK = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Use(NamedTuple):
    """An allowed decision of the ledger: its number, what it was about, and when."""

    number: int
    kind: str
    target: str
    at: int
    dry_run: bool


class Expected(NamedTuple):
    """The answer.  `source` is None where the model does not say which rule is named."""

    verdict: str
    code: str
    queued_by: tuple[str, ...]
    source: str | None
    rate_used: int | None
    blast_targets: int | None
    window_open: bool | None


class Bound(NamedTuple):
    """One rule that binds, with its limits filled up."""

    tier: str
    source: str
    rate: Mapping[str, int] | None
    blast: Mapping[str, int] | None
    window: Any


@lru_cache(maxsize=100_000)
def glob(pattern: str, text: str) -> bool:
    """Whether the pattern takes the whole text: `*` any text, `?` one character, `[ab]` and `[!ab]` one of a set."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return glob(pattern[1:], text) or (bool(text) and glob(pattern, text[1:]))
    if not text:
        return False
    if pattern[0] == "?":
        return glob(pattern[1:], text[1:])
    if pattern[0] == "[":
        end = pattern.index("]", 2)
        members = pattern[1:end]
        wanted = text[0] not in chars(members[1:]) if members[0] == "!" else text[0] in chars(members)
        return wanted and glob(pattern[end + 1 :], text[1:])
    return pattern[0] == text[0] and glob(pattern[1:], text[1:])


def chars(members: str) -> set[str]:
    """The characters of a set: each by itself, or a range such as a-z."""
    found, rest = set(), members
    while rest:
        if len(rest) > 2 and rest[1] == "-":
            found |= {chr(code) for code in range(ord(rest[0]), ord(rest[2]) + 1)}
            rest = rest[3:]
        else:
            found.add(rest[0])
            rest = rest[1:]
    return found


@lru_cache(maxsize=100_000)
def literal(pattern: str) -> tuple[bool, int]:
    """Whether nothing in it is wild, and how many of its characters stand for themselves."""
    exact, count, rest = True, 0, pattern
    while rest:
        if rest[0] == "[":
            exact, rest = False, rest[rest.index("]", 2) + 1 :]
            continue
        exact, count, rest = exact and rest[0] not in "*?", count + (rest[0] not in "*?"), rest[1:]
    return exact, count


def matches(rule: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    for name in NARROWING:
        if name in rule and rule[name] != request[name]:
            return False
    return glob(rule.get("kind", "*"), request["kind"]) and glob(rule.get("target", "*"), request["target"])


def beats(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether `one` decides before `other`, which stands before it in the same source."""
    for name in ("target", "kind"):
        for mine, its in zip(literal(one.get(name, "*")), literal(other.get(name, "*")), strict=True):
            if mine != its:
                return mine > its
    counts = [sum(name in rule for name in NARROWING) for rule in (one, other)]
    if counts[0] != counts[1]:
        return counts[0] > counts[1]
    return TIERS.index(one["tier"]) > TIERS.index(other["tier"])


def most_specific(rules: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[str, Mapping[str, Any]] | None:
    found = None
    for source, rule in rules:
        if found is None or beats(rule, found[1]):
            found = source, rule
    return found


def is_open(window: Any, now: int) -> bool:
    block = {"hours": window} if isinstance(window, str) else window
    start, end = block["hours"].split("-")
    local = datetime.fromtimestamp(now // 1_000_000, UTC).astimezone(ZoneInfo(block.get("zone", "UTC")))
    clock = f"{local.hour:02d}:{local.minute:02d}"
    if start < end:
        inside, opened = start <= clock < end, local.date()
    elif clock >= start:
        inside, opened = True, local.date()
    else:
        inside, opened = clock < end, local.date() - timedelta(days=1)
    listed = WEEK[opened.weekday()] in block.get("days", WEEK) and opened.isoformat() not in block.get("except", ())
    return inside and listed


def malformed(request: Mapping[str, Any]) -> bool:
    kind, params = request["kind"], request["params"]
    if request["source"] == "reconciler" and kind not in ("restart_service", "scale_service", "deploy_service"):
        return True
    if kind == "scale_service":
        count = params.get("replicas")
        return isinstance(count, bool) or not isinstance(count, int) or count < 0
    if kind == "restart_service":
        return bool(set(params) - {"replica"})
    return kind == "deploy_service" and not params.get("version")


def binding(
    policy: Mapping[str, Any], overrides: Mapping[str, Mapping[str, Any]], request: Mapping[str, Any]
) -> list[Bound]:
    """What binds: the deciding rule first, then each other matching final rule, the file's by rank, then the stored."""
    stored = [(f"override:{name}", rule) for name, rule in overrides.items() if matches(rule, request)]
    written = [(f"policy.yml rule {place}", rule) for place, rule in enumerate(policy["rules"], 1)]
    written = [(source, rule) for source, rule in written if matches(rule, request)]
    defaults = policy["defaults"]
    decides = most_specific(stored) or most_specific(written)
    if decides is None:
        if "tier" in defaults:
            decides = "defaults of policy.yml", {"tier": defaults["tier"]}
        elif request["kind"] in OBSERVING:
            decides = "shipped default", {"tier": "auto"}
        else:
            decides = "shipped default", {"tier": SHIPPED_TIER}
    finals = []
    rest = [one for one in written if one[1].get("final")]
    while rest:
        first = most_specific(rest)
        assert first is not None
        rest.remove(first)
        finals.append(first)
    finals += [one for one in stored if one[1].get("final")]
    usual = {"rate_limit": SHIPPED_RATE, "blast_radius": SHIPPED_BLAST, "maintenance_window": None} | {
        name: defaults[name] for name in BLOCKS if name in defaults
    }
    if request["kind"] in OBSERVING:
        usual = dict.fromkeys(BLOCKS)
    return [
        Bound(rule["tier"], source, *(rule.get(name, usual[name]) for name in BLOCKS))
        for source, rule in [decides, *(one for one in finals if one[0] != decides[0])]
    ]


def decide(  # noqa: C901, PLR0912 - the list of checks from top to bottom, as a person would read it out
    policy: Mapping[str, Any],
    overrides: Mapping[str, Mapping[str, Any]],
    request: Mapping[str, Any],
    uses: Sequence[Use],
    situation: Mapping[str, Any],
    now: int,
    waives: frozenset[str],
    own: int | None,
) -> Expected:
    """`overrides`: those that are switched on, by id.  `own`: the decision whose own use is not counted in the rate."""

    def answer(verdict: str, code: str, queued: tuple[str, ...] = (), source: str | None = None) -> Expected:
        return Expected(verdict, code, queued, source, rate_used, blast_targets, window_open)

    rate_used: int | None = None
    blast_targets: int | None = None
    window_open: bool | None = None
    observing = request["kind"] in OBSERVING
    if malformed(request):
        return answer("deny", "structure", source="built in")
    if (situation.get("freezes") or situation.get("freeze_file")) and not observing:
        return answer("deny", "freeze", source="freeze")
    bounds = binding(policy, overrides, request)
    strictest = bounds[0]
    for one in bounds[1:]:
        if TIERS.index(one.tier) > TIERS.index(strictest.tier):
            strictest = one
    tier = strictest.tier
    asked: list[tuple[str, str | None]] = []
    if tier == "forbidden":
        return answer("deny", "tier", source=strictest.source)
    source: str | None = strictest.source
    if tier == "approval_required":
        asked.append(("tier", strictest.source))
    elif request["kind"] == "deploy_service" and request["params"].get("irreversible"):
        tier = "approval_required"
        asked.append(("tier", "built in"))

    def counted(limit: Mapping[str, int]) -> list[Use]:
        begin = now - limit["window_s"] * 1_000_000
        return [
            use for use in uses if use.kind == request["kind"] and use.dry_run == request["dry_run"] and use.at > begin
        ]

    rates = [
        (sum(use.target == request["target"] and use.number != own for use in counted(one.rate)), one.rate["max"])
        for one in bounds
        if one.rate is not None
    ]
    if len(bounds) == 1 and rates:
        rate_used = min(rates[0])
    if any(used >= most for used, most in rates):
        return answer("deny", "rate")
    if situation.get("storm") and not observing:
        return answer("deny", "storm", source="built in")
    if situation.get("min_healthy") and not observing:
        asked.append(("min_healthy", "built in"))
    blasts = [
        (len({request["target"], *(use.target for use in counted(one.blast))}), one.blast["max_targets"])
        for one in bounds
        if one.blast is not None
    ]
    if len(bounds) == 1 and blasts:
        blast_targets = blasts[0][0]
    if any(targets > most for targets, most in blasts):
        asked.append(("blast", None))
    if tier != "approval_required":
        windows = [one.window for one in bounds if one.window is not None]
        if windows:
            window_open = all(is_open(window, now) for window in windows)
            if not window_open:
                asked.append(("window", None))
    unanswered = [(code, where) for code, where in asked if code not in waives]
    if unanswered:
        return answer("queue_approval", unanswered[0][0], tuple(code for code, _ in unanswered), unanswered[0][1])
    return answer("allow_notify" if tier == "auto_notify" else "allow", "ok", source=source)
