"""Backtest: a recorded load against a scaling block, evaluated by the code that evaluates live.

Stretches in which nothing wants to change are evaluated at once, a tick a row; wherever a direction shows, tick by tick,
with streaks, windows, rates and cooldown as the autoscaler keeps them.  A recommendation is carried out at once: what a
real fleet needs to start is not played.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fleetwarden.domain.actions import Record
from fleetwarden.domain.cooldown import CooldownState, cooldown
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.domain.recommendation import with_rates
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.domain.signals import Aggregation
from fleetwarden.domain.tracking import evaluate, new_memory
from fleetwarden.domain.tracking_columns import BlockTable, Reason, Seen, Words, compile_blocks
from fleetwarden.domain.tracking_memory import Memory
from fleetwarden.lab.recordings import Recording

__all__ = ["Action", "Backtest", "backtest"]

STRETCH = 4096
CHANGES_KEPT_S = 1800.0


class Action(Record):
    """One change of the count.  `at`: seconds, on the recording's scale."""

    at: float
    before: int
    after: int


class Backtest(Record):
    """`replicas`: the count at each time of the recording, after its tick; `needed`: what the equation asked for, -1
    where there was no sample.  Times in seconds."""

    actions: tuple[Action, ...]
    replicas: tuple[int, ...]
    needed: tuple[int, ...]
    replica_hours: float
    under_provisioned_s: float  # fewer replicas than the load needed, with the block's maximum as its limit
    over_provisioned_s: float
    reversals: int  # changes that turn the one before round
    no_sample_s: float

    @property
    def ups(self) -> int:
        return sum(one.after > one.before for one in self.actions)

    @property
    def downs(self) -> int:
        return len(self.actions) - self.ups


def backtest(
    block: ScalingBlock,
    recording: Recording,
    aggregation: Mapping[str, Aggregation],
    *,
    replicas: int | None = None,
) -> Backtest:
    """Play the recording.  `replicas`: the count at the start, by default the block's minimum (at least 1)."""
    run = _Run(block, recording, aggregation, max(1, block.min) if replicas is None else replicas)
    run.play()
    return run.result()


class _Run:
    def __init__(
        self, block: ScalingBlock, recording: Recording, aggregation: Mapping[str, Aggregation], replicas: int
    ) -> None:
        self._block = block
        self._times = np.array(recording.times, np.float64)
        self._values = [np.array(recording.values[one.signal], np.float64) for one in block.signals]
        self._per_replica = [aggregation.get(one.signal) is Aggregation.PER_REPLICA for one in block.signals]
        self._one: BlockTable = compile_blocks([("", block)])
        self._many: dict[int, BlockTable] = {}
        self._memory: Memory = new_memory(self._one)
        self._current = replicas
        self._last: Micros | None = None
        self._actions: list[Action] = []
        self._count = np.zeros(len(self._times), np.int64)
        self._needed = np.full(len(self._times), -1, np.int64)

    def play(self) -> None:
        """All ticks."""
        windowed = bool(len(self._memory.windowed)) or bool(self._block.schedules)
        place, total = 0, len(self._times)
        while place < total:
            if windowed:
                self._tick(place)
                place += 1
                continue
            place = self._stretch(place, min(place + STRETCH, total))

    def _stretch(self, first: int, end: int) -> int:
        """Evaluate until the count changes or the stretch ends; returns where to go on."""
        size = end - first
        table = self._many.get(size)
        if table is None:
            table = self._many[size] = compile_blocks([(str(n), self._block) for n in range(size)])
        seen = self._seen(table, first, end)
        found = evaluate(table, seen, new_memory(table), 0)
        quiet = found.streak == 0
        self._needed[first:end] = np.where(found.reason == Reason.SKIP_METRICS, -1, found.raw)
        restless = np.flatnonzero(~quiet)
        place = first
        for row in restless:
            at = first + int(row)
            if at > place:  # what is quiet in between starts a row of samples anew
                self._memory.streak[0], self._memory.count[0] = 0, 0
                self._count[place:at] = self._current
            before = self._current
            self._tick(at)
            place = at + 1
            if self._current != before:
                return place
        if place < end:
            self._memory.streak[0], self._memory.count[0] = 0, 0
            self._count[place:end] = self._current
        return end

    def _tick(self, place: int) -> None:
        """One tick, as the autoscaler makes it."""
        now = int(self._times[place] * SECOND)
        seen = self._seen(self._one, place, place + 1)
        found = evaluate(self._one, seen, self._memory, now)
        reason = Reason(int(found.reason[0]))
        self._needed[place] = -1 if reason is Reason.SKIP_METRICS else int(found.raw[0])
        desired, reason = with_rates(
            self._block, self._current, int(found.desired[0]), reason, self._changes(self._times[place])
        )
        if desired != self._current and self._may(now, up=desired > self._current):
            self._actions.append(Action(at=float(self._times[place]), before=self._current, after=desired))
            self._current, self._last = desired, now
            self._memory.consume([0])
        self._count[place] = self._current

    def _may(self, now: Micros, *, up: bool) -> bool:
        last = self._last
        if last is not None and last <= 0:
            last, now = 1, now + 1 - last  # a recording may begin at time 0
        return cooldown(last, now, self._block.cooldown_s(up=up)).state is CooldownState.OVER

    def _changes(self, now: float) -> Sequence[tuple[float, int]]:
        recent = (one for one in reversed(self._actions) if now - one.at < CHANGES_KEPT_S)
        return [(now - one.at, one.after - one.before) for one in recent]

    def _seen(self, table: BlockTable, first: int, end: int) -> Seen:
        seen = Seen.blank(table)
        seen.current[:] = seen.ready[:] = seen.existing[:] = self._current
        seen.status[:] = Words.UP
        width = len(self._values)
        for number, (values, per_replica) in enumerate(zip(self._values, self._per_replica, strict=True)):
            part = values[first:end]
            seen.value[number::width] = part
            seen.fault[number::width] = np.where(np.isfinite(part), 0, 1)
            seen.per_replica[number::width] = per_replica
        return seen

    def result(self) -> Backtest:
        """The sums.  Each tick's state holds until the next tick."""
        spans = np.append(np.diff(self._times), 0.0)
        wanted = np.clip(self._needed, self._block.min, self._block.max)
        sampled = self._needed >= 0
        under = sampled & (self._count < wanted)
        over = sampled & (self._count > wanted)
        turns = sum(
            math.copysign(1, later.after - later.before) != math.copysign(1, one.after - one.before)
            for one, later in zip(self._actions, self._actions[1:], strict=False)
        )
        return Backtest(
            actions=tuple(self._actions),
            replicas=tuple(int(one) for one in self._count),
            needed=tuple(int(one) for one in self._needed),
            replica_hours=float((self._count * spans).sum() / 3600),
            under_provisioned_s=float(spans[under].sum()),
            over_provisioned_s=float(spans[over].sum()),
            reversals=turns,
            no_sample_s=float(spans[~sampled].sum()),
        )
