"""The fleet as declared and as seen: services, how they run, and what an observer reports of them.

A desired count is what files (later overrides and intents) ask for; a wanted count is what the substrate is set to,
observed as `total` (for processes: the instance slots that we made, dead ones included); ready is what answers.  The
three are never mixed up here.  Missing evidence is a state of its own: it is never zero and never down.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from fleetwarden.domain.actions import Record
from fleetwarden.domain.contract.authority import Catalogue
from fleetwarden.domain.contract_file import UnitSpec
from fleetwarden.domain.errors import Problem
from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.domain.watch_block import WatchBlock

__all__ = [
    "DesiredState",
    "Fleet",
    "HealthCheck",
    "HealthKind",
    "InstanceStatus",
    "Mode",
    "ObservedInstance",
    "ObservedService",
    "Presence",
    "ProcessSpec",
    "ScalingBlock",
    "ScalingError",
    "Service",
    "ServiceStatus",
    "VersionSpec",
    "Wish",
]


class DesiredState(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"


class Mode(StrEnum):
    """How far we may go with a service: only look, decide and simulate, or act."""

    OBSERVE = "observe"
    DRY_RUN = "dry_run"
    LIVE = "live"


class HealthKind(StrEnum):
    ALIVE = "alive"
    HTTP = "http"
    TCP = "tcp"
    COMMAND = "command"


class HealthCheck(Record):
    """How an instance shows that it is well.

    `http`: a URL that answers 200 to 399; `tcp`: a port on 127.0.0.1 that accepts; `command`: exit code 0;
    `alive`: the process exists.  `timeout_s` (0.1 to 60) is for one probe; `failures` (1 to 10) in a row make an
    instance that was up count as down; `start_grace_s` (0 to 3600) is how long a fresh instance counts as starting.
    """

    kind: HealthKind = HealthKind.ALIVE
    http: str = ""
    tcp: str = ""  # a port, or a placeholder such as {port}
    command: tuple[str, ...] = ()
    timeout_s: float = 2.0
    failures: int = 2
    start_grace_s: float = 30.0


class VersionSpec(Record):
    """One version of a service.  `command` () is the block's own, `irreversible`: what it does cannot be undone."""

    command: tuple[str, ...] = ()
    irreversible: bool = False


class ProcessSpec(Record):
    """How a service runs as local processes.  Placeholders: {port} (first port + index), {index}, {version}, {name}.

    `versions` lists what can be deployed; empty: whatever version is declared, by the one `command`.
    """

    command: tuple[str, ...]
    port: int | None = None
    cwd: str = "."  # made absolute against the configuration folder when it is read
    env: Mapping[str, str] = {}
    host: str = ""  # empty: the host of the plane that first starts it
    health: HealthCheck = HealthCheck()
    stop_grace_s: float = 10.0  # SIGTERM, then SIGKILL after this long
    versions: Mapping[str, VersionSpec] = {}


class ScalingError(Record):
    """Why a `scaling:` block is not used: the field ("" = the block as a whole), the reason, and where it stands."""

    field: str
    reason: str
    line: int
    file: str = ""


class Wish(Record):
    """What a value rests on if not on the files: words such as `override O-3 of ada`, and whose wish it is."""

    words: str
    person: str = ""


class Service(Record):
    """One service as declared, override layer applied.

    `source` is the file and line that declares it, and where it is overridden.  `scaling_error` set means that its
    block is invalid: without `scaling` beside it the count is static; with one, the count is held under the last valid
    block.
    """

    name: str
    group: str = ""
    owner: str = ""  # the team that answers for it, and approves where a rule names no other
    mode: Mode = Mode.LIVE
    desired: DesiredState = DesiredState.RUNNING
    replicas: int = 1
    version: str = ""
    process: ProcessSpec | None = None
    scaling: ScalingBlock | None = None
    scaling_error: ScalingError | None = None
    source: str = ""
    depends_on: tuple[str, ...] = ()  # services that have to be there before it is started or repaired
    match: tuple[tuple[tuple[str, str], ...], ...] = ()  # labels of events about it, see `domain.event_matching`
    watch: WatchBlock | None = None  # how its watches look, as far as the settings do not say
    unit: UnitSpec | None = None  # its `unit:` as written; what follows from it is in the fleet's catalogue
    # What follows is layered on at run time, never declared: see `domain.desired`.
    override: str = ""  # the id of the operator's override that holds
    count_wish: Wish | None = None  # somebody asked for this count: it outranks a scaling block
    state_wish: Wish | None = None
    held: str = ""  # what somebody else set and is held, with the commands that end that
    paused: str = ""  # why nothing is proposed for it at all
    rolled_back: str = ""  # why the declared version is not deployed: it was rolled back from
    quarantined: str = ""  # why nothing deploys the declared version: it failed its watch
    aside: Mapping[str, str] = {}  # every version of it that failed its watch, and why it is not started

    @property
    def substrate(self) -> str:
        """`process`, or "" for a service that an injected observer and actuator serve."""
        return "process" if self.process is not None else ""

    @property
    def wanted(self) -> int:
        """Replicas asked for: 0 where the service is to be stopped."""
        return self.replicas if self.desired is DesiredState.RUNNING else 0


class Fleet(Record):
    """All services of one reading of the files.

    `error` set means that the registry could not be read: nothing may be reconciled from it.  `problems` are entries
    that were rejected alone; their services are in `rejected` and are not acted upon.  `unit_problems` are services
    whose elastic unit breaks the scaling contract: their counts are held, everything else about them goes on.
    """

    services: Mapping[str, Service] = {}
    groups: Mapping[str, Mode | None] = {}
    min_healthy: Mapping[str, int] = {}  # by group: how many of its services must stay healthy
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    rejected: tuple[str, ...] = ()
    digest: str = ""
    error: str = ""
    catalogue: Catalogue = Catalogue()  # the scaling contract of all elastic services
    unit_problems: Mapping[str, str] = {}  # by service: why the contract lets its count grow no further; see there


class ServiceStatus(StrEnum):
    UP = "up"
    DEGRADED = "degraded"
    DOWN = "down"
    UNKNOWN = "unknown"


class InstanceStatus(StrEnum):
    STARTING = "starting"
    UP = "up"
    DOWN = "down"
    UNKNOWN = "unknown"


class Presence(StrEnum):
    """Whether the service was started at all, which tells a start from a restart."""

    STARTED = "started"
    NEVER_STARTED = "never_started"
    NOT_SINCE_BOOT = "not_since_boot"
    STOPPED_BY_US = "stopped_by_us"
    STOPPED_BY_OTHER = "stopped_by_other"  # set so by somebody else; a crash or a kill is none


class ObservedInstance(Record):
    """One slot.  `key` is the outbox key of the action that made what runs in it: settling evidence."""

    id: str  # e.g. "0": the slot's index
    status: InstanceStatus
    pid: int | None = None
    port: int | None = None
    version: str = ""
    started_at: Micros | None = None
    identity: str = ""  # what tells this very instance from any later one
    key: str = ""
    definition: str = ""  # digest of the definition that it was started by, where known; see `domain.versions`
    detail: str = ""  # e.g. "exited with code 1", "exit unknown", "HTTP 503"


class ObservedService(Record):
    """What an observer saw of one service, from one read that began at `observed_at`."""

    name: str
    observed_at: Micros
    source: str  # the observer's name
    status: ServiceStatus
    presence: Presence = Presence.STARTED
    ready: int = 0
    existing: int = 0  # instances that live
    total: int = 0  # wanted count: slots made, dead ones included
    version: str = ""  # of all that live; where there is no slot, the one that ran last, where known
    instances: tuple[ObservedInstance, ...] = ()
    stop_key: str = ""  # outbox key of the stop that emptied it, where known
    detail: str = ""
    since: Micros | None = None  # since when it has this status, where known
    writer: str = ""  # who last set its wanted count, version or stop, where known
