"""The product's decision beside the model's, world by world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from fleetwarden.domain import policy as product
from fleetwarden.domain.actions import ActionRequest
from fleetwarden.domain.budgets import Use as CountedUse
from fleetwarden.domain.located import located
from tests.policy_model import model
from tests.policy_model.worlds import Asked, World, asked, world


class Compared(NamedTuple):
    """How many cases were compared, where the two differ, and what was met how often."""

    cases: int
    differences: list[str]
    met: Counter[str]


class Uses:
    """The product's view of a ledger: a filtered list, newest first."""

    def __init__(self, rows: Sequence[model.Use]) -> None:
        self._rows = sorted(rows, key=lambda use: use.at, reverse=True)

    def uses(self, kind: str, target: str, since: int, *, dry_run: bool, limit: int) -> Sequence[CountedUse]:
        return [use for use in self._of(kind, since, dry_run=dry_run) if use.target == target][:limit]

    def targets(self, kind: str, since: int, *, dry_run: bool) -> Sequence[CountedUse]:
        newest: dict[str, CountedUse] = {}
        for use in self._of(kind, since, dry_run=dry_run):
            newest.setdefault(use.target, use)
        return list(newest.values())

    def _of(self, kind: str, since: int, *, dry_run: bool) -> list[CountedUse]:
        return [
            CountedUse(decision_seq=one.number, target=one.target, at=one.at)
            for one in self._rows
            if one.kind == kind and one.dry_run == dry_run and one.at > since
        ]


def compare(first: int, last: int) -> Compared:
    """All cases of the worlds from `first` to `last` - 1."""
    differences: list[str] = []
    met: Counter[str] = Counter()
    cases = 0
    for number in range(first, last):
        made = world(number)
        policy = product.read_policy(located(made.policy, "policy.yml"), text_digest="sha256:none")
        read = [product.read_override(name, record, active=active) for name, record, active in made.stored]
        rules = [rule for rule in read if rule is not None]
        for place, one in enumerate(asked(made)):
            said = _said(policy, rules, one)
            expected = _expected(made, one)
            cases += 1
            met[f"{said.verdict.value} {said.code}"] += 1
            if problem := _difference(said, expected):
                differences.append(f"world {number} case {place}: {problem}\n  {made}\n  {one}")
    return Compared(cases, differences, met)


def compare_chunk(chunk: tuple[int, int]) -> Compared:
    """`compare`, for a process of its own."""
    try:
        return compare(*chunk)
    except Exception as error:  # noqa: BLE001 - an error of the product may not travel between processes
        raise RuntimeError(f"worlds {chunk[0]} to {chunk[1] - 1}: {error!r}") from None


def _said(policy: product.Policy, rules: Sequence[product.Rule], one: Asked) -> product.Ruling:
    return product.decide(
        policy,
        rules,
        ActionRequest(requested_by="somebody", key="k", **one.request),
        Uses(one.uses),
        product.Situation(**one.situation),
        one.now,
        waives=one.waives,
        exclude_decision=one.own,
    )


def _expected(made: World, one: Asked) -> model.Expected:
    return model.decide(made.policy, made.on, one.request, one.uses, one.situation, one.now, one.waives, one.own)


def _difference(said: product.Ruling, expected: model.Expected) -> str:
    found = (said.verdict.value, said.code, said.queued_by)
    wanted = (expected.verdict, expected.code, expected.queued_by)
    if found != wanted:
        return f"product {found}, model {wanted}; {said.rule_source}: {said.reason}"
    if expected.source is not None and said.rule_source != expected.source:
        return f"product names {said.rule_source}, model {expected.source}"
    numbers = {name: said.numbers.get(name, {}) for name in ("rate", "blast", "window")}
    for name, key, figure in (
        ("rate", "used", expected.rate_used),
        ("blast", "targets", expected.blast_targets),
        ("window", "open", expected.window_open),
    ):
        part = numbers[name]
        if figure is not None and (not isinstance(part, dict) or part.get(key) != figure):
            return f"product counts {name} {part}, model {key} {figure}"
    if not said.reason or not said.rule:
        return "no reason or no rule is named"
    return ""
