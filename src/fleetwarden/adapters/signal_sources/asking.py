"""Daemon threads that ask: at most four, which the sources of a deployment share out; begun when one is asked first.

A transport may hang in ways that no time-out of its own ends.  Here a call that hangs keeps a slot of its own source
and nothing else: the batch that waited for it goes on without it, no other source waits behind it, and the process can
end at any time.  Nothing is ever asked twice.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Lock, Thread
from typing import TypeVar

__all__ = ["SLOTS", "Askers"]

T = TypeVar("T")
SLOTS = 4


class Askers:
    """One source's: at most `slots` of its calls are in flight (1 to SLOTS).  `name`: of its threads."""

    def __init__(self, name: str = "", slots: int = SLOTS) -> None:
        self._name = name
        self._slots = max(1, min(slots, SLOTS))
        self._jobs: queue.SimpleQueue[tuple[Future[object], Callable[[], object]] | None] = queue.SimpleQueue()
        self._lock = Lock()
        self._started = False

    def ask(self, calls: Sequence[Callable[[], T]]) -> list[Future[T]]:
        """Begin these calls, in order, as slots become free.  A cancelled one that has not begun never begins."""
        with self._lock:
            if not self._started:
                for number in range(self._slots):
                    Thread(target=self._serve, name=f"signals-{self._name}-{number}", daemon=True).start()
                self._started = True
        futures: list[Future[T]] = []
        for call in calls:
            future: Future[T] = Future()
            self._jobs.put((future, call))  # type: ignore[arg-type]
            futures.append(future)
        return futures

    def close(self) -> None:
        """Let the threads end: those that are free now, one that hangs when its call is over."""
        with self._lock:
            started, self._started = self._started, False
        for _ in range(self._slots if started else 0):
            self._jobs.put(None)

    def _serve(self) -> None:
        while self._answered():
            pass

    def _answered(self) -> bool:
        """Wait for one job and do it; False once there is no further one.

        A call of its own for each: a thread that waits keeps no answer of ten thousand series alive until the next one.
        """
        job = self._jobs.get()
        if job is None:
            return False
        future, call = job
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 -- it is the caller's to judge
                future.set_exception(error)
        return True
