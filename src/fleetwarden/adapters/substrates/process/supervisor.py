"""What one plane knows of the local processes of its fleet, shared by the one who looks and the one who acts.

It holds no opinion of its own: every question is answered from the slot files and the kernel, so that a plane that was
started again knows what its predecessor knew.  In memory there is only what speeds that up or cannot be written down:
which deaths were seen and how, and which slots a process is being made for at this moment.  It never signals, and ends
nothing when it is closed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread

import msgspec
import structlog

from fleetwarden.adapters.substrates.process import census
from fleetwarden.adapters.substrates.process.census import Census, SlotView
from fleetwarden.adapters.substrates.process.exits import EXIT_UNKNOWN, Ended, Exits
from fleetwarden.adapters.substrates.process.proc import ProcessId, ProcessTable, age_s, boot_id, require_linux, scan
from fleetwarden.adapters.substrates.process.slots import SlotFiles, SlotRecord, SlotState
from fleetwarden.domain.errors import FleetError, Misconfigured
from fleetwarden.domain.identifiers import SECOND, name_problem
from fleetwarden.ports.system import Clock

__all__ = ["Supervisor"]

log = structlog.get_logger(__name__)


class Supervisor:
    """The fleet's processes on this host, as far as files and kernel tell.

    `fleet`: the fleet's id (a name), part of every marker; planes with another id do not see each other's processes.
    `host`: this host's name.  `on_exit`: called with the service's name as soon as one of its instances ends, from a
    thread of its own; it should only wake something.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        fleet: str,
        host: str,
        data: Path,
        on_exit: Callable[[str], None] | None = None,
        pidfds: bool = True,
    ) -> None:
        require_linux()
        if problem := name_problem(fleet):
            raise Misconfigured(f"the fleet's id cannot mark processes: {problem}")
        self.clock = clock
        self.fleet = fleet
        self.host = host
        self.boot = boot_id()
        self.slots = SlotFiles(data / "processes")
        self.exits = Exits(self._ended, pidfds=pidfds)
        self._on_exit = on_exit
        self._lock = Lock()
        self._spawning: dict[str, set[int]] = {}
        self._adopting = Lock()
        self._adopted = False
        self._notes: SimpleQueue[Ended | None] = SimpleQueue()
        self._note_writer: Thread | None = None

    def close(self) -> None:
        """Stop watching.  Every instance runs on."""
        self.exits.close()
        with self._lock:
            writer, self._note_writer = self._note_writer, None
        if writer is not None:
            self._notes.put(None)
            writer.join(timeout=5)

    def table(self) -> ProcessTable:
        """One look at all processes.  The first one also takes over what an earlier plane left running."""
        table = scan(self.fleet)
        if not self._adopted:
            with self._adopting:
                if not self._adopted:
                    self._adopt(table)
                    self._adopted = True
        return table

    def census(self, service: str, table: ProcessTable) -> Census:
        """The service's slots and what lives in them; everything that lives is watched from now on."""
        with self._lock:
            spawning = tuple(self._spawning.get(service, ()))
        files = self.slots.read(service)
        taken = census.take(service, files, table, boot=self.boot, spawning=spawning)
        for slot in taken.slots:
            if slot.leader is not None:
                self.exits.watch(slot.leader.id, service, slot.index)
        return taken

    def is_spawning(self, service: str, index: int) -> bool:
        """Whether a process is being made for that slot right now."""
        with self._lock:
            return index in self._spawning.get(service, ())

    @contextlib.contextmanager
    def spawning(self, service: str, index: int) -> Iterator[None]:
        """While this lasts, an empty slot is one that starts."""
        with self._lock:
            self._spawning.setdefault(service, set()).add(index)
        try:
            yield
        finally:
            with self._lock:
                self._spawning[service].discard(index)

    def how_ended(self, slot: SlotView) -> str:
        """How the process that the slot's file names came to its end, in words."""
        record = slot.record
        if record is None or record.process is None or not slot.this_boot:
            return ""
        seen = self.exits.how(record.process)
        return seen if seen not in (None, EXIT_UNKNOWN) else record.note or EXIT_UNKNOWN

    def _ended(self, ended: Ended) -> None:
        """A watched instance is gone: wake whoever waits, and have it kept for the next plane.

        The disk is waited for on another thread: of many deaths at once, the last is told as soon as the first.
        """
        if self._on_exit is not None:
            self._on_exit(ended.service)
        self._notes.put(ended)
        with self._lock:
            if self._note_writer is None:
                self._note_writer = Thread(target=self._write_notes, name="process-notes", daemon=True)
                self._note_writer.start()

    def _write_notes(self) -> None:
        while (ended := self._notes.get()) is not None:
            name, index = ended.service, ended.index
            try:
                self.slots.update(name, index, partial(_with_note, process=ended.process, how=ended.how))
            except FleetError as error:
                log.warning("end of a process not written down", service=name, index=index, error=str(error))

    def _adopt(self, table: ProcessTable) -> None:
        """Complete what an earlier plane left half written: a process that lives under its plan's marker."""
        names = set(self.slots.services()) | table.services()
        for name in sorted(names):
            for slot in self.census(name, table).slots:
                if slot.leader is None or slot.is_recorded:
                    continue
                log.info("process adopted", service=name, index=slot.index, pid=slot.leader.pid, key=slot.leader_key)
                try:
                    self.slots.write(self._found(name, slot))
                except FleetError as error:
                    log.warning("adopted process not written down", service=name, index=slot.index, error=str(error))

    def _found(self, service: str, slot: SlotView) -> SlotRecord:
        """The record of a process that nobody recorded."""
        leader, plan = slot.leader, slot.record
        assert leader is not None
        began = self.clock.now() - int(age_s(leader.ticks) * SECOND)
        same = plan is not None and plan.key == slot.leader_key
        return SlotRecord(
            service=service,
            index=slot.index,
            state=SlotState.RUNNING,
            key=slot.leader_key,
            version=plan.version if plan is not None and same else "",
            port=plan.port if plan is not None and same else None,
            boot=self.boot,
            pid=leader.pid,
            ticks=leader.ticks,
            started_at=began,
        )


def _with_note(record: SlotRecord, process: ProcessId, how: str) -> SlotRecord | None:
    if record.process != process or record.note or record.state is not SlotState.RUNNING:
        return None
    return msgspec.structs.replace(record, note=how)
