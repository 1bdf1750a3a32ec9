"""Acting on local processes: start, stop, restart, scale, roll out; each to the end or honest about how far.

Nothing is begun at or after the call's deadline.  What is found wrong before anything was touched is a refusal that
changed nothing; what goes wrong later is `partial`, with everything that was done by then.  Only where signals were
sent and their effect could not be seen in time is the outcome unknown.  It never decides whether it should act, never
repeats anything, and touches no other service.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from threading import Lock

import msgspec

from fleetwarden.adapters.substrates.process.account import Account
from fleetwarden.adapters.substrates.process.census import Census, SlotView
from fleetwarden.adapters.substrates.process.endings import KILL_WAIT_S, Ending, Endings
from fleetwarden.adapters.substrates.process.launcher import Launcher
from fleetwarden.adapters.substrates.process.logs import Logs
from fleetwarden.adapters.substrates.process.proc import ProcessId, own_line, own_markers
from fleetwarden.adapters.substrates.process.readiness import Arrivals, Prober, arrival_s
from fleetwarden.adapters.substrates.process.signalling import Signaller
from fleetwarden.adapters.substrates.process.slots import Emptied, EmptiedBy, SlotRecord, SlotState
from fleetwarden.adapters.substrates.process.spawning import Spawner
from fleetwarden.adapters.substrates.process.supervisor import Supervisor
from fleetwarden.domain import versions
from fleetwarden.domain.actions import ActionRequest, Kind, Outcome
from fleetwarden.domain.errors import FleetError, NotCalled, Refused
from fleetwarden.domain.fleet import ProcessSpec, Service
from fleetwarden.ports.actuation import ActuationCall

__all__ = ["REPLICAS_MAX", "ProcessActuator"]

REPLICAS_MAX = 1000  # processes of one service on one host
_DEADLINE_MAX_S = 600.0
_LAUNCH_S = 0.1  # allowance for making one process; a few milliseconds on an idle machine
_SLACK_S = 10.0
_ENDING_KINDS = frozenset({Kind.STOP, Kind.RESTART, Kind.SCALE, *versions.ROLLOUTS})


class _Job(msgspec.Struct, frozen=True):
    """One call with what it needs at hand."""

    call: ActuationCall
    service: Service
    spec: ProcessSpec
    census: Census
    account: Account

    def param(self, name: str, default: int) -> int:
        """A whole number of the request; `_refused` has made sure that it is one."""
        value = self.call.request.params.get(name, default)
        assert isinstance(value, int)
        return value


class ProcessActuator:
    """Actuator of substrate `process` on one host.

    `lateness_s` 1: between the last look at the clock and the system call lies at most a garbage collection.
    """

    substrate = "process"
    kinds: frozenset[str] = frozenset({Kind.START, Kind.STOP, Kind.RESTART, Kind.SCALE, *versions.ROLLOUTS})
    simulates = False
    lateness_s: float | None = 1.0
    acknowledged_is_final = True

    def __init__(
        self,
        supervisor: Supervisor,
        spawner: Spawner,
        signaller: Signaller,
        logs: Logs,
        environment: Mapping[str, str],
    ) -> None:
        self._supervisor = supervisor
        self._clock = supervisor.clock
        self._launcher = Launcher(supervisor, spawner, logs, environment)
        self._arrivals = Arrivals(supervisor.clock, Prober(environment))
        self._endings = Endings(supervisor.clock, supervisor.fleet, signaller)
        self._inside_of = frozenset(service for service, _ in own_markers(supervisor.fleet))
        self._lock = Lock()
        self._busy: set[str] = set()

    def deadline_s(self, request: ActionRequest, service: Service) -> float:
        """From grace time and count; 10 to 600."""
        spec = service.process
        count = self._count(request, service)
        if spec is None or request.kind == Kind.START:
            ending_s = 0.0
        elif request.kind == Kind.RESTART:
            ending_s = math.ceil(count / _at_once(spec, count)) * _ending_s(spec)
        elif request.kind in versions.ROLLOUTS:
            ending_s = count * (_ending_s(spec) + arrival_s(spec.health))
        else:
            ending_s = _ending_s(spec)
        return min(_DEADLINE_MAX_S, _SLACK_S + ending_s + count * _LAUNCH_S)

    def refusal(self, request: ActionRequest, service: Service) -> str | None:
        """See FleetActuator; begins with the machine word: unsupported_kind, not_a_process, wrong_host, bad_params,
        self_target, unknown_version.
        """
        refused = self._refused(request, service)
        return None if refused is None else f"{refused.code}: {refused}"

    def actuate(self, call: ActuationCall) -> Outcome:
        """See FleetActuator.

        Codes of a failed outcome, besides those of `refusal`: spawn_failed, port_in_use, slot_unwritable, not_started,
        no_such_replica, not_permitted (nothing was changed); partial (something was; a rollout stops where a replica
        does not come up); still_ending (unknown).
        """
        refused = self._refused(call.request, call.service)
        if refused is not None:
            return Outcome(ok=False, code=refused.code, detail=str(refused))
        spec = call.service.process
        assert spec is not None
        self._in_time(call)
        with self._alone(call.service.name):
            census = self._supervisor.census(call.service.name, self._supervisor.table())
            job = _Job(call, call.service, spec, census, Account(call.service.name))
            try:
                done = self._carry_out(job)
            except FleetError as error:
                job.account.fail(error)
                done = ""
            return job.account.outcome(done)

    def _refused(self, request: ActionRequest, service: Service) -> Refused | None:
        if request.kind not in self.kinds:
            served = ", ".join(sorted(self.kinds))
            return Refused(f"local processes serve {served}, not {request.kind!r}", code="unsupported_kind")
        if service.process is None:
            return Refused(f"{service.name} has no process block", code="not_a_process")
        here = self._supervisor.host
        if service.process.host not in ("", here):
            reason = f"{service.name} belongs to host {service.process.host}, this plane runs on {here}"
            return Refused(reason, code="wrong_host")
        for name, needed in (("replicas", request.kind == Kind.SCALE), ("replica", False)):
            value = request.params.get(name)
            if (needed or value is not None) and not (type(value) is int and 0 <= value <= REPLICAS_MAX):
                reason = f"{name} is {value!r}, and has to be a whole number from 0 to {REPLICAS_MAX}"
                return Refused(reason, code="bad_params")
        if request.kind in versions.ROLLOUTS and (refused := _unknown_version(request, service)) is not None:
            return refused
        if request.kind == Kind.START and service.replicas > REPLICAS_MAX:
            return Refused(f"{service.replicas} processes, at most {REPLICAS_MAX} are run", code="bad_params")
        if request.kind in _ENDING_KINDS and self._is_self(service.name):
            return Refused(f"this plane runs inside of {service.name}, and does not end itself", code="self_target")
        return None

    def _is_self(self, service: str) -> bool:
        """Whether this plane is, or descends from, an instance of the service."""
        if service in self._inside_of:
            return True
        line = own_line()
        slots = self._supervisor.slots.read(service).slots.values()
        return any(
            isinstance(slot, SlotRecord) and slot.boot == self._supervisor.boot and slot.pid in line for slot in slots
        )

    def _count(self, request: ActionRequest, service: Service) -> int:
        asked = request.params.get("replicas", 0)
        slots = len(self._supervisor.slots.read(service.name).slots)
        if request.kind == Kind.RESTART and "replica" in request.params:
            return 1
        return max(1, service.replicas, slots, asked if type(asked) is int else 0)

    def _in_time(self, call: ActuationCall) -> None:
        if self._clock.monotonic() >= call.deadline:
            raise NotCalled(f"the deadline of {call.request.kind} {call.service.name} had passed before it was begun")

    @contextlib.contextmanager
    def _alone(self, service: str) -> Iterator[None]:
        """Two calls for one target never overlap, also where a caller gave one up and did not wait for it."""
        with self._lock:
            if service in self._busy:
                raise NotCalled(f"an earlier action on {service} is still being carried out")
            self._busy.add(service)
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(service)

    def _carry_out(self, job: _Job) -> str:
        match job.call.request.kind:
            case Kind.START:
                return self._start(job)
            case Kind.STOP:
                return self._stop(job)
            case Kind.RESTART:
                return self._restart(job)
            case Kind.SCALE:
                return self._scale(job)
            case _:
                return self._roll_out(job)

    def _start(self, job: _Job) -> str:
        """Make the declared slots; those that live are left alone, of those that do not, leftovers are ended first."""
        wanted = job.param("replicas", job.service.replicas)
        missing = [index for index in range(wanted) if (slot := job.census.slot(index)) is None or slot.leader is None]
        self._fill(job, missing)
        if job.account.started:
            self._tidy(job, wanted)
        running = wanted - len(missing)
        return f"started {job.service.name}" + (f", {running} of {wanted} were running already" if running else "")

    def _restart(self, job: _Job) -> str:
        """One instance, or all of them, a few at a time; the next ones only if the ones before could be started."""
        name = job.service.name
        slots = list(job.census.counted)
        if "replica" in job.call.request.params:
            replica = job.param("replica", 0)
            slots = [slot for slot in slots if slot.index == replica]
            name = f"{name}#{replica}"
            if not slots:
                raise Refused(f"{name} is no slot of it", code="no_such_replica", hint="scale_service makes slots")
        if not slots:
            raise Refused(
                f"{name} is not started, so there is nothing to restart", code="not_started", hint="start_service"
            )
        done = [slot for slot in slots if slot.leader is not None and slot.leader_key == job.call.key]
        slots = [slot for slot in slots if slot not in done]
        for slot in slots:  # a running instance is not ended for one that cannot be started
            self._check(self._as_it_ran(job, slot.index), slot.index)
        size = _at_once(job.spec, len(slots))
        for first in range(0, len(slots), size):
            some = slots[first : first + size]
            if not self._end(job, some).complete:
                break
            for slot in some:
                self._launch(job, self._as_it_ran(job, slot.index), slot.index, fresh=False)
            if job.account.failed:
                break
        return f"restarted {name}" + (f", {len(done)} by this action before" if done else "")

    def _roll_out(self, job: _Job) -> str:
        """One replica after the other, each in its own slot; the next only once the one before has come up."""
        version = str(job.call.request.params["version"])
        service, name = versions.as_version(job.service, version), job.service.name
        slots = job.census.counted
        if not slots:
            reason = f"{name} is not started, so there is nothing to replace"
            raise Refused(reason, code="not_started", hint="start_service")
        old = [slot for slot in slots if slot.leader is None or slot.record is None or slot.record.version != version]
        for slot in old:
            self._check(service, slot.index)
        for slot in old:
            if not self._end(job, [slot]).complete:
                break
            pid = self._launch(job, service, slot.index, fresh=False)
            if pid is None:
                break
            why = self._arrivals.await_up(service, slot.index, pid, job.call.deadline)
            if why is not None:
                job.account.fail(Refused(f"{name}#{slot.index} did not come up: {why}", code=versions.NOT_UP))
                break
        word = "deployed" if job.call.request.kind == Kind.DEPLOY else "rolled back to"
        there = len(slots) - len(old)
        return f"{word} version {version} of {name}" + (f", {there} of {len(slots)} ran it already" if there else "")

    def _as_it_ran(self, job: _Job, index: int) -> Service:
        """The service in the version that the slot had; a slot without one gets its neighbours', or the last one's.

        Only a rollout changes versions: what is merely started again must not slip past what governs rollouts.
        """
        if not job.service.version:
            return job.service
        own = job.census.slot(index)
        slots = [*([own] if own is not None and own.counts else []), *job.census.counted]
        known = [slot.record.version for slot in slots if slot.record is not None]
        if not known:
            emptied = self._supervisor.slots.read(job.service.name).emptied
            known = [emptied.version] if isinstance(emptied, Emptied) else []
        return versions.as_version(job.service, versions.brought_back(job.service, known)[0])

    def _check(self, service: Service, index: int) -> None:
        assert service.process is not None
        self._launcher.check(service, service.process, index)

    def _scale(self, job: _Job) -> str:
        wanted, counted = job.param("replicas", 0), job.census.counted
        name, had = job.service.name, len(counted)
        if wanted > had:
            taken = {slot.index for slot in counted}
            free = (index for index in range(wanted + had) if index not in taken)
            self._fill(job, [next(free) for _ in range(wanted - had)])
            if job.account.started:
                self._noting(job, partial(self._supervisor.slots.remove_emptied, name))
        elif wanted < had:
            self._take_away(job, counted[wanted:], SlotState.REMOVING, None if wanted else EmptiedBy.SCALE)
        return f"scaled {name} from {had} to {wanted} replica{'' if wanted == 1 else 's'}"

    def _stop(self, job: _Job) -> str:
        self._take_away(job, job.census.slots, SlotState.STOPPING, EmptiedBy.STOP)
        return f"stopped {job.service.name}"

    def _fill(self, job: _Job, indices: Sequence[int]) -> None:
        """Make processes for slots without one; one that cannot be made does not hinder the next."""
        for index in indices:
            service = self._as_it_ran(job, index)
            try:
                self._check(service, index)
            except FleetError as error:
                job.account.fail(error)
                continue
            slot = job.census.slot(index)
            if slot is None or not slot.leftovers or self._end(job, [slot]).complete:
                self._launch(job, service, index, fresh=slot is None or not slot.counts)

    def _launch(self, job: _Job, service: Service, index: int, *, fresh: bool) -> int | None:
        """The pid of the process that was made, or None; then the account says why."""
        name = f"{service.name}#{index}"
        if self._clock.monotonic() >= job.call.deadline:
            job.account.late(f"{name} was not started")
            return None
        assert service.process is not None
        try:
            launched = self._launcher.launch(service, service.process, index, job.call.key, fresh=fresh)
        except FleetError as error:
            job.account.fail(error)
            return None
        job.account.start(index, launched.pid, service.version)
        if launched.note:
            job.account.note(launched.note)
        return launched.pid

    def _end(self, job: _Job, slots: Sequence[SlotView]) -> Ending:
        """End all that lives in these slots."""
        recorded = {slot.index: self._recorded(slot) for slot in slots}
        ending = self._endings.end(
            job.service.name, recorded, grace_s=job.spec.stop_grace_s, deadline=job.call.deadline
        )
        job.account.end(ending)
        for slot in slots:
            for other in slot.others:
                job.account.note(f"pid {other.stat.pid} was a second live process of {job.service.name}#{slot.index}")
        return ending

    def _take_away(self, job: _Job, slots: Sequence[SlotView], state: SlotState, emptied: EmptiedBy | None) -> None:
        """End these slots for good.  `emptied`: what is noted if the service has no slot then.

        The files only help the next plane; a disk that takes no more notes must not keep anything from being ended.
        """
        files, name, key = self._supervisor.slots, job.service.name, job.call.key
        living = [slot for slot in slots if slot.leader is not None or slot.leftovers]
        self._noting(job, partial(files.write, *(self._marked(name, slot, state, key) for slot in living)))
        begun = False
        try:
            ending = self._end(job, slots)
            begun = ending.complete or bool(ending.signalled)
        finally:
            if not begun:  # an end that comes later is not this action's doing, and must not look like it
                before = [slot.record for slot in living if slot.record is not None]
                self._noting(job, partial(files.write, *before))
        if not ending.complete:
            return
        if emptied is not None:
            version = next((slot.record.version for slot in slots if slot.record is not None), "")
            record = Emptied(by=emptied, key=key, at=self._clock.now(), version=version)
            self._noting(job, partial(files.write_emptied, name, record))
        gone = [slot.index for slot in slots if slot.file is not None or slot.leader is not None]
        self._noting(job, partial(files.remove, name, *gone))
        job.account.remove(gone)

    def _tidy(self, job: _Job, wanted: int) -> None:
        """After a start: forget the stop before it, and slots that a start does not bring back."""
        files, name = self._supervisor.slots, job.service.name
        self._noting(job, partial(files.remove_emptied, name))
        void = [
            slot.index
            for slot in job.census.slots
            if slot.index >= wanted and not (slot.leader or slot.leftovers) and not (slot.counts and slot.this_boot)
        ]
        self._noting(job, partial(files.remove, name, *void))

    def _noting(self, job: _Job, write: Callable[[], None]) -> None:
        """Write a note that only the next plane reads; what was done to the fleet is right without it."""
        try:
            write()
        except FleetError as error:
            job.account.note(error.message)

    def _recorded(self, slot: SlotView) -> ProcessId | None:
        return slot.record.process if slot.record is not None and slot.record.boot == self._supervisor.boot else None

    def _marked(self, service: str, slot: SlotView, state: SlotState, key: str) -> SlotRecord:
        """The slot's record with the note that it is being taken away."""
        if slot.record is not None and (slot.is_recorded or slot.leader is None):
            return msgspec.structs.replace(slot.record, state=state, ended_by=key)
        process = slot.leader.id if slot.leader is not None else ProcessId(0, 0)
        return SlotRecord(
            service=service,
            index=slot.index,
            state=state,
            key=slot.leader_key,
            ended_by=key,
            boot=self._supervisor.boot,
            pid=process.pid,
            ticks=process.ticks,
        )


def _unknown_version(request: ActionRequest, service: Service) -> Refused | None:
    """Why a rollout cannot go where it is asked to, or None."""
    version = request.params.get("version")
    if not isinstance(version, str) or not version:
        known = ", ".join(versions.listed(service)) or "none"
        reason = f"{request.kind} {service.name} needs the param 'version' (known: {known})"
        return Refused(f"{reason}; local processes have no images", code="bad_params")
    unknown = versions.unknown_version(service, version)
    return None if unknown is None else Refused(unknown, code="unknown_version")


def _ending_s(spec: ProcessSpec) -> float:
    """How long it may take to end one instance."""
    return spec.stop_grace_s + KILL_WAIT_S


def _at_once(spec: ProcessSpec, count: int) -> int:
    """How many instances a restart of `count` ends at the same time: one, unless that could outlast any deadline."""
    rounds = max(1, math.floor((_DEADLINE_MAX_S - _SLACK_S - count * _LAUNCH_S) / _ending_s(spec)))
    return max(1, math.ceil(count / rounds))
