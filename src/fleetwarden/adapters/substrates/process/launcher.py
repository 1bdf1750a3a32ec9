"""From an empty slot to a running process that is written down.

The order is what makes a crash harmless: first the plan, with the key of the action behind it; then the process, which
carries the same key as its marker; then the record of which process it is.  Whatever stops the plane in between, the
next one finds either a plan that came to nothing or a process that says whose it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import msgspec
import psutil

from fleetwarden.adapters.substrates.process.logs import Logs
from fleetwarden.adapters.substrates.process.proc import Marker, stat_of
from fleetwarden.adapters.substrates.process.slots import SlotRecord, SlotState
from fleetwarden.adapters.substrates.process.spawning import (
    Spawner,
    SpawnOrder,
    child_environment,
    fill,
    placeholder_values,
    port_holder,
    preflight,
)
from fleetwarden.adapters.substrates.process.supervisor import Supervisor
from fleetwarden.domain import versions
from fleetwarden.domain.errors import FleetError, Refused
from fleetwarden.domain.fleet import ProcessSpec, Service

__all__ = ["Launched", "Launcher"]


class Launched(msgspec.Struct, frozen=True):
    """A process that was made; `note` says what went wrong without undoing that."""

    pid: int
    note: str = ""


class Launcher:
    """Makes processes for slots in which nothing lives any more; seeing to that is the caller's.

    A service is handed in as it is to run: in the version that the slot gets, with that version's command.
    """

    def __init__(self, supervisor: Supervisor, spawner: Spawner, logs: Logs, environment: Mapping[str, str]) -> None:
        self._supervisor = supervisor
        self._spawner = spawner
        self._logs = logs
        self._environment = environment

    def check(self, service: Service, spec: ProcessSpec, index: int) -> None:
        """Raise Refused (`spawn_failed`) if making this process is bound to fail.  Changes nothing."""
        try:
            preflight(self._order(service, spec, index, key=""))
        except Refused as error:
            raise Refused(f"{service.name}#{index}: {error.message}", code=error.code) from error

    def launch(self, service: Service, spec: ProcessSpec, index: int, key: str, *, fresh: bool) -> Launched:
        """Make the process of a slot.  `fresh`: the slot had none so far, and is no slot if this fails.

        Raises Refused (`spawn_failed`, `port_in_use`) or Retryable (`slot_unwritable`); then no process was made.
        """
        name = f"{service.name}#{index}"
        order = self._order(service, spec, index, key)
        port = None if spec.port is None else spec.port + index
        supervisor = self._supervisor
        plan = SlotRecord(
            service=service.name,
            index=index,
            state=SlotState.SPAWNING,
            key=key,
            fresh=fresh,
            version=service.version,
            definition=versions.definition(service, service.version),
            port=port,
            boot=supervisor.boot,
        )
        with supervisor.spawning(service.name, index):
            if port is not None and (holder := _holder(port)) is not None:
                refused = Refused(f"{name}: port {port} is in use by {holder}", code="port_in_use")
                self._withdraw(plan, refused.message, planned=False)
                raise refused
            supervisor.slots.write(plan)
            try:
                self._logs.ready()
                pid = self._spawner.spawn(order)
            except (OSError, ValueError) as error:
                reason = f"{name} could not be started: {error}"
                self._withdraw(plan, reason, planned=True)
                raise Refused(reason, code="spawn_failed") from error
            return self._record(plan, pid)

    def _order(self, service: Service, spec: ProcessSpec, index: int, key: str) -> SpawnOrder:
        values = placeholder_values(service, spec, index)
        marker = Marker(self._supervisor.fleet, service.name, index, key)
        return SpawnOrder(
            argv=tuple(fill(word, values) for word in spec.command),
            cwd=fill(spec.cwd, values),
            environment=child_environment(self._environment, spec, values, marker),
            log=self._logs.path(service.name, index),
        )

    def _record(self, plan: SlotRecord, pid: int) -> Launched:
        """Write down which process it is.  If that fails, the process lives all the same and is known by its marker."""
        supervisor = self._supervisor
        try:
            stat = stat_of(pid)  # it is our child and not waited for, so it is there even if it has ended already
        except FleetError as error:
            return Launched(pid, f"pid {pid} is not written down ({error.message}); it is known by its marker")
        record = msgspec.structs.replace(
            plan,
            state=SlotState.RUNNING,
            fresh=False,
            pid=pid,
            ticks=0 if stat is None else stat.ticks,
            started_at=supervisor.clock.now(),
        )
        if stat is not None:
            supervisor.exits.watch(stat.id, plan.service, plan.index)
        try:
            supervisor.slots.write(record)
        except FleetError as error:
            return Launched(pid, f"pid {pid} is not written down ({error.message}); it is known by its marker")
        return Launched(pid)

    def _withdraw(self, plan: SlotRecord, reason: str, *, planned: bool) -> None:
        """Nothing came of it: a fresh slot goes, one that had an instance stays and says why it has none now."""
        slots = self._supervisor.slots
        with contextlib.suppress(FleetError):  # what is left is a plan without a process, which reads the same
            if not plan.fresh:
                slots.write(msgspec.structs.replace(plan, state=SlotState.FAILED, note=reason))
            elif planned:
                slots.remove(plan.service, plan.index)


def _holder(port: int) -> str | None:
    """Who holds the port, if that can be told; where it cannot, the new process finds out by itself."""
    try:
        return port_holder(port)
    except (OSError, psutil.Error):
        return None
