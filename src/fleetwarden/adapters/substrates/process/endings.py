"""Ending instances: ask, wait, insist, and make sure that nothing of them is left.

SIGTERM goes to each instance's process group, and singly to whatever of it lives outside of that group; after the grace
time SIGKILL follows.  An instance counts as ended only when every process that is proven to be its own is gone, those
included that outlived their leader.  No signal is begun at or after the call's deadline, and SIGKILL is brought forward
so that there is time to see what it did.  What is not proven to belong to the slot is never signalled.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from threading import Event

import msgspec

from fleetwarden.adapters.substrates.process.census import family
from fleetwarden.adapters.substrates.process.proc import ProcessId, ProcessTable, Stat, scan, stat_of
from fleetwarden.adapters.substrates.process.signalling import Signaller, may_signal
from fleetwarden.domain.errors import FleetError
from fleetwarden.ports.system import Clock

__all__ = ["KILL_WAIT_S", "Ending", "Endings"]

KILL_WAIT_S = 3.0  # after SIGKILL only an uninterruptible system call keeps a process
_STEP_FIRST_S = 0.005
_STEP_MAX_S = 0.05


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How far it came.  `signalled`: processes that were sent anything; `killed`: those that needed SIGKILL;
    `remaining`: those that still live; `trouble`: why one could not be signalled.
    """

    signalled: tuple[int, ...] = ()
    killed: tuple[int, ...] = ()
    remaining: tuple[int, ...] = ()
    trouble: str = ""

    @property
    def complete(self) -> bool:
        return not self.remaining


class Endings:
    """Ends all that lives in some slots of one service, at the same time."""

    def __init__(self, clock: Clock, fleet: str, signaller: Signaller) -> None:
        self._clock = clock
        self._fleet = fleet
        self._signaller = signaller

    def of(self, service: str, recorded: Mapping[int, ProcessId | None], table: ProcessTable) -> dict[ProcessId, Stat]:
        """All live processes of these slots; `recorded`: the process that each slot's file names on this boot."""
        found: dict[ProcessId, Stat] = {}
        for index, process in recorded.items():
            found |= family(service, index, process, table)
        return found

    def end(self, service: str, recorded: Mapping[int, ProcessId | None], *, grace_s: float, deadline: float) -> Ending:
        """End them.  `grace_s`: from SIGTERM to SIGKILL; `deadline`: on the monotonic clock.

        Raises Refused (`self_target`) or Retryable before anything is signalled, and nothing after that.
        """
        alive = self.of(service, recorded, scan(self._fleet))
        for stat in alive.values():
            may_signal(stat)
        begun = self._clock.monotonic()
        if not alive or begun >= deadline:
            return Ending(remaining=_pids(alive))
        hunt = _Hunt(self._signaller)
        kill_at = min(begun + grace_s, deadline - min(KILL_WAIT_S, (deadline - begun) / 2))
        give_up = min(deadline, kill_at + KILL_WAIT_S)
        hunt.send(alive.values(), signal.SIGTERM)
        step, never = _STEP_FIRST_S, Event()
        while True:
            now = self._clock.monotonic()
            try:
                still = _still(alive)
                if not still or now >= kill_at:  # what they started in the meantime is found by session and marker
                    still |= self.of(service, recorded, scan(self._fleet))
                alive = still
            except FleetError as error:  # the kernel cannot be asked: as far as one knows, they live on
                hunt.trouble = error.message
            if not alive or now >= give_up:
                return hunt.ending(alive)
            if now >= kill_at:
                hunt.send(alive.values(), signal.SIGKILL)
            until = give_up if now >= kill_at else kill_at
            self._clock.wait(never, min(step, until - now))
            step = min(step * 2, _STEP_MAX_S)


class _Hunt:
    """What was sent to whom."""

    def __init__(self, signaller: Signaller) -> None:
        self._signaller = signaller
        self._signalled: dict[int, None] = {}
        self._killed: dict[int, None] = {}
        self.trouble = ""

    def send(self, stats: Iterable[Stat], number: signal.Signals) -> None:
        """To every group whose leader is among them, and singly to all that no group signal reached."""
        reached: set[int] = set()
        for stat in sorted(stats, key=lambda stat: (stat.group != stat.pid, stat.ticks)):
            leads = stat.group == stat.pid
            if leads or stat.group not in reached:
                if not self._sent(stat, number, group=leads):
                    continue
                if leads:
                    reached.add(stat.group)
            self._note(stat, number)

    def _sent(self, stat: Stat, number: signal.Signals, *, group: bool) -> bool:
        try:
            return self._signaller.send(stat, number, group=group)
        except FleetError as error:
            self.trouble = error.message
            return False

    def _note(self, stat: Stat, number: signal.Signals) -> None:
        self._signalled[stat.pid] = None
        if number == signal.SIGKILL:
            self._killed[stat.pid] = None

    def ending(self, alive: Mapping[ProcessId, Stat]) -> Ending:
        return Ending(
            signalled=tuple(self._signalled),
            killed=tuple(self._killed),
            remaining=_pids(alive),
            trouble=self.trouble,
        )


def _still(stats: Mapping[ProcessId, Stat]) -> dict[ProcessId, Stat]:
    """Those that live on, as they are now."""
    found = ((process, stat_of(process.pid)) for process in stats)
    return {process: stat for process, stat in found if stat is not None and stat.id == process and stat.lives}


def _pids(stats: Mapping[ProcessId, Stat]) -> tuple[int, ...]:
    return tuple(sorted(process.pid for process in stats))
