"""The columns of target tracking: compiled blocks, what a tick saw, and its verdicts.

A row is a service, a pair is one of its signals.  Tables are compiled once for each change of the configuration; a tick
fills `Seen` and reads `Verdicts`.  Nothing here decides.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.scaling_block import ScalingBlock

__all__ = [
    "BIG",
    "BlockTable",
    "Reason",
    "Seen",
    "Verdicts",
    "Words",
    "ceil_exact",
    "compile_blocks",
    "near_of",
    "within_edges",
]

SNAP: Final = 0.999_999e-9  # just below one in the tenth significant digit, which is a difference that was measured
BIG: Final = 2**31 - 1
_UNITS: Final[list[int]] = [10**power for power in range(10)]
_DECADES: Final = np.array(_UNITS, np.float64)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Reason(IntEnum):
    """Why a row's count moves, or does not.  Small integers: a column of them is one byte a service."""

    SCALE_UP = 0
    SCALE_DOWN = 1
    AT_TARGET = 2
    DEADBAND = 3
    STABILIZING = 4  # a direction needs more samples in a row
    WINDOW = 5  # the stabilization window holds it
    SKIP_METRICS = 6  # no usable sample
    SKIP_UNOBSERVED = 7
    SKIP_UNKNOWN = 8
    SKIP_DOWN = 9
    SKIP_STOPPED = 10
    SKIP_OVERRIDE = 11
    SKIP_PAUSED = 12
    SKIP_ROLLOUT = 13
    SKIP_INVALID = 14  # its block is invalid: the count is held
    NOT_ASKED = 15  # its signal was rotated out of this batch
    NOT_PLACED = 16  # replicas that were asked for earlier are not there yet
    WARMING = 17
    BLOCKED_DOWN = 18  # one of several signals is missing, and what is missing never shrinks anything
    INACTIVE = 19  # rests at zero, and the demand is not above its activation threshold
    SKIP_COST = 20
    RATE_LIMIT = 21  # `behavior` allows no more change in this period
    SKIP_COOLDOWN = 22
    SKIP_UNKNOWN_COOLDOWN = 23
    EXTERNAL = 24  # evaluated for people to see; another controller writes the count
    PREVENTED = 25  # something of the fleet's own: a foreign change, dependencies, the scaling contract
    NO_NEWS = 26  # nothing was measured since the last tick: what was used already moves nothing
    AT_MAX = 27  # more would be wanted, and the maximum is reached
    AT_MIN = 28  # fewer would do, and the minimum is reached

    @property
    def code(self) -> str:
        """The stable word of the API and of metrics.  A stop is a person's word over the count, as an override is: both
        are `skip_override`, and the sentence beside it says which.  Columns keep them apart."""
        return "skip_override" if self is Reason.SKIP_STOPPED else self.name.lower()


class Words(IntEnum):
    """States of a service as a column, in the observer's words."""

    UNOBSERVED = 0
    UNKNOWN = 1
    DOWN = 2
    DEGRADED = 3
    UP = 4


@dataclass(slots=True, frozen=True)
class BlockTable:
    """Compiled blocks: one row a service, one entry in the pair columns for each of its signals."""

    names: tuple[str, ...]
    blocks: tuple[ScalingBlock, ...]
    low: Ints
    high: Ints
    up_samples: Ints
    down_samples: Ints
    window_us: Ints  # the longer of both directions; 0 = none
    up_window_us: Ints
    down_window_us: Ints
    up_step: Ints
    down_step: Ints
    up_percent: Bools
    down_percent: Bools
    with_behavior: Bools
    upper_edge: Floats  # how far above and below its target a load still moves nothing: tolerance, or else deadband
    lower_edge: Floats
    activation: Floats
    sleeps: Bools  # it rests at zero until the demand is above its activation
    warmup_us: Ints
    costed: Bools
    pair_row: Ints  # of each pair, whose it is; ascending
    pair_start: Ints  # of each row, its first pair
    pair_target: Floats
    pair_signal: tuple[str, ...]
    single: bool  # every service has exactly one signal: pairs and rows are the same
    scheduled: tuple[int, ...]  # rows with floors by the time of day
    index: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)

    def pairs_of(self, row: int) -> slice:
        """Where the pairs of a row stand."""
        last = int(self.pair_start[row + 1]) if row + 1 < len(self) else len(self.pair_row)
        return slice(int(self.pair_start[row]), last)

    def floors(self, now: Micros) -> Ints:
        """The lowest count of each row at `now`."""
        if not self.scheduled:
            return self.low
        low = self.low.copy()
        for row in self.scheduled:
            for one in self.blocks[row].schedules:
                if one.window.is_open(now):
                    low[row] = max(low[row], one.min)
        return low


@dataclass(slots=True)
class Seen:
    """What one tick saw, by row and by pair.

    `reason`: 255, or why the row is not evaluated at all (a Reason).  `fault`: by pair, 0 = a usable value, 1 = none,
    2 = not asked.  `youngest_us`: age of the newest replica, for warm-up; 0 is just born.
    """

    current: Ints
    ready: Ints
    existing: Ints
    status: NDArray[np.uint8]
    reason: NDArray[np.uint8]
    value: Floats
    per_replica: Bools
    fault: NDArray[np.uint8]
    no_down: Bools  # by pair: usable, but no reason to shrink (too few series, or of another version)
    again: Bools  # by pair: usable, and used by an earlier tick already
    youngest_us: Ints

    @classmethod
    def blank(cls, table: BlockTable) -> Seen:
        """Columns in which nothing was seen."""
        rows, pairs = len(table), len(table.pair_row)
        return cls(
            current=np.zeros(rows, np.int64),
            ready=np.zeros(rows, np.int64),
            existing=np.zeros(rows, np.int64),
            status=np.zeros(rows, np.uint8),
            reason=np.full(rows, 255, np.uint8),
            value=np.full(pairs, np.nan),
            per_replica=np.zeros(pairs, np.bool_),
            fault=np.ones(pairs, np.uint8),
            no_down=np.zeros(pairs, np.bool_),
            again=np.zeros(pairs, np.bool_),
            youngest_us=np.full(rows, np.iinfo(np.int64).max, np.int64),
        )


@dataclass(slots=True)
class Verdicts:
    """One tick's answers.  `desired` is what is asked for (the current count where nothing is), `raw` the equation's
    own answer before anything held it, `count` how many samples in a row its direction has, `pressure` the highest
    value over its target."""

    desired: Ints
    raw: Ints
    reason: NDArray[np.uint8]
    streak: NDArray[np.int8]
    count: Ints
    pressure: Floats
    winner: Ints  # the pair that decided; -1 = none

    def moving(self) -> Ints:
        """The rows that want another count."""
        return np.flatnonzero(self.reason <= Reason.SCALE_DOWN)


def compile_blocks(services: Sequence[tuple[str, ScalingBlock]]) -> BlockTable:
    """The table of these services, in this order.  Once for each change of the configuration, never for a tick."""
    names = tuple(name for name, _ in services)
    blocks = tuple(block for _, block in services)
    rows: list[int] = []
    starts: list[int] = []
    targets: list[float] = []
    signals: list[str] = []
    for row, block in enumerate(blocks):
        starts.append(len(rows))
        for one in block.signals:
            rows.append(row)
            targets.append(one.target)
            signals.append(one.signal)

    def ints(values: Sequence[int]) -> Ints:
        return np.array(values, np.int64)

    up_window, down_window = zip(*map(_windows, blocks), strict=True) if blocks else ((), ())
    behaved = [one.behavior for one in blocks]
    return BlockTable(
        names=names,
        blocks=blocks,
        low=ints([one.min for one in blocks]),
        high=ints([one.max for one in blocks]),
        up_samples=ints([1 if one.behavior else one.up_samples for one in blocks]),
        down_samples=ints([1 if one.behavior else one.down_samples for one in blocks]),
        window_us=ints([max(pair) for pair in zip(up_window, down_window, strict=True)]),
        up_window_us=ints(up_window),
        down_window_us=ints(down_window),
        up_step=ints([one.up_step.amount for one in blocks]),
        down_step=ints([one.down_step.amount for one in blocks]),
        up_percent=np.array([one.up_step.percent for one in blocks], np.bool_),
        down_percent=np.array([one.down_step.percent for one in blocks], np.bool_),
        with_behavior=np.array([one is not None for one in behaved], np.bool_),
        upper_edge=np.array(
            [one.behavior.up.tolerance if one.behavior else one.deadband for one in blocks], np.float64
        ),
        lower_edge=np.array(
            [one.behavior.down.tolerance if one.behavior else one.deadband for one in blocks], np.float64
        ),
        activation=np.array([one.activation for one in blocks], np.float64),
        sleeps=np.array([one.min == 0 and one.activation > 0 for one in blocks], np.bool_),
        warmup_us=ints([round(one.warmup_s * 1e6) for one in blocks]),
        costed=np.array([one.cost is not None for one in blocks], np.bool_),
        pair_row=ints(rows),
        pair_start=ints(starts),
        pair_target=np.array(targets, np.float64),
        pair_signal=tuple(signals),
        single=rows == list(range(len(blocks))),
        scheduled=tuple(row for row, one in enumerate(blocks) if one.schedules),
        index={name: row for row, name in enumerate(names)},
    )


def _windows(block: ScalingBlock) -> tuple[int, int]:
    if block.behavior is not None:
        return block.behavior.up.window_s * 1_000_000, block.behavior.down.window_s * 1_000_000
    window = round(block.window_s * 1e6)
    return window, window


def ceil_exact(quotient: Floats) -> Ints:
    """Rounded up, but a quotient next to a whole number (see `near_of`) is that number.  Never below 0, never NaN.

    Floating error must not add a replica: 3 x 60 / 60 is 3.  What is larger than any count is simply large.
    """
    bounded = np.fmax(quotient, 0.0)  # which passes over NaN
    np.minimum(bounded, float(BIG), out=bounded)
    nearest = np.rint(bounded)
    distance = np.abs(bounded - nearest)
    result: Ints = np.ceil(bounded).astype(np.int64)
    close = np.flatnonzero((distance > 0) & (distance <= SNAP * np.maximum(nearest, 1.0)))  # all that may be next to it
    snapped = close[distance[close] <= _near(nearest[close])]
    result[snapped] = nearest[snapped].astype(np.int64)
    return result


def within_edges(quotient: Floats, current: Floats, lower: Floats, upper: Floats) -> Bools:
    """Whether a quotient lies between the shares `1 - lower` and `1 + upper` of the current count (1 or more), edges
    included.  What lies next to an edge lies on it, as near as it would have to be to the current count to be it."""
    over, under = quotient - current * (1.0 + upper), current * (1.0 - lower) - quotient
    beyond = np.maximum(over, under)
    within: Bools = beyond <= 0
    close = np.flatnonzero((beyond > 0) & (beyond <= SNAP * current))
    within[close] = beyond[close] <= _near(current[close])
    return within


def near_of(whole: float) -> float:
    """How far from this whole number (0 to BIG) a quotient may lie and still be it: less than one in its tenth
    significant digit, so less than 1e-9 from 0 to 9 and less than 1e-8 from 10 to 99."""
    return SNAP * _UNITS[bisect_right(_UNITS, max(whole, 1)) - 1]


def _near(whole: Floats) -> Floats:
    """`near_of` of many."""
    near: Floats = SNAP * _DECADES[np.searchsorted(_DECADES, np.maximum(whole, 1.0), side="right") - 1]
    return near
