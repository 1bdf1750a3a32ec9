"""The declared fleet: the registry, with the override layer on top, as one `Fleet`.

Two kinds of mistake are told apart.  A wrong entry is rejected alone, named with its line, and its service is not acted
upon; the others stand.  A wrong top level (or an override layer that cannot be read) makes the whole reading an error,
from which nothing may be reconciled: a registry that cannot be understood is never a smaller fleet, and never an empty
one.  A service is never guessed: of two entries with one name neither is taken, and of two that want the same port the
later one is refused.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence

from fleetwarden.domain.declared_units import contract_of
from fleetwarden.domain.depends_on import refuse_rings, refuse_unknown
from fleetwarden.domain.errors import Problem
from fleetwarden.domain.fleet import Fleet, Mode, Service
from fleetwarden.domain.identifiers import name_problem
from fleetwarden.domain.located import Findings, Node
from fleetwarden.domain.located_values import close, quoted, whole, word
from fleetwarden.domain.service_entry import Entry, Group, build_service, read_entry

__all__ = ["failed_fleet", "read_fleet"]

MIN_HEALTHY_MAX = 1_000_000
CONTRACT = ("pools", "workloads", "failure_domains")


def read_fleet(registry: Node, override: Node | None, folder: str, digest: str, previous: Fleet | None = None) -> Fleet:
    """The fleet that both files declare.  Never raises: what is wrong is in it.

    `folder`: the absolute path of the configuration folder, from which relative paths of processes start.  `digest`: of
    the text of both files.  `previous`: the last good fleet, under whose scaling blocks a count is held when a block
    has become invalid.
    """
    top = Findings()
    keys = _top_level(top, registry, ("version", "groups", "services", *CONTRACT))
    services = _entries(top, registry, keys)
    layers: Sequence[Entry] = ()
    if override is not None:
        layer_keys = _top_level(top, override, ("version", "services"))
        layers = [read_entry(node, override=True) for node in _entries(top, override, layer_keys)]
    groups_node = keys.get("groups")
    if groups_node is not None and groups_node.value is not None and not groups_node.mapping:
        top.problem(groups_node, f"groups: {quoted(groups_node)} is {groups_node.shape}, a mapping of names is needed")
    if top.problems:
        return failed_fleet(top.problems, digest)
    found = Findings()
    found.warnings += top.warnings
    groups = _groups(found, groups_node)
    entries = [read_entry(node, override=False) for node in services]
    _refuse_doubles(entries)
    _refuse_doubles(layers)
    by_name = _layers_by_name(found, entries, layers)
    held = {name: service.scaling for name, service in previous.services.items()} if previous is not None else {}
    services_by_name: dict[str, Service] = {}
    for entry in entries:
        layer = by_name.get(entry.name)
        if layer is not None:
            entry.findings.problems += layer.findings.problems
        service, warnings = build_service(entry, layer, groups, folder=folder, held=held.get(entry.name))
        if service is not None:
            services_by_name[entry.name] = service
            found.warnings += entry.said_by(warnings)
    for name in _refuse_shared_ports(entries, services_by_name):
        del services_by_name[name]
    for name in _refuse_dependencies(entries, services_by_name):
        del services_by_name[name]
    for entry in entries:
        found.problems += entry.said_by(entry.findings.problems)
    rejected = dict.fromkeys(e.name for e in entries if e.findings.problems and name_problem(e.name) is None)
    catalogue, unit_problems = contract_of(found, keys, services_by_name)
    return Fleet(
        services=services_by_name,
        groups={name: group.mode for name, group in groups.items()},
        min_healthy={name: group.min_healthy for name, group in groups.items() if group.min_healthy is not None},
        problems=tuple(sorted(found.problems)),
        warnings=tuple(sorted(found.warnings)),
        rejected=tuple(rejected),
        digest=digest,
        catalogue=catalogue,
        unit_problems=unit_problems,
    )


def failed_fleet(problems: Iterable[Problem], digest: str = "") -> Fleet:
    """A reading from which nothing may be reconciled, for these reasons (at least one)."""
    found = tuple(sorted(problems))
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return Fleet(problems=found, digest=digest, error=f"the registry cannot be used: {found[0]}{more}")


def _top_level(top: Findings, node: Node, known: Sequence[str]) -> dict[str, Node]:
    if not node.mapping:
        top.problem(node, f"the file is {quoted(node)}, a mapping with services: is needed")
        return {}
    keys = top.keys(node, known)
    version = keys.get("version")
    if version is None:
        if "services" in keys:
            top.warn(node, "version: is missing, read as version: 1")
    elif type(version.value) is not int or version.value != 1:
        top.problem(version, f"version: {quoted(version)} is unknown, this release reads version: 1")
    return keys


def _entries(top: Findings, file: Node, keys: Mapping[str, Node]) -> tuple[Node, ...]:
    """The items of `services:`.  A missing list is a finding, an empty one a warning: it was written on purpose."""
    services = keys.get("services")
    if services is None:
        if file.mapping and not top.problems:
            top.problem(file, "no services: the file needs a list, such as services: [{name: web}]")
    elif not services.is_list:
        top.problem(
            services, f"services: {quoted(services)} is {services.shape}, a list is needed, such as [{{name: web}}]"
        )
    else:
        if not services.items():
            top.warn(services, "services: an empty list, so nothing is declared here")
        return services.items()
    return ()


def _groups(found: Findings, node: Node | None) -> dict[str, Group]:
    groups: dict[str, Group] = {}
    if node is None or node.value is None:
        return groups
    for key, value in node.pairs():
        own = Findings()
        name = key.value
        mode: str | None = None
        least: int | None = None
        if problem := name_problem(name):
            own.problem(key, f"groups: {problem}")
        elif name in groups:
            own.problem(key, f"group {name!r} stands here twice, first at {groups[name].where}: neither is used")
        if value.value is not None and not value.mapping:
            own.problem(
                value, f"group {name}: {quoted(value)} is {value.shape}, a mapping such as {{mode: live}} is needed"
            )
        elif value.mapping:
            keys = own.keys(value, ("mode", "min_healthy"))
            if "min_healthy" in keys:
                least = whole(own, "min_healthy", keys["min_healthy"], 0, MIN_HEALTHY_MAX)
            mode = word(own, "mode", keys["mode"], [one.value for one in Mode]) if "mode" in keys else None
        usable = not own.problems
        groups[str(name)] = Group(
            mode=Mode(mode) if mode is not None and usable else None,
            min_healthy=least,
            usable=usable,
            where=key.where,
        )
        found.problems += own.problems
    return groups


def _refuse_doubles(entries: Sequence[Entry]) -> None:
    """Of entries with the same name none is used; each names where all of them stand."""
    named: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.name:
            named.setdefault(entry.name, []).append(entry)
    for same in named.values():
        if len(same) > 1:
            places = ", ".join(entry.node.where for entry in same[:5])
            for entry in same:
                entry.findings.problem(entry.node, f"declared more than once ({places}): none of them is used")


def _layers_by_name(found: Findings, entries: Sequence[Entry], layers: Sequence[Entry]) -> dict[str, Entry]:
    """The override entry of each service.  One that belongs to no service is a finding of its own."""
    known = {entry.name for entry in entries if entry.name}
    by_name: dict[str, Entry] = {}
    for layer in layers:
        if layer.name in known:
            first = by_name.setdefault(layer.name, layer)
            if first is not layer:
                first.findings.problems += layer.findings.problems
            continue
        if layer.name and not layer.findings.problems:
            layer.findings.problem(layer.node, f"no such service in the registry{close(layer.name, known)}")
        found.problems += layer.said_by(layer.findings.problems)
    return by_name


def _refuse_shared_ports(entries: Sequence[Entry], services: Mapping[str, Service]) -> list[str]:
    """Names of services whose ports overlap those of an earlier one on the same host."""
    taken: dict[str, list[tuple[int, int, str]]] = {}
    refused = []
    for entry in entries:
        service = services.get(entry.name)
        if service is None or service.process is None or service.process.port is None:
            continue
        most = max(service.replicas, 0 if service.scaling is None else service.scaling.max)
        if most == 0:
            continue
        first, last = service.process.port, service.process.port + most - 1
        ranges = taken.setdefault(service.process.host, [])
        place = bisect_left(ranges, (first,))
        near = ranges[max(place - 1, 0) : place + 1]
        clash = next((one for one in near if one[0] <= last and first <= one[1]), None)
        if clash is None:
            insort(ranges, (first, last, service.name))
            continue
        other = services[clash[2]]
        theirs = f"{other.name!r} ({_ports(clash[0], clash[1])}, {other.source})"
        reason = f"{_ports(first, last)}: in use by {theirs} on the same host, so this service is not used"
        entry.findings.problem(entry.keys["process"].get("port") or entry.node, reason)
        refused.append(service.name)
    return refused


def _refuse_dependencies(entries: Sequence[Entry], services: Mapping[str, Service]) -> list[str]:
    """Names of services that depend on what nobody declares, or in the end on themselves.

    One that depends on an entry which is rejected for another reason stands, and waits.
    """
    declared = {entry.name for entry in entries if entry.name}
    nodes = {entry.name: entry for entry in entries if entry.name in services and "depends_on" in entry.keys}
    refused = [name for name, one in nodes.items() if refuse_unknown(one.findings, one.keys["depends_on"], declared)]
    needs = {name: services[name].depends_on for name in nodes}
    for name, (leads_on, ring) in refuse_rings(needs).items():
        items = nodes[name].keys["depends_on"].items()
        place = next(item for item in items if item.value == leads_on)
        nodes[name].findings.problem(place, f"depends_on: these wait for each other: {ring}")
        refused.append(name)
    return list(dict.fromkeys(refused))


def _ports(first: int, last: int) -> str:
    return f"port {first}" if first == last else f"ports {first} to {last}"
