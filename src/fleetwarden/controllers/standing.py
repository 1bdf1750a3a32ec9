"""What rules on every request of one transaction: freezes, overrides and budgets, each read at most once.

A list of wishes is decided under the admission lock, so that nothing of this can change between two of them but by the
list itself, and what the list decides is added here.  It never outlives its transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec

from fleetwarden.controllers.storm_watch import read_storms
from fleetwarden.domain import freezing
from fleetwarden.domain import policy as policies
from fleetwarden.domain.actions import ACTUATED_KINDS, ActionRequest, Kind, Source, Verdict
from fleetwarden.domain.budgets import Use, Wave
from fleetwarden.domain.identifiers import Micros, rfc3339
from fleetwarden.domain.policy_rules import Rule
from fleetwarden.domain.storm import Storms
from fleetwarden.ports.stores import DecisionDraft, Freeze, Tx

__all__ = ["Standing"]

NOT_NUMBERED = 0  # a decision of this transaction: whom it counts for is known before its number is
FREEZES_TOLD = 3  # named in a denial; `freeze status` names all
_PEOPLE = frozenset({Source.OPERATOR, Source.API})
_USES = frozenset({Verdict.ALLOW, Verdict.ALLOW_NOTIFY})


class Standing:
    """Implements `domain.budgets.BudgetLedger` for its transaction.  `targets`: whom it will be asked about."""

    def __init__(self, tx: Tx, freeze_file: str, targets: Sequence[str] = ()) -> None:
        self._tx = tx
        self._freeze_file = freeze_file
        self._asked = frozenset(targets)
        self._uses: dict[tuple[str, Micros, bool, int], dict[str, list[Use]]] = {}
        self._waves: dict[tuple[str, Micros, bool], Wave] = {}

    @cached_property
    def rules(self) -> Sequence[Rule]:
        """The overrides that are in force.  Raises Misconfigured for one that cannot be read."""
        stored = [policies.read_override(one.id, one.rule, active=one.active) for one in self._tx.overrides.all()]
        return [rule for rule in stored if rule is not None]

    @cached_property
    def _freezes(self) -> Sequence[Freeze]:
        return self._tx.freezes.active()

    def situation(self, request: ActionRequest) -> policies.Situation:
        """What holds for this request now: freezes that cover it, by command or by file, unless the glass is broken."""
        if request.break_glass:
            return policies.Situation()
        active = [
            one
            for one in self._freezes
            if freezing.covers(one.scope, one.value, kind=request.kind, target=request.target, group=request.group)
        ]
        told = tuple(_frozen_by(one) for one in active[:FREEZES_TOLD])
        if len(active) > FREEZES_TOLD:
            told = (*told, f"and {len(active) - FREEZES_TOLD} more freezes")
        return policies.Situation(freezes=told, freeze_file=self._freeze_file, storm=self._storm(request))

    @cached_property
    def _storms(self) -> Storms | None:
        try:
            return read_storms(self._tx)
        except msgspec.ValidationError:
            return None

    def _storm(self, request: ActionRequest) -> str:
        """Why a storm denies a controller's request.  What a person asks, and a start of what did not run, pass."""
        if request.source in _PEOPLE or request.kind not in ACTUATED_KINDS or request.kind == Kind.START:
            return ""
        if self._storms is None:
            return "what is stored of the storm breaker cannot be read"
        breaker = self._storms.for_group(request.group)
        if breaker is None:
            return ""
        return f"a storm since {rfc3339(breaker.since)}: {breaker.sick} of {breaker.total} services are sick"

    def uses(self, kind: str, target: str, since: Micros, *, dry_run: bool, limit: int) -> Sequence[Use]:
        if target not in self._asked:
            return self._tx.decisions.uses(kind, target, since, dry_run=dry_run, limit=limit)
        key = (kind, since, dry_run, limit)
        if (known := self._uses.get(key)) is None:
            found = self._tx.decisions.uses_of_each(kind, sorted(self._asked), since, dry_run=dry_run, limit=limit)
            known = self._uses[key] = {name: list(uses) for name, uses in found.items()}
        return known.get(target, ())

    def targets(self, kind: str, since: Micros, *, dry_run: bool) -> Wave:
        key = (kind, since, dry_run)
        if (wave := self._waves.get(key)) is None:
            found = self._tx.decisions.targets(kind, since, dry_run=dry_run)
            wave = self._waves[key] = found if isinstance(found, Wave) else Wave(found)
        return wave

    def note(self, decision: DecisionDraft) -> None:
        """Count what this transaction has decided.  An authorisation that it gave up may be counted a little longer."""
        request = decision.request
        if decision.verdict not in _USES or decision.approval_seq is not None:
            return
        use = Use(decision_seq=NOT_NUMBERED, target=request.target, at=self._tx.now())
        for (kind, _, dry_run, limit), known in self._uses.items():
            if (kind, dry_run) == (request.kind, request.dry_run):
                known[request.target] = [use, *known.get(request.target, ())][:limit]
        for (kind, _, dry_run), wave in self._waves.items():
            if (kind, dry_run) == (request.kind, request.dry_run):
                wave.add(use)


def _frozen_by(one: Freeze) -> str:
    what = "" if one.scope == "all" else f" ({freezing.words(one.scope, one.value)})"
    until = "" if one.until is None else f", until {rfc3339(one.until)}"
    return f"frozen by {one.owner}{what}" + (f": {one.reason}" if one.reason else "") + until
