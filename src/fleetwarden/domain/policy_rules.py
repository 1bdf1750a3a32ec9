"""Rules of the action policy: what a rule is, which one decides, and how it is found quickly.

Source beats specificity (override, file, shipped, defaults); within one source the most specific matching rule decides,
at a tie the stricter one, then the one that stands first.  A `final` rule always binds as well, whoever decides.  This
module finds rules; it never weighs budgets, windows or people, and it never reads text: a rule that exists is valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fleetwarden.domain import approvers as approver_rules
from fleetwarden.domain.actions import ActionRequest, Tier
from fleetwarden.domain.approvers import Approvers
from fleetwarden.domain.budgets import BlastRadius, RateLimit
from fleetwarden.domain.globs import Glob
from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.domain.windows import MaintenanceWindow

__all__ = ["SHIPPED_NAME", "STRICTNESS", "Defaults", "Rule", "RuleIndex", "best", "ranked"]

SHIPPED_NAME = "shipped default"
SHIPPED_RATE = RateLimit(max=3, window_s=3600)
SHIPPED_BLAST = BlastRadius(max_targets=3, window_s=3600)
STRICTNESS = {tier: place for place, tier in enumerate(Tier)}  # Tier is declared loosest first
Specificity = tuple[bool, int, bool, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule.  `kind` and `target` are globs; an empty selector selects nothing away.

    `where` is what people see as its source: `policy.yml:9`, `override:ID`, `shipped default`.  A limit or a window
    that is None is the default's; a block that is given replaces the default's whole.
    """

    kind: str = "*"
    target: str = "*"
    group: str = ""
    source: str = ""
    substrate: str = ""
    direction: str = ""
    tier: Tier
    rate_limit: RateLimit | None = None
    blast_radius: BlastRadius | None = None
    window: MaintenanceWindow | None = None
    approvers: Approvers | None = None
    final: bool = False
    where: str = ""
    kind_glob: Glob = field(init=False, repr=False, compare=False)
    target_glob: Glob = field(init=False, repr=False, compare=False)
    selectors: int = field(init=False, repr=False, compare=False)
    words: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        put = object.__setattr__  # frozen for everybody else
        put(self, "kind_glob", Glob(self.kind))
        put(self, "target_glob", Glob(self.target))
        put(self, "selectors", sum(map(bool, (self.group, self.source, self.substrate, self.direction))))
        put(self, "words", _words(self))

    @property
    def specificity(self) -> Specificity:
        """Exact target, its literal characters, exact kind, its literal characters, number of selectors."""
        kind, target = self.kind_glob, self.target_glob
        return target.exact, target.literals, kind.exact, kind.literals, self.selectors

    def matches(self, request: ActionRequest) -> bool:
        return (
            self.kind_glob.matches(request.kind)
            and self.target_glob.matches(request.target)
            and (not self.selectors or self.selects(request))
        )

    def selects(self, request: ActionRequest) -> bool:
        """Whether the selectors other than kind and target match."""
        return (
            (not self.group or self.group == request.group)
            and (not self.source or self.source == request.source)
            and (not self.substrate or self.substrate == request.substrate)
            and (not self.direction or self.direction == request.direction)
        )

    def plain(self) -> dict[str, JsonValue]:
        """As it may be written in a policy file, and where it stands."""
        written: dict[str, JsonValue] = {"kind": self.kind, "target": self.target}
        for name in ("group", "source", "substrate", "direction"):
            if value := getattr(self, name):
                written[name] = value
        written["tier"] = self.tier.value
        written |= _plain_blocks(self.rate_limit, self.blast_radius, self.window)
        if self.approvers is not None:
            written["approvers"] = approver_rules.plain(self.approvers)
        return written | {"final": self.final, "where": self.where}


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What holds where no rule matches, and where a rule leaves a limit or a window out.

    `where` is the source of the parts that were written down; the parts named in `shipped` are the shipped default's.
    """

    tier: Tier = Tier.APPROVAL_REQUIRED
    rate_limit: RateLimit = SHIPPED_RATE
    blast_radius: BlastRadius = SHIPPED_BLAST
    window: MaintenanceWindow | None = None
    where: str = SHIPPED_NAME
    shipped: frozenset[str] = frozenset({"tier", "rate_limit", "blast_radius"})

    def source_of(self, part: str) -> str:
        """Where `tier`, `rate_limit` or `blast_radius` comes from."""
        return SHIPPED_NAME if part in self.shipped else self.where

    def plain(self) -> dict[str, JsonValue]:
        return {"tier": self.tier.value} | _plain_blocks(self.rate_limit, self.blast_radius, self.window)


class RuleIndex:
    """The rules of one source, found by what is literal in their target pattern instead of one by one.

    Built once per policy.  A look-up costs a few dictionary reads (one for each length that a pattern's beginning has,
    and for each place in the target where another pattern's core could stand), plus the rules found by them.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = ranked(rules)
        self._exact: dict[str, _Bucket] = {}
        self._begin: dict[str, _Bucket] = {}  # patterns that begin with literal text, by that text
        self._core: dict[str, _Bucket] = {}  # the others, by their longest literal run; "" for none
        for rank, rule in enumerate(self.rules):
            glob = rule.target_glob
            if glob.exact:
                self._exact.setdefault(glob.pattern, _Bucket()).add(rank, rule)
            elif glob.prefix:
                self._begin.setdefault(glob.prefix, _Bucket()).add(rank, rule)
            else:
                self._core.setdefault(glob.core, _Bucket()).add(rank, rule)
        self._begin_lengths = tuple(sorted({len(text) for text in self._begin}, reverse=True))
        self._core_lengths = tuple(sorted({len(text) for text in self._core}, reverse=True))

    def __bool__(self) -> bool:
        return bool(self.rules)

    def best(self, request: ActionRequest) -> Rule | None:
        """The rule of this source that decides, or None if none matches."""
        none = lowest = len(self.rules)
        exact = self._exact.get(request.target)
        if exact is not None:
            lowest = exact.lowest(request, lowest)
        if lowest == none:  # an exact target beats every pattern
            for bucket in self._patterns(request.target):
                lowest = bucket.lowest(request, lowest)
        return self.rules[lowest] if lowest < none else None

    def matching(self, request: ActionRequest) -> tuple[Rule, ...]:
        """Every matching rule, the deciding one first."""
        found: list[int] = []
        exact = self._exact.get(request.target)
        if exact is not None:
            found.extend(exact.every(request))
        for bucket in self._patterns(request.target):
            found.extend(bucket.every(request))
        return tuple(self.rules[rank] for rank in sorted(found))

    def _patterns(self, target: str) -> Iterator[_Bucket]:
        """Every bucket that can hold a pattern for `target`, each once."""
        size = len(target)
        for length in self._begin_lengths:
            if length <= size and (bucket := self._begin.get(target[:length])) is not None:
                yield bucket
        for length in self._core_lengths:
            places = {target[at : at + length] for at in range(size - length + 1)}
            yield from (self._core[core] for core in places if core in self._core)


class _Bucket:
    """Rules that share a target key, by exact kind, each list in rank order."""

    __slots__ = ("_any_kind", "_by_kind")

    def __init__(self) -> None:
        self._by_kind: dict[str, list[tuple[int, Rule]]] = {}
        self._any_kind: list[tuple[int, Rule]] = []

    def add(self, rank: int, rule: Rule) -> None:
        into = self._by_kind.setdefault(rule.kind, []) if rule.kind_glob.exact else self._any_kind
        into.append((rank, rule))

    def lowest(self, request: ActionRequest, below: int) -> int:
        """The smallest rank under `below` that matches, else `below`."""
        target = request.target
        for rank, rule in self._by_kind.get(request.kind, ()):
            if rank >= below:
                break
            if rule.target_glob.matches(target) and (not rule.selectors or rule.selects(request)):
                below = rank
                break
        for rank, rule in self._any_kind:
            if rank >= below:
                break
            if rule.matches(request):
                return rank
        return below

    def every(self, request: ActionRequest) -> Iterator[int]:
        for entries in (self._by_kind.get(request.kind, ()), self._any_kind):
            for rank, rule in entries:
                if rule.matches(request):
                    yield rank


def ranked(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Rules of one source, the one that decides first: most specific, then stricter, then as they stood."""
    return tuple(sorted(rules, key=lambda rule: (rule.specificity, STRICTNESS[rule.tier]), reverse=True))


def best(rules: Sequence[Rule], request: ActionRequest) -> Rule | None:
    """The deciding one of a few rules (overrides) that are not worth an index."""
    matching = ranked(rule for rule in rules if rule.matches(request))
    return matching[0] if matching else None


def _words(rule: Rule) -> str:
    parts = [f"{rule.kind} {rule.target}"]
    selectors = ("group", "source", "substrate", "direction")
    parts += [f"{name} {getattr(rule, name)}" for name in selectors if getattr(rule, name)]
    parts.append(rule.tier.value)
    if rule.rate_limit is not None:
        parts.append(f"rate {rule.rate_limit.max} per {rule.rate_limit.window_s} s")
    if rule.blast_radius is not None:
        parts.append(f"blast {rule.blast_radius.max_targets} targets per {rule.blast_radius.window_s} s")
    if rule.window is not None:
        parts.append(f"window {rule.window.words()}")
    if rule.approvers is not None:
        parts.append(approver_rules.words(rule.approvers))
    if rule.final:
        parts.append("final")
    return ", ".join(parts)


def _plain_blocks(
    rate: RateLimit | None, blast: BlastRadius | None, window: MaintenanceWindow | None
) -> dict[str, JsonValue]:
    blocks: dict[str, JsonValue] = {}
    if rate is not None:
        blocks["rate_limit"] = {"max": rate.max, "window_s": rate.window_s}
    if blast is not None:
        blocks["blast_radius"] = {"max_targets": blast.max_targets, "window_s": blast.window_s}
    if window is not None:
        blocks["maintenance_window"] = window.plain()
    return blocks
