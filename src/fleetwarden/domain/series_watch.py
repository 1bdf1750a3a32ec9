"""How many series a sample was made of, held against how many it was made of before.

A total falls when the load falls, and also when some of what is measured is lost.  The number of series tells the two
apart: a sample made of fewer series than before is no reason for fewer replicas, until the lower number has lasted.
Fewer series after a change to fewer replicas are explained by it.  Nothing here reads a value or judges a load.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fleetwarden.domain.identifiers import SECOND, Micros, seconds

__all__ = ["SETTLE_US", "SeriesWatch"]

SETTLE_US: Micros = 600 * SECOND  # so long a lower number has to last before it is the usual one


class SeriesWatch:
    """By pair.  0 series are series that nobody counted, which say nothing."""

    def __init__(self, pairs: int) -> None:
        self.usual = np.zeros(pairs, np.int64)  # the number that a sample is held against
        self._least = np.zeros(pairs, np.int64)  # during a fall, the lowest so far
        self._fell_at = np.zeros(pairs, np.int64)  # since when that one has lasted, 0 for no fall
        self._floor = np.zeros(pairs, np.int64)  # what a change to fewer replicas explains
        self._explained_until = np.zeros(pairs, np.int64)

    def note(self, pair: int, series: int, measured_at: Micros) -> str:
        """A sample of so many series, measured then: why it is no reason to shrink, "" if nothing speaks against it."""
        if series <= 0:
            return ""
        usual = int(self.usual[pair])
        if self._explained_until[pair]:
            if measured_at <= self._explained_until[pair] and series >= self._floor[pair]:
                return ""
            if measured_at > self._explained_until[pair]:
                usual, self._explained_until[pair] = min(usual, max(series, int(self._floor[pair]))), 0
                self.usual[pair] = usual
        if series >= usual:
            self.usual[pair], self._fell_at[pair] = series, 0
            return ""
        if not self._fell_at[pair] or series < self._least[pair]:
            self._fell_at[pair], self._least[pair] = measured_at, series
        lasted = measured_at - int(self._fell_at[pair])
        if lasted >= SETTLE_US:
            self.usual[pair], self._fell_at[pair] = series, 0
            return ""
        left = seconds(SETTLE_US - lasted)
        return f"it is made of {series} series where there were {usual}: it counts for shrinking again in {left:.0f} s"

    def fewer_replicas(self, pairs: slice, before: int, after: int, now: Micros) -> None:
        """There are fewer replicas now: as many series fewer, in proportion, are explained for a while."""
        explained = self._explained_until[pairs] > now
        base = np.where(explained, self._floor[pairs], self.usual[pairs])
        self._floor[pairs] = base * after // max(before, 1)
        self._explained_until[pairs] = np.where(self.usual[pairs] > 0, now + SETTLE_US, 0)

    def carry_over(self, other: SeriesWatch, pairs: Mapping[int, int]) -> None:
        """Take over what another one knows, by (its pair → our pair)."""
        for theirs, ours in pairs.items():
            for name in ("usual", "_least", "_fell_at", "_floor", "_explained_until"):
                getattr(self, name)[ours] = getattr(other, name)[theirs]
