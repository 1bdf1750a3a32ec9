"""Somebody besides us: scales and stops services on the substrate, sets and clears overrides, answers what is held.

Only in every fourth history, with chances of their own, so that the others stay what they were.  Each touch of the
substrate is an event for the auditor, which knows nothing of how the product finds it.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from fleetwarden.app.identity import local_admin
from fleetwarden.app.wishes import Wishes
from tests.simulation.plane import SimPlane

if TYPE_CHECKING:
    from tests.simulation.history import History

__all__ = ["Others"]

EVERY, CHANCE = 4, 0.25


class Others:
    """`busy`: whether there is anybody in this history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._rng = Random(history.plan.seed ^ 0x07E2)
        self.busy = history.plan.seed % EVERY == EVERY - 1

    def act(self) -> bool:
        """Perhaps somebody does something; returns whether."""
        rng, history = self._rng, self._history
        if not self.busy or rng.random() >= CHANCE:
            return False
        service = rng.choice(history.plan.services)
        what = rng.choice(("scale", "scale", "stop", "set", "set", "clear", "adopt", "reassert"))
        if what in ("scale", "stop"):
            self._touch(what, service.name, service.substrate)
        elif history.planes:
            plane, act = rng.choice(history.planes), getattr(self, what)
            history.people.spawn(plane, what, lambda: act(plane, service.name))
        if rng.random() < 0.7:
            history.wake()
        return True

    def _touch(self, what: str, name: str, substrate: str) -> None:
        self._history.journal.event("other", target=name, what=what)
        if what == "stop":
            self._history.substrates[substrate].stopped(name, by="joe")
        else:
            self._history.substrates[substrate].scaled(name, self._rng.randint(1, 4), by="joe")

    def _wishes(self, plane: SimPlane) -> Wishes:
        return Wishes(plane.store, self._history.files, plane.wakes)

    def set(self, plane: SimPlane, name: str) -> None:
        rng = self._rng
        count, state = rng.choice(((rng.randint(0, 4), None), (None, "stopped"), (2, "running")))
        for_s = rng.choice((None, 5.0, 60.0))
        self._wishes(plane).put_override(local_admin(), name, replicas=count, state=state, for_s=for_s, reason="so")

    def clear(self, plane: SimPlane, name: str) -> None:
        self._wishes(plane).clear_override(local_admin(), name, reason="")

    def adopt(self, plane: SimPlane, name: str) -> None:
        self._wishes(plane).adopt(local_admin(), name, reason="")

    def reassert(self, plane: SimPlane, name: str) -> None:
        self._wishes(plane).reassert(local_admin(), name, reason="")

    def give_way(self, plane: SimPlane) -> None:
        """In the end the files count again."""
        history = self._history
        overrides, changes = history.engine.read(lambda tx: (tx.service_overrides.standing(), tx.foreign.standing()))
        for name in sorted({one.service for one in overrides}):
            history.people.attempt(partial(self.clear, plane, name))
        for name in sorted({one.service for one in changes}):
            history.people.attempt(partial(self.reassert, plane, name))
