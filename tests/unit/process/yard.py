"""A yard of real processes for one test: a substrate over a folder of its own, and all of them ended afterwards."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fleetwarden.adapters.substrates.process import ProcessSubstrate
from fleetwarden.adapters.substrates.process.proc import scan, stat_of
from fleetwarden.adapters.substrates.process.slots import SlotFiles, SlotRecord
from fleetwarden.adapters.system import SystemClock
from fleetwarden.domain.actions import ActionRequest, Kind, Outcome
from fleetwarden.domain.fleet import HealthCheck, ObservedService, ProcessSpec, Service
from fleetwarden.domain.identifiers import Micros
from fleetwarden.ports.actuation import ActuationCall
from fleetwarden.ports.system import Clock

HOST = "h1"
SLEEPER = ("sleep", "600")
STUBBORN = ("sh", "-c", 'trap "" TERM; while :; do sleep 0.05; done')
PATIENCE_S = 60.0  # patience, not a measurement: a busy machine is no failure


def eventually(ask: Callable[[], Any], what: str = "") -> Any:
    """The first true answer; fails if none comes."""
    end = time.monotonic() + PATIENCE_S
    while not (answer := ask()):
        assert time.monotonic() < end, f"did not happen: {what or ask}"
        time.sleep(0.01)
    return answer


def free_ports(count: int = 1) -> int:
    """The first of so many free ports in a row on loopback, below the range that the kernel gives out by itself."""
    start = 20_000 + (os.getpid() * 37 + int(time.monotonic() * 1000)) % 10_000
    for first in range(start, 32_000):
        held = []
        try:
            for port in range(first, first + count):
                held.append(socket.socket())
                held[-1].bind(("127.0.0.1", port))
        except OSError:
            continue
        finally:
            for one in held:
                one.close()
        return first
    raise AssertionError("no free ports")


def python(code: str) -> tuple[str, ...]:
    """A service written in Python: without site packages it starts quickly."""
    return (sys.executable, "-I", "-S", "-c", code)


class Yard:
    """One fleet of real processes."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.fleet = f"yard-{uuid.uuid4().hex[:8]}"
        self.clock: Clock = options.pop("clock", None) or SystemClock()
        self.at: Micros = 1_000_000
        self._opened: list[ProcessSubstrate] = []
        self._options = options
        self.substrate = self.open()

    def open(self, **options: Any) -> ProcessSubstrate:
        """A (further) plane over the same folder, as after a restart."""
        options = {"fleet": self.fleet, "host": HOST, "data": self.folder, **self._options, **options}
        self.substrate = ProcessSubstrate(self.clock, **options)
        self._opened.append(self.substrate)
        return self.substrate

    def close(self) -> None:
        """End every process that carries this yard's marker."""
        for substrate in self._opened:
            substrate.close()
        eventually(lambda: not self._kill_all(), "all processes of the test have ended")

    def _kill_all(self) -> list[int]:
        pids = self.pids()
        for pid in pids:
            with _gone_is_fine():
                os.kill(pid, signal.SIGKILL)
        for substrate in self._opened:  # children of this process have to be waited for
            for name in substrate.supervisor.slots.services():
                for slot in substrate.supervisor.slots.read(name).slots.values():
                    if isinstance(slot, SlotRecord) and slot.pid > 1:
                        reap(slot.pid)
        return pids

    def pids(self) -> list[int]:
        """Everything that lives and carries this fleet's marker."""
        table = scan(self.fleet)
        return [
            one.stat.pid
            for name in table.services()
            for index in table.indices(name)
            for one in table.marked(name, index)
        ]

    def service(self, name: str = "web", command: tuple[str, ...] = SLEEPER, **fields: Any) -> Service:
        """A service as local processes; keywords go to the process block where it has such a field."""
        in_block = {key: fields.pop(key) for key in list(fields) if key in ProcessSpec.__struct_fields__}
        in_block.setdefault("cwd", str(self.folder))
        in_block.setdefault("stop_grace_s", 5.0)
        return Service(name=name, process=ProcessSpec(command=command, **in_block), **fields)

    def call(
        self, kind: str, service: Service, *, key: str = "", deadline_s: float | None = None, **params: Any
    ) -> ActuationCall:
        key = key or uuid.uuid4().hex[:16]
        request = ActionRequest(
            kind=kind, target=service.name, params=params, source="operator", requested_by="test", key=key
        )
        bound = self.substrate.actuator.deadline_s(request, service) if deadline_s is None else deadline_s
        return ActuationCall(
            key=key, request=request, service=service, observed=None, deadline=self.clock.monotonic() + bound
        )

    def act(self, kind: str, service: Service, **options: Any) -> Outcome:
        return self.substrate.actuator.actuate(self.call(kind, service, **options))

    def start(self, service: Service, **options: Any) -> ObservedService:
        outcome = self.act(Kind.START, service, **options)
        assert outcome.ok, outcome
        return self.see(service)

    def see(self, service: Service) -> ObservedService:
        self.at += 1_000_000
        return self.substrate.observer.observe([service], self.at)[service.name]

    def slots(self) -> SlotFiles:
        return self.substrate.supervisor.slots

    def slot(self, service: Service, index: int = 0) -> SlotRecord:
        found = self.slots().read(service.name).slots[index]
        assert isinstance(found, SlotRecord), found
        return found

    def log(self, service: Service, index: int = 0) -> str:
        path = self.substrate.logs.path(service.name, index)
        return path.read_text(encoding="utf-8") if path.exists() else ""


def pid_of(observed: ObservedService, index: int = 0) -> int:
    pid = observed.instances[index].pid
    assert pid is not None, observed
    return pid


def lives(pid: int) -> bool:
    stat = stat_of(pid)
    return stat is not None and stat.lives


def reap(pid: int) -> None:
    with _gone_is_fine():
        os.waitpid(pid, os.WNOHANG)


def http_health(**fields: Any) -> HealthCheck:
    return HealthCheck(kind="http", http="http://127.0.0.1:{port}/healthz", **fields)  # type: ignore[arg-type]


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    try:
        yield
    except (ProcessLookupError, ChildProcessError):
        return
