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
from typing import Final, TypeAlias

from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.domain.tracking_columns import BIG, Reason, Words, compile_blocks, near_of
from fleetwarden.domain.tracking_memory import BLIND_US, NOTHING_HIGH, NOTHING_LOW, merge_old

__all__ = ["Glance", "Single"]

_INF: Final = math.inf
NEARLY: Final = 1e-8  # a share of the count: what is further beyond an edge than this is not next to it
_STANDING: Final = {
    Words.UNOBSERVED: Reason.SKIP_UNOBSERVED,
    Words.UNKNOWN: Reason.SKIP_UNKNOWN,
    Words.DOWN: Reason.SKIP_DOWN,
}
_KEEP: Final = frozenset((Reason.NOT_ASKED, Reason.WARMING, Reason.NO_NEWS))  # they say nothing of the load


class Glance:
    """What one tick saw of the service: the columns of `Seen`, as attributes.  One is used over and over.

    `values`, `faults`, `again`, `per_replica` and `no_down`: by signal, in the order of the block.
    """

    __slots__ = (
        "again", "current", "existing", "faults", "no_down", "per_replica", "ready", "reason", "status", "values",
        "youngest_us",
    )  # fmt: skip

    def __init__(self, signals: int) -> None:
        self.current = self.ready = self.existing = 0
        self.status = Words.UNOBSERVED
        self.reason: Reason | None = None
        self.values: Sequence[float] = [math.nan] * signals
        self.faults: Sequence[int] = [1] * signals
        self.per_replica: Sequence[bool] = [False] * signals
        self.again: Sequence[bool] = [False] * signals
        self.no_down: Sequence[bool] = [False] * signals
        self.youngest_us: Micros = 2**63 - 1


# What `evaluate` finds of all signals together: the count and what is asked for of it, whether any signal has news, is
# what was used before, missing, or not asked for, whether the deciding one lies within its deadband or tolerance, and
# whether any is an average over replicas.
_Recommended: TypeAlias = tuple[int, int, bool, bool, bool, bool, bool, bool, bool]


class Single:
    """One service, and what is remembered of it.  `streak` and `count` as in `Memory`."""

    __slots__ = (
        "_activation",
        "_affordable",
        "_behaved",
        "_block",
        "_down_samples",
        "_down_window_us",
        "_fresh",
        "_high",
        "_highs",
        "_longest_us",
        "_low",
        "_lower",
        "_lows",
        "_none_fresh",
        "_scheduled",
        "_several",
        "_sighted_at",
        "_sleeps",
        "_starts",
        "_table",
        "_targets",
        "_times",
        "_up_samples",
        "_up_window_us",
        "_upper",
        "_warmup_us",
        "count",
        "streak",
    )  # fmt: skip

    def __init__(self, block: ScalingBlock) -> None:
        self._table = table = compile_blocks([("", block)])
        self._block = block
        self._targets = tuple(float(one) for one in table.pair_target)
        self._low, self._high = int(table.low[0]), int(table.high[0])
        behaved = bool(table.with_behavior[0])
        self._behaved = behaved
        self._upper = 1.0 + float(table.upper_edge[0])
        self._lower = 1.0 - float(table.lower_edge[0])
        self._activation = float(table.activation[0])
        self._sleeps = self._low == 0 and self._activation > 0
        self._up_samples, self._down_samples = int(table.up_samples[0]), int(table.down_samples[0])
        self._warmup_us = int(table.warmup_us[0])
        self._longest_us = int(table.window_us[0])
        self._up_window_us, self._down_window_us = int(table.up_window_us[0]), int(table.down_window_us[0])
        self._affordable = None if block.cost is None else block.cost.affordable
        self._scheduled = bool(table.scheduled)
        self.streak = self.count = 0
        self._several = len(block.signals) > 1
        self._fresh = self._none_fresh = [False] * len(block.signals)
        self._sighted_at: Micros = 0
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
        self._begin_anew()

    def tick(self, seen: Glance, now: Micros) -> tuple[int, int, Reason]:
        """As `evaluate` for a table of just this block: desired, raw and reason."""
        found = self._recommend(seen)
        replicas, asked, usable, news, _, missing, unasked, _, _ = found
        held = self._windowed(seen, found, now) if self._longest_us else asked
        current = seen.current
        low = int(self._table.floors(now)[0]) if self._scheduled else self._low
        bounded = min(max(held, low), self._high)
        direction = (bounded > current) - (bounded < current)
        measured = self._measured(seen) if self._several else None
        status = seen.status
        clear = news and seen.reason is None and (status is Words.UP or status is Words.DEGRADED)
        if not clear or self._warmup_us > seen.youngest_us or (direction < 0 and (missing or unasked)):
            standing = self._standing(seen, found, direction)
            if standing is not None:
                if standing in _KEEP:
                    self._fresh = measured or self._fresh
                else:
                    self._begin_anew()
                return current, replicas if usable else current, standing
        if direction == 0:
            if asked < replicas and asked == current < self._high:
                self._fresh = measured or self._fresh
                return current, replicas, Reason.NO_NEWS
            self._begin_anew()
            return current, replicas, self._still(current, held, found, low)
        outside = current < low or current > self._high
        self._grow(direction, grows=direction > 0 or outside, measured=measured)
        needed = 1 if outside else self._up_samples if direction > 0 else self._down_samples
        if self.count < needed:
            return current, replicas, Reason.STABILIZING
        if direction < 0:
            return self._down(current, bounded), replicas, Reason.SCALE_DOWN
        if seen.ready < current or seen.existing < current:
            return current, replicas, Reason.NOT_PLACED
        desired = self._up(current, bounded)
        return desired, replicas, Reason.SCALE_UP if desired != current else Reason.SKIP_COST

    def _still(self, current: int, held: int, found: _Recommended, low: int) -> Reason:
        """Why nothing is asked for where the count is as it should be."""
        replicas, asked, within = found[0], found[1], found[7]
        if current == self._high and held > self._high:
            return Reason.AT_MAX
        if current == low and held < low:
            return Reason.AT_MIN
        if held != asked:
            return Reason.WINDOW
        if current == 0 and replicas == 0 and self._low == 0:
            return Reason.INACTIVE
        return Reason.DEADBAND if within else Reason.AT_TARGET

    def _grow(self, direction: int, *, grows: bool, measured: list[bool] | None) -> None:
        """One more sample in that direction, if it is one."""
        grows = grows or measured is None or all(measured)
        self.count = (self.count if direction == self.streak else 0) + grows
        self.streak = direction
        if measured is not None:
            self._fresh = self._none_fresh if grows else measured

    def _begin_anew(self) -> None:
        self.streak = self.count = 0
        self._fresh = self._none_fresh

    def _measured(self, seen: Glance) -> list[bool]:
        """By signal, whether it was measured since the samples in a row grew or began anew."""
        return [
            fresh or (fault == 0 and not again)
            for fresh, fault, again in zip(self._fresh, seen.faults, seen.again, strict=True)
        ]

    def _up(self, current: int, bounded: int) -> int:
        desired = min(bounded, current + (BIG if self._behaved else self._block.up_step.of(current)))
        return desired if self._affordable is None else max(current, min(desired, self._affordable))

    def _down(self, current: int, bounded: int) -> int:
        return max(bounded, current - (BIG if self._behaved else self._block.down_step.of(current)))

    def _recommend(self, seen: Glance) -> _Recommended:
        current = seen.current
        effective = current or 1
        lowest, highest = current * (self._lower - NEARLY), current * (self._upper + NEARLY)
        best, asked, within = -1, -1, False
        usable = missing = unasked = mixed = news = used = False
        for target, value, fault, each_replica, no_down, again in zip(
            self._targets, seen.values, seen.faults, seen.per_replica, seen.no_down, seen.again, strict=True
        ):
            mixed, used = mixed or each_replica, used or again
            if no_down or fault == 1:
                missing = True
            if fault:
                unasked = unasked or fault == 2
                continue
            if not 0.0 <= value < _INF:
                missing = True
                continue
            usable, news = True, news or not again
            total = value * effective if each_replica else value
            quotient = total / target
            if self._sleeps and total <= self._activation:
                count, near = 0, False
            elif current and lowest <= quotient <= highest and self._within(quotient, current):
                count, near = current, True
            else:
                count, near = _ceil(quotient), False
            if count > best:
                best, within = count, near
            if again and count > current:
                count = current
            asked = max(asked, count)
        return max(best, 0), max(asked, 0), usable, news, used, missing, unasked, within, mixed

    def _within(self, quotient: float, current: int) -> bool:
        """`within_edges` of one number."""
        over, under = quotient - current * self._upper, current * self._lower - quotient
        return max(over, under) <= near_of(current)

    def _windowed(self, seen: Glance, found: _Recommended, now: Micros) -> int:
        """What is asked for, held by the window's recommendations; this tick's is kept."""
        replicas, wanted, _, news, _, missing, *_ = found
        times, current = self._times, seen.current
        low = high = wanted
        if self._up_window_us and (known := self._lows[bisect_right(times, now - self._up_window_us) :]):
            low = min(low, min(known))  # noqa: PLW3301 -- unpacking would copy
        if self._down_window_us and (known := self._highs[bisect_right(times, now - self._down_window_us) :]):
            high = max(high, max(known))  # noqa: PLW3301
        evaluated = seen.reason is None
        usable, blind = news and evaluated, seen.status is not Words.UNOBSERVED and (missing or not evaluated)
        most, least = (replicas, replicas) if usable else (NOTHING_HIGH, NOTHING_LOW)
        if blind and now - self._sighted_at >= min(self._longest_us, BLIND_US):
            most, least = max(most, current), least if usable else current
        if usable and not blind:
            self._sighted_at = now
        self._append(now, most, least)
        merge_old(self._starts, times, now, self._join)
        while times and now - times[0] >= self._longest_us:
            del self._starts[0], times[0], self._highs[0], self._lows[0]
        return min(max(current, low), max(low, high))

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
        _, _, usable, news, used, missing, unasked, _, mixed = found
        if seen.reason is not None:
            return seen.reason
        if seen.status in _STANDING:
            return _STANDING[seen.status]
        if not news:
            if used and not missing:
                return Reason.NO_NEWS
            return Reason.NOT_ASKED if unasked and not missing and not usable else Reason.SKIP_METRICS
        if self._warmup_us > seen.youngest_us and mixed and direction != 0:
            return Reason.WARMING
        if direction < 0:
            if missing:
                return Reason.BLOCKED_DOWN
            if unasked:
                return Reason.NOT_ASKED
        return None


def _ceil(quotient: float) -> int:
    """`ceil_exact` of one number that is 0 or more, or infinite."""
    if quotient >= BIG:
        return BIG
    nearest = round(quotient)
    if abs(quotient - nearest) <= near_of(nearest):
        return nearest
    return math.ceil(quotient)
