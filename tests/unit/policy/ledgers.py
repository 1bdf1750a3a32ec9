"""A ledger of budget uses that is a plain list, and the words that policy tests are written in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from fleetwarden.adapters.files import yaml_tree
from fleetwarden.domain.actions import ActionRequest
from fleetwarden.domain.budgets import Use
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.identifiers import SECOND, JsonValue, Micros, instant
from fleetwarden.domain.policy import Policy, Ruling, Situation, decide, read_policy
from fleetwarden.domain.policy_rules import Rule

NOW: Micros = instant(datetime(2026, 12, 2, 12, 0, tzinfo=UTC))  # a Wednesday, noon


class UseList:
    """(kind, target, seconds ago) rows, or (kind, target, seconds ago, dry run); numbered from 1."""

    def __init__(self, *rows: tuple[str, str, float] | tuple[str, str, float, bool]) -> None:
        self.rows = [
            (row[0], len(row) > 3 and bool(row[3]), Use(decision_seq=seq, target=row[1], at=NOW - int(row[2] * SECOND)))
            for seq, row in enumerate(rows, 1)
        ]
        self.rows.sort(key=lambda row: row[2].at, reverse=True)

    def uses(self, kind: str, target: str, since: Micros, *, dry_run: bool, limit: int) -> Sequence[Use]:
        return [use for use in self._since(kind, since, dry_run=dry_run) if use.target == target][:limit]

    def targets(self, kind: str, since: Micros, *, dry_run: bool) -> Sequence[Use]:
        newest: dict[str, Use] = {}
        for use in self._since(kind, since, dry_run=dry_run):
            newest.setdefault(use.target, use)
        return list(newest.values())

    def _since(self, kind: str, since: Micros, *, dry_run: bool) -> list[Use]:
        return [use for at_kind, dry, use in self.rows if at_kind == kind and dry is dry_run and use.at > since]


class BrokenLedger:
    """A ledger that cannot be read."""

    def uses(self, kind: str, target: str, since: Micros, *, dry_run: bool, limit: int) -> Sequence[Use]:
        raise ConnectionError("the ledger is gone")

    def targets(self, kind: str, since: Micros, *, dry_run: bool) -> Sequence[Use]:
        raise ConnectionError("the ledger is gone")


def policy_of(text: str, file: str = "policy.yml") -> Policy:
    """The policy that a file with this text holds."""
    return read_policy(yaml_tree.parse(text, file), text_digest="sha256:test")


def problems_of(text: str, file: str = "policy.yml") -> list[str]:
    """What is said about a text that is no policy, in file order; empty if it is one."""
    try:
        policy_of(text, file)
    except Misconfigured as error:
        return [str(problem) for problem in error.problems]
    return []


def asking(kind: str, target: str, params: Mapping[str, JsonValue] | None = None, **fields: Any) -> ActionRequest:
    """A request of an outside system, unless a source is given."""
    fields = {"source": "api", "requested_by": "somebody", "key": "k"} | fields
    return ActionRequest(kind=kind, target=target, params={} if params is None else params, **fields)


def ruling(
    policy: Policy | str,
    request: ActionRequest,
    *,
    overrides: Sequence[Rule] = (),
    ledger: Any = None,
    now: Micros = NOW,
    situation: Situation | None = None,
    **more: Any,
) -> Ruling:
    """What a policy (or the text of one) says."""
    policy = policy_of(policy) if isinstance(policy, str) else policy
    uses = UseList() if ledger is None else ledger
    return decide(policy, overrides, request, uses, situation or Situation(), now, **more)
