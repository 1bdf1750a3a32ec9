"""The one place that says yes or no to a governed action.

`decide` is a pure function of the policy, the stored overrides, the request, the ledger's budgets, what is frozen and
the time.  It walks a fixed list of checks: structure, freeze, tier, rate, storm, min_healthy, blast, window.  The first
that denies ends it; otherwise the first that asks for a person queues it, and every other that asks is noted, so that
one grant can answer exactly those.  It fails closed: whatever goes wrong inside is a denial, never an exception and
never an allowance.  It must never write, never look at anything that it was not given, and never guess a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from fleetwarden.domain import budgets, structure
from fleetwarden.domain.actions import OBSERVING_KINDS, ActionRequest, Record, Tier, Verdict
from fleetwarden.domain.approvers import Approvers, combined, plain
from fleetwarden.domain.budgets import BlastRadius, BlastUse, BudgetLedger, RateLimit, RateUse
from fleetwarden.domain.identifiers import JsonValue, Micros, moment, rfc3339
from fleetwarden.domain.policy_document import SHIPPED, Options, Policy, deciding_rule
from fleetwarden.domain.policy_file import read_override, read_policy
from fleetwarden.domain.policy_rules import STRICTNESS, Defaults, Rule
from fleetwarden.domain.windows import MaintenanceWindow

__all__ = [
    "SHIPPED",
    "Options",
    "Policy",
    "Rule",
    "Ruling",
    "Situation",
    "decide",
    "deciding_rule",
    "read_override",
    "read_policy",
    "refuse",
]

AUTO, AUTO_NOTIFY, APPROVAL_REQUIRED, FORBIDDEN = Tier
ALLOW, ALLOW_NOTIFY, QUEUE_APPROVAL, DENY = Verdict
BUILT_IN = "built in"
DEFAULTS = "defaults"  # what a decision says where no rule matched


class Situation(Record, gc=False):
    """What holds outside policy and ledger right now, said in sentences that name owner and reason; empty = nothing.

    `freeze_file` is the path of a FREEZE file that exists.  `storm` denies; `min_healthy` asks for a person, and
    so does `irreversible`, which says why what is asked for cannot be undone.
    """

    freezes: tuple[str, ...] = ()
    freeze_file: str = ""
    storm: str = ""
    min_healthy: str = ""
    irreversible: str = ""


class Ruling(Record, gc=False):
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
    approvers: Approvers | None = None  # of a queued request; None: the owning team


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
        said = f"{type(error).__name__}: {error}"
        return refuse(policy, "error", f"denied, because deciding failed: {said}; see the log, then ask again")


def refuse(policy: Policy, code: str, reason: str, *, rule: str = "internal error") -> Ruling:
    """A denial for a reason that lies outside the checks, such as overrides that cannot be read; `rule` names it."""
    return Ruling(
        verdict=DENY,
        code=code,
        reason=reason,
        rule=rule,
        rule_source=BUILT_IN,
        policy_digest=policy.digest,
    )


class _Bound:
    """One rule (None: the defaults) that binds a request, with its limits filled up from the defaults."""

    __slots__ = (
        "approvers",
        "blast",
        "blast_where",
        "rate",
        "rate_where",
        "tier",
        "where",
        "window",
        "window_where",
        "words",
    )

    def __init__(self, rule: Rule | None, defaults: Defaults, *, observing: bool) -> None:
        if rule is not None:
            self.tier, self.words, self.where = rule.tier, rule.words, rule.where
            self.rate, self.blast, self.window = rule.rate_limit, rule.blast_radius, rule.window
        else:
            self.tier, self.words, self.where = defaults.tier, DEFAULTS, defaults.source_of("tier")
            self.rate, self.blast, self.window = None, None, None
        self.rate_where = self.blast_where = self.window_where = self.where
        self.approvers = None if rule is None else rule.approvers
        if observing:  # what changes nothing has only the limits that its own rule gives it
            return
        if self.rate is None:
            self.rate, self.rate_where = defaults.rate_limit, defaults.source_of("rate_limit")
        if self.blast is None:
            self.blast, self.blast_where = defaults.blast_radius, defaults.source_of("blast_radius")
        if self.window is None:
            self.window, self.window_where = defaults.window, defaults.where


class _Answer(NamedTuple):
    """What one check says: it denies, or it asks for a person."""

    denies: bool
    reason: str
    rule: str
    where: str


class _Walk:
    """One walk down the list of checks.  Each check is a method that answers, or returns None to let pass."""

    __slots__ = (
        "bounds",
        "decider",
        "exclude",
        "ledger",
        "now",
        "numbers",
        "observing",
        "overrides",
        "policy",
        "request",
        "situation",
        "tier",
    )

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
        self.numbers: dict[str, JsonValue] = {}
        # Set by the checks of structure and tier; only those that come after them look.
        self.observing: bool
        self.bounds: tuple[_Bound, ...]
        self.decider: _Bound
        self.tier: Tier

    def check_structure(self) -> _Answer | None:
        problem = structure.check(self.request)
        if problem is not None:
            return _Answer(True, f"denied, the request is malformed: {problem}", "structural check", BUILT_IN)
        self.observing = self.request.kind in OBSERVING_KINDS
        return None

    def check_freeze(self) -> _Answer | None:
        frozen = list(self.situation.freezes)
        if self.situation.freeze_file:
            frozen.append(f"the file {self.situation.freeze_file} exists")
        if not frozen or self.observing:
            return None
        self.numbers["freeze"] = frozen
        return _Answer(True, f"denied, {'; '.join(frozen)}; ask again once that is lifted", "freeze", "freeze")

    def check_tier(self) -> _Answer | None:
        """Find what binds the request and take the strictest tier of it."""
        self._bind()
        said, where = self.decider.words, self.decider.where
        if self.tier is FORBIDDEN:
            reason = f"denied by {where}: {self._asked()} is forbidden; only another rule allows it"
            return _Answer(True, reason, said, where)
        if self.tier is APPROVAL_REQUIRED:
            by = f"no rule matches, and by the {where}" if said == DEFAULTS else f"by {where}"
            return _Answer(False, f"{by} a person is asked first: approve or reject it", said, where)
        if structure.is_irreversible(self.request) or self.situation.irreversible:
            self.tier = APPROVAL_REQUIRED
            marked = f" ({self.situation.irreversible})" if self.situation.irreversible else ""
            reason = f"{self._asked()} cannot be undone{marked}, so a person decides, whatever {where} says"
            return _Answer(False, reason, "irreversible actions need a person", BUILT_IN)
        return None

    def _asked(self) -> str:
        return f"{self.request.kind} on {self.request.target}"

    def _bind(self) -> None:
        defaults, observing = self.policy.defaults, self.observing
        rule = deciding_rule(self.policy, self.overrides, self.request)
        winner = _Bound(rule, defaults, observing=observing)
        self.bounds, self.decider = (winner,), winner
        if self.policy.finals or self.overrides:
            finals = [one for one in self.policy.finals.matching(self.request) if one is not rule]
            finals += [one for one in self.overrides if one.final and one is not rule and one.matches(self.request)]
            if finals:
                self.bounds += tuple(_Bound(final, defaults, observing=observing) for final in finals)
                self.decider = max(self.bounds, key=lambda bound: STRICTNESS[bound.tier])  # of equals the first
                self.numbers["final"] = [f"{one.where}: {one.words}" for one in finals]
        self.tier = self.decider.tier

    def check_rate(self) -> _Answer | None:
        use: RateUse | None = None
        bound = self.decider
        for one in self.bounds:
            found = self._rate_use(one.rate) if one.rate is not None else None
            if found is not None and (use is None or found.tightness < use.tightness):
                use, bound = found, one
        if use is None:
            return None
        self.numbers["rate"] = use.numbers(bound.rate_where)
        if not use.full:
            return None
        limit = use.limit
        if limit.max == 0:
            reason = f"denied, no {self._asked()} is allowed at any time (max 0, {bound.rate_where})"
        else:
            opens = f"the next slot opens {_at(use.next_slot_at)}"
            reason = (
                f"denied, {self.request.kind} {self.request.target} was allowed {use.used} times in the last "
                f"{limit.window_s} s, the limit is {limit.max} ({bound.rate_where}); {opens}"
            )
        return _Answer(True, reason, bound.words, bound.where)

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

    def check_storm(self) -> _Answer | None:
        if not self.situation.storm or self.observing:
            return None
        return _Answer(True, f"denied, {self.situation.storm}", "storm breaker", BUILT_IN)

    def check_min_healthy(self) -> _Answer | None:
        if not self.situation.min_healthy or self.observing:
            return None
        return _Answer(False, self.situation.min_healthy, "min_healthy", BUILT_IN)

    def check_blast(self) -> _Answer | None:
        use: BlastUse | None = None
        bound = self.decider
        for one in self.bounds:
            found = self._blast_use(one.blast) if one.blast is not None else None
            if found is not None and (use is None or found.tightness < use.tightness):
                use, bound = found, one
        if use is None:
            return None
        self.numbers["blast"] = use.numbers(bound.blast_where)
        if not use.exceeded:
            return None
        limit = use.limit
        opens = f"; without a person {_at(use.next_slot_at)} at the earliest" if use.next_slot_at is not None else ""
        reason = (
            f"{self.request.kind} would have reached {use.targets} targets within {limit.window_s} s, "
            f"the limit is {limit.max_targets} ({bound.blast_where}): a person decides{opens}"
        )
        return _Answer(False, reason, bound.words, bound.where)

    def _blast_use(self, limit: BlastRadius) -> BlastUse:
        request = self.request
        return budgets.blast(
            limit, self.ledger, self.now, kind=request.kind, target=request.target, dry_run=request.dry_run
        )

    def check_window(self) -> _Answer | None:
        if self.tier is APPROVAL_REQUIRED:
            return None  # a person decides, at any hour
        window: MaintenanceWindow | None = None
        bound, is_open = self.decider, True
        for one in self.bounds:
            if one.window is not None and is_open:  # the first closed one is named, else the last open one
                window, bound, is_open = one.window, one, one.window.is_open(self.now)
        if window is None:
            return None
        opens = None if is_open else window.opens_at(self.now)
        self.numbers["window"] = {
            "hours": window.hours,
            "zone": window.zone_name,
            "open": is_open,
            "opens_at": rfc3339(opens),
            "source": bound.window_where,
        }
        if is_open:
            return None
        reason = (
            f"outside the maintenance window {window.words()} ({bound.window_where}): a person decides; "
            f"it opens {_at(opens)}"
        )
        return _Answer(False, reason, bound.words, bound.where)

    def allowed(self, waived: Sequence[str]) -> _Answer:
        """What is said where nothing denied and nothing unanswered asked."""
        decider = self.decider
        by = f"the {decider.where}" if decider.words == DEFAULTS else f"{decider.where}: {decider.words}"
        reason = f"allowed, a person's grant answers {', '.join(waived)}" if waived else f"allowed by {by}"
        return _Answer(False, reason, decider.words, decider.where)


# The order is the contract: the first that denies ends the walk, else the first that asks queues the request.
_CHECKS: tuple[tuple[str, Callable[[_Walk], _Answer | None]], ...] = (
    ("structure", _Walk.check_structure),
    ("freeze", _Walk.check_freeze),
    ("tier", _Walk.check_tier),
    ("rate", _Walk.check_rate),
    ("storm", _Walk.check_storm),
    ("min_healthy", _Walk.check_min_healthy),
    ("blast", _Walk.check_blast),
    ("window", _Walk.check_window),
)


def _decide(walk: _Walk, waives: frozenset[str]) -> Ruling:
    asks: list[tuple[str, _Answer]] = []
    waived: list[str] = []
    for code, check in _CHECKS:
        answer = check(walk)
        if answer is None:
            continue
        if answer.denies:
            return _ruling(walk, DENY, code, answer)
        if code in waives:
            waived.append(code)
        else:
            asks.append((code, answer))
    if asks:
        code, answer = asks[0]
        who = combined(walk.decider.approvers, [one.approvers for one in walk.bounds if one is not walk.decider])
        if who is not None:
            walk.numbers["approvers"] = plain(who)
        return _ruling(walk, QUEUE_APPROVAL, code, answer, queued_by=tuple(code for code, _ in asks), approvers=who)
    notify = walk.tier is AUTO_NOTIFY
    verdict = ALLOW_NOTIFY if notify else ALLOW
    return _ruling(walk, verdict, "ok", walk.allowed(waived), notify=notify)


def _ruling(
    walk: _Walk,
    verdict: Verdict,
    code: str,
    answer: _Answer,
    *,
    queued_by: tuple[str, ...] = (),
    notify: bool = False,
    approvers: Approvers | None = None,
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
        approvers=approvers,
    )


def _at(at: Micros | None) -> str:
    return "never" if at is None else moment(at).strftime("%Y-%m-%d %H:%M:%S UTC")
