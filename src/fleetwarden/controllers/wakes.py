"""Wake-ups between controllers: a name, never a message.

A wake-up says that there may be something to do; the pass that follows reads everything again.  Losing one costs time
up to the next interval and nothing else, so nothing here is durable.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

__all__ = ["Wakes"]


class Wakes:
    """One event per controller name."""

    def __init__(self) -> None:
        self._events: dict[str, Event] = {}

    def event(self, name: str) -> Event:
        return self._events.setdefault(name, Event())

    def wake(self, name: str) -> None:
        self.event(name).set()

    def waker(self, name: str) -> Callable[[], None]:
        """A call to hand to `tx.after_commit`."""
        return self.event(name).set
