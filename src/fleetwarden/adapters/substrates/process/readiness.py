"""Whether one instance is well: asking it once, and waiting until a fresh one has come up.

A rollout ends the next replica only once the one before serves, so somebody has to wait for that; the observer asks the
same question on every look.  Both ask in the same way: as the health check is declared now, at the port and in the
version that the instance was started with.  Nothing is ended or started here.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event

from fleetwarden.adapters.substrates.process import probes
from fleetwarden.adapters.substrates.process.health import Probed
from fleetwarden.adapters.substrates.process.proc import stat_of
from fleetwarden.adapters.substrates.process.slots import SlotRecord
from fleetwarden.adapters.substrates.process.spawning import child_environment, fill, placeholder_values
from fleetwarden.domain.errors import FleetError, Refused
from fleetwarden.domain.fleet import HealthCheck, HealthKind, ProcessSpec, Service
from fleetwarden.ports.system import Clock

__all__ = ["Arrivals", "Prober", "arrival_s"]

SETTLE_S = 1.0  # how long a process without a health check has to live to count as up
POLL_S = 0.1


def arrival_s(check: HealthCheck) -> float:
    """How long it may take until a fresh instance has come up, or is known not to have, in seconds."""
    return SETTLE_S if check.kind is HealthKind.ALIVE else check.start_grace_s + check.timeout_s


class Prober:
    """Asks one instance, blocking for at most the check's time limit.  `environment`: the plane's own."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def probe(self, service: Service, spec: ProcessSpec, index: int, record: SlotRecord | None) -> Probed:
        """One answer.  `record`: how the instance was started, where that is written down.  Never raises."""
        try:
            return self._as_declared(service, spec, index, record)
        except Refused as error:  # the declaration cannot be asked as it stands; that says nothing about the instance
            return Probed(None, error.message)

    def _as_declared(self, service: Service, spec: ProcessSpec, index: int, record: SlotRecord | None) -> Probed:
        check = spec.health
        values = placeholder_values(service, spec, index)
        if record is not None and record.port is not None:  # where it was started, also if the files say another by now
            values["port"] = record.port
        if record is not None and record.version:
            values["version"] = record.version
        match check.kind:
            case HealthKind.HTTP:
                return probes.http_probe(fill(check.http, values), check.timeout_s)
            case HealthKind.TCP:
                port = fill(check.tcp, values)
                if not port.isdigit():
                    return Probed(None, f"{port!r} is no port")
                return probes.tcp_probe(int(port), check.timeout_s)
            case _:
                argv = [fill(word, values) for word in check.command]
                environment = child_environment(self._environment, spec, values, None)
                return probes.command_probe(argv, fill(spec.cwd, values), environment, check.timeout_s)


class Arrivals:
    """Waits for fresh instances."""

    def __init__(self, clock: Clock, prober: Prober) -> None:
        self._clock = clock
        self._prober = prober
        self._never = Event()

    def await_up(self, service: Service, index: int, pid: int, deadline: float) -> str | None:
        """Wait until the process has come up; returns why it has not.

        Up: its health check answered well once and it lives; without a check: it has lived for a second.  It has its
        `start_grace_s` for that, and no time beyond `deadline` (the clock's monotonic scale).
        """
        spec = service.process
        assert spec is not None
        began = self._clock.monotonic()
        ends = min(deadline, began + arrival_s(spec.health))
        said, born = "", _ticks(pid)
        while True:
            if spec.health.kind is not HealthKind.ALIVE:
                probed = self._prober.probe(service, spec, index, None)
                up, said = probed.ok is True, probed.detail
            else:
                up = self._clock.monotonic() - began >= SETTLE_S
            if born is None or _ticks(pid) != born:
                return "its process ended at once" + (f" ({said})" if said else "")
            if up:
                return None
            now = self._clock.monotonic()
            if now >= ends:
                late = "the deadline of the action passed" if ends == deadline else f"not well after {ends - began:g} s"
                return f"{late} ({said})" if said else late
            self._clock.wait(self._never, min(POLL_S, max(0.0, ends - now)))


def _ticks(pid: int) -> int | None:
    """What tells the live process of that pid from a later one; None if none lives."""
    try:
        stat = stat_of(pid)
    except FleetError:
        return None
    return stat.ticks if stat is not None and stat.lives else None
