"""Backtest: a recorded load against a `scaling:` block, evaluated as a running plane evaluates it.

Equation, windows, samples in a row, steps, rates and cooldown are the product's own; a tick here is a tick there, with
what the recording has for it in hand.  A recommendation is carried out at once, whatever a policy, a freeze or a quota
would say: those are not played.  New replicas may take a while to be ready.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fleetwarden.domain.cooldown import CooldownState, cooldown
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.domain.recommendation import with_rates
from fleetwarden.domain.sample_use import Use, use_of
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.domain.signals import Aggregation
from fleetwarden.domain.tracking_columns import Reason, Words, ceil_exact
from fleetwarden.domain.tracking_single import Glance, Single
from fleetwarden.lab.recordings import Ticks

__all__ = ["Action", "Backtest", "Load", "backtest", "load_of"]

CHANGES_KEPT_US: Final[Micros] = 1800 * SECOND  # the longest period that `behavior` can have
HOUR_S: Final = 3600.0

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Load:
    """What had to be carried at each tick.  `totals`: by signal, of all replicas together, NaN for no sample; `needed`:
    the replicas that the equation asks for, by the targets of one block, -1 where no signal has a sample."""

    ticks: Ticks
    totals: Mapping[str, Floats]
    per_replica: frozenset[str]
    needed: Ints


@dataclass(frozen=True, slots=True)
class Action:
    """One change of the count, and the reason that asked for it."""

    at: Micros
    before: int
    after: int
    reason: str

    @property
    def up(self) -> bool:
        return self.after > self.before


@dataclass(frozen=True, slots=True)
class Backtest:
    """`replicas`: the count after each tick, `ready`: those of them that carry load.

    Seconds and replica-hours are sums over ticks, each of which lasts until the next.  `short_s`: fewer ready replicas
    than the load needed, whatever the block's maximum says; `at_max_s`: as much of it with the maximum reached;
    `reversals`: changes that turn the change before round; `reasons`: ticks by reason.
    """

    block: ScalingBlock
    first: int
    actions: tuple[Action, ...]
    replicas: Ints
    ready: Ints
    replica_hours: float
    short_s: float
    short_replica_hours: float
    idle_replica_hours: float
    at_max_s: float
    unknown_s: float
    reversals: int
    highest: int
    lowest: int
    reasons: Mapping[str, int]

    @property
    def ups(self) -> int:
        return sum(one.up for one in self.actions)

    @property
    def downs(self) -> int:
        return len(self.actions) - self.ups


def load_of(
    ticks: Ticks, block: ScalingBlock, aggregation: Mapping[str, Aggregation], recorded_replicas: int | None = None
) -> Load:
    """The load behind the recorded values; `block`: whose targets say what is needed.

    An average over replicas says what there was to carry only together with their number: that of the recording, else
    `recorded_replicas`.  Raises Misconfigured where neither is known.
    """
    per_replica = frozenset(name for name in ticks.values if aggregation.get(name) is Aggregation.PER_REPLICA)
    totals: dict[str, Floats] = {}
    for name, values in ticks.values.items():
        if name not in per_replica:
            totals[name] = values
        elif ticks.replicas is not None:
            totals[name] = values * np.maximum(ticks.replicas, 1.0)
        elif recorded_replicas is not None:
            totals[name] = values * max(recorded_replicas, 1)
        else:
            raise Misconfigured(
                f"{name} is an average over replicas, and nothing says over how many it was recorded",
                hint="add a column replicas, or give --recorded-replicas N if there were always as many",
            )
    needed = np.full(len(ticks.times), -1, np.int64)
    for one in block.signals:
        column = totals[one.signal]
        asked = np.where(np.isnan(column), -1, ceil_exact(column / one.target))
        needed = np.maximum(needed, asked)
    return Load(ticks=ticks, totals=totals, per_replica=per_replica, needed=needed)


def backtest(block: ScalingBlock, load: Load, *, replicas: int | None = None, ready_after_s: float = 0.0) -> Backtest:
    """Play the load.

    `replicas`: the count at the start, by default what the first sample needs, within the block's bounds;
    `ready_after_s`: how long a new replica takes to carry load.
    """
    if replicas is None:
        known = load.needed[load.needed >= 0]
        replicas = min(max(int(known[0]) if len(known) else 1, block.min), block.max)
    run = _Run(block, load, replicas, round(ready_after_s * SECOND))
    run.play()
    return run.result()


class _Used:
    """Which samples were used before, where ticks may read one twice: what a plane remembers of them."""

    def __init__(self, load: Load, names: Sequence[str]) -> None:
        assert load.ticks.measured is not None
        self._times = list(zip(*(load.ticks.measured[name].tolist() for name in names), strict=True))
        self._averaged = [name in load.per_replica for name in names]
        self._last_used = [0] * len(names)
        self._spent = [True] * len(names)
        self._changed_at: Micros | None = None

    def mark(self, glance: Glance, place: int, changed_at: Micros | None) -> None:
        """Say of each signal's value how far it counts at that tick.  `changed_at`: the count's last change."""
        if changed_at != self._changed_at:
            self._changed_at, self._spent = changed_at, [True] * len(self._spent)
        glance.faults, glance.again = [0] * len(self._spent), [False] * len(self._spent)
        for number, (at, value) in enumerate(zip(self._times[place], glance.values, strict=True)):
            if math.isnan(value):
                continue
            use = use_of(
                at,
                self._last_used[number],
                averaged=self._averaged[number],
                spent=self._spent[number],
                changed_at=changed_at or 0,
            )
            glance.again[number] = use is not Use.NEWS
            if use is Use.GONE:
                glance.faults[number] = 2
            else:
                self._last_used[number], self._spent[number] = at, False


class _Run:
    def __init__(self, block: ScalingBlock, load: Load, replicas: int, ready_after_us: Micros) -> None:
        self._block = block
        self._load = load
        self._first = self._current = replicas
        self._ready_after_us = ready_after_us
        self._starting: list[tuple[Micros, int]] = []  # when they are ready, and how many
        self._last: Micros | None = None
        self._cooling: dict[bool, Micros] = {}  # by direction, how long the pause lasts, as far as it was asked
        self._actions: list[Action] = []
        self._changes: list[tuple[Micros, int]] = []
        self._places: list[int] = []  # of the changes, in ticks
        self._waiting: dict[int, int] = {}  # by tick, how many replicas are not ready yet
        self._reasons = [0] * len(Reason)
        self._born: Micros = -(2**62)  # when the newest replica was made

    def play(self) -> None:
        """All ticks."""
        block, load = self._block, self._load
        single, glance = Single(block), Glance(len(block.signals))
        names = [one.signal for one in block.signals]
        glance.faults = [0] * len(names)  # a sample that is none is no number, which is as good as a fault
        glance.per_replica = [name in load.per_replica for name in names]
        averaged = any(glance.per_replica)
        glance.reason = Reason.SKIP_PAUSED if block.paused else None
        glance.status = Words.UP
        glance.current = glance.existing = glance.ready = self._current
        times = load.ticks.times.tolist()
        single.begin_window(times[0], self._current)
        totals = zip(*(load.totals[name].tolist() for name in names), strict=True)
        tick, reasons, starting = single.tick, self._reasons, self._starting
        used = None if load.ticks.measured is None else _Used(load, names)
        up, down = Reason.SCALE_UP, Reason.SCALE_DOWN
        for place, (now, values) in enumerate(zip(times, totals, strict=True)):
            glance.values = self._averages(values, glance.per_replica) if averaged else values
            if used is not None:
                used.mark(glance, place, self._last)
            if starting:
                self._settle(glance, now)
            if self._actions:
                glance.youngest_us = now - self._born
            desired, _, reason = tick(glance, now)
            if reason is up or reason is down:
                reason = self._move(single, glance, desired, reason, place)
            reasons[reason] += 1
            if starting:
                self._waiting[place] = sum(number for _, number in starting)

    def _averages(self, totals: tuple[float, ...], per_replica: Sequence[bool]) -> list[float]:
        among = max(self._current, 1)
        return [total / among if each else total for total, each in zip(totals, per_replica, strict=True)]

    def _settle(self, glance: Glance, now: Micros) -> None:
        self._starting[:] = [one for one in self._starting if one[0] > now]
        waiting = sum(number for _, number in self._starting)
        glance.ready = glance.current - waiting
        glance.status = Words.DEGRADED if waiting else Words.UP

    def _move(self, single: Single, glance: Glance, desired: int, reason: Reason, place: int) -> Reason:
        """Carry a wish out unless the cooldown or the rates hold it; the order is the autoscaler's."""
        before, now = self._current, int(self._load.ticks.times[place])
        up = desired > before
        if self._cools(now, up=up):
            return Reason.SKIP_COOLDOWN
        if self._block.behavior is not None:
            self._changes = [one for one in self._changes if now - one[0] < CHANGES_KEPT_US]
            changes = [((now - at) / SECOND, delta) for at, delta in self._changes]
            desired, reason = with_rates(self._block, before, desired, reason, changes)
            if desired == before:
                return reason
        self._current = glance.current = glance.existing = glance.ready = desired
        self._actions.append(Action(at=now, before=before, after=desired, reason=reason.code))
        self._places.append(place)
        self._changes.append((now, desired - before))
        self._last, self._cooling = now, {}
        if up:
            self._born = now
            if self._ready_after_us:
                self._starting.append((now + self._ready_after_us, desired - before))
        elif self._starting:
            self._take_away(before - desired)
        single.consume()
        return reason

    def _cools(self, now: Micros, *, up: bool) -> bool:
        if self._last is None:
            return False
        until = self._cooling.get(up)
        if until is None:  # both times moved on alike: a recording may begin in 1970, a ledger does not
            view = cooldown(self._last + SECOND, now + SECOND, self._block.cooldown_s(up=up))
            until = self._cooling[up] = (view.until or now + SECOND) - SECOND
            assert (view.state is CooldownState.RUNNING) == (now < until)
        return now < until

    def _take_away(self, number: int) -> None:
        """The youngest go first, as a substrate takes the highest slots."""
        while number and self._starting:
            at, waiting = self._starting.pop()
            if waiting > number:
                self._starting.append((at, waiting - number))
            number -= min(number, waiting)

    def result(self) -> Backtest:
        """The sums."""
        times = self._load.ticks.times
        spans = np.append(np.diff(times), 0) / SECOND
        needed = self._load.needed
        counts = np.array([self._first, *(one.after for one in self._actions)], np.int64)
        replicas = counts[np.searchsorted(np.array(self._places, np.int64), np.arange(len(times)), side="right")]
        ready = replicas.copy()
        if self._waiting:
            ready[list(self._waiting)] -= list(self._waiting.values())
        known = needed >= 0
        lacking, idle = np.maximum(needed - ready, 0) * known, np.maximum(replicas - needed, 0) * known
        signs = np.sign([one.after - one.before for one in self._actions])
        return Backtest(
            block=self._block,
            first=self._first,
            actions=tuple(self._actions),
            replicas=replicas,
            ready=ready,
            replica_hours=float((replicas * spans).sum() / HOUR_S),
            short_s=float(spans[lacking > 0].sum()),
            short_replica_hours=float((lacking * spans).sum() / HOUR_S),
            idle_replica_hours=float((idle * spans).sum() / HOUR_S),
            at_max_s=float(spans[(lacking > 0) & (replicas >= self._block.max)].sum()),
            unknown_s=float(spans[~known].sum()),
            reversals=int((signs[1:] != signs[:-1]).sum()),
            highest=int(replicas.max()),
            lowest=int(replicas.min()),
            reasons={
                Reason(code).code: number
                for code, number in Counter(dict(enumerate(self._reasons))).most_common()
                if number
            },
        )
