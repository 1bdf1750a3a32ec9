"""Requests, ledger rows and moments as plain values, as people and other programs write them, turned into records.

For everything that asks the policy without a plane: `fleetwarden.policy.evaluate`, `policy explain`, `policy test`.
What cannot be understood raises; nothing is guessed, and nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from fleetwarden.domain.actions import ActionRequest, Kind, Source, Verdict
from fleetwarden.domain.budgets import Use
from fleetwarden.domain.identifiers import JsonValue, Micros, instant
from fleetwarden.domain.policy_file import read_override
from fleetwarden.domain.policy_rules import Rule

__all__ = ["REQUEST_KEYS", "Rows", "micros_of", "override_of", "request_of", "request_problem"]

ALLOWED = frozenset({Verdict.ALLOW, Verdict.ALLOW_NOTIFY})
REQUEST_KEYS = frozenset(
    {"kind", "target", "params", "source", "group", "substrate", "direction", "dry_run"}
    | {"requested_by", "reason", "idempotency_key"}  # say who and why; no rule looks at them
)


class Rows:
    """Plain ledger rows (`kind`, `target`, `verdict`, `at`, optionally `dry_run`) as a budget ledger."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._uses: list[tuple[str, bool, Use]] = []
        for seq, row in enumerate(rows):
            if Verdict(row["verdict"]) in ALLOWED:
                use = Use(decision_seq=seq, target=str(row["target"]), at=micros_of(row["at"]))
                self._uses.append((str(row["kind"]), bool(row.get("dry_run", False)), use))
        self._uses.sort(key=lambda entry: entry[2].at, reverse=True)

    def uses(self, kind: str, target: str, since: Micros, *, dry_run: bool, limit: int) -> Sequence[Use]:
        found = [use for use in self._of(kind, since, dry_run) if use.target == target]
        return found[:limit]

    def targets(self, kind: str, since: Micros, *, dry_run: bool) -> Sequence[Use]:
        newest: dict[str, Use] = {}
        for use in self._of(kind, since, dry_run):
            newest.setdefault(use.target, use)
        return tuple(newest.values())

    def _of(self, kind: str, since: Micros, dry_run: bool) -> list[Use]:
        return [use for at_kind, dry, use in self._uses if at_kind == kind and dry is dry_run and use.at > since]


def request_problem(request: object) -> str | None:
    """Why a plain request cannot be read at all, or None."""
    if not isinstance(request, Mapping):
        return f"it is a mapping with kind and target, not {type(request).__name__}"
    unknown = sorted(str(key) for key in request if key not in REQUEST_KEYS)
    if unknown:
        return f"unknown key {unknown[0]!r}; it may have {', '.join(sorted(REQUEST_KEYS))}"
    missing = [key for key in ("kind", "target") if key not in request]
    if missing:
        return f"it has no {missing[0]}"
    if not isinstance(request.get("dry_run", False), bool):
        return "dry_run is true or false"
    return None


def request_of(request: Mapping[str, JsonValue], fleet: Mapping[str, Mapping[str, JsonValue]]) -> ActionRequest:
    """The record of a plain request that has no problem.  Where `fleet` knows the target, its word on it holds."""
    target, params = request["target"], request.get("params", {})
    known = fleet.get(target) if isinstance(target, str) else None
    about: Mapping[str, JsonValue] = request if known is None else known  # what the fleet knows, nobody may claim
    return ActionRequest(
        kind=request["kind"],
        target=target,
        params={} if params is None else params,
        source=request.get("source", Source.API.value),
        requested_by=str(request.get("requested_by", "")),
        reason=str(request.get("reason", "")),
        key="",
        group=about.get("group") or "",
        substrate=about.get("substrate") or "",
        direction=request.get("direction") or _direction(request, known or {}),
        dry_run=request.get("dry_run", False),
    )


def _direction(request: Mapping[str, JsonValue], known: Mapping[str, JsonValue]) -> JsonValue:
    """Which way a count would move: as the params say it, else from the counts themselves."""
    params = request.get("params")
    if request["kind"] != Kind.SCALE or not isinstance(params, Mapping):
        return ""
    if "direction" in params:
        return params["direction"]
    wanted, current = params.get("replicas"), params.get("from_replicas", known.get("replicas"))
    if type(wanted) is not int or type(current) is not int or wanted == current:
        return ""
    return "up" if wanted > current else "down"


def override_of(stored: Mapping[str, JsonValue]) -> Rule | None:
    """The rule of a stored record with its `id`; None if it is switched off.  Raises KeyError, Misconfigured."""
    rule = {key: value for key, value in stored.items() if key not in ("id", "active")}
    return read_override(str(stored["id"]), rule, active=stored.get("active", True) is not False)


def micros_of(when: datetime | str) -> Micros:
    """A time as microseconds; without a zone it is UTC.  Raises ValueError, AttributeError, TypeError."""
    moment = datetime.fromisoformat(when) if isinstance(when, str) else when
    return instant(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
