"""Reading scaling signals.

A provider answers for many (service, signal) pairs in one bounded call.  It reports what it read: a pair without a
usable value gets a NoSample with its reason, never a zero.  It must never change anything, and it cannot be told what
to ask: only symbols that the deployment defined are answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.signals import Pair, Reading

__all__ = ["ScalingSignalProvider", "SignalProvider", "SingleSignalProvider"]


class ScalingSignalProvider(Protocol):
    """One bulk call per tick.  Calls come from several threads at once."""

    name: str

    def signal_values(self, pairs: Sequence[Pair], at: Micros) -> Mapping[Pair, Reading]:
        """Answer for these pairs (no duplicates) within 10 s, whatever the source does.

        `at` is the store's time, taken before the call; a sample's `observed_at` is on that scale.  Every pair that was
        asked has an answer; one that was rotated out of this batch is NoSample(not_asked).  Raises Retryable if the
        source as a whole cannot be asked: then nothing is known about any pair, and health says so.
        """


class SingleSignalProvider(Protocol):
    """Answers for one pair at a time.  It is read pair by pair only where it says that it may be trusted in this
    process; whatever asks over a network answers in bulk, so that a fault costs one time-out and not one for each pair.

    `trusted_in_process`: it answers from this process's own memory, at once, and cannot hang.
    """

    name: str
    trusted_in_process: bool

    def signal_value(self, pair: Pair, at: Micros) -> Reading:
        """Answer for this pair; see ScalingSignalProvider for `at`.  Raises Retryable if it cannot say now."""


SignalProvider: TypeAlias = ScalingSignalProvider | SingleSignalProvider  # what a deployment may put in
