"""One entry of `services:`, and what an override entry may say about it.

The layers are put together here, key by key, before anything is judged as a whole: an override's replica count decides
how many ports a process needs.  Every value keeps the line of the file that wrote it, so a finding names the layer that
is at fault.  An entry is good or it is rejected; a rejected one is never filled up with defaults or with the other
layer's values, because that would act on something that nobody wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fleetwarden.domain.actions import Record
from fleetwarden.domain.contract_file import read_unit
from fleetwarden.domain.depends_on import read_depends_on
from fleetwarden.domain.errors import Problem
from fleetwarden.domain.event_matching import read_match
from fleetwarden.domain.fleet import DesiredState, Mode, ScalingBlock, ScalingError, Service
from fleetwarden.domain.identifiers import name_problem
from fleetwarden.domain.located import Findings, Node
from fleetwarden.domain.located_values import close, quoted, text, whole, word
from fleetwarden.domain.process_block import read_process
from fleetwarden.domain.scaling import read_block
from fleetwarden.domain.version_block import check_version
from fleetwarden.domain.watch_block import read_watch

__all__ = ["OVERRIDABLE", "Entry", "Group", "build_service", "read_entry", "version_of"]

OVERRIDABLE = ("replicas", "desired", "version", "scaling")
DECLARED = ("name", "group", "owner", "mode", "depends_on", *OVERRIDABLE, "process", "unit", "match", "watch")
LATER = ("docker", "kubernetes")
REGISTRY_ONLY = frozenset({*DECLARED, *LATER}) - {"name", *OVERRIDABLE}
PROCESS_REPLICAS_MAX = 1_000
REPLICAS_MAX = 100_000
VERSION_CHARACTERS_MAX = 128
_MEANT = {
    **dict.fromkeys(("on", "yes", "true", "up", "start", "started", "run", "enabled"), "running"),
    **dict.fromkeys(("off", "no", "false", "down", "stop", "disabled"), "stopped"),
}


class Group(Record):
    """A declared group.  `usable` false: its own entry has a finding, so nothing in it may be acted upon."""

    mode: Mode | None = None
    min_healthy: int | None = None
    usable: bool = True
    where: str = ""


class Entry:
    """An entry as it stands in a file: its keys, and what is wrong with it so far."""

    __slots__ = ("findings", "keys", "name", "node")

    def __init__(self, name: str, node: Node, keys: Mapping[str, Node], findings: Findings) -> None:
        self.name = name
        self.node = node
        self.keys = keys
        self.findings = findings

    def said_by(self, found: Iterable[Problem]) -> list[Problem]:
        """These findings, each with the name of the service."""
        said = f"{self.name}: " if self.name and name_problem(self.name) is None else ""
        return [Problem(one.file, one.line, said + one.reason) for one in found]


def read_entry(node: Node, *, override: bool) -> Entry:
    """An entry with its name ("" if it has none that can be used), its known keys, and findings for the others."""
    findings = Findings()
    if not node.mapping:
        findings.problem(node, f"a service is a mapping such as {{name: web}}, not {node.shape}")
        return Entry("", node, {}, findings)
    if override:
        keys = findings.keys(_without_misplaced(findings, node), ("name", *OVERRIDABLE))
    else:
        keys = findings.keys(node, DECLARED, LATER)
    named = keys.get("name")
    if named is None:
        findings.problem(node, "a service without a name")
        return Entry("", node, keys, findings)
    if not isinstance(named.value, str):
        text(findings, "name", named)
        return Entry("", node, keys, findings)
    if problem := name_problem(named.value):
        findings.problem(named, problem)
    return Entry(named.value, node, keys, findings)


def _without_misplaced(findings: Findings, node: Node) -> Node:
    """An override entry without the keys that only the registry may hold, each of which is a finding."""
    kept = []
    for key, value in node.pairs():
        if key.value in REGISTRY_ONLY:
            findings.problem(
                key,
                f"{key.value!r} cannot be overridden (only {', '.join(OVERRIDABLE)} can): declare it in the registry",
            )
        else:
            kept.append((key, value))
    return Node(tuple(kept), node.file, node.line, node.text, mapping=True)


def version_of(findings: Findings, node: Node) -> str | None:
    """A version: text, because a number has lost its zeros already (1.10 is 1.1)."""
    if type(node.value) in (int, float):
        findings.problem(
            node, f'version: {node.text} is a number to YAML, a version is text: quote it: version: "{node.text}"'
        )
        return None
    return text(findings, "version", node, longest=VERSION_CHARACTERS_MAX)


def build_service(
    entry: Entry, layer: Entry | None, groups: Mapping[str, Group], *, folder: str, held: ScalingBlock | None
) -> tuple[Service | None, tuple[Problem, ...]]:
    """The service that both layers together declare, with warnings; None where the entry has findings now.

    `held` is the block that the service had in the last good fleet: it holds the count if today's block is invalid.
    """
    findings = entry.findings
    keys = {**entry.keys, **(layer.keys if layer is not None else {}), "name": entry.node}
    group, mode = _group_and_mode(findings, keys, groups)
    owner = _owner(findings, keys["owner"]) if "owner" in keys else ""
    depends_on = read_depends_on(findings, keys["depends_on"]) if "depends_on" in keys else ()
    most = PROCESS_REPLICAS_MAX if "process" in keys else REPLICAS_MAX
    replicas: int | None = 1
    for layered in (entry, layer) if layer is not None else (entry,):  # the overridden value has to be valid, too
        if "replicas" in layered.keys:
            replicas = whole(findings, "replicas", layered.keys["replicas"], 0, most)
        if "desired" in layered.keys:
            desired_of(findings, layered.keys["desired"])
        if "version" in layered.keys:
            version_of(findings, layered.keys["version"])
    if findings.problems:
        replicas = 1  # only to find what else is wrong
    desired = (
        DesiredState(keys["desired"].value) if "desired" in keys and not findings.problems else DesiredState.RUNNING
    )
    version = keys["version"].text if "version" in keys else ""
    process = None
    if "process" in keys:
        process = read_process(findings, keys["process"], folder=folder, replicas=replicas or 1, version=version)
        check_version(findings, keys.get("version", keys["process"]), process, version)
    unit = read_unit(findings, keys["unit"]) if "unit" in keys else None
    match = read_match(findings, keys["match"]) if "match" in keys else ()
    watch = read_watch(findings, keys["watch"]) if "watch" in keys else None
    if findings.problems or replicas is None:
        return None, ()
    scaling, scaling_error, warnings = _scaling(keys.get("scaling"), held, most)
    service = Service(
        name=entry.name,
        group=group,
        owner=owner,
        depends_on=depends_on,
        mode=mode,
        desired=desired,
        replicas=replicas,
        version=version,
        process=process,
        unit=unit,
        match=match,
        watch=watch,
        scaling=scaling,
        scaling_error=scaling_error,
        source=entry.node.where if layer is None else f"{entry.node.where}, {layer.node.where}",
    )
    return service, warnings


def desired_of(findings: Findings, node: Node) -> DesiredState | None:
    """`running` or `stopped`, and nothing that YAML or a person might take for one of them."""
    if node.value in ("running", "stopped"):
        return DesiredState(node.value)
    meant = _MEANT.get(node.text.strip().lower())
    hint = f" (here probably {meant})" if meant else ""
    findings.problem(node, f"desired: {quoted(node)} is no state: write running or stopped{hint}")
    return None


def _group_and_mode(findings: Findings, keys: Mapping[str, Node], groups: Mapping[str, Group]) -> tuple[str, Mode]:
    group, mode = "", Mode.LIVE
    if "group" in keys:
        node = keys["group"]
        group = text(findings, "group", node) or ""
        if group and group not in groups:
            findings.problem(
                node, f"group {group!r} is not declared{close(group, groups) or f': add groups: {{{group}: {{}}}}'}"
            )
        elif group and not groups[group].usable:
            findings.problem(node, f"group {group!r} is rejected itself ({groups[group].where})")
        elif group:
            mode = groups[group].mode or mode
    if "mode" in keys:
        own = word(findings, "mode", keys["mode"], [one.value for one in Mode])
        mode = Mode(own) if own is not None else mode
    return group, mode


def _owner(findings: Findings, node: Node) -> str:
    """The name of a team.  Nothing says here whether anybody is in it: identities do."""
    owner = text(findings, "owner", node) or ""
    if owner and (problem := name_problem(owner)):
        findings.problem(node, f"owner: {problem}")
    return owner


def _scaling(
    node: Node | None, held: ScalingBlock | None, most: int
) -> tuple[ScalingBlock | None, ScalingError | None, tuple[Problem, ...]]:
    if node is None or node.value is None:
        return None, None, ()
    block = read_block(node, on_kubernetes=False, most=most)
    if isinstance(block, ScalingBlock):
        return block, None, ()
    field = f"scaling.{block.field}" if block.field else "scaling"
    then = (
        "its replica count stays as declared"
        if held is None
        else "its replica count is held, as under the last valid block"
    )
    return held, block, (Problem(block.file, block.line, f"{field}: {block.reason}; the block is not used: {then}"),)
