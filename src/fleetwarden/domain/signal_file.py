"""`signals.yml`: where scaling signals come from, and what each of them means.

A signal is a symbol that the deployment defines once: its query, unit, aggregation and the services that it answers
for.  Whoever asks later can only name it.  A file with any finding is refused as a whole, because half of the
definitions is a fleet of which half is blind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import name_problem
from fleetwarden.domain.located import Findings, Node
from fleetwarden.domain.located_values import number, quoted, text, word
from fleetwarden.domain.signal_caps import GLOBAL_CAPS, SignalCaps, read_caps
from fleetwarden.domain.signal_query import credential_problem
from fleetwarden.domain.signals import AGE_MAX_S, Aggregation, Definition, SignalKind, SignalScope

__all__ = [
    "LOCAL",
    "PUSHED",
    "QUERY_BYTES_MAX",
    "AttestationKey",
    "SignalsDocument",
    "SourceSpec",
    "read_signals_file",
    "url_problem",
]

LOCAL = "local"  # what the plane itself has; no file can name it
PUSHED = "pushed"  # a source of its own: samples that services send
QUERY_BYTES_MAX = 4096
SOURCES_MAX = 16
SIGNALS_MAX = 4096
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_URL = re.compile(
    r"https?://[A-Za-z0-9.\-]+(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/\-]*)?|https?://\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?/?"
)
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_SELECTOR = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*(?:\s*\{[^{}]*\})?\s*")
_SCRAPED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\s*\{[^{}]*\})?\s*")  # a recorded series is as young as its rule
_SIGNAL = (
    "source",
    "kind",
    "query",
    "by",
    "age_of",
    "aggregation",
    "unit",
    "max_age_s",
    "scope",
    "services",
    "series_vary",
)


class SourceSpec(Record):
    """One Prometheus.  Secrets are in files, which are read again when they change."""

    name: str
    url: str
    bearer_file: str = ""
    username: str = ""
    password_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    line: int = 0


class AttestationKey(Record):
    """One key that a pushing source may sign with.  Exactly one of `hmac_file` and `ed25519` (base64) is given."""

    id: str
    hmac_file: str = ""
    ed25519: str = ""


class SignalsDocument(Record):
    """What is in force.  `keys`: by pushing source, the keys of which any may sign; where there are any at all,
    every source has to sign."""

    sources: Mapping[str, SourceSpec] = {}
    definitions: Mapping[str, Definition] = {}
    keys: Mapping[str, tuple[AttestationKey, ...]] = {}
    caps: SignalCaps = GLOBAL_CAPS
    digest: str = ""

    def definition(self, service: str, signal: str) -> Definition | None:
        """What that signal of that service is declared as, or None if nobody declared it for that service."""
        found = self.definitions.get(signal)
        if found is None or (found.services and service not in found.services):
            return None
        return found


def read_signals_file(node: Node, *, digest: str = "", default_url: str = "") -> SignalsDocument:
    """The document.  Raises Misconfigured naming every problem with its line.

    `default_url`: of a Prometheus that the settings name; definitions with a query and no source are asked of it.
    """
    found = Findings()
    if not node.mapping:
        found.problem(node, f"the file is {quoted(node)}, a mapping with signals: is needed")
        found.raise_if_any(f"{node.file} cannot be used")
    keys = found.keys(node, ("version", "sources", "signals", "attestation", "caps"))
    version = keys.get("version")
    if version is not None and (type(version.value) is not int or version.value != 1):
        found.problem(version, f"version: {quoted(version)} is unknown, this release reads version: 1")
    sources = _sources(found, keys.get("sources"))
    if default_url and "prometheus" not in sources:
        sources["prometheus"] = SourceSpec(name="prometheus", url=default_url)
    definitions = _definitions(found, keys.get("signals"), sources)
    attestation = _attestation(found, keys.get("attestation"))
    caps = read_caps(found, keys.get("caps"))
    found.raise_if_any(f"{node.file} cannot be used")
    return SignalsDocument(sources=sources, definitions=definitions, keys=attestation, caps=caps, digest=digest)


def _mapping(found: Findings, node: Node | None, what: str, most: int) -> tuple[tuple[Node, Node], ...]:
    if node is None or node.value is None:
        return ()
    if not node.mapping:
        found.problem(node, f"{what}: {quoted(node)} is {node.shape}, a mapping of names is needed")
        return ()
    pairs, seen = [], set[str]()
    for key, value in node.pairs():
        name = str(key.value)
        if name in seen:
            found.problem(key, f"{what}.{name} stands here twice")
        elif not isinstance(key.value, str) or not _NAME.fullmatch(key.value):
            found.problem(key, f"{what}: {quoted(key)} is no name: letters, digits, '_', '.', ':', '-', at most 128")
        elif not value.mapping:
            found.problem(value, f"{what}.{name}: {quoted(value)} is {value.shape}, a mapping is needed")
        else:
            pairs.append((key, value))
        seen.add(name)
    if len(pairs) > most:
        found.problem(node, f"{what}: {len(pairs)} entries, at most {most} can be kept")
    return tuple(pairs)


def _sources(found: Findings, node: Node | None) -> dict[str, SourceSpec]:
    made = {}
    for key, value in _mapping(found, node, "sources", SOURCES_MAX):
        name, about = str(key.value), f"sources.{key.value}"
        keys = found.keys(value, ("url", "bearer_file", "basic", "tls"))
        if name == PUSHED:
            found.problem(key, f"{about}: that name is for samples that services push; it needs no entry")
            continue
        if name == LOCAL:
            found.problem(key, f"{about}: that name is for the plane's own gauges; choose another one")
            continue
        url = text(found, f"{about}.url", keys["url"]) if "url" in keys else None
        if "url" not in keys:
            found.problem(value, f"{about}: url is missing, such as http://127.0.0.1:9090")
        elif url is not None and (problem := url_problem(url)):
            found.problem(keys["url"], f"{about}.url: {problem}")
        basic = _part(found, keys, "basic", about, ("username", "password_file"), all_needed=True)
        tls = _part(found, keys, "tls", about, ("ca_file", "cert_file", "key_file"))
        if "cert_file" in tls and "key_file" not in tls:
            found.problem(keys["tls"], f"{about}.tls: a cert_file needs its key_file")
        if basic and "bearer_file" in keys:
            found.problem(keys["bearer_file"], f"{about}: bearer_file and basic cannot stand beside each other")
        bearer = text(found, f"{about}.bearer_file", keys["bearer_file"]) if "bearer_file" in keys else ""
        made[name] = SourceSpec(
            name=name,
            url=(url or "").rstrip("/"),
            bearer_file=bearer or "",
            username=basic.get("username", ""),
            password_file=basic.get("password_file", ""),
            ca_file=tls.get("ca_file", ""),
            cert_file=tls.get("cert_file", ""),
            key_file=tls.get("key_file", ""),
            line=value.line,
        )
    return made


def _part(
    found: Findings,
    keys: Mapping[str, Node],
    name: str,
    about: str,
    known: tuple[str, ...],
    *,
    all_needed: bool = False,
) -> dict[str, str]:
    if name not in keys:
        return {}
    node = keys[name]
    if not node.mapping:
        found.problem(node, f"{about}.{name}: {quoted(node)} is {node.shape}, a mapping is needed")
        return {}
    parts = found.keys(node, known)
    if all_needed:
        for one in known:
            if one not in parts:
                found.problem(node, f"{about}.{name}: {one} is missing")
    return {one: text(found, f"{about}.{name}.{one}", value) or "" for one, value in parts.items()}


def url_problem(url: str) -> str | None:
    """Why this cannot be the address of a Prometheus, without repeating a secret in it; None if it can."""
    if "@" in url.split("//", 1)[-1].split("/", 1)[0]:
        return "a password in an address ends up in logs: give basic or bearer_file"
    if "?" in url or "#" in url:
        return "an address here has no query: /api/v1/query is added to it"
    if not _URL.fullmatch(url):
        return f"{url!r} is no address such as http://127.0.0.1:9090"
    return None


def _definitions(found: Findings, node: Node | None, sources: Mapping[str, SourceSpec]) -> dict[str, Definition]:
    made = {}
    for key, value in _mapping(found, node, "signals", SIGNALS_MAX):
        own = Findings()
        one = _definition(own, str(key.value), value, sources)
        found.problems += own.problems
        if one is not None:
            made[one.name] = one
    return made


def _definition(own: Findings, name: str, node: Node, sources: Mapping[str, SourceSpec]) -> Definition | None:
    about = f"signals.{name}"
    keys = own.keys(node, _SIGNAL)
    for needed in ("kind", "aggregation", "unit"):
        if needed not in keys:
            own.problem(node, f"{about}: {needed} is missing")
    words: dict[str, str | None] = {}
    for field, known in (("kind", list(SignalKind)), ("aggregation", list(Aggregation)), ("scope", list(SignalScope))):
        if field in keys:
            words[field] = word(own, f"{about}.{field}", keys[field], [one.value for one in known])
    unit = text(own, f"{about}.unit", keys["unit"], longest=64) if "unit" in keys else None
    age = AGE_MAX_S
    if "max_age_s" in keys:
        age = number(own, f"{about}.max_age_s", keys["max_age_s"], 1, AGE_MAX_S) or AGE_MAX_S
    services = _services(own, about, keys.get("services"))
    source, query, by, age_of = _asking(own, about, node, keys, sources)
    vary = _vary(own, about, keys.get("series_vary"), source)
    scope = words.get("scope") or SignalScope.SERVICE.value
    if not own.problems and words["aggregation"] == Aggregation.PER_REPLICA.value and source != PUSHED and not by:
        own.problem(node, f"{about}: per_replica needs by, the label that says whose replicas a series is about")
    if not own.problems and not by and source != PUSHED and len(services) != 1:
        own.problem(node, f"{about}: without by it answers for exactly one service: services: [{{name}}]")
    if own.problems or unit is None:
        return None
    return Definition(
        name=name,
        kind=SignalKind(str(words["kind"])),
        unit=unit,
        scope=SignalScope(scope),
        aggregation=Aggregation(str(words["aggregation"])),
        source=source,
        query=query,
        by=by,
        age_of=age_of,
        max_age_s=age,
        services=services,
        series_vary=vary,
        file=node.file,
        line=node.line,
    )


def _vary(own: Findings, about: str, node: Node | None, source: str) -> bool:
    if node is None:
        return False
    if not isinstance(node.value, bool):
        own.problem(node, f"{about}.series_vary: {quoted(node)} is {node.shape}, true or false is needed")
        return False
    if source == PUSHED:
        own.problem(node, f"{about}.series_vary: pushed samples have no series")
    return node.value


def _services(own: Findings, about: str, node: Node | None) -> tuple[str, ...]:
    if node is None:
        return ()
    if not node.is_list or not node.items():
        own.problem(node, f"{about}.services: {quoted(node)}: a list of services is needed; leave it out for all")
        return ()
    names = []
    for item in node.items():
        if problem := name_problem(item.value):
            own.problem(item, f"{about}.services: {problem}")
        else:
            names.append(str(item.value))
    return tuple(dict.fromkeys(names))


def _asking(
    own: Findings, about: str, node: Node, keys: Mapping[str, Node], sources: Mapping[str, SourceSpec]
) -> tuple[str, str, str, str]:
    """Source, query, label and selector: how its source is asked."""
    named = text(own, f"{about}.source", keys["source"]) if "source" in keys else None
    source = named or next(iter(sources), "")
    if "source" in keys and named is not None and source != PUSHED and source not in sources:
        own.problem(keys["source"], f"{about}.source: {source!r} is none of {', '.join([*sources, PUSHED])}")
    if source == PUSHED:
        for field in ("query", "by", "age_of"):
            if field in keys:
                own.problem(keys[field], f"{about}.{field}: pushed samples are not queried")
        return source, "", "", ""
    if not source:
        own.problem(node, f"{about}: no source: declare one under sources:, or write source: {PUSHED}")
    query = text(own, f"{about}.query", keys["query"], longest=QUERY_BYTES_MAX) if "query" in keys else None
    if "query" not in keys:
        own.problem(node, f"{about}: query is missing")
    if query is not None and len(query.encode()) > QUERY_BYTES_MAX:
        own.problem(keys["query"], f"{about}.query: {len(query.encode())} bytes, the limit is {QUERY_BYTES_MAX}")
    by = text(own, f"{about}.by", keys["by"], longest=128) if "by" in keys else ""
    if by and not _LABEL.fullmatch(by):
        own.problem(keys["by"], f"{about}.by: {quoted(keys['by'])} is no label")
    age_of = text(own, f"{about}.age_of", keys["age_of"], longest=QUERY_BYTES_MAX) if "age_of" in keys else ""
    if age_of and not _SELECTOR.fullmatch(age_of):
        own.problem(keys["age_of"], f'{about}.age_of: a bare selector such as jobs_waiting or up{{job="x"}} is needed')
    if query and not age_of and not _SCRAPED.fullmatch(query):
        reason = (
            "age_of is missing: the query is no bare selector of a scraped metric (a ':' is for recording rules), "
            "so its answer says nothing about the scrape's time"
        )
        own.problem(keys["query"], f"{about}: {reason}")
    _no_credentials(own, about, keys)
    return source, query or "", by or "", age_of or ""


def _no_credentials(own: Findings, about: str, keys: Mapping[str, Node]) -> None:
    for field in ("query", "age_of"):
        value = keys[field].value if field in keys else None
        if isinstance(value, str) and (told := credential_problem(value)) is not None:
            own.problem(keys[field], f"{about}.{field}: {told}")


def _attestation(found: Findings, node: Node | None) -> dict[str, tuple[AttestationKey, ...]]:
    made = {}
    for key, value in _mapping(found, node, "attestation", 1024):
        about = f"attestation.{key.value}"
        keys = found.keys(value, ("keys",))
        if "keys" not in keys or not keys["keys"].is_list or not 1 <= len(keys["keys"].items()) <= 8:
            found.problem(value, f"{about}: keys is a list of 1 to 8 keys, such as [{{id: k1, hmac_file: secret.txt}}]")
            continue
        kept = [_key(found, f"{about}.keys[{n}]", item) for n, item in enumerate(keys["keys"].items())]
        good = [one for one in kept if one is not None]
        if len({one.id for one in good}) != len(good):
            found.problem(value, f"{about}: two keys have the same id")
        made[str(key.value)] = tuple(good)
    return made


def _key(found: Findings, about: str, node: Node) -> AttestationKey | None:
    if not node.mapping:
        found.problem(node, f"{about}: {quoted(node)} is {node.shape}, a mapping is needed")
        return None
    keys = found.keys(node, ("id", "hmac_file", "ed25519"))
    if "id" not in keys or ("hmac_file" in keys) == ("ed25519" in keys):
        found.problem(node, f"{about}: an id and exactly one of hmac_file and ed25519 are needed")
        return None
    values = {name: text(found, f"{about}.{name}", value, longest=4096) or "" for name, value in keys.items()}
    return AttestationKey(id=values["id"], hmac_file=values.get("hmac_file", ""), ed25519=values.get("ed25519", ""))
