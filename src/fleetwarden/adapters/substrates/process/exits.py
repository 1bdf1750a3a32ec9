"""Knowing at once that an instance has ended, and how.

One thread waits on a pidfd for each watched process, ours by birth or adopted, so that a death is known in well under a
millisecond and not at the next pass.  Only a parent can learn an exit status: a child of this process is waited for by
its own pid (never "any child", which would steal others' children); of everything else only the end is known and is
told as `exit unknown`, never as success or failure.  Where the kernel has no pidfd to give, the thread looks five times
a second instead.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock, Thread

import msgspec
import structlog

from fleetwarden.adapters.substrates.process.proc import ProcessId, stat_of
from fleetwarden.domain.errors import FleetError

__all__ = ["EXIT_UNKNOWN", "Ended", "Exits"]

log = structlog.get_logger(__name__)
EXIT_UNKNOWN = "exit unknown"
_REMEMBERED_MAX = 4096  # ends of processes, oldest forgotten first
_POLL_MS = 200  # for processes without a pidfd


class Ended(msgspec.Struct, frozen=True):
    """One watched process that has ended: which slot it was of, and how it ended, in words."""

    service: str
    index: int
    process: ProcessId
    how: str


class _Watched(msgspec.Struct):
    service: str
    index: int
    pidfd: int | None


class Exits:
    """Watches processes until they end.  `on_end` is called once for each, from the watching thread."""

    def __init__(self, on_end: Callable[[Ended], None], *, pidfds: bool = True) -> None:
        self._on_end = on_end
        self._pidfds = pidfds
        self._lock = Lock()
        self._watched: dict[ProcessId, _Watched] = {}
        self._by_pidfd: dict[int, ProcessId] = {}
        self._known: OrderedDict[ProcessId, str] = OrderedDict()
        self._news: list[Ended] = []
        self._poll = select.poll()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._wake, select.POLLIN)
        self._thread: Thread | None = None
        self._closing = False

    def watch(self, process: ProcessId, service: str, index: int) -> None:
        """Watch from now on; a second time is no matter.  A process that is gone already is told of like any other."""
        with self._lock:
            if self._closing or process in self._watched or process in self._known:
                return
            pidfd = self._pin(process)
            self._watched[process] = _Watched(service, index, pidfd)
            if pidfd is not None:
                self._by_pidfd[pidfd] = process
                self._poll.register(pidfd, select.POLLIN)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="process-exits", daemon=True)
                self._thread.start()
        self._nudge()

    def how(self, process: ProcessId) -> str | None:
        """How a process ended, or None if it lives or was never watched.  Looks by itself, ahead of the thread."""
        with self._lock:
            if process in self._watched:
                self._look_at_all([process])
            told = self._known.get(process)
        if told is not None:
            self._nudge()
        return told

    def close(self) -> None:
        """Stop watching.  Ends no process."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
        self._nudge()
        if self._thread is not None:
            self._thread.join(timeout=5)
        with self._lock:
            for watched in self._watched.values():
                if watched.pidfd is not None:
                    os.close(watched.pidfd)
            self._watched.clear()
            self._by_pidfd.clear()
            os.close(self._wake)
            self._wake = -1

    def _run(self) -> None:
        while True:
            with self._lock:
                unpinned = any(one.pidfd is None for one in self._watched.values())
            ready = self._poll.poll(_POLL_MS if unpinned else None)
            with self._lock:
                if self._closing:
                    return
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._wake)
                found = [self._by_pidfd[fd] for fd, _ in ready if fd in self._by_pidfd]
                found += [process for process, one in self._watched.items() if one.pidfd is None]
                blind = not self._look_at_all(found)
                news, self._news = self._news, []
            for ended in news:
                self._tell(ended)
            if blind:
                time.sleep(_POLL_MS / 1000)  # the pidfd stays readable: without a pause this would spin

    def _look_at_all(self, processes: list[ProcessId]) -> bool:
        """Look at each; false if the kernel could not be asked.  Called with the lock held."""
        try:
            for process in processes:
                self._look(process)
        except FleetError as error:
            log.warning("ends of processes cannot be told", error=str(error))
            return False
        return True

    def _tell(self, ended: Ended) -> None:
        try:
            self._on_end(ended)
        except Exception:  # a listener's fault must not make this thread deaf to every later death
            log.exception("listener failed", service=ended.service, index=ended.index)

    def _nudge(self) -> None:
        with self._lock:
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def _pin(self, process: ProcessId) -> int | None:
        if not self._pidfds:
            return None
        try:
            pidfd = os.pidfd_open(process.pid)
        except OSError:
            return None
        with contextlib.suppress(FleetError):
            stat = stat_of(process.pid)
            if stat is not None and stat.id == process:
                return pidfd
        os.close(pidfd)  # the pid is somebody else's by now, or that cannot be told: looking at it will show
        return None

    def _look(self, process: ProcessId) -> None:
        """Take note if it has ended.  Called with the lock held."""
        how = _ending_of(process)
        if how is None:
            return
        watched = self._watched.pop(process)
        if watched.pidfd is not None:
            del self._by_pidfd[watched.pidfd]
            self._poll.unregister(watched.pidfd)
            os.close(watched.pidfd)
        self._known[process] = how
        while len(self._known) > _REMEMBERED_MAX:
            self._known.popitem(last=False)
        self._news.append(Ended(watched.service, watched.index, process, how))


def _ending_of(process: ProcessId) -> str | None:
    """How it ended, or None while it lives; a child of ours is reaped on the way."""
    stat = stat_of(process.pid)
    if stat is None or stat.id != process:
        return EXIT_UNKNOWN
    if stat.lives:
        return None
    try:
        pid, status = os.waitpid(process.pid, os.WNOHANG)
    except ChildProcessError:  # somebody else's
        return EXIT_UNKNOWN
    if pid == 0:  # a thread of it still ends; the next look will find it done
        return None
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = f" ({signal.Signals(-code).name})"
    except ValueError:  # a real-time signal
        name = ""
    return f"killed by signal {-code}{name}"
