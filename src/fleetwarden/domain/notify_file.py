"""`notify.yml`: who is told what, read strictly.

A target is a place that messages go to; a route says which notices go to which targets.  A file with any finding is
refused as a whole, because half of the routes is half of the people.  What a target's address holds is a secret: it
never stands in a message of this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fleetwarden.domain.actions import Record
from fleetwarden.domain.globs import Glob
from fleetwarden.domain.located import Findings, Node
from fleetwarden.domain.located_values import close, quoted, text, word

__all__ = ["SEVERITIES", "TARGETS_MAX", "NotifyDocument", "Route", "Target", "read_notify_file"]

SEVERITIES = ("critical", "error", "warning", "info")
TARGETS_MAX, ROUTES_MAX = 64, 256
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,31}://\S+")


class Target(Record):
    """One place.  Exactly one of `url`, `url_file` (a path from the configuration folder) and `plugin` is given."""

    name: str
    url: str = ""
    url_file: str = ""
    plugin: str = ""
    line: int = 0

    def __repr__(self) -> str:
        return f"Target({self.name!r})"  # an address is a secret


class Route(Record):
    """Which notices go where.  `group`: a glob, "" for every notice; `severity`: empty for all of them."""

    to: tuple[str, ...]
    group: str = ""
    severity: tuple[str, ...] = ()

    def matches(self, group: str, severity: str) -> bool:
        """Whether a notice of that group ("": of none) and severity goes this way."""
        if self.severity and severity not in self.severity:
            return False
        return not self.group or (bool(group) and Glob(self.group).matches(group))


class NotifyDocument(Record):
    """What is in force."""

    targets: Mapping[str, Target] = {}
    routes: tuple[Route, ...] = ()
    digest: str = ""

    def told(self, group: str, severity: str) -> tuple[str, ...]:
        """Every target of every route that matches, each once, in the order of the file."""
        return tuple(dict.fromkeys(name for one in self.routes if one.matches(group, severity) for name in one.to))


def read_notify_file(node: Node, *, digest: str = "") -> NotifyDocument:
    """The document.  Raises Misconfigured naming every problem with its line."""
    found = Findings()
    if not node.mapping:
        found.problem(node, f"the file is {quoted(node)}, a mapping with targets: and routes: is needed")
        found.raise_if_any(f"{node.file} cannot be used")
    keys = found.keys(node, ("version", "targets", "routes"))
    version = keys.get("version")
    if version is not None and (type(version.value) is not int or version.value != 1):
        found.problem(version, f"version: {quoted(version)} is unknown, this release reads version: 1")
    names, targets = _targets(found, keys.get("targets"))
    routes = _routes(found, keys.get("routes"), names)
    found.raise_if_any(f"{node.file} cannot be used")
    return NotifyDocument(targets=targets, routes=routes, digest=digest)


def _targets(found: Findings, node: Node | None) -> tuple[set[str], dict[str, Target]]:
    """The names that stand there, and the targets that can be used."""
    names, made = set[str](), dict[str, Target]()
    if node is None or node.value is None:
        return names, made
    if not node.mapping:
        found.problem(node, f"targets: {node.shape} stands here, a mapping of names is needed")
        return names, made
    if len(node.pairs()) > TARGETS_MAX:
        found.problem(node, f"targets: {len(node.pairs())} entries, at most {TARGETS_MAX} can be kept")
    for key, value in node.pairs():
        if not isinstance(key.value, str) or not _NAME.fullmatch(key.value):
            found.problem(key, f"targets: {quoted(key)} is no name: letters, digits, '_', '.', '-', at most 63")
        elif key.value in names:
            found.problem(key, f"targets.{key.value} stands here twice")
        else:
            names.add(key.value)
            if (one := _target(found, key, value)) is not None:
                made[key.value] = one
    return names, made


def _target(found: Findings, key: Node, value: Node) -> Target | None:
    about = f"targets.{key.value}"
    if not value.mapping:
        found.problem(value, f"{about}: {value.shape} stands here, {{url_file: FILE}} or {{url: …}} is needed")
        return None
    before = len(found.problems)
    keys = found.keys(value, ("url", "url_file", "plugin"))
    if len(found.problems) > before:
        return None
    if len(keys) != 1:
        found.problem(key, f"{about}: exactly one of url_file, url and plugin is needed, {len(keys)} are given")
        return None
    [(field, given)] = keys.items()
    written = text(found, f"{about}.{field}", given, show=False)
    if written is None:
        return None
    if field == "url" and not _URL.fullmatch(written):
        found.problem(given, f"{about}.url: this is no address of the form scheme://…")
        return None
    if field == "plugin" and not _NAME.fullmatch(written):
        found.problem(given, f"{about}.plugin: {quoted(given)} is no name of a notifier")
        return None
    return Target(name=str(key.value), line=key.line, **{field: written})


def _routes(found: Findings, node: Node | None, names: set[str]) -> tuple[Route, ...]:
    if node is None or node.value is None:
        return ()
    if not node.is_list:
        found.problem(node, f"routes: {quoted(node)} is {node.shape}, a list of routes is needed")
        return ()
    if len(node.items()) > ROUTES_MAX:
        found.problem(node, f"routes: {len(node.items())} entries, at most {ROUTES_MAX} can be kept")
    made = [_route(found, f"routes[{place}]", one, names) for place, one in enumerate(node.items())]
    return tuple(one for one in made if one is not None)


def _route(found: Findings, about: str, node: Node, names: set[str]) -> Route | None:
    if not node.mapping:
        found.problem(node, f"{about}: {quoted(node)} is {node.shape}, a mapping such as {{to: [oncall]}} is needed")
        return None
    keys = found.keys(node, ("group", "severity", "to"))
    group = text(found, f"{about}.group", keys["group"], longest=128) if "group" in keys else ""
    if group and Glob(group).unclosed:
        found.problem(keys["group"], f"{about}.group: a [ is never closed")
    severities = tuple(
        name
        for one in _each(found, f"{about}.severity", keys.get("severity"))
        if (name := word(found, f"{about}.severity", one, SEVERITIES)) is not None
    )
    if "to" not in keys:
        found.problem(node, f"{about}: to: is missing, so nobody would be told")
        return None
    told = []
    for one in _each(found, f"{about}.to", keys["to"]):
        name = text(found, f"{about}.to", one, longest=63)
        if name is not None and name not in names:
            found.problem(one, f"{about}.to: {quoted(one)} is no target of this file{close(name, names)}")
        elif name is not None:
            told.append(name)
    return Route(to=tuple(told), group=group or "", severity=severities)


def _each(found: Findings, about: str, node: Node | None) -> tuple[Node, ...]:
    """The entries of a list that must not be empty; one word alone stands for a list of one."""
    if node is None:
        return ()
    if not node.is_list:
        return (node,)
    if not node.items():
        found.problem(node, f"{about}: an empty list matches nothing: leave the key out, or name something")
    return node.items()
