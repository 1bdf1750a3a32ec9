"""Target tracking of one service over many ticks: the columns' arithmetic on plain numbers.

A table of length one costs half a millisecond a tick, and a month of ticks is a minute and a half.  This does the same
ticks a hundred times as fast, for replays.  It decides nothing of its own: bounds, samples, windows and floors are read
off the compiled table, steps, rates, costs and the merging of a window's memory are the very functions that the columns
use, and what is written here a second time (the equation, the order of reasons, the streak) is held against `evaluate`
by a test over every feature.  Whoever changes one changes both, or that test fails.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.domain.tracking_columns import BIG, SNAP, Reason, Words, compile_blocks
from fleetwarden.domain.tracking_memory import NOTHING_HIGH, NOTHING_LOW, merge_old

__all__ = ["Glance", "Single", "Verdict"]

_INF: Final = math.inf
_STANDING: Final = {
    Words.UNOBSERVED: Reason.SKIP_UNOBSERVED,
    Words.UNKNOWN: Reason.SKIP_UNKNOWN,
    Words.DOWN: Reason.SKIP_DOWN,
}


class Glance:
    """What one tick saw of the service: the columns of `Seen`, as attributes.  One is used over and over.

    `values`, `faults`, `per_replica` and `no_down`: by signal, in the order of the block.
    """

    __slots__ = (
        "current", "existing", "faults", "no_down", "per_replica", "ready", "reason", "status", "values", "youngest_us",
    )  # fmt: skip

    def __init__(self, signals: int) -> None:
        self.current = self.ready = self.existing = 0
        self.status = Words.UNOBSERVED
        self.reason: Reason | None = None
        self.values: Sequence[float] = [math.nan] * signals
        self.faults: Sequence[int] = [1] * signals
        self.per_replica: Sequence[bool] = [False] * signals
        self.no_down: Sequence[bool] = [False] * signals
        self.youngest_us: Micros = 2**63 - 1


class Verdict(NamedTuple):
    """One row of `Verdicts`.  `samples`: its `count`."""

    desired: int
    raw: int
    reason: Reason
    streak: int
    samples: int


class _Recommended(NamedTuple):
    """What `evaluate` finds of all signals together; see there."""

    replicas: int
    usable: bool
    missing: bool
    unasked: bool
    within: bool
    mixed: bool


class Single:
    """One service and what is remembered of it.  `streak` and `count` as in `Memory`."""

    def __init__(self, block: ScalingBlock) -> None:
        self._table = table = compile_blocks([("", block)])
        self._block = block
        self._targets = tuple(float(one) for one in table.pair_target)
        self._low, self._high = int(table.low[0]), int(table.high[0])
        behaved = bool(table.with_behavior[0])
        self._behaved = behaved
        deadband = float(table.deadband[0])
        self._upper = 1.0 + (float(table.up_tolerance[0]) if behaved else deadband) + SNAP
        self._lower = 1.0 - (float(table.down_tolerance[0]) if behaved else deadband) - SNAP
        self._activation = float(table.activation[0])
        self._sleeps = self._low == 0 and self._activation > 0
        self._up_samples, self._down_samples = int(table.up_samples[0]), int(table.down_samples[0])
        self._warmup_us = int(table.warmup_us[0])
        self._longest_us = int(table.window_us[0])
        self._up_window_us, self._down_window_us = int(table.up_window_us[0]), int(table.down_window_us[0])
        self._affordable = None if block.cost is None else block.cost.affordable
        self._scheduled = bool(table.scheduled)
        self.streak = self.count = 0
        self._starts: list[Micros] = []
        self._times: list[Micros] = []
        self._highs: list[int] = []
        self._lows: list[int] = []

    def begin_window(self, now: Micros, count: int) -> None:
        """A stabilization window of which nothing is known begins with the count that is there."""
        if self._longest_us:
            self._append(now, count, count)

    def consume(self) -> None:
        """A change was carried out: its streak begins anew."""
        self.streak = self.count = 0

    def tick(self, seen: Glance, now: Micros) -> Verdict:
        """As `evaluate` for a table of just this block."""
        found = self._recommend(seen)
        held = self._windowed(seen, found, now) if self._longest_us else found.replicas
        current = seen.current
        low = int(self._table.floors(now)[0]) if self._scheduled else self._low
        bounded = min(max(held, low), self._high)
        direction = (bounded > current) - (bounded < current)
        reason = self._standing(seen, found, direction)
        counting = reason is None
        if reason is None:
            count = 0 if direction == 0 else self.count + 1 if direction == self.streak else 1
            self.streak, self.count = direction, count
            outside = current < low or current > self._high
            reason = self._moving(seen, found, held, direction, outside=outside)
        desired = current
        if reason is Reason.SCALE_UP:
            step = BIG if self._behaved else self._block.up_step.of(current)
            desired = min(bounded, current + step)
            if self._affordable is not None:
                desired = max(current, min(desired, self._affordable))
                reason = Reason.SKIP_COST if desired == current else reason
        elif reason is Reason.SCALE_DOWN:
            desired = max(bounded, current - (BIG if self._behaved else self._block.down_step.of(current)))
        if not counting and reason is not Reason.NOT_ASKED and reason is not Reason.WARMING:
            self.streak = self.count = 0
        return Verdict(desired, found.replicas if found.usable else current, reason, self.streak, self.count)

    def _recommend(self, seen: Glance) -> _Recommended:
        current = seen.current
        effective = float(current or 1)
        best, within = -1, False
        usable = missing = unasked = mixed = False
        for place, target in enumerate(self._targets):
            value, fault, each_replica = seen.values[place], seen.faults[place], seen.per_replica[place]
            mixed = mixed or each_replica
            usable_pair = fault == 0 and 0.0 <= value < _INF
            if seen.no_down[place] or (not usable_pair and fault != 2):
                missing = True
            if fault == 2:
                unasked = True
            if not usable_pair:
                continue
            usable = True
            total, each = (value * effective, value) if each_replica else (value, value / effective)
            near = current > 0 and self._lower <= each / target <= self._upper
            if self._sleeps and total <= self._activation:
                count, near = 0, False
            else:
                count = current if near else _ceil(total / target)
            if count > best:
                best, within = count, near
        return _Recommended(max(best, 0), usable, missing, unasked, within, mixed)

    def _windowed(self, seen: Glance, found: _Recommended, now: Micros) -> int:
        wanted = found.replicas
        times = self._times
        low = min(self._lows[bisect_right(times, now - self._up_window_us) :], default=NOTHING_LOW)
        high = max(self._highs[bisect_right(times, now - self._down_window_us) :], default=NOTHING_HIGH)
        low, high = min(low, wanted), max(high, wanted)
        if found.usable and seen.reason is None:
            self._append(now, wanted, wanted)
        else:
            self._append(now, NOTHING_HIGH, NOTHING_LOW)
        merge_old(self._starts, times, now, self._join)
        while times and now - times[0] >= self._longest_us:
            del self._starts[0], times[0], self._highs[0], self._lows[0]
        return min(max(seen.current, low), max(low, high))

    def _append(self, at: Micros, high: int, low: int) -> None:
        self._starts.append(at)
        self._times.append(at)
        self._highs.append(high)
        self._lows.append(low)

    def _join(self, place: int) -> None:
        highs, lows = self._highs, self._lows
        highs[place + 1] = max(highs[place], highs[place + 1])
        lows[place + 1] = min(lows[place], lows[place + 1])
        del highs[place], lows[place]

    def _standing(self, seen: Glance, found: _Recommended, direction: int) -> Reason | None:
        """Why nothing is counted: known before the equation, or no evidence for this direction."""
        if seen.reason is not None:
            return seen.reason
        if seen.status is not Words.UP and seen.status is not Words.DEGRADED:
            return _STANDING[seen.status]
        if not found.usable:
            return Reason.NOT_ASKED if found.unasked and not found.missing else Reason.SKIP_METRICS
        if self._warmup_us > seen.youngest_us and found.mixed and direction != 0:
            return Reason.WARMING
        if direction < 0:
            if found.missing:
                return Reason.BLOCKED_DOWN
            if found.unasked:
                return Reason.NOT_ASKED
        return None

    def _moving(self, seen: Glance, found: _Recommended, held: int, direction: int, *, outside: bool) -> Reason:
        if direction == 0:
            if held != found.replicas:
                return Reason.WINDOW
            if seen.current == 0 and found.replicas == 0 and self._low == 0:
                return Reason.INACTIVE
            return Reason.DEADBAND if found.within else Reason.AT_TARGET
        needed = 1 if outside else self._up_samples if direction > 0 else self._down_samples
        if self.count < needed:
            return Reason.STABILIZING
        if direction < 0:
            return Reason.SCALE_DOWN
        return Reason.NOT_PLACED if seen.ready < seen.current or seen.existing < seen.current else Reason.SCALE_UP


def _ceil(quotient: float) -> int:
    """`ceil_exact` of one number that is 0 or more, or infinite."""
    if quotient >= BIG:
        return BIG
    nearest = round(quotient)
    if abs(quotient - nearest) <= SNAP * max(nearest, 1):
        return nearest
    return math.ceil(quotient)
