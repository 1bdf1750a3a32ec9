"""Decorators that name each step a plane takes and can kill it there.

The product has no hooks for this: every decorator stands in front of a port or of a constructor parameter, and passes
everything on unchanged.  A step is counted when it is passed, so that `commit_1.before#2` is a place in a run; the kill
is SIGKILL to the own process, which runs no handler, flushes nothing and gives nothing back.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from fleetwarden.adapters.substrates.process.proc import Stat
    from fleetwarden.adapters.substrates.process.signalling import Signaller
    from fleetwarden.adapters.substrates.process.slots import Emptied, ServiceFiles, SlotFiles, SlotRecord
    from fleetwarden.adapters.substrates.process.spawning import Spawner, SpawnOrder
    from fleetwarden.domain.actions import ActionRequest, Outcome
    from fleetwarden.domain.fleet import Service
    from fleetwarden.ports.actuation import ActuationCall, FleetActuator
    from fleetwarden.ports.stores import Store, StoreHealth, Tx

__all__ = ["ObservedActuator", "ObservedSignaller", "ObservedSlots", "ObservedSpawner", "ObservedStore", "Steps"]

T = TypeVar("T")


class Steps:
    """Counts the steps that are passed, writes them to `trace`, and dies at `kill` (such as `commit_1.before#1`).

    Nothing is counted until `armed` is set.
    """

    def __init__(self, trace: Path, kill: str | None) -> None:
        self.armed = False
        self._kill = kill
        self._trace = os.open(trace, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock = Lock()
        self._passed: Counter[str] = Counter()
        self._happens: dict[str, Callable[[], None]] = {}

    def at(self, step: str, happens: Callable[[], None]) -> None:
        """What somebody else does when the plane comes to this step next, once."""
        self._happens[step] = happens

    def passed(self, step: str) -> None:
        """Say that the plane is at this step now.  Does not return if it is where the plane has to die."""
        happens = self._happens.pop(step, None)
        if happens is not None:
            happens()
        with self._lock:
            if not self.armed:
                return
            self._passed[step] += 1
            here = f"{step}#{self._passed[step]}"
            os.write(self._trace, f"{here}\n".encode())
            if here == self._kill:
                os.kill(os.getpid(), signal.SIGKILL)
                Event().wait()  # another thread may be scheduled before the signal lands: this one goes no further


class ObservedStore:
    """A store whose transactions are steps: `<name>.before` inside the transaction, everything written and nothing
    committed; `<name>.after` right behind the commit."""

    def __init__(self, store: Store, steps: Steps) -> None:
        self._store = store
        self._steps = steps

    def transact(self, name: str, fn: Callable[[Tx], T]) -> T:
        def run(tx: Tx) -> T:
            value = fn(tx)
            self._steps.passed(f"{name}.before")
            return value

        value = self._store.transact(name, run)
        self._steps.passed(f"{name}.after")
        return value

    def read(self, fn: Callable[[Tx], T]) -> T:
        return self._store.read(fn)

    def health(self) -> StoreHealth:
        return self._store.health()

    def close(self) -> None:
        self._store.close()


class ObservedActuator:
    """An actuator whose calls are steps: `call.before` any effect, `call.after` all of it and before it returns."""

    def __init__(self, actuator: FleetActuator, steps: Steps) -> None:
        self._actuator = actuator
        self._steps = steps
        self.substrate = actuator.substrate
        self.kinds = actuator.kinds
        self.simulates = actuator.simulates
        self.lateness_s = actuator.lateness_s
        self.acknowledged_is_final = actuator.acknowledged_is_final

    def deadline_s(self, request: ActionRequest, service: Service) -> float:
        return self._actuator.deadline_s(request, service)

    def refusal(self, request: ActionRequest, service: Service) -> str | None:
        return self._actuator.refusal(request, service)

    def actuate(self, call: ActuationCall) -> Outcome:
        self._steps.passed("call.before")
        outcome = self._actuator.actuate(call)
        self._steps.passed("call.after")
        return outcome


class ObservedSpawner:
    """`spawn.before` and `spawn.after`: after, the process lives and nobody has written down which one it is."""

    def __init__(self, spawner: Spawner, steps: Steps) -> None:
        self._spawner = spawner
        self._steps = steps

    def spawn(self, order: SpawnOrder) -> int:
        self._steps.passed("spawn.before")
        pid = self._spawner.spawn(order)
        self._steps.passed("spawn.after")
        return pid


class ObservedSignaller:
    """`sigterm.before`, `sigterm.after`, `sigkill.before`, `sigkill.after`."""

    def __init__(self, signaller: Signaller, steps: Steps) -> None:
        self._signaller = signaller
        self._steps = steps

    def send(self, process: Stat, number: int, *, group: bool) -> bool:
        name = signal.Signals(number).name.lower()
        self._steps.passed(f"{name}.before")
        sent = self._signaller.send(process, number, group=group)
        self._steps.passed(f"{name}.after")
        return sent


class ObservedSlots:
    """The slot files: `slot_<state>` for each file written, `slot_removed`, `emptied`, `emptied_removed`.

    What is asked for in one batch is done file by file, so that a plane can die in the middle of it.
    """

    def __init__(self, slots: SlotFiles, steps: Steps) -> None:
        self._slots = slots
        self._steps = steps
        self.folder = slots.folder

    def services(self) -> tuple[str, ...]:
        return self._slots.services()

    def read(self, service: str) -> ServiceFiles:
        return self._slots.read(service)

    def write(self, *records: SlotRecord) -> None:
        for record in records:
            self._step(f"slot_{record.state.value}", partial(self._slots.write, record))

    def update(self, service: str, index: int, change: Callable[[SlotRecord], SlotRecord | None]) -> None:
        self._slots.update(service, index, change)  # how a process ended, from a thread of its own: no step of ours

    def remove(self, service: str, *indices: int) -> None:
        for index in indices:
            self._step("slot_removed", partial(self._slots.remove, service, index))

    def write_emptied(self, service: str, emptied: Emptied) -> None:
        self._step("emptied", partial(self._slots.write_emptied, service, emptied))

    def remove_emptied(self, service: str) -> None:
        self._step("emptied_removed", partial(self._slots.remove_emptied, service))

    def _step(self, name: str, write: Callable[[], None]) -> None:
        self._steps.passed(f"{name}.before")
        write()
        self._steps.passed(f"{name}.after")
