"""What a deployment declares about its elastic units: pools, workloads, units, domains, and who writes replicas.

Each record is valid by itself or it is not made: a wrong number or an unknown word raises ValueError, naming the field.
What only shows when records are held against each other is the authority's to say.  Counts are in units of capacity,
of which a replica takes exactly one.  Nothing here can be changed once it is made, at any depth.
"""

from __future__ import annotations

import re
from enum import StrEnum

from fleetwarden.domain.actions import Record
from fleetwarden.domain.contract.lifecycle import SCHEMA_VERSION

__all__ = [
    "LIFECYCLE_CADENCES",
    "UNITS_MAX",
    "Cadence",
    "ControllerRegistration",
    "DelegatedController",
    "FailureDomain",
    "OfflineRecovery",
    "OutsideWindow",
    "RegistrationMode",
    "ResourcePool",
    "RollbackPolicy",
    "ScaleUnit",
    "UnitMaintenance",
    "UnitQuota",
    "WorkloadClass",
]

UNITS_MAX = 1_000_000_000
REPLICAS_MAX = 100_000
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


class Cadence(StrEnum):
    """The four speeds at which something is adjusted, each with a controller, an interval and a lease of its own.

    `engine_local` works inside one process (admission, grouping of writes, back-pressure) and never has an intent; the
    other three write lifecycle records.
    """

    ENGINE_LOCAL = "engine_local"
    SHARD_PLACEMENT = "shard_placement"
    SERVICE_REPLICA = "service_replica"
    AGENT_TOPOLOGY = "agent_topology"


LIFECYCLE_CADENCES = frozenset({Cadence.SHARD_PLACEMENT, Cadence.SERVICE_REPLICA, Cadence.AGENT_TOPOLOGY})


class OfflineRecovery(StrEnum):
    """What may be done with a unit whose failure domain is offline.

    `hold`: nothing new.  `failover` and `shed`: only what a placement policy puts as a new revision.
    """

    HOLD = "hold"
    FAILOVER = "failover"
    SHED = "shed"


class OutsideWindow(StrEnum):
    """What becomes of a change outside its unit's maintenance window: it waits, or it is refused."""

    QUEUE = "queue"
    DENY = "deny"


class RollbackPolicy(StrEnum):
    """Whether a change that did not hold may be taken back to the count before it: by us, or by a person only."""

    PREVIOUS = "previous"
    MANUAL = "manual"


class RegistrationMode(StrEnum):
    """Who owns the replica field: we ourselves, or a controller that we only watch."""

    NATIVE = "native"
    DELEGATED = "delegated"


class DelegatedController(StrEnum):
    HPA = "hpa"
    KEDA = "keda"


class FailureDomain(Record):
    """A part of the world that fails together.  `offline` is declared by people; nothing here measures it."""

    schema_version: str = SCHEMA_VERSION
    name: str
    offline: bool = False

    def __post_init__(self) -> None:
        _version(self.schema_version)
        _named("name", self.name)


class ResourcePool(Record):
    """A bounded amount of capacity.

    `capacity`: units that exist; `allocated`: units in use when the record was written (live figures are the store's);
    `headroom`: reserved units that no unit may count on; `quota`: units that all units together may have, at most
    capacity - headroom (None: just that).
    """

    schema_version: str = SCHEMA_VERSION
    name: str
    capacity: int
    allocated: int = 0
    headroom: int = 0
    quota: int | None = None
    failure_domain: str
    offline_recovery: OfflineRecovery = OfflineRecovery.HOLD

    def __post_init__(self) -> None:
        _version(self.schema_version)
        _named("name", self.name)
        _named("failure_domain", self.failure_domain)
        _within("capacity", self.capacity, 0, UNITS_MAX)
        _within("allocated", self.allocated, 0, self.capacity)
        _within("headroom", self.headroom, 0, self.capacity)
        if self.quota is not None:
            _within("quota", self.quota, 0, self.usable)

    @property
    def usable(self) -> int:
        """Units that may be allocated: capacity less reserved headroom."""
        return self.capacity - self.headroom

    @property
    def limit(self) -> int:
        """Units that all units of the pool together may have."""
        return self.usable if self.quota is None else self.quota


class UnitQuota(Record):
    """`max_units`: the hard ceiling on replicas and on concurrency.  `burst_units`: how many of these are kept for
    sudden admissions; a part of the ceiling, never a way past it."""

    max_units: int
    burst_units: int = 0

    def __post_init__(self) -> None:
        _within("max_units", self.max_units, 0, UNITS_MAX)
        _within("burst_units", self.burst_units, 0, self.max_units)


class WorkloadClass(Record):
    """Units of one kind and tenant.  `concurrency`: how many of its changes may be open at once."""

    schema_version: str = SCHEMA_VERSION
    name: str
    tenant: str
    workload: str
    cadence: Cadence = Cadence.SERVICE_REPLICA
    concurrency: int
    quota: UnitQuota
    pool: str

    def __post_init__(self) -> None:
        _version(self.schema_version)
        for field in ("name", "tenant", "workload", "pool"):
            _named(field, getattr(self, field))
        _within("concurrency", self.concurrency, 1, self.quota.max_units or 1)
        if self.cadence not in LIFECYCLE_CADENCES:
            raise ValueError(f"cadence: {self.cadence.value} has no lifecycle, so nothing can be a workload of it")


class UnitMaintenance(Record):
    """When a unit may be changed: `hours` ("22:00-04:00") on `days` (mon … sun; () is every day) by the clock of
    `zone`, except on `except_dates`.  `outside` has no default: what happens then has to be said."""

    hours: str
    zone: str = "UTC"
    days: tuple[str, ...] = ()
    except_dates: tuple[str, ...] = ()
    outside: OutsideWindow


class ScaleUnit(Record):
    """The elastic unit of one service.

    `min_replicas` ≤ count ≤ `max_replicas` (0 to 100,000); `headroom`: units kept free beside its maximum; `quota`:
    the tenant's; `depends_on`: units that have to be there before it grows.
    """

    schema_version: str = SCHEMA_VERSION
    name: str
    service: str
    workload: str
    min_replicas: int
    max_replicas: int
    headroom: int = 0
    quota: UnitQuota
    failure_domain: str
    maintenance: UnitMaintenance | None = None
    rollback: RollbackPolicy = RollbackPolicy.PREVIOUS
    depends_on: tuple[str, ...] = ()
    controller_mode: str = "native"

    def __post_init__(self) -> None:
        _version(self.schema_version)
        for field in ("name", "service", "workload", "failure_domain"):
            _named(field, getattr(self, field))
        _within("max_replicas", self.max_replicas, 0, REPLICAS_MAX)
        _within("min_replicas", self.min_replicas, 0, self.max_replicas)
        _within("headroom", self.headroom, 0, UNITS_MAX)
        if self.controller_mode not in ("native", "external_hpa", "external_keda"):
            raise ValueError(
                f"controller_mode: {self.controller_mode!r} is none of native, external_hpa, external_keda"
            )


class ControllerRegistration(Record):
    """Who deals with one unit.  Exactly one registration of a unit has `writes_replicas`; the others only observe."""

    schema_version: str = SCHEMA_VERSION
    unit: str
    controller: str
    mode: RegistrationMode
    delegate: DelegatedController | None = None
    writes_replicas: bool

    def __post_init__(self) -> None:
        _version(self.schema_version)
        _named("unit", self.unit)
        _named("controller", self.controller)
        if (self.mode is RegistrationMode.DELEGATED) != (self.delegate is not None):
            raise ValueError("delegate: a delegated registration names hpa or keda, a native one names nobody")


def _version(found: str) -> None:
    if found != SCHEMA_VERSION:
        raise ValueError(f"schema_version: {found!r} is not known, this release reads {SCHEMA_VERSION!r}")


def _named(field: str, value: str) -> None:
    if not NAME.fullmatch(value):
        raise ValueError(f"{field}: {value[:80]!r} is no name: 1 to 63 letters, digits, '.', '_' or '-'")


def _within(field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{field}: {value} is not from {low} to {high}")
