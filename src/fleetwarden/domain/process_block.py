"""The `process:` block of a service: how it runs as local processes, and how an instance shows that it is well.

Read after the override layer is applied, because what fits depends on it: the last replica's port must exist, and a
placeholder must have something to stand for.  Everything that would only fail when the process is started (a
placeholder that nothing fills, a number where the environment needs text) is refused here, with its line.  Whether the
command exists on the disk is not asked: that is the substrate's to see.
"""

from __future__ import annotations

import posixpath  # text only: joining two paths looks at no disk
import re
from collections.abc import Callable, Mapping

from fleetwarden.domain.fleet import HealthCheck, HealthKind, ProcessSpec
from fleetwarden.domain.located import Findings, Node
from fleetwarden.domain.located_values import close, number, quoted, text, texts, whole
from fleetwarden.domain.placeholders import KNOWN, placeholders
from fleetwarden.domain.version_block import read_versions

__all__ = ["PORT_MAX", "STOP_GRACE_S_MAX", "host_problem", "read_process"]

PORT_MAX = 65_535
STOP_GRACE_S = 10.0
STOP_GRACE_S_MAX = 300.0
_KNOWN_KEYS = ("command", "port", "cwd", "env", "host", "health", "stop_grace_s", "versions")
_HEALTH_KINDS = ("http", "tcp", "command")
_HEALTH_OPTIONS = ("timeout_s", "failures", "start_grace_s")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_URL = re.compile(r"https?://[^\s/?#]+(?:[/?][^\s#]*)?")
OWN_VARIABLES = "FLEETWARDEN_"  # the marker by which a plane finds its processes again


def read_process(findings: Findings, node: Node, *, folder: str, replicas: int, version: str) -> ProcessSpec | None:
    """The block, or None after at least one finding.

    `folder` is the absolute path that a relative `cwd` starts from; `replicas` and `version` are the service's.
    """
    before = len(findings.problems)
    if not node.mapping:
        findings.problem(node, f"process: {quoted(node)} is {node.shape}, a block such as {{command: [..]}} is needed")
        return None
    keys = findings.keys(node, _KNOWN_KEYS)
    port = _port(findings, keys.get("port"), replicas)
    filled = _Filled(findings, {"port": keys.get("port") is not None, "version": bool(version)})
    versions = read_versions(findings, keys["versions"], filled.check_each) if "versions" in keys else {}
    command: tuple[str, ...] | None = () if versions and all(one.command for one in versions.values()) else None
    if "command" in keys:
        command = texts(findings, "command", keys["command"])
        filled.check_each("command", keys["command"], command)
    elif command is None:
        missing = [name for name, one in versions.items() if not one.command]
        findings.problem(node, "process: command is missing" + (f" (version {missing[0]} has none)" if missing else ""))
    cwd = _cwd(findings, keys.get("cwd"), folder, filled)
    env = _env(findings, keys.get("env"), filled)
    host = _host(findings, keys.get("host"))
    health = _health(findings, keys.get("health"), filled)
    grace: float | None = STOP_GRACE_S
    if "stop_grace_s" in keys:
        grace = number(findings, "stop_grace_s", keys["stop_grace_s"], 0, STOP_GRACE_S_MAX)
    if len(findings.problems) > before or command is None or grace is None:
        return None
    return ProcessSpec(
        command=command,
        port=port,
        cwd=cwd,
        env=env,
        host=host,
        health=health,
        stop_grace_s=grace,
        versions=versions,
    )


class _Filled:
    """Refuses placeholders that are unknown, or that this service has nothing for."""

    def __init__(self, findings: Findings, available: Mapping[str, bool]) -> None:
        self.findings = findings
        self.available = available

    def check(self, field: str, node: Node, value: str | None) -> None:
        for name in placeholders(value) if value else ():
            if name not in KNOWN:
                known = ", ".join(f"{{{one}}}" for one in KNOWN)
                reason = f"{field}: unknown placeholder {{{name}}}{close(name, KNOWN)}; known are {known}"
                self.findings.problem(node, f"{reason}; {{{{{name}}}}} stands for the plain text {{{name}}}")
            elif not self.available.get(name, True):
                self.findings.problem(node, f"{field}: {{{name}}} is used, but no {name} is declared")

    def check_each(self, field: str, node: Node, values: tuple[str, ...] | None) -> None:
        if values is not None:
            for place, (item, value) in enumerate(zip(node.items(), values, strict=True)):
                self.check(f"{field}[{place}]", item, value)


def _port(findings: Findings, node: Node | None, replicas: int) -> int | None:
    if node is None:
        return None
    port = whole(findings, "port", node, 1, PORT_MAX)
    if port is not None and port + replicas - 1 > PORT_MAX:
        last = port + replicas - 1
        reason = f"port: {replicas} replicas from {port} on need ports up to {last:,}, there is none above {PORT_MAX:,}"
        findings.problem(node, reason)
    return port


def _cwd(findings: Findings, node: Node | None, folder: str, filled: _Filled) -> str:
    written = "."
    if node is not None:
        found = text(findings, "cwd", node)
        if found is not None and found.startswith("~"):
            findings.problem(node, "cwd: ~ is not expanded: write the path")
        filled.check("cwd", node, found)
        written = found or written
    return posixpath.normpath(posixpath.join(folder, written))


def _env(findings: Findings, node: Node | None, filled: _Filled) -> dict[str, str]:
    env: dict[str, str] = {}
    if node is None:
        return env
    if not node.mapping:
        findings.problem(node, f"env: {quoted(node)} is {node.shape}, a mapping of names to texts is needed")
        return env
    for key, value in node.pairs():
        name = key.value
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            findings.problem(key, f"env: {quoted(key)} is no name of a variable: letters, digits and '_'")
        elif name in env:
            findings.problem(key, f"env: {name} stands here twice")
        elif name.startswith(OWN_VARIABLES):
            findings.problem(key, f"env: names that begin with {OWN_VARIABLES} are fleetwarden's own")
        elif isinstance(value.value, str) and "\0" not in value.value:
            filled.check(f"env {name}", value, value.value)
            env[name] = value.value
        else:
            text(findings, f"env {name}", value, show=False)
    return env


def host_problem(name: str) -> str | None:
    """Why `name` cannot be a machine's name, or None if it can."""
    return None if _HOST.fullmatch(name) else f"{name[:80]!r} is no host name"


def _host(findings: Findings, node: Node | None) -> str:
    if node is None:
        return ""
    host = text(findings, "host", node)
    if host is not None and (problem := host_problem(host)):
        findings.problem(node, f"host: {problem}")
    return host or ""


def _health(findings: Findings, node: Node | None, filled: _Filled) -> HealthCheck:
    if node is None or node.value == HealthKind.ALIVE.value:
        return HealthCheck()
    if not node.mapping:
        findings.problem(
            node, f"health: {quoted(node)} is none of alive, {{http: URL}}, {{tcp: PORT}}, {{command: [..]}}"
        )
        return HealthCheck()
    keys = findings.keys(node, (*_HEALTH_KINDS, *_HEALTH_OPTIONS))
    kinds = [name for name in _HEALTH_KINDS if name in keys]
    if len(kinds) != 1:
        said = " and ".join(kinds) if kinds else "none of them"
        findings.problem(node, f"health: one of http, tcp and command is needed (or the word alive), here {said}")
        return HealthCheck()
    kind = kinds[0]
    values: dict[str, object] = {"kind": HealthKind(kind), kind: _PROBES[kind](findings, keys[kind], filled)}
    if "timeout_s" in keys:
        values["timeout_s"] = number(findings, "health timeout_s", keys["timeout_s"], 0.1, 60)
    if "failures" in keys:
        values["failures"] = whole(findings, "health failures", keys["failures"], 1, 10)
    if "start_grace_s" in keys:
        values["start_grace_s"] = number(findings, "health start_grace_s", keys["start_grace_s"], 0, 3600)
    if any(value is None for value in values.values()):
        return HealthCheck()  # a finding was recorded, the block is refused
    return HealthCheck(**values)  # type: ignore[arg-type]


def _http(findings: Findings, node: Node, filled: _Filled) -> str | None:
    url = text(findings, "health http", node)
    if url is not None and not _URL.fullmatch(url):
        findings.problem(node, f"health http: {quoted(node)} is no URL that begins with http:// or https://")
    filled.check("health http", node, url)
    return url


def _tcp(findings: Findings, node: Node, filled: _Filled) -> str | None:
    if node.value == "{port}":
        filled.check("health tcp", node, "{port}")
        return "{port}"
    if isinstance(node.value, str):
        findings.problem(node, f'health tcp: {quoted(node)} is neither a port nor "{{port}}"')
        return None
    port = whole(findings, "health tcp", node, 1, PORT_MAX)
    return None if port is None else str(port)


def _command(findings: Findings, node: Node, filled: _Filled) -> tuple[str, ...] | None:
    words = texts(findings, "health command", node)
    filled.check_each("health command", node, words)
    return words


_PROBES: Mapping[str, Callable[[Findings, Node, _Filled], str | tuple[str, ...] | None]] = {
    "http": _http,
    "tcp": _tcp,
    "command": _command,
}
