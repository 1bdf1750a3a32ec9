"""The one place that says yes or no to a governed action.

`decide` is a pure function of the policy, the stored overrides, the request, the ledger's budgets, what is frozen and
the time.  It walks a fixed list of checks: structure, freeze, tier, rate, storm, min_healthy, blast, window.  The first
that denies ends it; otherwise the first that asks for a person queues it, and every other that asks is noted, so that
one grant can answer exactly those.  It fails closed: whatever goes wrong inside is a denial, never an exception and
never an allowance.  It must never write, never look at anything that it was not given, and never guess a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fleetwarden.domain import budgets, policy_rules, structure
from fleetwarden.domain.actions import OBSERVING_KINDS, ActionRequest, Kind, Record, Tier, Verdict
from fleetwarden.domain.budgets import BlastRadius, BlastUse, BudgetLedger, RateLimit, RateUse
from fleetwarden.domain.errors import Problem
from fleetwarden.domain.identifiers import JsonValue, Micros, digest, moment, rfc3339
from fleetwarden.domain.policy_default import SHIPPED_TEXT
from fleetwarden.domain.policy_rules import SHIPPED_NAME, STRICTNESS, Defaults, Rule, RuleIndex

__all__ = ["SHIPPED", "Options", "Policy", "Ruling", "Situation", "decide", "deciding_rule"]

BUILT_IN = "built in"


class Options(Record):
    """The file's `options:`.  `approval_expires_s` is 1 to 31,536,000."""

    watch_scale_down: bool = False
    allow_self_approval: bool = False
    approval_expires_s: int = 86_400


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
        Rule(kind=kind.value, target="*", tier=Tier.AUTO, where=SHIPPED_NAME)
        for kind in (Kind.DIAGNOSE, Kind.NOTIFY, Kind.NOOP)
    ),
    defaults=Defaults(),
    options=Options(),
    digest=digest(SHIPPED_TEXT.encode()),
    source=SHIPPED_NAME,
)


class Situation(Record):
    """What holds outside policy and ledger right now, said in sentences that name owner and reason; empty = nothing.

    `freeze_file` is the path of a FREEZE file that exists.  `storm` denies; `min_healthy` asks for a person.
    """

    freezes: tuple[str, ...] = ()
    freeze_file: str = ""
    storm: str = ""
    min_healthy: str = ""


class Ruling(Record):
    """What policy says, why, by which rule and on which numbers.

    `code` is the check that decided, or `ok`.  `queued_by` are all checks that asked for a person: what a grant waives.
    `notify` says that people are to be told of the action when it is taken.
    """

    verdict: Verdict
    code: str
    reason: str
    rule: str
    rule_source: str
    policy_digest: str
    numbers: Mapping[str, JsonValue] = {}
    queued_by: tuple[str, ...] = ()
    notify: bool = False


def decide(
    policy: Policy,
    overrides: Sequence[Rule],
    request: ActionRequest,
    ledger: BudgetLedger,
    situation: Situation,
    now: Micros,
    *,
    waives: frozenset[str] = frozenset(),
    exclude_decision: int | None = None,
) -> Ruling:
    """Decide one request.  Never raises.

    `waives` names the checks that a person's grant has answered; only a check that asks for a person can be answered.
    `exclude_decision` is the decision whose own budget use a re-check must not count.
    """
    try:
        walk = _Walk(policy, overrides, request, ledger, situation, now, exclude_decision)
        return _decide(walk, waives)
    except Exception as error:  # noqa: BLE001 - fails closed: whatever goes wrong in here is a denial that says so
        return Ruling(
            verdict=Verdict.DENY,
            code="error",
            reason=f"denied, because deciding failed: {type(error).__name__}: {error}; see the log, then ask again",
            rule="internal error",
            rule_source=BUILT_IN,
            policy_digest=policy.digest,
        )


def deciding_rule(policy: Policy, overrides: Sequence[Rule], request: ActionRequest) -> Rule | None:
    """The rule that decides by source and specificity, or None where the defaults do."""
    rule = policy_rules.best(overrides, request) if overrides else None
    return rule or policy.index.best(request) or SHIPPED.index.best(request)


class _Bound:
    """One rule (None: the defaults) that binds a request, with its limits filled up from the defaults."""

    __slots__ = ("blast", "blast_where", "rate", "rate_where", "tier", "where", "window", "words")

    def __init__(self, rule: Rule | None, defaults: Defaults, *, observing: bool) -> None:
        if rule is not None:
            self.tier, self.words, self.where = rule.tier, rule.words, rule.where
            self.rate, self.blast, self.window = rule.rate_limit, rule.blast_radius, rule.window
        else:
            self.tier, self.words, self.where = defaults.tier, "defaults", defaults.source_of("tier")
            self.rate, self.blast, self.window = None, None, None
        self.rate_where = self.blast_where = self.where
        if observing:  # what changes nothing has only the limits that its own rule gives it
            return
        if self.rate is None:
            self.rate, self.rate_where = defaults.rate_limit, defaults.source_of("rate_limit")
        if self.blast is None:
            self.blast, self.blast_where = defaults.blast_radius, defaults.source_of("blast_radius")
        if self.window is None:
            self.window = defaults.window


class _Answer(NamedTuple):
    """What one check says: it denies, or it asks for a person."""

    denies: bool
    reason: str
    rule: str
    where: str


class _Walk:
    """One walk down the list of checks.  Each check is a method that answers, or returns None to let pass."""

    def __init__(
        self,
        policy: Policy,
        overrides: Sequence[Rule],
        request: ActionRequest,
        ledger: BudgetLedger,
        situation: Situation,
        now: Micros,
        exclude: int | None,
    ) -> None:
        self.policy, self.overrides, self.request, self.ledger = policy, overrides, request, ledger
        self.situation, self.now, self.exclude = situation, now, exclude
        self.observing = request.kind in OBSERVING_KINDS
        self.numbers: dict[str, JsonValue] = {}
        self.tier = Tier.FORBIDDEN
        self.bounds: tuple[_Bound, ...] = ()
        self.decider = _Bound(None, policy.defaults, observing=self.observing)

    def structure(self) -> _Answer | None:
        problem = structure.check(self.request)
        return (
            _Answer(True, f"denied, the request is malformed: {problem}", "structural check", BUILT_IN)
            if problem
            else None
        )

    def freeze(self) -> _Answer | None:
        frozen = list(self.situation.freezes)
        if self.situation.freeze_file:
            frozen.append(f"the file {self.situation.freeze_file} exists")
        if not frozen or self.observing:
            return None
        self.numbers["freeze"] = frozen
        return _Answer(True, f"denied, frozen: {'; '.join(frozen)}; ask again once that is lifted", "freeze", "freeze")

    def bind(self) -> _Answer | None:
        """The tier: find what binds the request, take the strictest tier of it."""
        defaults, observing = self.policy.defaults, self.observing
        rule = deciding_rule(self.policy, self.overrides, self.request)
        winner = _Bound(rule, defaults, observing=observing)
        finals = [
            _Bound(final, defaults, observing=observing)
            for final in (*self.policy.finals.matching(self.request), *self.overrides)
            if final.final and final is not rule and final.matches(self.request)
        ]
        self.bounds = (winner, *finals)
        self.decider = max(self.bounds, key=lambda bound: STRICTNESS[bound.tier])  # the first of equals: the winner
        self.tier = self.decider.tier
        if finals:
            self.numbers["final"] = [f"{bound.where}: {bound.words}" for bound in finals]
        said, where = self.decider.words, self.decider.where
        if self.tier is Tier.FORBIDDEN:
            hint = "only a change of that rule allows it"
            return _Answer(True, f"denied, {where} forbids {_asked(self.request)}; {hint}", said, where)
        if structure.is_irreversible(self.request) and self.tier is not Tier.APPROVAL_REQUIRED:
            self.tier = Tier.APPROVAL_REQUIRED
            reason = f"{_asked(self.request)} cannot be undone, so a person decides, whatever {where} says"
            return _Answer(False, reason, "irreversible actions need a person", BUILT_IN)
        if self.tier is Tier.APPROVAL_REQUIRED:
            because = (
                f"no rule matches and the {where} asks a person first"
                if said == "defaults"
                else f"{where} asks a person first"
            )
            return _Answer(False, f"{because}: approve or reject it", said, where)
        return None

    def rate(self) -> _Answer | None:
        counted = [(self._rate_use(bound.rate), bound) for bound in self.bounds if bound.rate is not None]
        if not counted:
            return None
        use, bound = min(counted, key=lambda pair: (not pair[0].full, pair[0].left))
        self.numbers["rate"] = use.numbers() | {"source": bound.rate_where}
        if not use.full:
            return None
        limit = use.limit
        if limit.max == 0:
            reason = f"denied, {bound.rate_where} allows no {self.request.kind} on {self.request.target} (max 0)"
        else:
            opens = f"the next slot opens {_at(use.next_slot_at)}"
            reason = (
                f"denied, {self.request.kind} {self.request.target} was allowed {use.used} times in the last "
                f"{limit.window_s} s, the limit is {limit.max} ({bound.rate_where}); {opens}"
            )
        return _Answer(True, reason, bound.words, bound.rate_where)

    def _rate_use(self, limit: RateLimit) -> RateUse:
        request = self.request
        return budgets.rate(
            limit,
            self.ledger,
            self.now,
            kind=request.kind,
            target=request.target,
            dry_run=request.dry_run,
            exclude_decision=self.exclude,
        )

    def storm(self) -> _Answer | None:
        if not self.situation.storm or self.observing:
            return None
        return _Answer(True, f"denied, {self.situation.storm}", "storm breaker", BUILT_IN)

    def min_healthy(self) -> _Answer | None:
        if not self.situation.min_healthy or self.observing:
            return None
        return _Answer(False, self.situation.min_healthy, "min_healthy", BUILT_IN)

    def blast(self) -> _Answer | None:
        counted = [(self._blast_use(bound.blast), bound) for bound in self.bounds if bound.blast is not None]
        if not counted:
            return None
        use, bound = min(counted, key=lambda pair: (not pair[0].exceeded, pair[0].left))
        self.numbers["blast"] = use.numbers() | {"source": bound.blast_where}
        if not use.exceeded:
            return None
        limit = use.limit
        opens = f"; without a person {_at(use.next_slot_at)} at the earliest" if use.next_slot_at is not None else ""
        reason = (
            f"{self.request.kind} would have reached {use.targets} targets within {limit.window_s} s, "
            f"the limit is {limit.max_targets} ({bound.blast_where}): a person decides{opens}"
        )
        return _Answer(False, reason, bound.words, bound.blast_where)

    def _blast_use(self, limit: BlastRadius) -> BlastUse:
        request = self.request
        return budgets.blast(
            limit, self.ledger, self.now, kind=request.kind, target=request.target, dry_run=request.dry_run
        )

    def window(self) -> _Answer | None:
        if self.tier is Tier.APPROVAL_REQUIRED:
            return None  # a person decides, at any hour
        timed = [(bound.window, bound) for bound in self.bounds if bound.window is not None]
        if not timed:
            return None
        window, bound = min(timed, key=lambda pair: pair[0].is_open(self.now))  # a closed one first
        is_open = window.is_open(self.now)
        opens = None if is_open else window.opens_at(self.now)
        self.numbers["window"] = {
            "hours": window.hours,
            "zone": window.zone_name,
            "open": is_open,
            "opens_at": rfc3339(opens),
            "source": bound.where,
        }
        if is_open:
            return None
        when = f"it opens {_at(opens)}" if opens is not None else "it does not open again"
        reason = f"outside the maintenance window {window.words()} ({bound.where}): a person decides; {when}"
        return _Answer(False, reason, bound.words, bound.where)

    def allowed(self) -> _Answer:
        """What is said where nothing denied and nothing unanswered asked."""
        decider = self.decider
        by = f"{decider.where}: {decider.words}" if decider.words != "defaults" else f"the {decider.where}"
        return _Answer(False, f"allowed by {by}", decider.words, decider.where)


# The order is the contract: the first that denies ends the walk, else the first that asks queues the request.
_CHECKS: tuple[tuple[str, Callable[[_Walk], _Answer | None]], ...] = (
    ("structure", _Walk.structure),
    ("freeze", _Walk.freeze),
    ("tier", _Walk.bind),
    ("rate", _Walk.rate),
    ("storm", _Walk.storm),
    ("min_healthy", _Walk.min_healthy),
    ("blast", _Walk.blast),
    ("window", _Walk.window),
)


def _decide(walk: _Walk, waives: frozenset[str]) -> Ruling:
    asks: list[tuple[str, _Answer]] = []
    for code, check in _CHECKS:
        answer = check(walk)
        if answer is None:
            continue
        if answer.denies:
            return _ruling(walk, Verdict.DENY, code, answer)
        if code not in waives:
            asks.append((code, answer))
    if asks:
        code, answer = asks[0]
        return _ruling(walk, Verdict.QUEUE_APPROVAL, code, answer, queued_by=tuple(code for code, _ in asks))
    notify = walk.tier is Tier.AUTO_NOTIFY
    return _ruling(walk, Verdict.ALLOW_NOTIFY if notify else Verdict.ALLOW, "ok", walk.allowed(), notify=notify)


def _ruling(
    walk: _Walk, verdict: Verdict, code: str, answer: _Answer, *, queued_by: tuple[str, ...] = (), notify: bool = False
) -> Ruling:
    return Ruling(
        verdict=verdict,
        code=code,
        reason=answer.reason,
        rule=answer.rule,
        rule_source=answer.where,
        policy_digest=walk.policy.digest,
        numbers=walk.numbers,
        queued_by=queued_by,
        notify=notify,
    )


def _asked(request: ActionRequest) -> str:
    return f"{request.kind} on {request.target}"


def _at(at: Micros | None) -> str:
    return "never" if at is None else moment(at).strftime("%Y-%m-%d %H:%M:%S UTC")
