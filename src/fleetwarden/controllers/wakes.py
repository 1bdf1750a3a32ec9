"""Wake-ups between controllers: a name, never a message.

A wake-up says that there may be something to do; the pass that follows reads everything again.  Losing one costs time
up to the next interval and nothing else, so nothing here is durable.  Where several planes share a store, what a commit
wakes is rung in the others too; what was heard from another is never rung again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from threading import Event

__all__ = ["Wakes"]


class Wakes:
    """One event per controller name."""

    def __init__(self) -> None:
        self._events: dict[str, Event] = {}
        self._ring: Callable[[str], None] | None = None
        self._along: Mapping[str, Sequence[str]] = {}
        self._hears: frozenset[str] = frozenset()

    def connect(
        self, ring: Callable[[str], None] | None, along: Mapping[str, Sequence[str]], hears: Collection[str]
    ) -> None:
        """Ring what is woken everywhere in the other planes too.

        `along`: who is woken with whom, in this plane; `hears`: the controllers that others may wake.
        """
        self._ring, self._along, self._hears = ring, along, frozenset(hears)

    def event(self, name: str) -> Event:
        return self._events.setdefault(name, Event())

    def wake(self, name: str) -> None:
        """Wake it in this plane."""
        self.event(name).set()
        for other in self._along.get(name, ()):
            self.event(other).set()

    def everywhere(self, name: str) -> None:
        """Wake it in every plane."""
        self.wake(name)
        if self._ring is not None:
            self._ring(name)

    def heard(self, name: str) -> None:
        """Another plane rang; "" if something may have been missed, so that everybody looks."""
        for one in {name} & self._hears if name else self._hears:
            self.event(one).set()

    def waker(self, name: str) -> Callable[[], None]:
        """A call to hand to `tx.after_commit`."""
        return partial(self.everywhere, name)
