"""What target tracking remembers between ticks: streaks, and recommendations of a stabilization window.

Columns again, so that a million services are remembered in a few arrays.  Recommendations are kept only for rows that
have a window, in at most DEPTH steps of time whatever the tick's pace.  Steps are merged only with a neighbour of the
same slot of time, dated by the later: that can hold a count longer, by a slot at most, and never lets it go earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fleetwarden.domain.identifiers import Micros

__all__ = ["DEPTH", "NOTHING_HIGH", "NOTHING_LOW", "SLOTS", "Ints", "Memory", "merge_place"]

DEPTH = 64
SLOTS = DEPTH - 2  # slots of the longest window: DEPTH + 1 steps within it always have two that share one
NOTHING_HIGH = -1  # no recommendation: raises no maximum
NOTHING_LOW = 2**31 - 1  # and lowers no minimum

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def merge_place(times: Sequence[Micros], longest_us: Micros) -> int:
    """Which of more than DEPTH steps (ascending times) becomes one with its next: the newest two that share a slot.

    Never the same pair for ever: a step that swallowed everything before it, dated anew each time, would never grow too
    old, and what it holds would be held for good.
    """
    slot = max(1, -(-longest_us // SLOTS))
    later = times[-1] // slot
    for place in range(len(times) - 2, -1, -1):
        earlier = times[place] // slot
        if earlier == later:
            return place
        later = earlier
    return 0


class Memory:
    """`streak`: -1, 0 or 1 by row; `count`: how many samples in a row its direction has; `last_used`: by pair, the time
    of the newest sample that was used, 0 if none was."""

    def __init__(self, rows: int, pairs: int, windowed: Ints, longest_us: Micros = 0) -> None:
        """`windowed`: the rows that have a stabilization window, ascending; `longest_us`: the longest of them."""
        self.streak = np.zeros(rows, np.int8)
        self.count = np.zeros(rows, np.int64)
        self.last_used = np.zeros(pairs, np.int64)
        self.windowed = windowed
        self._longest_us = longest_us
        self._times: list[Micros] = []
        self._high: list[Ints] = []
        self._low: list[Ints] = []

    def remember(self, now: Micros, recommended: Ints, usable: Bools) -> None:
        """Keep this tick's recommendations of the windowed rows, where there are any, and forget what is too old."""
        if not len(self.windowed):
            return
        values, known = recommended[self.windowed], usable[self.windowed]
        self._append(now, np.where(known, values, NOTHING_HIGH), np.where(known, values, NOTHING_LOW))
        while self._times and now - self._times[0] >= self._longest_us:
            del self._times[0], self._high[0], self._low[0]

    def put_earlier(self, entries: Iterable[tuple[Micros, Mapping[int, int]]]) -> None:
        """Recommendations from before the first tick: for each time (oldest first), counts by row."""
        place = {int(row): number for number, row in enumerate(self.windowed)}
        for at, counts in entries:
            high = np.full(len(self.windowed), NOTHING_HIGH, np.int64)
            low = np.full(len(self.windowed), NOTHING_LOW, np.int64)
            for row, count in counts.items():
                if row in place:
                    high[place[row]] = low[place[row]] = count
            self._append(at, high, low)

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

    def consume(self, rows: Iterable[int]) -> None:
        """A change was carried out: its streak begins anew."""
        for row in rows:
            self.streak[row] = 0
            self.count[row] = 0

    def carry_over(self, other: Memory, rows: Mapping[int, int], pairs: Mapping[int, int], now: Micros) -> None:
        """Take over what another memory knows, by (its row → our row) and (its pair → our pair)."""
        for theirs, ours in rows.items():
            self.streak[ours] = other.streak[theirs]
            self.count[ours] = other.count[theirs]
        for theirs, ours in pairs.items():
            self.last_used[ours] = other.last_used[theirs]
        place = {int(row): number for number, row in enumerate(other.windowed)}
        moved = {place[theirs]: ours for theirs, ours in rows.items() if theirs in place}
        mine = {int(row): number for number, row in enumerate(self.windowed)}
        for at, high, low in zip(other._times, other._high, other._low, strict=True):
            new_high = np.full(len(self.windowed), NOTHING_HIGH, np.int64)
            new_low = np.full(len(self.windowed), NOTHING_LOW, np.int64)
            for theirs, ours in moved.items():
                if ours in mine:
                    new_high[mine[ours]], new_low[mine[ours]] = high[theirs], low[theirs]
            self._append(min(at, now), new_high, new_low)

    def _append(self, at: Micros, high: Ints, low: Ints) -> None:
        self._times.append(at)
        self._high.append(high)
        self._low.append(low)
        if len(self._times) > DEPTH:
            one = merge_place(self._times, self._longest_us)
            self._high[one + 1] = np.maximum(self._high[one], self._high[one + 1])
            self._low[one + 1] = np.minimum(self._low[one], self._low[one + 1])
            del self._times[one], self._high[one], self._low[one]
