"""A bounded number of connections, lent out one at a time.

The last one given back is lent first, so that a quiet plane keeps few alive.  Who finds all of them lent waits for a
bounded time and is then refused: a full pool is a fault to see, not a queue to hide it in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from fleetwarden.domain.errors import StoreUnavailable

__all__ = ["Pool"]

C = TypeVar("C")


class Pool(Generic[C]):
    """Lends connections made by `connect`, at most `size` at once; waits at most `wait_s` seconds for one."""

    def __init__(self, connect: Callable[[], C], disconnect: Callable[[C], None], *, size: int, wait_s: float) -> None:
        self._connect = connect
        self._disconnect = disconnect
        self._size = size
        self._wait_s = wait_s
        self._free_places = threading.BoundedSemaphore(size)
        self._mutex = threading.Lock()
        self._idle: list[C] = []
        self._closed = False

    def take(self, *, fresh: bool = False) -> C:
        """Borrow one; `fresh`: a new one, and those that lie idle are dropped (they are as stale as the last was).

        Raises StoreUnavailable when the pool is closed or exhausted, and what `connect` raises.
        """
        if not self._free_places.acquire(timeout=self._wait_s):
            raise StoreUnavailable(f"all {self._size} connections to the database have been busy for {self._wait_s} s")
        try:
            with self._mutex:
                if self._closed:
                    raise StoreUnavailable("the store is closed")
                stale = self._drop_idle() if fresh else []
                connection = self._idle.pop() if self._idle else None
            for each in stale:
                self._disconnect(each)
            return self._connect() if connection is None else connection
        except BaseException:
            self._free_places.release()
            raise

    def give_back(self, connection: C, *, sound: bool) -> None:
        """Return it.  One that is not sound (broken, or in an unknown state) is closed and not lent again."""
        with self._mutex:
            keep = sound and not self._closed
            if keep:
                self._idle.append(connection)
        if not keep:
            self._disconnect(connection)
        self._free_places.release()

    def close(self) -> None:
        """Close the idle ones now, and lent ones as they come back."""
        with self._mutex:
            self._closed = True
            idle = self._drop_idle()
        for each in idle:
            self._disconnect(each)

    def _drop_idle(self) -> list[C]:
        idle, self._idle = self._idle, []
        return idle
