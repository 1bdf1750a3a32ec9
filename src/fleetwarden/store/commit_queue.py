"""Who runs on the one write connection, and when.

A caller that finds the connection free and nobody waiting runs at once, on its own thread.  Otherwise it waits, and a
writer thread takes up to `GROUP_MAX` waiting jobs at a time and runs them as one group: under load one commit, one
fsync, serves them all.  Nobody waits for company: a group is whatever gathered during the last, and those whom the
last one answered get one turn to come back with their next.
A job is answered once its group is over, never before.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from fleetwarden.domain.errors import StoreUnavailable
from fleetwarden.ports.stores import Tx

__all__ = ["GROUP_MAX", "CommitQueue", "Job"]

GROUP_MAX = 64
_TURN_S = 1e-6
WAITING_MAX = 10_000  # far beyond any thread count; a bound all the same


class Job:
    """One caller's transaction: what to run, and afterwards its value or its error."""

    def __init__(self, name: str, fn: Callable[[Tx], Any]) -> None:
        self.name = name
        self.fn = fn
        self.value: Any = None
        self.error: BaseException | None = None
        self.releases: Sequence[Callable[[], None]] = ()
        self.spent_s = 0.0
        self.answered: threading.Lock | None = None  # held until its group is over; only for those that wait


class CommitQueue:
    """Hands jobs to `run`, one group at a time.

    `run` gives every job of its group a value or an error, and should not raise.  `rest` is called between groups
    when nobody waits, while the connection is still ours.
    """

    def __init__(self, run: Callable[[Sequence[Job]], None], rest: Callable[[], None]) -> None:
        self._run = run
        self._rest = rest
        self._changed = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._busy = False
        self._closed = False
        self._writer: threading.Thread | None = None
        self._turn = threading.Lock()  # never free: to wait for it is to let other threads run
        self._turn.acquire()

    def submit(self, job: Job) -> None:
        """Run the job, here or on the writer thread; returns when its group is over.  Raises StoreUnavailable."""
        with self._changed:
            if self._closed:
                raise StoreUnavailable("the store is closed")
            inline = not self._busy and not self._waiting
            if inline:
                self._busy = True
            else:
                self._enqueue(job)
        if inline:
            self._run_group([job])
        else:
            assert job.answered is not None
            job.answered.acquire()

    def close(self) -> None:
        """Take no more jobs, finish those that wait, and return when the connection is free for good."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._busy and not self._waiting)
            writer = self._writer
        if writer is not None:
            writer.join()

    def _enqueue(self, job: Job) -> None:
        if len(self._waiting) >= WAITING_MAX:
            raise StoreUnavailable(f"{WAITING_MAX} transactions wait for the database already")
        job.answered = threading.Lock()  # a bare lock: an event costs several times as much to make, set and wait for
        job.answered.acquire()
        self._waiting.append(job)
        if self._writer is None:
            self._writer = threading.Thread(target=self._write, name="store-writer", daemon=True)
            self._writer.start()

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._busy and (bool(self._waiting) or self._closed))
                if not self._waiting:
                    return
                self._busy = True
                group = [self._waiting.popleft() for _ in range(min(GROUP_MAX, len(self._waiting)))]
            self._run_group(group)
            self._turn.acquire(timeout=_TURN_S)

    def _run_group(self, group: Sequence[Job]) -> None:
        """Run them, answer them, then tidy up if nobody waits; whatever happens, the connection is free after."""
        try:
            try:
                self._run(group)
            except BaseException as error:
                for job in group:
                    job.error = job.error or error
                if group[0].answered is None:
                    raise
            finally:
                for job in group:
                    if job.answered is not None:
                        job.answered.release()
            if not self._waiting:
                self._rest()
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
