"""The `versions:` of a process block: what can be deployed, and with which command.

A service with such a list can run what stands in it and nothing else, so that neither a deploy nor a rollback can go to
something that nobody wrote down.  Whether a version is any good is not asked here.
"""

from __future__ import annotations

from collections.abc import Callable

from fleetwarden.domain.fleet import ProcessSpec, VersionSpec
from fleetwarden.domain.located import Findings, Node
from fleetwarden.domain.located_values import close, quoted, texts

__all__ = ["VERSIONS_MAX", "check_version", "read_versions"]

VERSIONS_MAX = 200
VERSION_CHARACTERS_MAX = 128
_KNOWN_KEYS = ("command", "irreversible")

Check = Callable[[str, Node, tuple[str, ...] | None], None]


def read_versions(findings: Findings, node: Node, check: Check) -> dict[str, VersionSpec]:
    """The versions by name, with a finding for each that cannot be used.  `check` looks at a command's placeholders."""
    if not node.mapping or not node.pairs():
        example = '{"1.1": {command: [..]}}'
        findings.problem(node, f"versions: {quoted(node)} is {node.shape}, versions are needed, such as {example}")
        return {}
    found: dict[str, VersionSpec] = {}
    for key, value in node.pairs():
        name = _name(findings, key, found)
        spec = _one(findings, key.text, value, check)
        if name is not None and spec is not None:
            found[name] = spec
    if len(node.pairs()) > VERSIONS_MAX:
        findings.problem(node, f"versions: {len(node.pairs())} of them, the limit is {VERSIONS_MAX}")
    return found


def _name(findings: Findings, key: Node, found: dict[str, VersionSpec]) -> str | None:
    """A version's name: text, because a number has lost its zeros already."""
    name = key.value
    if type(name) in (int, float):
        findings.problem(key, f'versions: {key.text} is a number to YAML, a version is text: quote it: "{key.text}"')
    elif not isinstance(name, str) or not name.strip() or not name.isprintable():
        findings.problem(key, f"versions: {quoted(key)} is no version")
    elif len(name) > VERSION_CHARACTERS_MAX:
        findings.problem(key, f"versions: a version of {len(name)} characters, the limit is {VERSION_CHARACTERS_MAX}")
    elif name in found:
        findings.problem(key, f"versions: {name} stands here twice")
    else:
        return name
    return None


def _one(findings: Findings, name: str, node: Node, check: Check) -> VersionSpec | None:
    before = len(findings.problems)
    if not node.mapping:
        findings.problem(
            node, f"versions {name}: {quoted(node)} is {node.shape}, a block such as {{command: [..]}} is needed"
        )
        return None
    keys = findings.keys(node, _KNOWN_KEYS)
    command: tuple[str, ...] | None = ()
    if "command" in keys:
        command = texts(findings, f"versions {name} command", keys["command"])
        check(f"versions {name} command", keys["command"], command)
    marked = keys.get("irreversible")
    if marked is not None and not isinstance(marked.value, bool):
        findings.problem(marked, f"versions {name} irreversible: {quoted(marked)} is neither true nor false")
    if len(findings.problems) > before or command is None:
        return None
    return VersionSpec(command=command, irreversible=marked is not None and bool(marked.value))


def check_version(findings: Findings, node: Node, process: ProcessSpec | None, version: str) -> None:
    """A finding at `node`, which says the service's version, if that is none of the versions that are listed."""
    if process is None or not process.versions or version in process.versions:
        return
    listed = ", ".join(process.versions)
    if not version:
        findings.problem(node, f"version is missing: the process block lists versions ({listed}), and one has to run")
    else:
        told = f'version: "{version}" is none of the listed versions {listed}{close(version, process.versions)}'
        findings.problem(node, told)
