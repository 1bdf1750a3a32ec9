"""What `fleet.yml` may say about the scaling contract: pools, workloads, failure domains, and the `unit:` of a service.

All of it is optional.  What is left out is generated, and generated so that it never refuses anything: one pool that is
as large as the units in it need, one workload a pool, one failure domain.  What is written is never filled up with a
guess that would make it valid: a pool that cannot be read does not exist, and the units in it accept no new count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from fleetwarden.domain.actions import Record
from fleetwarden.domain.contract.authority import Catalogue, registrations_for
from fleetwarden.domain.contract.records import (
    UNITS_MAX,
    Cadence,
    FailureDomain,
    OfflineRecovery,
    OutsideWindow,
    ResourcePool,
    RollbackPolicy,
    ScaleUnit,
    UnitMaintenance,
    UnitQuota,
    WorkloadClass,
)
from fleetwarden.domain.identifiers import name_problem
from fleetwarden.domain.located import Findings, Node
from fleetwarden.domain.located_values import quoted, whole, word
from fleetwarden.domain.located_values import text as text_of
from fleetwarden.domain.window_file import read_window
from fleetwarden.domain.windows import DAYS

__all__ = ["DEFAULT", "CountBounds", "Declared", "UnitSpec", "assemble", "read_declared", "read_unit"]

T = TypeVar("T")
DEFAULT = "default"
_POOL = ("capacity", "headroom", "quota", "failure_domain", "offline")
_WORKLOAD = ("tenant", "workload", "pool", "cadence", "concurrency", "max_units", "burst_units")
_UNIT = (
    "pool",
    "workload",
    "headroom",
    "max_units",
    "burst_units",
    "failure_domain",
    "maintenance",
    "rollback",
    "depends_on",
)


class Declared(Record):
    """Pools, workloads and failure domains as they were written, those that could be read."""

    pools: Mapping[str, ResourcePool] = {}
    workloads: Mapping[str, WorkloadClass] = {}
    domains: Mapping[str, FailureDomain] = {}


class UnitSpec(Record):
    """A service's `unit:` as it was written; "" and None are what is to be generated."""

    pool: str = ""
    workload: str = ""
    headroom: int = 0
    max_units: int | None = None
    burst_units: int = 0
    failure_domain: str = ""
    maintenance: UnitMaintenance | None = None
    rollback: RollbackPolicy = RollbackPolicy.MANUAL
    file: str = ""
    line: int = 0


class CountBounds(Record):
    """What a service says about its count: the bounds, who writes it, and its `unit:` if it has one."""

    service: str
    low: int
    high: int
    controller_mode: str = "native"
    unit: UnitSpec | None = None
    depends_on: tuple[str, ...] = ()


def read_declared(found: Findings, keys: Mapping[str, Node]) -> Declared:
    """The top-level `pools`, `workloads` and `failure_domains`.  An entry with a finding is left out alone."""
    domains = _named(found, keys.get("failure_domains"), "failure_domains", _read_domain)
    pools = _named(found, keys.get("pools"), "pools", _read_pool)
    workloads = _named(found, keys.get("workloads"), "workloads", _read_workload)
    for name, workload in list(workloads.items()):
        if name != workload.pool and name in (*pools, DEFAULT):
            reason = f"workloads.{name}: named as a pool that it is not in; a pool's own workload has that name"
            found.problem(keys["workloads"], reason)
            del workloads[name]
    return Declared(domains=domains, pools=pools, workloads=workloads)


def _named(
    found: Findings, node: Node | None, what: str, read: Callable[[Findings, str, Node], T | None]
) -> dict[str, T]:
    """A mapping of names, each entry read alone."""
    entries: dict[str, T] = {}
    if node is None or node.value is None:
        return entries
    if not node.mapping:
        found.problem(node, f"{what}: {quoted(node)} is {node.shape}, a mapping of names is needed")
        return entries
    seen: set[str] = set()
    for key, value in node.pairs():
        own = Findings()
        about = f"{what}.{key.value}"
        if problem := name_problem(key.value):
            own.problem(key, f"{what}: {problem}")
        elif key.value in seen:
            own.problem(key, f"{about} stands here twice: neither is used")
            entries.pop(key.value, None)
        elif value.value is not None and not value.mapping:
            own.problem(value, f"{about}: {quoted(value)} is {value.shape}, a mapping is needed")
        seen.add(str(key.value))
        entry = None if own.problems else read(own, str(key.value), _or_empty(value))
        if entry is not None and not own.problems:
            entries[str(key.value)] = entry
        found.problems += own.problems
    return entries


def _or_empty(node: Node) -> Node:
    return node if node.mapping else Node((), node.file, node.line, node.text, mapping=True)


def _read_domain(own: Findings, name: str, node: Node) -> FailureDomain | None:
    keys = own.keys(node, ("offline",))
    offline = keys.get("offline")
    if offline is not None and not isinstance(offline.value, bool):
        own.problem(offline, f"failure_domains.{name}.offline: {quoted(offline)} is {offline.shape}, true or false")
        return None
    return FailureDomain(name=name, offline=bool(offline.value) if offline is not None else False)


def _read_pool(own: Findings, name: str, node: Node) -> ResourcePool | None:
    about = f"pools.{name}"
    keys = own.keys(node, _POOL)
    if "capacity" not in keys:
        own.problem(node, f"{about}: capacity is missing")
    capacity = whole(own, f"{about}.capacity", keys["capacity"], 0, UNITS_MAX) if "capacity" in keys else None
    headroom = whole(own, f"{about}.headroom", keys["headroom"], 0, capacity or 0) if "headroom" in keys else 0
    quota = None
    if "quota" in keys and capacity is not None and headroom is not None:
        quota = whole(own, f"{about}.quota", keys["quota"], 0, capacity - headroom)
    domain = _name(own, f"{about}.failure_domain", keys.get("failure_domain"))
    offline = (
        word(own, f"{about}.offline", keys["offline"], [one.value for one in OfflineRecovery])
        if "offline" in keys
        else OfflineRecovery.HOLD.value
    )
    if own.problems or capacity is None or headroom is None or offline is None:
        return None
    return ResourcePool(
        name=name,
        capacity=capacity,
        headroom=headroom,
        quota=quota,
        failure_domain=domain or DEFAULT,
        offline_recovery=OfflineRecovery(offline),
    )


def _read_workload(own: Findings, name: str, node: Node) -> WorkloadClass | None:
    about = f"workloads.{name}"
    keys = own.keys(node, _WORKLOAD)
    for needed in ("max_units", "pool"):
        if needed not in keys:
            own.problem(node, f"{about}: {needed} is missing")
    most = whole(own, f"{about}.max_units", keys["max_units"], 1, UNITS_MAX) if "max_units" in keys else None
    burst = whole(own, f"{about}.burst_units", keys["burst_units"], 0, most or 0) if "burst_units" in keys else 0
    concurrency = whole(own, f"{about}.concurrency", keys["concurrency"], 1, most or 1) if "concurrency" in keys else 1
    cadence = (  # nothing adjusts units at another pace yet, and a word that changes nothing is refused
        word(own, f"{about}.cadence", keys["cadence"], [Cadence.SERVICE_REPLICA.value])
        if "cadence" in keys
        else Cadence.SERVICE_REPLICA.value
    )
    names = {one: _name(own, f"{about}.{one}", keys.get(one)) for one in ("tenant", "workload", "pool")}
    if own.problems or most is None or burst is None or cadence is None:
        return None
    return WorkloadClass(
        name=name,
        tenant=names["tenant"] or DEFAULT,
        workload=names["workload"] or name,
        cadence=Cadence(cadence),
        concurrency=concurrency if "concurrency" in keys and concurrency is not None else most,
        quota=UnitQuota(max_units=most, burst_units=burst),
        pool=names["pool"],
    )


def _name(own: Findings, field: str, node: Node | None) -> str:
    """A name, or "" where none stands or it is none."""
    if node is None:
        return ""
    found = text_of(own, field, node) or ""
    if found and (problem := name_problem(found)):
        own.problem(node, f"{field}: {problem}")
        return ""
    return found


def read_unit(findings: Findings, node: Node) -> UnitSpec | None:
    """The `unit:` block of a service, or None with the problems in `findings`."""
    if not node.mapping:
        findings.problem(
            node, f"unit: {quoted(node)} is {node.shape}, a mapping such as {{pool: default, headroom: 0}} is needed"
        )
        return None
    own = Findings()
    keys = own.keys(node, _UNIT)
    max_units = whole(own, "unit.max_units", keys["max_units"], 0, UNITS_MAX) if "max_units" in keys else None
    burst = whole(own, "unit.burst_units", keys["burst_units"], 0, UNITS_MAX) if "burst_units" in keys else 0
    if "pool" in keys and "workload" in keys:
        own.problem(keys["pool"], "unit.pool cannot stand beside unit.workload, which says the pool itself")
    if "burst_units" in keys and max_units is None:
        own.problem(keys["burst_units"], "unit.burst_units is a part of max_units, which is missing")
    elif burst and max_units is not None and burst > max_units:
        own.problem(keys["burst_units"], f"unit.burst_units: {burst} is more than max_units, {max_units}")
    rollback = RollbackPolicy.MANUAL.value
    if "rollback" in keys and keys["rollback"].value == RollbackPolicy.PREVIOUS.value:
        own.problem(
            keys["rollback"], "unit.rollback: previous: no count is taken back by itself; leave it out, or write manual"
        )
    elif "rollback" in keys:
        rollback = word(own, "unit.rollback", keys["rollback"], [RollbackPolicy.MANUAL.value]) or rollback
    if "depends_on" in keys:
        own.problem(
            keys["depends_on"],
            "unit.depends_on: nothing waits for a unit; write depends_on beside unit:, for which the service waits",
        )
    names = {name: _name(own, f"unit.{name}", keys.get(name)) for name in ("pool", "workload", "failure_domain")}
    headroom = whole(own, "unit.headroom", keys["headroom"], 0, UNITS_MAX) if "headroom" in keys else 0
    maintenance = _maintenance(own, keys["maintenance"]) if "maintenance" in keys else None
    findings.problems += own.problems
    if own.problems or headroom is None or burst is None:
        return None
    return UnitSpec(
        pool=names["pool"],
        workload=names["workload"],
        failure_domain=names["failure_domain"],
        headroom=headroom,
        max_units=max_units,
        burst_units=burst,
        maintenance=maintenance,
        rollback=RollbackPolicy(rollback),
        file=node.file,
        line=node.line,
    )


def _maintenance(own: Findings, node: Node) -> UnitMaintenance | None:
    if not node.mapping:
        example = '{window: "22:00-04:00", outside: queue}'
        own.problem(node, f"unit.maintenance: {quoted(node)} is {node.shape}, a mapping such as {example} is needed")
        return None
    keys = own.keys(node, ("window", "outside"))
    for needed in ("window", "outside"):
        if needed not in keys:
            hint = ": queue (it waits) or deny (it is refused)" if needed == "outside" else ""
            own.problem(node, f"unit.maintenance: {needed} is missing{hint}")
    if len(keys) < 2:
        return None
    window = read_window(keys["window"], own)
    outside = word(own, "unit.maintenance.outside", keys["outside"], [one.value for one in OutsideWindow])
    if window is None or outside is None:
        return None
    return UnitMaintenance(
        hours=window.hours,
        zone=window.zone_name,
        days=() if window.every_day else tuple(DAYS[day] for day in sorted(window.days)),
        except_dates=tuple(day.isoformat() for day in sorted(window.except_dates)),
        outside=OutsideWindow(outside),
    )


def assemble(declared: Declared, services: Sequence[CountBounds]) -> Catalogue:
    """All records of this reading: what is declared, and what has to be generated for the rest.

    A unit is named as its service.  What it depends on is what its `unit:` says, else those of its service's
    dependencies that are units themselves.
    """
    named = {one.service for one in services}
    workloads, pools, domains = dict(declared.workloads), dict(declared.pools), dict(declared.domains)
    units: dict[str, ScaleUnit] = {}
    for one in services:
        spec = one.unit or UnitSpec()
        workload, own_pool = _workload_of(spec, declared)
        pool = pools.get(own_pool)
        most = spec.max_units if spec.max_units is not None else one.high
        units[one.service] = ScaleUnit(
            name=one.service,
            service=one.service,
            workload=workload,
            min_replicas=one.low,
            max_replicas=one.high,
            headroom=spec.headroom,
            quota=UnitQuota(max_units=most, burst_units=spec.burst_units),
            failure_domain=spec.failure_domain or (pool.failure_domain if pool is not None else DEFAULT),
            maintenance=spec.maintenance,
            rollback=spec.rollback,
            depends_on=tuple(name for name in one.depends_on if name in named),
            controller_mode=one.controller_mode,
        )
    _generate(units, workloads, pools, domains, declared)
    return Catalogue.of(
        ample=_ample(units, workloads, pools),
        pools=pools,
        workloads=workloads,
        domains=domains,
        units=units,
        registrations=tuple(made for unit in units.values() for made in registrations_for(unit)),
    )


def _workload_of(spec: UnitSpec, declared: Declared) -> tuple[str, str]:
    """The names of the workload and pool that a unit is in.  One that names a pool is in that pool's own workload."""
    if spec.workload:
        known = declared.workloads.get(spec.workload)
        return spec.workload, known.pool if known is not None else ""
    return spec.pool or DEFAULT, spec.pool or DEFAULT


def _generate(
    units: Mapping[str, ScaleUnit],
    workloads: dict[str, WorkloadClass],
    pools: dict[str, ResourcePool],
    domains: dict[str, FailureDomain],
    declared: Declared,
) -> None:
    """Add the workload that each pool has of its own, the default pool, and the default domain, where they are used."""
    used = {unit.workload for unit in units.values()} - workloads.keys()
    if DEFAULT in used and DEFAULT not in pools:
        mine = [one for one in units.values() if one.workload == DEFAULT]
        together = min(UNITS_MAX, sum(max(one.max_replicas, one.quota.max_units) + one.headroom for one in mine))
        pools[DEFAULT] = ResourcePool(name=DEFAULT, capacity=together, failure_domain=DEFAULT)
    for name in sorted(used & pools.keys()):
        usable = pools[name].usable
        workloads[name] = WorkloadClass(
            name=name,
            tenant=DEFAULT,
            workload=name,
            concurrency=max(usable, 1),
            quota=UnitQuota(max_units=usable),
            pool=name,
        )
    in_use = {one.failure_domain for one in units.values()} | {one.failure_domain for one in pools.values()}
    if DEFAULT in in_use and DEFAULT not in declared.domains:
        domains[DEFAULT] = FailureDomain(name=DEFAULT)


def _ample(
    units: Mapping[str, ScaleUnit], workloads: Mapping[str, WorkloadClass], pools: Mapping[str, ResourcePool]
) -> frozenset[str]:
    """Workloads of which all units may have all that they are allowed at the same time."""
    by_workload: dict[str, int] = {}
    count: dict[str, int] = {}
    for unit in units.values():
        by_workload[unit.workload] = by_workload.get(unit.workload, 0) + unit.quota.max_units
        count[unit.workload] = count.get(unit.workload, 0) + 1
    by_pool: dict[str, int] = {}
    for name, most in by_workload.items():
        if name in workloads:
            by_pool[workloads[name].pool] = by_pool.get(workloads[name].pool, 0) + most
    return frozenset(
        name
        for name, most in by_workload.items()
        if (one := workloads.get(name)) is not None
        and one.pool in pools
        and most <= one.quota.max_units - one.quota.burst_units
        and count[name] <= one.concurrency
        and by_pool[one.pool] <= pools[one.pool].limit
    )
