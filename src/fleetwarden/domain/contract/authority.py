"""The authority: whether all records of a scaling contract hold together.

Every rule that needs more than one record is here, and each problem is named with the record that it is about; a
catalogue with a problem about a unit accepts no intent for that unit.  Pure arithmetic over what was declared: nothing
is read, and nothing is repaired by guessing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from fleetwarden.domain.actions import Record
from fleetwarden.domain.contract.records import (
    ControllerRegistration,
    DelegatedController,
    FailureDomain,
    OfflineRecovery,
    RegistrationMode,
    ResourcePool,
    ScaleUnit,
    WorkloadClass,
)

__all__ = ["Catalogue", "ContractProblem", "check", "domain_problem", "registrations_for", "writer_of"]

OUR_NAME = "fleetwarden"
_DELEGATES = {"external_hpa": DelegatedController.HPA, "external_keda": DelegatedController.KEDA}


class ContractProblem(Record):
    """What does not hold.  `unit` is "" where it is about a pool or workload as a whole; `units` are all that it stops.

    `code` is a stable word: reference, cycle, bounds, quota, capacity, writers, registration.
    """

    code: str
    about: str  # such as `pool web`, `unit shop`
    reason: str
    units: tuple[str, ...] = ()


class Catalogue(Record):
    """All records of one reading, by name.  `ample`: workloads in which nothing can ever run out."""

    pools: Mapping[str, ResourcePool] = {}
    workloads: Mapping[str, WorkloadClass] = {}
    domains: Mapping[str, FailureDomain] = {}
    units: Mapping[str, ScaleUnit] = {}
    registrations: tuple[ControllerRegistration, ...] = ()
    ample: frozenset[str] = frozenset()
    writers: Mapping[str, ControllerRegistration] = {}  # by unit, where exactly one registration writes

    @classmethod
    def of(
        cls,
        *,
        pools: Mapping[str, ResourcePool],
        workloads: Mapping[str, WorkloadClass],
        domains: Mapping[str, FailureDomain],
        units: Mapping[str, ScaleUnit],
        registrations: Sequence[ControllerRegistration],
        ample: frozenset[str] = frozenset(),
    ) -> Catalogue:
        """The records with their index of writers."""
        writers: dict[str, ControllerRegistration | None] = {}
        for one in registrations:
            if one.writes_replicas:
                writers[one.unit] = None if one.unit in writers else one
        return cls(
            pools=pools,
            workloads=workloads,
            domains=domains,
            units=units,
            registrations=tuple(registrations),
            ample=ample,
            writers={unit: one for unit, one in writers.items() if one is not None},
        )

    def pool_of(self, unit: ScaleUnit) -> ResourcePool | None:
        workload = self.workloads.get(unit.workload)
        return None if workload is None else self.pools.get(workload.pool)


def registrations_for(unit: ScaleUnit) -> tuple[ControllerRegistration, ...]:
    """What follows from the unit's controller mode: we write, or the controller that it names does and we observe."""
    delegate = _DELEGATES.get(unit.controller_mode)
    if delegate is None:
        return (
            ControllerRegistration(
                unit=unit.name, controller=OUR_NAME, mode=RegistrationMode.NATIVE, writes_replicas=True
            ),
        )
    return tuple(
        ControllerRegistration(
            unit=unit.name,
            controller=name,
            mode=RegistrationMode.DELEGATED,
            delegate=delegate,
            writes_replicas=writes,
        )
        for name, writes in ((delegate.value, True), (OUR_NAME, False))
    )


def writer_of(catalogue: Catalogue, unit: str) -> ControllerRegistration | None:
    """The one registration that writes this unit's replicas, or None if there is none or more than one."""
    return catalogue.writers.get(unit)


def check(catalogue: Catalogue) -> tuple[ContractProblem, ...]:
    """Every problem of the catalogue, ordered by what it is about.  None means that intents may be accepted."""
    found = [
        *_references(catalogue),
        *_cycles(catalogue),
        *_quotas(catalogue),
        *_capacities(catalogue),
        *_writers(catalogue),
    ]
    return tuple(sorted(found, key=lambda one: (one.about, one.code, one.reason)))


def domain_problem(catalogue: Catalogue, unit: ScaleUnit) -> str | None:
    """Why this unit accepts no new intent because a failure domain that it rests on is offline, or None.

    With `failover` or `shed` a new revision of a placement policy would be accepted; load following is none, so that
    it is refused as well, and says what would be.
    """
    pool = catalogue.pool_of(unit)
    names = dict.fromkeys([unit.failure_domain, *([] if pool is None else [pool.failure_domain])])
    for name in names:
        domain = catalogue.domains.get(name)
        if domain is not None and domain.offline:
            recovery = OfflineRecovery.HOLD if pool is None else pool.offline_recovery
            if recovery is OfflineRecovery.HOLD:
                return f"failure domain {name} is offline, and its recovery is hold: no new count is accepted"
            return (
                f"failure domain {name} is offline: {recovery.value} needs a new revision from a placement policy,"
                " never one that follows load"
            )
    return None


def _references(catalogue: Catalogue) -> list[ContractProblem]:
    found = []
    users = _units_of_pools(catalogue)
    for pool in catalogue.pools.values():
        if pool.failure_domain not in catalogue.domains:
            reason = f"failure domain {pool.failure_domain!r} is not declared"
            found.append(_problem("reference", f"pool {pool.name}", reason, users[pool.name]))
    for workload in catalogue.workloads.values():
        if workload.pool not in catalogue.pools:
            units = [one.name for one in catalogue.units.values() if one.workload == workload.name]
            reason = f"pool {workload.pool!r} is not declared"
            found.append(_problem("reference", f"workload {workload.name}", reason, units))
    for unit in catalogue.units.values():
        missing = []
        if unit.workload not in catalogue.workloads:
            missing.append(f"workload {unit.workload!r} is not declared")
        if unit.failure_domain not in catalogue.domains:
            missing.append(f"failure domain {unit.failure_domain!r} is not declared")
        missing += [f"unit {name!r}, which it depends on, does not exist" for name in _unknown(catalogue, unit)]
        found += [_problem("reference", f"unit {unit.name}", reason, [unit.name]) for reason in missing]
    for one in catalogue.registrations:
        if one.unit not in catalogue.units:
            reason = f"controller {one.controller} is registered for it, and it does not exist"
            found.append(_problem("reference", f"unit {one.unit}", reason, []))
    return found


def _unknown(catalogue: Catalogue, unit: ScaleUnit) -> list[str]:
    return [name for name in unit.depends_on if name not in catalogue.units]


def _cycles(catalogue: Catalogue) -> list[ContractProblem]:
    """Each ring of dependencies once, told from its first unit by name."""
    found, done = [], set[str]()
    for start in sorted(catalogue.units):
        path: list[str] = []
        places: dict[str, int] = {}
        stack = [(start, iter(sorted(catalogue.units[start].depends_on)))] if start not in done else []
        if stack:
            path.append(start)
            places[start] = 0
        while stack:
            name, following = stack[-1]
            step = next(following, None)
            if step is None:
                stack.pop()
                path.pop()
                del places[name]
                done.add(name)
            elif step in places:
                ring = path[places[step] :]
                words = " → ".join([*ring, step])
                reason = "it depends on itself" if len(ring) == 1 else f"these depend on each other: {words}"
                found.append(_problem("cycle", f"unit {min(ring)}", reason, ring))
            elif step not in done and step in catalogue.units:
                places[step] = len(path)
                path.append(step)
                stack.append((step, iter(sorted(catalogue.units[step].depends_on))))
    return found


def _quotas(catalogue: Catalogue) -> list[ContractProblem]:
    """Floors fit into quotas, quotas into pools, and no ceiling lies above a hard one."""
    found = []
    floors: dict[str, int] = defaultdict(int)
    names: dict[str, list[str]] = defaultdict(list)
    for unit in catalogue.units.values():
        floors[unit.workload] += unit.min_replicas
        names[unit.workload].append(unit.name)
        most = unit.quota.max_units
        workload = catalogue.workloads.get(unit.workload)
        about = f"unit {unit.name}"
        if unit.min_replicas > most:
            reason = f"its floor of {unit.min_replicas} is above its quota of {most} units"
            found.append(_problem("quota", about, reason, [unit.name]))
        elif unit.max_replicas > most:
            reason = f"its ceiling of {unit.max_replicas} is above its quota's max_units, {most}"
            found.append(_problem("quota", about, reason, [unit.name]))
        if workload is not None and unit.max_replicas > workload.quota.max_units:
            reason = f"its ceiling of {unit.max_replicas} is above max_units of workload {workload.name}, "
            found.append(_problem("quota", about, f"{reason}{workload.quota.max_units}", [unit.name]))
        pool = catalogue.pool_of(unit)
        if pool is not None and most > pool.usable:
            reason = f"its quota of {most} units is more than pool {pool.name} has to give, {pool.usable}"
            found.append(_problem("quota", about, reason, [unit.name]))
    for workload in catalogue.workloads.values():
        about, units = f"workload {workload.name}", names[workload.name]
        most = workload.quota.max_units
        if floors[workload.name] > most:
            reason = f"its units' floors come to {floors[workload.name]}, its quota is {most} units"
            found.append(_problem("quota", about, reason, units))
        pool = catalogue.pools.get(workload.pool)
        if pool is not None and most > pool.usable:
            reason = f"its quota of {most} units is more than pool {pool.name} has to give, {pool.usable}"
            found.append(_problem("quota", about, reason, units))
    return found


def _capacities(catalogue: Catalogue) -> list[ContractProblem]:
    found = []
    floors: dict[str, int] = defaultdict(int)
    for unit in catalogue.units.values():
        pool = catalogue.pool_of(unit)
        if pool is None:
            continue
        floors[pool.name] += unit.min_replicas
        if unit.max_replicas + unit.headroom > pool.usable:
            reason = (
                f"its ceiling of {unit.max_replicas} and headroom of {unit.headroom} do not fit into pool {pool.name}:"
                f" {pool.capacity} less {pool.headroom} reserved"
            )
            found.append(_problem("capacity", f"unit {unit.name}", reason, [unit.name]))
    users = _units_of_pools(catalogue)
    for name, floor in floors.items():
        pool = catalogue.pools[name]
        if floor > pool.limit:
            reason = f"its units' floors come to {floor}, {pool.limit} units may be had"
            found.append(_problem("capacity", f"pool {name}", reason, users[name]))
    return found


def _writers(catalogue: Catalogue) -> list[ContractProblem]:
    found = []
    by_unit: dict[str, list[ControllerRegistration]] = defaultdict(list)
    for one in catalogue.registrations:
        by_unit[one.unit].append(one)
    for unit in catalogue.units.values():
        about, known = f"unit {unit.name}", by_unit[unit.name]
        writers = [one for one in known if one.writes_replicas]
        if len(writers) != 1:
            who = ", ".join(sorted(one.controller for one in writers)) or "nobody"
            reason = f"exactly one controller may write its replicas, registered are {len(writers)} ({who})"
            found.append(_problem("writers", about, reason, [unit.name]))
        found += _strangers(unit, known)
    return found


def _strangers(unit: ScaleUnit, known: Sequence[ControllerRegistration]) -> list[ContractProblem]:
    """Registrations that contradict the unit's own controller mode."""
    delegate = _DELEGATES.get(unit.controller_mode)
    mode = RegistrationMode.NATIVE if delegate is None else RegistrationMode.DELEGATED
    found = []
    for one in known:
        if (one.mode, one.delegate) != (mode, delegate):
            said = one.mode.value + (f" to {one.delegate.value}" if one.delegate else "")
            reason = f"controller {one.controller} is registered as {said}, the unit is {unit.controller_mode}"
            found.append(_problem("registration", f"unit {unit.name}", reason, [unit.name]))
    return found


def _units_of_pools(catalogue: Catalogue) -> Mapping[str, list[str]]:
    users: dict[str, list[str]] = defaultdict(list)
    for unit in catalogue.units.values():
        workload = catalogue.workloads.get(unit.workload)
        if workload is not None:
            users[workload.pool].append(unit.name)
    return users


def _problem(code: str, about: str, reason: str, units: Sequence[str]) -> ContractProblem:
    return ContractProblem(code=code, about=about, reason=reason, units=tuple(sorted(units)))
