"""What the kernel says about processes, read from /proc and from nowhere else.

A pid alone names nobody: it is reused.  What tells one process from any later one on this boot is its pid together with
its start time in clock ticks since boot (field 22 of /proc/PID/stat), which no step of the wall clock can move.  The
marker that every instance carries in its environment says whose it is, also when nobody wrote it down.  Nothing here
changes a process, and a process that ends while it is being read is simply not there.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from fleetwarden.domain.errors import Misconfigured, Retryable
from fleetwarden.domain.identifiers import name_problem

__all__ = ["MARKER_VARIABLE", "Marked", "Marker", "ProcessId", "ProcessTable", "Stat", "age_s", "boot_id", "command_of",
           "own_line", "own_markers", "require_linux", "scan", "stat_of"]  # fmt: skip

MARKER_VARIABLE = "FLEETWARDEN_INSTANCE"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_DEAD = frozenset("ZXx")  # a zombie has ended; somebody only has to hear of it
_ANCESTORS_MAX = 1000


class ProcessId(NamedTuple):
    """One process of this boot, told from any earlier or later holder of its pid."""

    pid: int
    ticks: int


class Stat(msgspec.Struct, frozen=True):
    """One line of /proc/PID/stat, as far as it is used here."""

    pid: int
    ticks: int
    parent: int
    group: int
    session: int
    state: str
    threads: int

    @property
    def id(self) -> ProcessId:
        return ProcessId(self.pid, self.ticks)

    @property
    def lives(self) -> bool:
        """Not ended.  Where only the first of several threads has ended, the process still runs."""
        return self.state not in _DEAD or self.threads > 1

    @property
    def leads(self) -> bool:
        """Whether it leads a session, as everything does that we start."""
        return self.session == self.pid


class Marker(NamedTuple):
    """What an instance carries in its environment: `<fleet>/<service>/<index>/<outbox key>`."""

    fleet: str
    service: str
    slot: int
    key: str

    def __str__(self) -> str:
        return f"{self.fleet}/{self.service}/{self.slot}/{self.key}"

    @classmethod
    def parse(cls, text: str) -> Marker | None:
        """The marker in `text`, or None if it is none of ours."""
        parts = text.split("/", 3)
        if len(parts) != 4 or not (parts[2].isascii() and parts[2].isdigit() and len(parts[2]) <= 9):
            return None
        if name_problem(parts[1]) is not None:  # it becomes a folder's name; the environment is not ours to trust
            return None
        return cls(parts[0], parts[1], int(parts[2]), parts[3])


class Marked(NamedTuple):
    """A live process that carries a marker of our fleet."""

    stat: Stat
    marker: Marker


def require_linux() -> None:
    """Raise Misconfigured where /proc is not what this adapter reads."""
    if not sys.platform.startswith("linux") or not Path("/proc/self/stat").exists():
        raise Misconfigured(
            f"local processes can only be supervised on Linux with /proc mounted, not on {sys.platform}",
            hint="run the plane on Linux, or take process: blocks out of the registry",
        )


@cache
def boot_id() -> str:
    """The kernel's own name for this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def stat_of(pid: int) -> Stat | None:
    """What the kernel says of `pid` now, zombies included, or None if there is no such process.

    Raises Retryable if the kernel could not be asked.
    """
    line = _read(f"/proc/{pid}/stat")
    # The command name stands in brackets and may itself hold brackets and blanks: only the last one ends it.
    head, bracket, rest = line.rpartition(b")")
    if not bracket or not head:
        return None
    fields = rest.split()
    state = fields[0].decode("ascii")
    return Stat(pid, int(fields[19]), int(fields[1]), int(fields[2]), int(fields[3]), state, int(fields[17]))


def age_s(ticks: int) -> float:
    """Seconds since a process with that start time began (time asleep included); no wall clock is involved."""
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / _TICKS_PER_S)


def command_of(pid: int) -> str:
    """The command line for a message, at most 120 characters; empty if it cannot be read."""
    return _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode("utf-8", "replace").strip()[:120]


def own_line() -> frozenset[int]:
    """This process and all its parents: what must never be signalled."""
    pid, found = os.getpid(), set[int]()
    while pid > 0 and pid not in found and len(found) < _ANCESTORS_MAX:
        found.add(pid)
        stat = stat_of(pid)
        pid = stat.parent if stat is not None else 0
    return frozenset(found)


def own_markers(fleet: str) -> frozenset[tuple[str, int]]:
    """Service and index of each instance of `fleet` that this very process runs inside of."""
    found = (_marker_of(pid, _needle(fleet)) for pid in own_line())
    return frozenset((marker.service, marker.slot) for marker in found if marker is not None)


class ProcessTable:
    """One look at all processes: who lives, who is in whose session, who carries a marker of our fleet."""

    def __init__(self, stats: Iterable[Stat], marked: Iterable[Marked]) -> None:
        self._stats = {stat.pid: stat for stat in stats}
        self._sessions: dict[int, list[Stat]] = {}
        self._marked: dict[tuple[str, int], list[Marked]] = {}
        for stat in self._stats.values():
            if stat.lives:
                self._sessions.setdefault(stat.session, []).append(stat)
        for one in marked:
            self._marked.setdefault((one.marker.service, one.marker.slot), []).append(one)

    def living(self, who: ProcessId | None) -> Stat | None:
        """The process, if it is still that very one and has not ended."""
        stat = self.present(who)
        return stat if stat is not None and stat.lives else None

    def present(self, who: ProcessId | None) -> Stat | None:
        """As `living`, but a zombie counts: its pid cannot be anybody else's yet."""
        stat = self._stats.get(who.pid) if who is not None else None
        return stat if stat is not None and stat.id == who else None

    def session(self, leader: int) -> list[Stat]:
        """All live processes of that session."""
        return self._sessions.get(leader, [])

    def marked(self, service: str, index: int) -> list[Marked]:
        """All live processes that carry the marker of that slot, whatever the key."""
        return self._marked.get((service, index), [])

    def services(self) -> frozenset[str]:
        """Services that live processes name."""
        return frozenset(name for name, _ in self._marked)

    def indices(self, service: str) -> frozenset[int]:
        """Slots of the service that live processes name."""
        return frozenset(index for name, index in self._marked if name == service)


def scan(fleet: str) -> ProcessTable:
    """Look at all processes now.  A few milliseconds; nothing is remembered from one look to the next.

    Raises Retryable if the kernel could not be asked about all of them.
    """
    needle = _needle(fleet)
    stats, marked = [], []
    for pid in _pids():
        stat = stat_of(pid)
        if stat is None:
            continue
        stats.append(stat)
        # A kernel thread is in no session; everything of ours is in one that we made.
        marker = _marker_of(pid, needle) if stat.lives and stat.session else None
        if marker is not None and (again := stat_of(pid)) is not None and again.id == stat.id:
            marked.append(Marked(stat, marker))
    return ProcessTable(stats, marked)


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names, and many of them
    except OSError as error:
        raise Retryable(f"/proc cannot be read: {error.strerror}", code="kernel_unreadable") from error


def _needle(fleet: str) -> bytes:
    return f"\0{MARKER_VARIABLE}={fleet}/".encode()


def _marker_of(pid: int, needle: bytes) -> Marker | None:
    environment = b"\0" + _read(f"/proc/{pid}/environ")
    start = environment.find(needle)
    if start < 0:
        return None
    value = environment[start + 2 + len(MARKER_VARIABLE) :].partition(b"\0")[0]
    return Marker.parse(value.decode("utf-8", "surrogateescape"))


def _read(path: str) -> bytes:
    """The whole of a small kernel file; empty if its process is gone or it is not ours to read.

    Raises Retryable for any other reason: that this plane has run out of descriptors must not look like a death.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            while part := os.read(descriptor, 65536):
                parts.append(part)
            return b"".join(parts)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
    except OSError as error:
        raise Retryable(f"{path} cannot be read: {error.strerror}", code="kernel_unreadable") from error
