"""The real processes of one test world, as the kernel tells them; nothing here is the product's.

Everything that a world starts inherits `CRASH_WORLD=<name>`, so that a test finds and ends exactly its own processes,
also those that carry no marker of the product.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["WORLD", "Instance", "end_all", "instances", "lose"]

WORLD = "CRASH_WORLD"
MARKER = "FLEETWARDEN_INSTANCE"
PATIENCE_S = 20.0


@dataclass(frozen=True)
class Instance:
    """One live process that carries the marker `<fleet>/<service>/<index>/<key>`."""

    pid: int
    fleet: str
    service: str
    index: int
    key: str

    @property
    def start(self) -> tuple[str, int, str]:
        """What it was started as, as its own log names it."""
        return self.service, self.index, self.key


def instances(world: str) -> list[Instance]:
    """Every live process of the world that carries a marker, by service and index."""
    found = []
    for pid, environment in _of_world(world):
        if marker := environment.get(MARKER):
            fleet, service, index, key = marker.split("/", 3)
            found.append(Instance(pid, fleet, service, int(index), key))
    return sorted(found, key=lambda one: (one.service, one.index, one.pid))


def end_all(world: str) -> None:
    """End every process of the world, marked or not, and see it gone."""
    pids = [pid for pid, _ in _of_world(world)]
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    for pid in pids:
        _wait_gone(pid)


def lose(world: str, service: str, index: int, noted: Path) -> None:
    """kill -9 of one instance, with a note that it was the test's doing.  Not before it has noted its own start in the
    file `starts` beside: a plane counts it as soon as it lives, the auditor only then."""
    for one in instances(world):
        if (one.service, one.index) == (service, index):
            _wait_noted(one, noted.with_name("starts"))
            with noted.open("a", encoding="utf-8") as lost:
                lost.write(f"{one.service}/{one.index}/{one.key}\n")
            os.kill(one.pid, signal.SIGKILL)
            _wait_gone(one.pid)


def _wait_noted(one: Instance, starts: Path) -> None:
    until = time.monotonic() + PATIENCE_S
    needle = f"/{one.service}/{one.index}/{one.key} "
    while not (starts.exists() and needle in starts.read_text(encoding="utf-8")) and _lives(one.pid):
        if time.monotonic() > until:
            raise TimeoutError(f"pid {one.pid} did not note its start")
        time.sleep(0.002)


def _wait_gone(pid: int) -> None:
    """Until the process has ended (a zombie has)."""
    until = time.monotonic() + PATIENCE_S
    while _lives(pid):
        if time.monotonic() > until:
            raise TimeoutError(f"pid {pid} did not end")
        time.sleep(0.002)


def _lives(pid: int) -> bool:
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return line.rpartition(")")[2].split()[0] not in "ZX"


def _of_world(world: str) -> Iterator[tuple[int, dict[str, str]]]:
    needle = f"{WORLD}={world}"
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            body = (entry / "environ").read_bytes()
        except OSError:  # it ended in between, or is not ours to read
            continue
        pairs = body.decode("utf-8", "surrogateescape").split("\0")
        if needle in pairs:
            yield int(entry.name), dict(pair.split("=", 1) for pair in pairs if "=" in pair)
