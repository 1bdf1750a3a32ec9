"""Four daemon threads that ask, for the whole process.

A transport may hang in ways that no time-out of its own ends.  Here a call that hangs keeps its slot and nothing else:
the batch that waited for it goes on without it, and the process can end at any time.  Nothing is ever asked twice.
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
    """At most SLOTS calls are in flight."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[object], Callable[[], object]]] = queue.SimpleQueue()
        self._lock = Lock()
        self._started = False

    def ask(self, calls: Sequence[Callable[[], T]]) -> list[Future[T]]:
        """Begin these calls, in order, as slots become free.  A cancelled one that has not begun never begins."""
        with self._lock:
            if not self._started:
                for number in range(SLOTS):
                    Thread(target=self._serve, name=f"signals-{number}", daemon=True).start()
                self._started = True
        futures: list[Future[T]] = []
        for call in calls:
            future: Future[T] = Future()
            self._jobs.put((future, call))  # type: ignore[arg-type]
            futures.append(future)
        return futures

    def _serve(self) -> None:
        while True:
            future, call = self._jobs.get()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 -- it is the caller's to judge
                future.set_exception(error)


ASKERS = Askers()
