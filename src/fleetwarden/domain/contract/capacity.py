"""Whether one unit may get one count now: bounds, quotas, capacity, maintenance, ownership.

The same question is asked when a count is wanted and again right before it is set, with what was read in that very
transaction.  It answers with the first thing that stands in the way, in figures; it never changes a wish to one that
would fit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from fleetwarden.domain.actions import Record
from fleetwarden.domain.contract.authority import Catalogue, domain_problem, writer_of
from fleetwarden.domain.contract.maintenance import window_of
from fleetwarden.domain.contract.records import OutsideWindow, RegistrationMode, ResourcePool, ScaleUnit
from fleetwarden.domain.identifiers import Micros, rfc3339

__all__ = ["CountChange", "Room", "UnitRefusal", "refusal"]


class CountChange(Record):
    """A wish for one unit.  `current`: its wanted count now; `follows_load`: nobody in person asks for it."""

    unit: str
    current: int
    desired: int
    follows_load: bool
    any_time: bool = False  # the glass is broken: windows do not count, everything else does


class Room:
    """What is taken in one catalogue, summed up once for any number of questions.

    `allocated`: by unit, what its last change left it with; `declared`: the same where nothing was changed yet;
    `under_way`: the counts that changes which have begun will leave.  Of two counts of a unit the larger counts, since
    either may come true.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        *,
        allocated: Mapping[str, int],
        under_way: Mapping[str, int],
        declared: Mapping[str, int],
    ) -> None:
        self._allocated, self._under_way, self._declared = allocated, under_way, declared
        self._workload: dict[str, int] = defaultdict(int)
        self._busy: dict[str, int] = defaultdict(int)
        self._pool: dict[str, int] = defaultdict(int)
        for unit in catalogue.units.values():
            self._workload[unit.workload] += self._of(unit)
            self._busy[unit.workload] += unit.name in under_way
        for name, one in catalogue.workloads.items():
            self._pool[one.pool] += self._workload[name]

    def busy_beside(self, unit: ScaleUnit) -> int:
        """How many other units of its workload are changing."""
        return self._busy[unit.workload] - (unit.name in self._under_way)

    def taken_beside(self, unit: ScaleUnit) -> int:
        """What the other units of its workload take."""
        return self._workload[unit.workload] - self._of(unit)

    def taken_in(self, pool: ResourcePool, unit: ScaleUnit) -> int:
        """What the other units of its pool take."""
        return self._pool[pool.name] - self._of(unit)

    def _of(self, unit: ScaleUnit) -> int:
        stands = self._allocated.get(unit.name, self._declared.get(unit.name, unit.min_replicas))
        return max(stands, self._under_way.get(unit.name, 0))


class UnitRefusal(Record):
    """Why not.  `code`: contract, writers, bounds, quota, capacity, concurrency, domain, maintenance.

    `lasting`: waiting does not cure it.  `queues_until`: outside a window that queues, when it opens: then the wish
    waits for that moment, and nobody is asked.
    """

    code: str
    reason: str
    lasting: bool = False
    queues_until: Micros | None = None


def refusal(
    catalogue: Catalogue, problems: Mapping[str, str], change: CountChange, room: Callable[[], Room], now: Micros
) -> UnitRefusal | None:
    """The first thing that stands in the way at `now`, or None.  A service that is no elastic unit is not limited.

    `problems`: by unit, what its records break; load following stops there, a person's own wish does not.  `room` is
    asked only where something may run out.
    """
    unit = catalogue.units.get(change.unit)
    if unit is None:
        return None
    if change.follows_load:
        if (found := _ownership(catalogue, problems, unit) or _bounds(unit, change)) is not None:
            return found
        if (offline := domain_problem(catalogue, unit)) is not None:
            return UnitRefusal(code="domain", reason=offline)
    if change.desired > change.current and (found := _growth(catalogue, unit, change, room)) is not None:
        return found
    return None if change.any_time else _maintenance(unit, now)


def _ownership(catalogue: Catalogue, problems: Mapping[str, str], unit: ScaleUnit) -> UnitRefusal | None:
    writer = writer_of(catalogue, unit.name)
    if writer is None or writer.mode is not RegistrationMode.NATIVE:
        who = "nobody" if writer is None else writer.controller
        return UnitRefusal(code="writers", reason=f"the replicas of {unit.name} are written by {who}", lasting=True)
    if (broken := problems.get(unit.name)) is not None:
        return UnitRefusal(code="contract", reason=f"the scaling contract does not hold: {broken}")
    return None


def _bounds(unit: ScaleUnit, change: CountChange) -> UnitRefusal | None:
    """Outside its bounds a count may only come nearer to them."""
    low, high = unit.min_replicas, unit.max_replicas
    above = change.desired > high and change.desired >= change.current
    below = change.desired < low and change.desired <= change.current
    if above or below:
        reason = f"{change.desired} replicas are outside {low} to {high}"
        return UnitRefusal(code="bounds", reason=reason, lasting=True)
    return None


def _growth(catalogue: Catalogue, unit: ScaleUnit, change: CountChange, room: Callable[[], Room]) -> UnitRefusal | None:
    ceiling = unit.quota.max_units - (unit.quota.burst_units if change.follows_load else 0)
    if change.desired > ceiling:
        kept = ""
        if change.follows_load and unit.quota.burst_units:
            kept = f" ({unit.quota.burst_units} of {unit.quota.max_units} are kept for a person's wish)"
        reason = f"{change.desired} replicas of {unit.name} are more than its quota of {ceiling} units{kept}"
        return UnitRefusal(code="quota", reason=reason, lasting=True)
    workload = catalogue.workloads.get(unit.workload)
    pool = catalogue.pool_of(unit)
    if workload is None or pool is None or unit.workload in catalogue.ample:
        return None  # without a pool the contract does not hold: load following stops there, a person may repair
    taken = room()
    if (busy := taken.busy_beside(unit)) >= workload.concurrency:
        reason = f"{busy} other units of workload {workload.name} are changing, {workload.concurrency} may at once"
        return UnitRefusal(code="concurrency", reason=reason)
    most = workload.quota.max_units - (workload.quota.burst_units if change.follows_load else 0)
    beside = taken.taken_beside(unit)
    if beside + change.desired > most:
        reason = f"workload {workload.name} may have {most} units: others take {beside}, {change.desired} are wanted"
        return UnitRefusal(code="quota", reason=reason)
    beside = taken.taken_in(pool, unit)
    if beside + change.desired > pool.limit:
        reason = (
            f"pool {pool.name} has {pool.limit} units to give ({pool.capacity} less {pool.headroom} reserved):"
            f" others take {beside}, {change.desired} are wanted"
        )
        return UnitRefusal(code="capacity", reason=reason)
    return None


def _maintenance(unit: ScaleUnit, now: Micros) -> UnitRefusal | None:
    if unit.maintenance is None:
        return None
    window = window_of(unit.maintenance)
    if window.is_open(now):
        return None
    opens = window.opens_at(now)
    reason = f"outside the maintenance window of {unit.name} ({window.words()}), which opens {rfc3339(opens)}"
    queues = opens if unit.maintenance.outside is OutsideWindow.QUEUE else None
    return UnitRefusal(code="maintenance", reason=reason, queues_until=queues)
