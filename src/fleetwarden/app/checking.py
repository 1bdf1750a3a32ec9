"""Looking at files before a plane does: what is wrong with a policy, and what is legal in it and probably not meant.

Reads files and nothing else; no store is opened and nothing is changed.  It applies the very rules by which a plane
takes or rejects the file, so that what passes here is what will be in force.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fleetwarden.adapters.files.documents import read_document, read_tree
from fleetwarden.domain import policy_advice, policy_file, registry
from fleetwarden.domain.actions import Record
from fleetwarden.domain.errors import Misconfigured, Problem
from fleetwarden.domain.fleet import Fleet
from fleetwarden.domain.playbook_file import read_playbooks_file

__all__ = ["PlaybookFindings", "PolicyFindings", "check_playbooks", "check_policy"]

REGISTRY, OVERRIDE = "fleet.yml", "desired-state.yml"
UNREAD_MAX = 20  # findings of the fleet that are told beside those of a policy


class PolicyFindings(Record):
    """What was found in one policy file.  `digest` is of the file's bytes, as `status` shows that of the one in force.

    `rules` is None where the file cannot be used.
    """

    file: str
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    rules: int | None = None
    digest: str = ""


def check_policy(path: Path, *, folder: Path | None = None) -> PolicyFindings:
    """Check the policy file at `path`.  Never raises for what is wrong with it.

    `folder`: the configuration folder whose services' scaling blocks are held against its limits; left out, the folder
    that the file lies in.
    """
    name = str(path)
    try:
        document = read_document(path, name)
        found = policy_file.read_policy(document.tree(), text_digest=document.fingerprint)
    except Misconfigured as error:
        return PolicyFindings(file=name, problems=tuple(sorted(error.problems)) or (Problem(name, 0, error.message),))
    fleet, unread = _fleet(folder or path.parent)
    throttled = policy_advice.throttle_warnings(found, fleet)
    warnings = tuple(sorted({*found.warnings, *throttled, *unread}))
    return PolicyFindings(file=name, warnings=warnings, rules=len(found.rules), digest=found.digest)


def _fleet(folder: Path) -> tuple[Fleet, tuple[Problem, ...]]:
    """The fleet beside the policy, and what of it could not be held against the policy, for people to see.

    An empty one where there is no file, or none that can be used.
    """
    if not (folder / REGISTRY).exists():
        return Fleet(), ()
    try:
        declared = read_tree(folder / REGISTRY)
        layer = read_tree(folder / OVERRIDE) if (folder / OVERRIDE).exists() else None
    except Misconfigured as error:
        return Fleet(), _unread(error.problems or [Problem(REGISTRY, 0, error.message)])
    fleet = registry.read_fleet(declared, layer, str(folder.absolute()), "")
    return fleet, _unread(fleet.problems)


def _unread(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    told = "what it is about was not held against this policy"
    return tuple(Problem(one.file, one.line, f"{one.reason} ({told})") for one in problems[:UNREAD_MAX])


class PlaybookFindings(Record):
    """What was found in one file of playbooks.  `number`: how many it has, 0 where it cannot be used."""

    problems: tuple[Problem, ...] = ()
    number: int = 0


def check_playbooks(path: Path) -> PlaybookFindings:
    """Check the file of playbooks at `path`.  Never raises for what is wrong with it."""
    name = str(path)
    try:
        return PlaybookFindings(number=len(read_playbooks_file(read_document(path, name).tree())))
    except Misconfigured as error:
        return PlaybookFindings(problems=tuple(sorted(error.problems)) or (Problem(name, 0, error.message),))
