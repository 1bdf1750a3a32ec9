"""A cases file: what a policy is expected to say, as requests with their surroundings, held against what it says.

The file is read strictly, as a policy is: a misspelt expectation must not pass because nothing was compared.  A case
is decided by the same function as on a live plane; nothing here decides anything or knows where a file lies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleetwarden.domain import policy as policies
from fleetwarden.domain.actions import ActionRequest, Record, Verdict
from fleetwarden.domain.errors import FleetError, Problem
from fleetwarden.domain.identifiers import SECOND, JsonValue, Micros, moment
from fleetwarden.domain.located import Findings, Node
from fleetwarden.domain.located_values import number, quoted, text, word
from fleetwarden.domain.policy import Policy, Ruling, Situation
from fleetwarden.domain.policy_plain import Rows, micros_of, override_of, request_of, request_problem
from fleetwarden.domain.policy_rules import Rule

__all__ = ["CASES_MAX", "Case", "CasesFile", "judge", "read_cases"]

CASES_MAX = 10_000
AGO_MAX_S = 366 * 86_400
TEXT_MAX = 512
_KEYS = ("version", "policy", "now", "fleet", "cases")
_CASE_KEYS = ("name", "request", "ledger", "now", "freeze", "storm", "min_healthy", "overrides", "expect")
_ROW_KEYS = ("kind", "target", "verdict", "at", "ago_s", "dry_run")
_EXPECT_KEYS = ("verdict", "code", "rule", "source")
_CODES = ("structure", "freeze", "tier", "rate", "storm", "min_healthy", "blast", "window", "ok", "error")
_FLEET_KEYS = ("group", "substrate", "replicas")
Fleet = Mapping[str, Mapping[str, JsonValue]]


class Case(Record):
    """One request with its surroundings.  `file` and `line` are where it stands; `expect` what it is held against."""

    name: str
    file: str
    line: int
    request: ActionRequest
    ledger: Rows
    overrides: tuple[Rule, ...]
    situation: Situation
    now: Micros
    expect: dict[str, str]


class CasesFile(Record):
    """All cases.  `policy` is the file that they are about, as written (relative to the cases file), or empty."""

    policy: str
    cases: tuple[Case, ...]


def read_cases(tree: Node, fleet: Fleet) -> CasesFile:
    """Read a cases file.  `fleet`: what is known of services where the file itself says nothing of a fleet.

    Raises Misconfigured naming every problem with file and line.
    """
    findings = Findings()
    read = _file(tree, fleet, findings)
    findings.raise_if_any(f"{tree.file} is no valid cases file")
    assert read is not None
    return read


def judge(policy: Policy, case: Case) -> tuple[Ruling, Problem | None]:
    """What the policy says to a case, and how that differs from what was expected (None: it does not)."""
    said = policies.decide(policy, case.overrides, case.request, case.ledger, case.situation, case.now)
    got = {"verdict": said.verdict.value, "code": said.code, "rule": said.rule, "source": said.rule_source}
    wrong = [name for name, wanted in case.expect.items() if not _meets(name, wanted, got[name])]
    if not wrong:
        return said, None
    wanted = ", ".join(f"{name} {case.expect[name]}" for name in wrong)
    found = ", ".join(f"{name} {got[name]}" for name in wrong)
    reason = f"{case.name}: expected {wanted}; got {found} ({said.rule_source}: {said.rule}): {said.reason}"
    return said, Problem(case.file, case.line, reason)


def _meets(name: str, wanted: str, got: str) -> bool:
    """A rule may be named by its beginning: `restart_service web-*` for `restart_service web-*, auto, rate …`."""
    return got == wanted or (name == "rule" and got.startswith(f"{wanted}, "))


def _file(tree: Node, fleet: Fleet, findings: Findings) -> CasesFile | None:
    if not tree.mapping:
        findings.problem(tree, f"the file holds {tree.shape}: it is a mapping with the keys {', '.join(_KEYS)}")
        return None
    parts = findings.keys(tree, _KEYS)
    version = parts.get("version")
    if version is not None and (type(version.value) is not int or version.value != 1):
        findings.problem(version, f"version: {quoted(version)} is not 1, the only version that this release reads")
    policy = text(findings, "policy", parts["policy"], longest=TEXT_MAX) if "policy" in parts else ""
    usual = _moment(findings, parts["now"]) if "now" in parts else None
    known = _fleet(parts["fleet"], findings) if "fleet" in parts else fleet
    listed = parts.get("cases")
    if listed is None or not listed.is_list or not listed.items():
        findings.problem(listed or tree, "cases: at least one case is needed, as a list")
        return None
    if len(listed.items()) > CASES_MAX:
        findings.problem(listed, f"cases: {len(listed.items()):,} cases, the limit is {CASES_MAX:,}")
        return None
    read = [_case(item, place, usual, known, findings) for place, item in enumerate(listed.items(), 1)]
    return CasesFile(policy=policy or "", cases=tuple(case for case in read if case is not None))


def _fleet(node: Node, findings: Findings) -> dict[str, dict[str, JsonValue]]:
    if not node.mapping:
        findings.problem(node, "fleet: a mapping of service names to {group, substrate, replicas} is needed")
        return {}
    found: dict[str, dict[str, JsonValue]] = {}
    for key, value in node.pairs():
        if value.mapping:
            found[str(key.value)] = {name: one.value for name, one in findings.keys(value, _FLEET_KEYS).items()}
        else:
            findings.problem(value, f"fleet: {quoted(key)} is {value.shape}, a mapping is needed")
    return found


def _case(node: Node, place: int, usual: Micros | None, fleet: Fleet, findings: Findings) -> Case | None:
    before = len(findings.problems)
    if not node.mapping:
        findings.problem(node, f"a case is a mapping, not {node.shape}")
        return None
    parts = findings.keys(node, _CASE_KEYS)
    name = text(findings, "name", parts["name"], longest=TEXT_MAX) if "name" in parts else f"case {place}"
    now = _moment(findings, parts["now"]) if "now" in parts else usual
    if now is None and len(findings.problems) == before:
        findings.problem(node, "now: no time, neither in the case nor in the file (such as 2026-12-02T12:00:00Z)")
    expect = _expect(parts.get("expect"), node, findings)
    request = _request(parts.get("request"), node, fleet, findings)
    overrides = _overrides(parts.get("overrides"), findings)
    words = {
        key: text(findings, key, parts[key], longest=TEXT_MAX) or ""
        for key in ("freeze", "storm", "min_healthy")
        if key in parts
    }
    if request is None or now is None:
        return None
    ledger = _ledger(parts.get("ledger"), request, now, findings)
    if len(findings.problems) > before:
        return None
    freeze = words.pop("freeze", "")
    return Case(
        name=name or "",
        file=node.file,
        line=node.line,
        request=request,
        ledger=ledger,
        overrides=overrides,
        situation=Situation(freezes=(freeze,) if freeze else (), **words),
        now=now,
        expect=expect,
    )


def _moment(findings: Findings, node: Node) -> Micros | None:
    try:
        return micros_of(str(node.value))
    except (ValueError, OverflowError):
        findings.problem(node, f"{quoted(node)} is no time, write one such as 2026-12-02T12:00:00Z")
        return None


def _expect(node: Node | None, case: Node, findings: Findings) -> dict[str, str]:
    if node is None or not node.mapping:
        findings.problem(node or case, "expect: what is expected is missing, such as {verdict: allow}")
        return {}
    parts = findings.keys(node, _EXPECT_KEYS)
    found: dict[str, str] = {}
    for name, value in parts.items():
        known = {"verdict": tuple(verdict.value for verdict in Verdict), "code": _CODES}.get(name)
        read = word(findings, name, value, known) if known else text(findings, name, value, longest=TEXT_MAX)
        found[name] = read or ""
    if not parts:
        findings.problem(node, f"expect: nothing is expected: name any of {', '.join(_EXPECT_KEYS)}")
    return found


def _request(node: Node | None, case: Node, fleet: Fleet, findings: Findings) -> ActionRequest | None:
    if node is None:
        findings.problem(case, "request: is missing, such as {kind: restart_service, target: web}")
        return None
    value = node.plain()
    if (problem := request_problem(value)) is not None:
        findings.problem(node, f"request: {problem}")
        return None
    try:
        return request_of(value, fleet)
    except (TypeError, ValueError) as error:
        findings.problem(node, f"request: cannot be read ({error})")
        return None


def _overrides(node: Node | None, findings: Findings) -> tuple[Rule, ...]:
    if node is None:
        return ()
    if not node.is_list:
        findings.problem(node, "overrides: a list of rules, each with an id")
        return ()
    rules: list[Rule] = []
    for item in node.items():
        value: Any = item.plain()
        try:
            rule = override_of(value)
        except (KeyError, TypeError, AttributeError):
            findings.problem(item, "overrides: a rule as in a policy file is needed, with an id")
        except FleetError as error:
            findings.problem(item, f"overrides: {error}")
        else:
            rules += [rule] if rule is not None else []
    return tuple(rules)


def _ledger(node: Node | None, request: ActionRequest, now: Micros, findings: Findings) -> Rows:
    """The rows, where kind and target are the request's and the verdict is `allow` unless a row says otherwise."""
    if node is not None and not node.is_list:
        findings.problem(node, "ledger: a list of rows, such as {ago_s: 600}")
        return Rows(())
    rows: list[dict[str, Any]] = []
    for item in node.items() if node is not None else ():
        if not item.mapping:
            findings.problem(item, f"ledger: a row is a mapping, not {item.shape}")
            continue
        parts = findings.keys(item, _ROW_KEYS)
        row: dict[str, Any] = {"kind": request.kind, "target": request.target, "verdict": "allow"}
        for name in ("kind", "target"):
            if name in parts:
                row[name] = text(findings, name, parts[name], longest=TEXT_MAX) or ""
        if "verdict" in parts:
            row["verdict"] = word(findings, "verdict", parts["verdict"], tuple(Verdict)) or Verdict.DENY
        row["dry_run"] = request.dry_run if "dry_run" not in parts else parts["dry_run"].value
        if not isinstance(row["dry_run"], bool):
            findings.problem(parts["dry_run"], "dry_run: true or false")
        row["at"] = _row_time(item, parts, now, findings)
        rows.append(row)
    return Rows(rows)


def _row_time(item: Node, parts: Mapping[str, Node], now: Micros, findings: Findings) -> Any:
    if ("at" in parts) == ("ago_s" in parts):
        findings.problem(item, "ledger: a row says when: either at, or ago_s (seconds before now)")
        return moment(now)
    if "at" in parts:
        return moment(_moment(findings, parts["at"]) or now)
    return moment(now - int((number(findings, "ago_s", parts["ago_s"], 0, AGO_MAX_S) or 0) * SECOND))
