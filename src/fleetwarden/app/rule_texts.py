"""The text of the rule that decided, as it was then: from the kept policy text, or from the journal for an override.

A rule's source names a file and a line; the text is what stands there and belongs to it by its indentation.  What
cannot be found is None and never a guess: the policy's defaults and the shipped rules have no line of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.domain.actions import ActionDecision
from fleetwarden.domain.errors import Misconfigured, NotFound
from fleetwarden.domain.identifiers import JsonValue, canonical_json, plain, rfc3339
from fleetwarden.ports.ledger import KeptText
from fleetwarden.ports.stores import Page, Store, Tx

__all__ = ["LINES_MAX", "kept_text", "rule_text", "rule_texts"]

LINES_MAX = 40
ENTRIES_MAX = 500
_PLACE = re.compile(r"(?P<file>.+):(?P<line>[0-9]{1,7})")
_DIGEST = re.compile("sha256:[0-9a-f]{64}")
OVERRIDE = "override:"


def rule_text(tx: Tx, decision: ActionDecision) -> str | None:
    """The lines of the rule that gave this decision, at most `LINES_MAX`."""
    return rule_texts(tx, [decision])[0]


def rule_texts(tx: Tx, decisions: Sequence[ActionDecision]) -> list[str | None]:
    """The same for several; a policy is read once, however many rest on it."""
    files: dict[str, KeptText | None] = {}
    return [_text(tx, one, files) for one in decisions]


def _text(tx: Tx, decision: ActionDecision, files: dict[str, KeptText | None]) -> str | None:
    if decision.rule_source.startswith(OVERRIDE):
        return _override_text(tx, decision)
    place = _PLACE.fullmatch(decision.rule_source)
    if place is None:
        return None
    if decision.policy_digest not in files:
        files[decision.policy_digest] = tx.texts.get(decision.policy_digest)
    kept = files[decision.policy_digest]
    if kept is None or kept.name != place["file"]:
        return None
    return _block(kept.body.splitlines(), int(place["line"]))


def _block(lines: list[str], number: int) -> str | None:
    """Line `number` (from 1) and what follows with a deeper indentation, without the common indentation."""
    if not 1 <= number <= len(lines):
        return None
    first = lines[number - 1]
    indent = _indent(first)
    block = [first]
    for line in lines[number : number - 1 + LINES_MAX]:
        if line.strip() and _indent(line) <= indent:
            break
        block.append(line)
    while not block[-1].strip() and len(block) > 1:
        block.pop()
    return "\n".join(line[indent:] for line in block)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _override_text(tx: Tx, decision: ActionDecision) -> str | None:
    """The rule that the override held when it decided: the newest one written before."""
    name = decision.rule_source.removeprefix(OVERRIDE)
    for entry in tx.journal.list(Page(kind="override", target=name, limit=ENTRIES_MAX)):
        if entry.at <= decision.at and "rule" in entry.detail:
            return canonical_json(entry.detail["rule"]).decode()
    return None


def kept_text(store: Store, caller: Caller, digest: str) -> dict[str, JsonValue]:
    """A kept text whole.  A registry may hold secrets of services, so it is for administrators only.

    Raises Forbidden, Misconfigured (no digest), NotFound.
    """
    require(caller, Role.VIEWER)
    if not _DIGEST.fullmatch(digest):
        raise Misconfigured(f"{digest[:80]!r} is no digest", hint="'sha256:' and 64 hex digits, as decisions name it")
    found = store.read(lambda tx: tx.texts.get(digest))
    if found is None:
        raise NotFound(f"no text of the configuration has the digest {digest}")
    if found.kind != "policy":
        require(caller, Role.ADMIN)
    return {**plain(found), "at": rfc3339(found.at)}
