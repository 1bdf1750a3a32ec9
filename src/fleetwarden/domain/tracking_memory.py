"""What target tracking remembers between ticks: streaks, and recommendations of a stabilization window.

Columns again, so that a million services are remembered in a few arrays.  Recommendations are kept only for rows that
have a window.  However fast ticks follow each other, their number grows with the logarithm of the longest window only:
what is old is merged, in a way that can hold a count longer by a small part of its age, and never lets it go earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.series_watch import SeriesWatch

__all__ = ["BLIND_US", "GRAIN", "NOTHING_HIGH", "NOTHING_LOW", "Ints", "Memory", "merge_old"]

BLIND_US: Micros = (
    120_000_000  # without evidence for so long (or a whole window), a window speaks for the count as it is
)
GRAIN = 64  # entries are merged when together they span no more than 1/GRAIN of their age
MERGE_EVERY = 16
NOTHING_HIGH = -1  # no recommendation: raises no maximum
NOTHING_LOW = 2**31 - 1  # and lowers no minimum

Ints = NDArray[np.int64]
Counts = NDArray[np.int32]
Bools = NDArray[np.bool_]


def merge_old(starts: list[Micros], times: list[Micros], now: Micros, join: Callable[[int], None]) -> None:
    """Make one of neighbours that together span no more than 1/GRAIN of their age.

    `starts` and `times` (ascending): the oldest and the newest tick of each entry, by which it is dated.  `join`: makes
    one of an entry and its next in the caller's own columns.  The newest stands for itself.
    """
    if len(times) < GRAIN or len(times) % MERGE_EVERY:  # a list that grows comes by here
        return
    place = 0
    while place + 2 < len(times):
        if (times[place + 1] - starts[place]) * GRAIN > now - times[place + 1]:
            place += 1
            continue
        starts[place + 1] = starts[place]
        join(place)
        del starts[place], times[place]


class Memory:
    """`streak`: -1, 0 or 1 by row; `count`: how many samples in a row its direction has; `last_used`: by pair, the time
    of the newest sample that was used, 0 if none was; `last_value`: what it said; `spent`: whether the count changed
    since; `fresh`: by pair, whether it was measured since its row's samples in a row grew or began anew;
    `changed_at`: by row, when the count was changed last, 0 if nobody knows of a change."""

    def __init__(self, pairs: int, window_us: Ints) -> None:
        """`window_us`: by row, its stabilization window, the longer one of both directions; 0 is none."""
        rows, windowed = len(window_us), np.flatnonzero(window_us > 0)
        self.streak = np.zeros(rows, np.int8)
        self.count = np.zeros(rows, np.int64)
        self.last_used = np.zeros(pairs, np.int64)
        self.last_value = np.full(pairs, np.nan)
        self.spent = np.ones(pairs, np.bool_)
        self.fresh = np.zeros(pairs, np.bool_)
        self.changed_at = np.zeros(rows, np.int64)
        self.series = SeriesWatch(pairs)
        self.above_one = np.zeros(pairs, np.bool_)  # whether a value of one replica was ever more than 1
        self.total = np.zeros(rows, np.int64)  # how many replicas were seen last
        self.windowed = windowed
        self._sighted_at = np.zeros(rows, np.int64)  # when nothing that its window needs was lacking
        self._window_us = window_us[windowed]
        self._longest_us: Micros = int(window_us.max()) if rows else 0
        self._starts: list[Micros] = []  # of each entry, its oldest tick
        self._times: list[Micros] = []  # and its newest, by which it is dated
        self._high: list[Counts] = []
        self._low: list[Counts] = []

    @property
    def entries(self) -> int:
        """How many times are kept of each windowed row."""
        return len(self._times)

    def remember(self, now: Micros, recommended: Ints, current: Ints, usable: Bools, blind: Bools) -> None:
        """Keep this tick's recommendations of the windowed rows, where there are any, and forget what is too old.

        `usable`: rows with a recommendation; `blind`: rows whose evidence is incomplete, or that were not evaluated.
        Where that has lasted too long, the window is of the count as it is: what nobody measured is no reason to
        shrink, however low the first sample after it may be.
        """
        rows = self.windowed
        if not len(rows):
            return
        values, known, unseen = recommended[rows], usable[rows], blind[rows]
        high, low = np.where(known, values, NOTHING_HIGH), np.where(known, values, NOTHING_LOW)
        if unseen.any():
            lasting = unseen & (now - self._sighted_at[rows] >= np.minimum(self._window_us, BLIND_US))
            high = np.where(lasting, np.maximum(high, current[rows]), high)
            low = np.where(lasting & ~known, current[rows], low)
        self._sighted_at[rows[known & ~unseen]] = now
        self._append(now, now, high, low)
        merge_old(self._starts, self._times, now, self._join)
        while self._times and now - self._times[0] >= self._longest_us:
            del self._starts[0], self._times[0], self._high[0], self._low[0]

    def put_earlier(self, entries: Iterable[tuple[Micros, Mapping[int, int]]]) -> None:
        """Recommendations from before the first tick: for each time (oldest first), counts by row."""
        place = {int(row): number for number, row in enumerate(self.windowed)}
        for at, counts in entries:
            high = np.full(len(self.windowed), NOTHING_HIGH, np.int64)
            low = np.full(len(self.windowed), NOTHING_LOW, np.int64)
            for row, count in counts.items():
                if row in place:
                    high[place[row]] = low[place[row]] = count
            self._append(at, at, high, low)

    def extremes(self, now: Micros, up_window_us: Ints, down_window_us: Ints) -> tuple[Ints, Ints]:
        """Of the windowed rows: the lowest recommendation within the window upwards, the highest downwards.

        Ages below the window count; where there is none, the extreme is one that holds nothing.
        """
        lowest = np.full(len(self.windowed), NOTHING_LOW, np.int64)
        highest = np.full(len(self.windowed), NOTHING_HIGH, np.int64)
        up, down = up_window_us[self.windowed], down_window_us[self.windowed]
        for at, high, low in zip(self._times, self._high, self._low, strict=True):
            age = now - at
            lowest = np.where(age < up, np.minimum(lowest, low), lowest)
            highest = np.where(age < down, np.maximum(highest, high), highest)
        return lowest, highest

    def consume(self, rows: Mapping[int, slice]) -> None:
        """Changes were carried out (by row, its pairs): their streaks begin anew, and the samples that were used speak
        of a count that is gone."""
        for row, pairs in rows.items():
            self.streak[row] = 0
            self.count[row] = 0
            self.spent[pairs] = True
            self.fresh[pairs] = False

    def carry_over(self, other: Memory, rows: Mapping[int, int], pairs: Mapping[int, int], now: Micros) -> None:
        """Take over what another memory knows, by (its row → our row) and (its pair → our pair)."""
        for theirs, ours in rows.items():
            self.streak[ours] = other.streak[theirs]
            self.count[ours] = other.count[theirs]
            self.changed_at[ours] = other.changed_at[theirs]
            self.total[ours] = other.total[theirs]
            self._sighted_at[ours] = other._sighted_at[theirs]
        for theirs, ours in pairs.items():
            self.last_used[ours] = other.last_used[theirs]
            self.last_value[ours] = other.last_value[theirs]
            self.spent[ours] = other.spent[theirs]
            self.fresh[ours] = other.fresh[theirs]
            self.above_one[ours] = other.above_one[theirs]
        self.series.carry_over(other.series, pairs)
        place = {int(row): number for number, row in enumerate(other.windowed)}
        moved = {place[theirs]: ours for theirs, ours in rows.items() if theirs in place}
        mine = {int(row): number for number, row in enumerate(self.windowed)}
        for start, at, high, low in zip(other._starts, other._times, other._high, other._low, strict=True):
            new_high = np.full(len(self.windowed), NOTHING_HIGH, np.int64)
            new_low = np.full(len(self.windowed), NOTHING_LOW, np.int64)
            for theirs, ours in moved.items():
                if ours in mine:
                    new_high[mine[ours]], new_low[mine[ours]] = high[theirs], low[theirs]
            self._append(min(start, now), min(at, now), new_high, new_low)

    def _append(self, start: Micros, at: Micros, high: Ints, low: Ints) -> None:
        self._starts.append(start)
        self._times.append(at)
        self._high.append(high.astype(np.int32))
        self._low.append(low.astype(np.int32))

    def _join(self, place: int) -> None:
        self._high[place + 1] = np.maximum(self._high[place], self._high[place + 1])
        self._low[place + 1] = np.minimum(self._low[place], self._low[place + 1])
        del self._high[place], self._low[place]
