"""`events.yml`: the senders of events that a deployment knows by name, their keys, mappings and addresses.

A sender that is not declared here may still send, with a token.  What is declared adds to that: a signature instead of
a token, a mapping for JSON of its own, and an address to ask for what its notifications left out.  A file with any
finding is refused as a whole, because half of the keys is a door that stands open or a sender that is locked out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import name_problem
from fleetwarden.domain.located import Findings, Node
from fleetwarden.domain.located_values import number, quoted, text, texts, word
from fleetwarden.domain.signal_file import url_problem

__all__ = ["EventSource", "EventsDocument", "Polling", "read_events_file"]

SOURCES_MAX: Final = 64
SECRETS_MAX: Final = 2  # the old one and the new one, while a sender changes over
KINDS: Final = ("alertmanager", "uptime-kuma", "grafana", "portainer", "generic")
POLLED: Final = ("alertmanager", "uptime-kuma")
MAPPED: Final = (
    "subject",
    "severity",
    "status",
    "summary",
    "fingerprint",
    "starts_at",
    "ends_at",
    "url",
    "labels",
)
SIGNATURE: Final = "X-Fleetwarden-Signature"


class Polling(Record):
    """Where a source is asked for all its alerts.  Secrets are in files, which are read again when they change."""

    url: str
    every_s: float = 60.0
    bearer_file: str = ""
    username: str = ""
    password_file: str = ""


class EventSource(Record):
    """One sender.  `hmac_files`: its keys, any of which may sign; with keys, a signature is a must.

    `timestamp_header`: where the sender also signs when it sent ("" if it does not).
    """

    name: str
    kind: str
    hmac_files: tuple[str, ...] = ()
    signature_header: str = SIGNATURE
    timestamp_header: str = ""
    mapping: Mapping[str, str] | None = None
    poll: Polling | None = None
    line: int = 0


class EventsDocument(Record):
    """What is in force."""

    sources: Mapping[str, EventSource] = {}
    digest: str = ""


def read_events_file(node: Node, *, digest: str = "") -> EventsDocument:
    """The document.  Raises Misconfigured naming every problem with its line."""
    found = Findings()
    if not node.mapping:
        found.problem(node, f"the file is {quoted(node)}, a mapping with sources: is needed")
        found.raise_if_any(f"{node.file} cannot be used")
    keys = found.keys(node, ("version", "sources"))
    version = keys.get("version")
    if version is not None and (type(version.value) is not int or version.value != 1):
        found.problem(version, f"version: {quoted(version)} is unknown, this release reads version: 1")
    sources = _sources(found, keys.get("sources"))
    found.raise_if_any(f"{node.file} cannot be used")
    return EventsDocument(sources=sources, digest=digest)


def _sources(found: Findings, node: Node | None) -> dict[str, EventSource]:
    if node is None or node.value is None:
        return {}
    if not node.mapping:
        found.problem(node, f"sources: {quoted(node)} is {node.shape}, a mapping of names is needed")
        return {}
    if len(node.pairs()) > SOURCES_MAX:
        found.problem(node, f"sources: {len(node.pairs())} sources, at most {SOURCES_MAX} can be declared")
        return {}
    made: dict[str, EventSource] = {}
    for key, value in node.pairs():
        name = str(key.value)
        if problem := name_problem(key.value):
            found.problem(key, f"sources: {problem}")
        elif name != name.lower():
            found.problem(key, f"sources.{name}: names of sources are in lower case: {name.lower()}")
        elif name in made:
            found.problem(key, f"sources.{name} stands here twice")
        elif (one := _source(found, name, value)) is not None:
            made[name] = one
    return made


def _source(found: Findings, name: str, node: Node) -> EventSource | None:
    before, where = len(found.problems), f"sources.{name}"
    if not node.mapping:
        found.problem(
            node, f"{where}: {quoted(node)} is {node.shape}, a mapping such as {{kind: alertmanager}} is needed"
        )
        return None
    known = ("kind", "hmac_files", "signature_header", "timestamp_header", "mapping", "poll")
    keys = found.keys(node, known)
    if "kind" not in keys:
        found.problem(node, f"{where}: kind is missing: one of {', '.join(KINDS)}")
        return None
    kind = word(found, f"{where}.kind", keys["kind"], KINDS) or ""
    files = texts(found, f"{where}.hmac_files", keys["hmac_files"]) or () if "hmac_files" in keys else ()
    if len(files) > SECRETS_MAX:
        found.problem(
            keys["hmac_files"], f"{where}.hmac_files: {len(files)} files, at most {SECRETS_MAX} keys are valid"
        )
    headers = {}
    for header in ("signature_header", "timestamp_header"):
        if header in keys:
            headers[header] = text(found, f"{where}.{header}", keys[header], longest=64) or ""
            if not files:
                found.problem(keys[header], f"{where}.{header}: nothing is signed without hmac_files")
    mapping = _mapping(found, where, kind, keys["mapping"]) if "mapping" in keys else None
    poll = _polling(found, where, kind, keys["poll"]) if "poll" in keys else None
    if len(found.problems) > before:
        return None
    return EventSource(name=name, kind=kind, hmac_files=files, mapping=mapping, poll=poll, line=node.line, **headers)


def _mapping(found: Findings, where: str, kind: str, node: Node) -> dict[str, str]:
    if kind != "generic":
        found.problem(node, f"{where}.mapping: only a source of kind generic has one")
    if not node.mapping or not node.pairs():
        found.problem(node, f"{where}.mapping: {node.shape}, a mapping such as {{subject: data.host}} is needed")
        return {}
    keys = found.keys(node, MAPPED)
    return {name: text(found, f"{where}.mapping.{name}", one, longest=256) or "" for name, one in keys.items()}


def _polling(found: Findings, where: str, kind: str, node: Node) -> Polling | None:
    if kind not in POLLED:
        found.problem(node, f"{where}.poll: only {' and '.join(POLLED)} can be asked")
        return None
    if not node.mapping:
        found.problem(node, f'{where}.poll: {node.shape}, a mapping such as {{url: "http://127.0.0.1:9093"}} is needed')
        return None
    keys = found.keys(node, ("url", "every_s", "bearer_file", "basic"))
    if "url" not in keys:
        found.problem(node, f"{where}.poll: url is missing")
        return None
    url = text(found, f"{where}.poll.url", keys["url"], longest=2048) or ""
    if url and (problem := url_problem(url)):
        found.problem(keys["url"], f"{where}.poll.url: {problem}")
    every = number(found, f"{where}.poll.every_s", keys["every_s"], 10, 3600) if "every_s" in keys else 60.0
    bearer = text(found, f"{where}.poll.bearer_file", keys["bearer_file"]) or "" if "bearer_file" in keys else ""
    username = password = ""
    if "basic" in keys:
        if bearer:
            found.problem(keys["basic"], f"{where}.poll: bearer_file and basic cannot stand together")
        basic = found.keys(keys["basic"], ("username", "password_file")) if keys["basic"].mapping else {}
        if set(basic) != {"username", "password_file"}:
            found.problem(keys["basic"], f"{where}.poll.basic: username and password_file are needed")
        else:
            password = text(found, f"{where}.poll.basic.password_file", basic["password_file"]) or ""
            empty = basic["username"].value == ""  # Uptime Kuma's API keys come without a name
            username = "" if empty else text(found, f"{where}.poll.basic.username", basic["username"]) or ""
    return Polling(url=url, every_s=every or 60.0, bearer_file=bearer, username=username, password_file=password)
