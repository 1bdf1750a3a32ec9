"""Seeing local processes: one look at the kernel and the slot files, and a probe of each instance that asks for one.

It changes nothing in the fleet.  The whole answer comes within a bounded time: a probe that needs longer goes on by
itself and is asked again at the next look, never started twice.  A service's answer is as old as the oldest reading in
it, so an answer that rests on an earlier probe says so in `observed_at`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from threading import Lock

import msgspec

from fleetwarden.adapters.substrates.process import health, probes
from fleetwarden.adapters.substrates.process.census import Census, SlotView
from fleetwarden.adapters.substrates.process.health import Memory, Probed
from fleetwarden.adapters.substrates.process.proc import ProcessId, Stat, age_s
from fleetwarden.adapters.substrates.process.readiness import Prober
from fleetwarden.adapters.substrates.process.slots import SlotRecord, SlotState, Unreadable
from fleetwarden.adapters.substrates.process.supervisor import Supervisor
from fleetwarden.domain.fleet import (
    HealthKind,
    InstanceStatus,
    ObservedInstance,
    ObservedService,
    ProcessSpec,
    Service,
    ServiceStatus,
)
from fleetwarden.domain.identifiers import Micros

__all__ = ["ProcessObserver"]

_MEMORIES_MAX = 8192  # instances whose probe results are kept; the longest unseen is forgotten first


class _Asked(msgspec.Struct, frozen=True):
    """A probe on its way, and the time of the look that began it."""

    future: Future[Probed]
    at: Micros


class ProcessObserver:
    """Observer of substrate `process`.

    `probes_max`: probes at the same time.  `budget_s`: how long one look may wait for probes, at most 9 so that the
    whole stays within the port's 10 s.
    """

    name = "process"
    substrates = frozenset({"process"})

    def __init__(
        self,
        supervisor: Supervisor,
        environment: Mapping[str, str],
        *,
        probes_max: int = 32,
        budget_s: float = 8.0,
    ) -> None:
        assert 0 < budget_s <= 9
        self._supervisor = supervisor
        self._prober = Prober(environment)
        self._pool = probes.ProbePool(probes_max)
        self._budget_s = budget_s
        self._lock = Lock()
        self._memories: dict[ProcessId, Memory] = {}
        self._asked: dict[ProcessId, _Asked] = {}
        self._since: dict[str, tuple[ServiceStatus, Micros, Micros | None]] = {}

    def close(self) -> None:
        """Begin no further probes."""
        self._pool.close()

    def observe(self, services: Sequence[Service], at: Micros) -> Mapping[str, ObservedService]:
        """See FleetObserver.  Services of another host, and those without a process block, are left out."""
        mine = [(one, one.process) for one in services if one.process is not None and self._is_here(one.process)]
        table = self._supervisor.table()
        taken = [(service, spec, self._supervisor.census(service.name, table)) for service, spec in mine]
        pending = [asked for service, spec, census in taken for asked in self._ask_all(service, spec, census, at)]
        self._await(pending)
        return {service.name: self._answer(service, spec, census, at) for service, spec, census in taken}

    def _is_here(self, spec: ProcessSpec) -> bool:
        return spec.host in ("", self._supervisor.host)

    def _ask_all(
        self, service: Service, spec: ProcessSpec, census: Census, at: Micros
    ) -> list[tuple[ProcessId, _Asked]]:
        if spec.health.kind is HealthKind.ALIVE:
            return []
        return [
            (slot.leader.id, self._ask(service, spec, slot, slot.leader, at)) for slot in census.slots if slot.leader
        ]

    def _ask(self, service: Service, spec: ProcessSpec, slot: SlotView, leader: Stat, at: Micros) -> _Asked:
        """The probe of this instance that is on its way, or a new one."""
        with self._lock:
            asked = self._asked.get(leader.id)
            if asked is not None and asked.future.done():  # it came too late for the look that asked
                self._remember(leader.id, asked)
                asked = None
            if asked is None:
                asked = _Asked(
                    self._pool.submit(lambda: self._prober.probe(service, spec, slot.index, slot.record)), at
                )
                self._asked[leader.id] = asked
        return asked

    def _await(self, pending: Sequence[tuple[ProcessId, _Asked]]) -> None:
        """Wait for the answers, all together no longer than the budget, and remember them."""
        wait([asked.future for _, asked in pending], timeout=self._budget_s)
        with self._lock:
            for process, asked in pending:
                if asked.future.done() and self._asked.get(process) is asked:  # else another look has taken it in
                    self._remember(process, asked)

    def _remember(self, process: ProcessId, asked: _Asked) -> None:
        """Take a finished answer into the memory of its instance.  Called with the lock held."""
        del self._asked[process]
        if asked.future.cancelled():
            return
        error = asked.future.exception()
        probed = asked.future.result() if error is None else Probed(None, f"the probe itself failed: {error}")
        self._memories[process] = self._memories.pop(process, Memory()).after(probed, asked.at)
        while len(self._memories) > _MEMORIES_MAX:
            self._memories.pop(next(iter(self._memories)))

    def _answer(self, service: Service, spec: ProcessSpec, census: Census, at: Micros) -> ObservedService:
        first: list[ObservedInstance] = []
        further: list[ObservedInstance] = []
        oldest = at
        for slot in census.counted:
            instance, read_at = self._instance(service, spec, slot, at)
            first.append(instance)
            further += self._others(slot)
            oldest = min(oldest, read_at)
        total = len(first)
        status, detail = health.roll_up(first, total=total, wanted=service.wanted, presence=census.presence)
        if census.doubt:
            status, detail = ServiceStatus.UNKNOWN, census.doubt
        if stray := _leftovers_of_no_slot(census):
            detail = f"{detail}; {stray}" if detail else stray
        versions = {one.version for one in first if one.pid is not None} if first else {census.ran}
        return ObservedService(
            name=service.name,
            observed_at=oldest,
            source=self.name,
            status=status,
            presence=census.presence,
            ready=sum(one.status is InstanceStatus.UP for one in first),
            existing=sum(bool(slot.leader or slot.leftovers) for slot in census.slots) + len(further),
            total=total,
            version=versions.pop() if len(versions) == 1 else "",
            instances=(*first, *further),
            stop_key=census.stop_key,
            detail=detail,
            since=self._status_since(service.name, status, oldest),
        )

    def _instance(
        self, service: Service, spec: ProcessSpec, slot: SlotView, at: Micros
    ) -> tuple[ObservedInstance, Micros]:
        """The slot's instance, and the time of the oldest reading in it."""
        port = None if spec.port is None else spec.port + slot.index
        if slot.leader is None:
            return self._dead(service, slot, port), at
        status, why, read_at = InstanceStatus.UP, "", at
        if spec.health.kind is not HealthKind.ALIVE:
            with self._lock:
                memory = self._memories.get(slot.leader.id, Memory())
            status, why = health.judge(spec.health, memory, age_s(slot.leader.ticks))
            read_at = at if memory.at is None else min(at, memory.at)
        notes = [why, *(f"a second live process of this slot: pid {one.stat.pid}" for one in slot.others)]
        if isinstance(slot.file, Unreadable):
            notes.append(f"{slot.file.reason}; the process was found by its marker")
        record = slot.record if slot.is_recorded else None
        return ObservedInstance(
            id=str(slot.index),
            status=status,
            pid=slot.leader.pid,
            port=record.port if record is not None and record.port is not None else port,
            version=record.version if record is not None else "",
            started_at=record.started_at if record is not None else None,
            identity=self._identity(slot.leader.id),
            key=slot.leader_key,
            definition=record.definition if record is not None else "",
            detail="; ".join(note for note in notes if note),
        ), read_at

    def _dead(self, service: Service, slot: SlotView, port: int | None) -> ObservedInstance:
        """A slot in which no instance lives."""
        if isinstance(slot.file, Unreadable):
            return ObservedInstance(
                id=str(slot.index), status=InstanceStatus.UNKNOWN, port=port, detail=slot.file.reason
            )
        if self._supervisor.is_spawning(service.name, slot.index):
            return ObservedInstance(
                id=str(slot.index), status=InstanceStatus.STARTING, port=port, detail="being started"
            )
        record = slot.record
        assert record is not None, "a slot without a file counts only while something lives in it"
        notes = [self._how(slot, record)]
        if slot.leftovers:
            notes.append(f"left over of it: pid {', '.join(str(stat.pid) for stat in slot.leftovers)}")
        return ObservedInstance(
            id=str(slot.index),
            status=InstanceStatus.DOWN,
            port=record.port if record.port is not None else port,
            version=record.version,
            started_at=record.started_at,
            identity="" if record.process is None else f"{record.boot}:{record.pid}:{record.ticks}",
            key=record.key,
            detail="; ".join(notes),
        )

    def _how(self, slot: SlotView, record: SlotRecord) -> str:
        if not slot.this_boot:
            return "not running since the machine booted"
        match record.state:
            case SlotState.SPAWNING:
                return "its start was begun and not completed"
            case SlotState.FAILED:
                return record.note or "could not be started"
            case _:
                return self._supervisor.how_ended(slot)

    def _others(self, slot: SlotView) -> list[ObservedInstance]:
        """Live processes beside the slot's own.  Nobody knows which is right, so none of them counts as ready."""
        return [
            ObservedInstance(
                id=f"{slot.index}/{one.stat.pid}",
                status=InstanceStatus.UNKNOWN,
                pid=one.stat.pid,
                identity=self._identity(one.stat.id),
                key=one.marker.key,
                detail=f"a second live process of slot {slot.index}",
            )
            for one in slot.others
        ]

    def _identity(self, process: ProcessId) -> str:
        return f"{self._supervisor.boot}:{process.pid}:{process.ticks}"

    def _status_since(self, name: str, status: ServiceStatus, at: Micros) -> Micros | None:
        """When the status last changed, as far as this plane saw it; None if it never saw another."""
        with self._lock:
            known, seen_at, since = self._since.get(name, (status, at, None))
            if at < seen_at:  # an older look that ended later: it has nothing to add
                return since if status is known else None
            if status is not known:
                since = at
            self._since[name] = (status, at, since)
            return since


def _leftovers_of_no_slot(census: Census) -> str:
    pids = [str(stat.pid) for slot in census.slots if not slot.counts for stat in slot.leftovers]
    return f"left over, though its slot is gone: pid {', '.join(pids)}" if pids else ""
