"""A policy file asked without a plane: explained for one request, or held against a file of cases.

Reads files and nothing else; no store is opened, so budgets are those that the caller brings.  It decides by the very
function of a live plane and reads the files as a plane reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fleetwarden.adapters.files.documents import read_document, read_tree
from fleetwarden.domain import policy_cases, registry
from fleetwarden.domain import policy_explain as explaining
from fleetwarden.domain.actions import Kind, Record
from fleetwarden.domain.errors import Misconfigured, Problem
from fleetwarden.domain.identifiers import JsonValue, Micros
from fleetwarden.domain.policy import SHIPPED, Policy, Situation, read_policy
from fleetwarden.domain.policy_cases import Case
from fleetwarden.domain.policy_explain import Explained
from fleetwarden.domain.policy_plain import Rows, micros_of, override_of, request_of, request_problem

__all__ = ["Tried", "explain", "known_services", "policy_of", "try_cases"]

REGISTRY, OVERRIDE = "fleet.yml", "desired-state.yml"
STAND_INS: Mapping[str, dict[str, JsonValue]] = {Kind.SCALE: {"replicas": 1}, Kind.DEPLOY: {"version": "any"}}
Fleet = Mapping[str, Mapping[str, JsonValue]]


class Tried(Record):
    """What became of a cases file.  `failed` names each case that the policy answers otherwise, with file and line."""

    file: str
    policy: str
    passed: tuple[str, ...]
    failed: tuple[Problem, ...]


def policy_of(path: Path | None) -> Policy:
    """The policy in the file at `path` (None: the one that ships).  Raises Misconfigured with every problem."""
    if path is None:
        return SHIPPED
    document = read_document(path, str(path))
    return read_policy(document.tree(), text_digest=document.fingerprint)


def known_services(folder: Path) -> dict[str, dict[str, JsonValue]]:
    """Group, substrate and wanted replicas of the services of a configuration folder; empty where none can be read."""
    try:
        declared = read_tree(folder / REGISTRY)
        layer = read_tree(folder / OVERRIDE) if (folder / OVERRIDE).exists() else None
    except Misconfigured:
        return {}
    fleet = registry.read_fleet(declared, layer, str(folder.absolute()), "")
    return {
        one.name: {"group": one.group, "substrate": one.substrate, "replicas": one.replicas}
        for one in fleet.services.values()
    }


def explain(
    policy: Policy,
    asked: Mapping[str, JsonValue],
    *,
    fleet: Fleet,
    overrides: Sequence[Mapping[str, Any]] = (),
    at: str = "",
) -> tuple[Explained, dict[str, JsonValue]]:
    """What the policy says to `asked` with no budget used, and the request as it was asked.

    `at` is the moment of the request, as RFC 3339 (empty: now).  What `asked` leaves out of group and substrate is
    taken from `fleet`; params that a kind cannot do without are stood in for.  Raises Misconfigured if the request, the
    moment or an override cannot be read.
    """
    known = fleet.get(str(asked["target"]), {})
    request = {name: value for name, value in asked.items() if value}
    for name in ("group", "substrate"):
        if name not in request and known.get(name):
            request[name] = known[name]
    stand_in = STAND_INS.get(str(asked["kind"]), {})
    params = asked.get("params")
    request["params"] = {**stand_in, **params} if isinstance(params, dict) else dict(stand_in)
    if (problem := request_problem(request)) is not None:
        raise Misconfigured(f"the request cannot be read: {problem}")
    rules = [rule for one in overrides if (rule := override_of(one)) is not None]
    said = explaining.explain(policy, rules, request_of(request, {}), Rows(()), Situation(), _moment(at))
    return said, request


def _moment(at: str) -> Micros:
    try:
        return micros_of(at or datetime.now(UTC))
    except (ValueError, OverflowError) as error:
        raise Misconfigured(f"{at!r} is no time", hint="such as 2026-12-24T23:30:00Z") from error


def try_cases(path: Path, *, policy: Path | None, folder: Path) -> Tried:
    """Hold a policy against the cases in `path`.

    The policy is `policy` if given, else the one that the cases file names, else the folder's `policy.yml`.  Raises
    Misconfigured if the cases or the policy cannot be used.
    """
    read = policy_cases.read_cases(read_tree(path, str(path)), known_services(folder))
    if policy is None and read.policy:
        policy = path.parent / read.policy
        if not policy.exists():
            raise Misconfigured(f"{path} names the policy {read.policy}, and there is no {policy}")
    if policy is None and (folder / "policy.yml").exists():
        policy = folder / "policy.yml"
    used = policy_of(policy)
    results = [(case, policy_cases.judge(used, case)[1]) for case in read.cases]
    return Tried(
        file=str(path),
        policy=used.source,
        passed=tuple(_name(case) for case, problem in results if problem is None),
        failed=tuple(problem for _, problem in results if problem is not None),
    )


def _name(case: Case) -> str:
    return case.name
