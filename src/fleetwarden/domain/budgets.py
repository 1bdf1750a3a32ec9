"""Budgets: how often an action may be taken, and on how many targets, within a sliding window.

Budgets are counted from the ledger and from nothing else, so they hold across processes and restarts.  A window of
length W ends now and is open at its start: a use exactly W ago no longer counts.  A use that is dated later than now
counts: a clock that was stepped back must not open a budget.  Nothing here decides what follows from a full budget.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from math import inf
from typing import Protocol

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import SECOND, JsonValue, Micros, rfc3339

__all__ = [
    "MAX_USES",
    "MAX_WINDOW_S",
    "BlastRadius",
    "BlastUse",
    "BudgetLedger",
    "RateLimit",
    "RateUse",
    "Use",
    "Wave",
    "blast",
    "rate",
]

MAX_USES = 1_000_000
MAX_WINDOW_S = 31_536_000  # 365 days
LISTED = 32  # uses or targets that a finding lists by name; it counts all of them


class Use(Record, gc=False):
    """One budget slot in use: which decision holds it, since when (admit time; a grant's: its execution)."""

    decision_seq: int
    target: str
    at: Micros


class BudgetLedger(Protocol):
    """What budgets read of the ledger.  `since` is exclusive; answers are newest first."""

    def uses(self, kind: str, target: str, since: Micros, *, dry_run: bool, limit: int) -> Sequence[Use]: ...

    def targets(self, kind: str, since: Micros, *, dry_run: bool) -> Sequence[Use] | Wave:
        """The newest use of each distinct target."""


class Wave:
    """The newest use of each distinct target, to which uses can be added: many requests, one reading of the ledger."""

    def __init__(self, newest_first: Sequence[Use]) -> None:
        self._uses = {use.target: use for use in reversed(newest_first)}  # oldest first
        self._listed = self._last()

    def add(self, use: Use) -> None:
        """A use that is newer than all others."""
        if self._uses.pop(use.target, None) is None:
            self._uses[use.target] = use
            self._listed.appendleft(use.target)
        else:
            self._uses[use.target] = use
            self._listed = self._last()

    def _last(self) -> deque[str]:
        """The newest targets, one more than are listed, newest first."""
        return deque(islice(reversed(self._uses), LISTED + 1), maxlen=LISTED + 1)

    def others(self, target: str) -> int:
        """How many targets there are beside this one."""
        return len(self._uses) - (target in self._uses)

    def listed(self, target: str) -> tuple[str, ...]:
        """The newest of the others, newest first, as many as are listed."""
        if target in self._uses:
            return tuple(one for one in self._listed if one != target)[:LISTED]
        return tuple(self._listed)[:LISTED]

    def newest(self, target: str, most: int) -> tuple[Use, ...]:
        """At most so many of the others, newest first."""
        return tuple(islice((use for use in reversed(self._uses.values()) if use.target != target), most))


class RateLimit(Record):
    """At most `max` uses (0 to 1,000,000; 0 = none) of one kind on one target in `window_s` (1 to 31,536,000)."""

    max: int
    window_s: int


class BlastRadius(Record):
    """At most `max_targets` distinct targets of one kind in `window_s` seconds; same ranges as a rate limit."""

    max_targets: int
    window_s: int


class RateUse(Record, gc=False):
    """How much of a rate limit is used.  `used` counts up to the limit; `next_slot_at` is set where it is full.

    `next_slot_at` is None for a limit of 0, which no waiting opens.
    """

    limit: RateLimit
    used: int
    used_at: tuple[Micros, ...]
    next_slot_at: Micros | None

    @property
    def full(self) -> bool:
        return self.used >= self.limit.max

    @property
    def tightness(self) -> tuple[bool, float]:
        """The smaller, the tighter, so that of several limits the one that decides is named."""
        if not self.full:
            return True, self.limit.max - self.used
        return False, -inf if self.next_slot_at is None else -self.next_slot_at

    def numbers(self, source: str) -> dict[str, JsonValue]:
        """JSON-ready, with the limit's `source`; `used_at` lists the newest 32, `used_at_omitted` counts the rest."""
        figures: dict[str, JsonValue] = {
            "used": self.used,
            "max": self.limit.max,
            "window_s": self.limit.window_s,
            "used_at": list(map(rfc3339, self.used_at[:LISTED])),
            "next_slot_at": rfc3339(self.next_slot_at),
            "source": source,
        }
        if len(self.used_at) > LISTED:
            figures["used_at_omitted"] = len(self.used_at) - LISTED
        return figures


class BlastUse(Record, gc=False):
    """How wide a wave already is.  `targets` counts the distinct targets, the asked-for one included."""

    limit: BlastRadius
    targets: int
    others: tuple[str, ...]  # newest first, 32 at most
    next_slot_at: Micros | None

    @property
    def exceeded(self) -> bool:
        return self.targets > self.limit.max_targets

    @property
    def tightness(self) -> tuple[bool, float]:
        """The smaller, the tighter, so that of several limits the one that decides is named."""
        if not self.exceeded:
            return True, self.limit.max_targets - self.targets
        return False, -inf if self.next_slot_at is None else -self.next_slot_at

    def numbers(self, source: str) -> dict[str, JsonValue]:
        """JSON-ready, with the limit's `source`; `other_targets` lists 32, `other_targets_omitted` counts the rest."""
        figures: dict[str, JsonValue] = {
            "targets": self.targets,
            "max": self.limit.max_targets,
            "window_s": self.limit.window_s,
            "other_targets": list(self.others),
            "next_slot_at": rfc3339(self.next_slot_at),
            "source": source,
        }
        if omitted := self.targets - 1 - len(self.others):
            figures["other_targets_omitted"] = omitted
        return figures


def rate(
    limit: RateLimit,
    ledger: BudgetLedger,
    now: Micros,
    *,
    kind: str,
    target: str,
    dry_run: bool,
    exclude_decision: int | None = None,
) -> RateUse:
    """Count the uses of kind+target against `limit`.

    The decision `exclude_decision` is not counted: a re-check right before the side effect must not count itself.
    """
    window = limit.window_s * SECOND
    fetch = limit.max + (exclude_decision is not None)
    found = ledger.uses(kind, target, now - window, dry_run=dry_run, limit=fetch) if fetch else ()
    times = tuple(use.at for use in found if use.decision_seq != exclude_decision)[: limit.max]
    full = len(times) >= limit.max
    opens = times[-1] + window if full and times else None  # newest first: once this one leaves, max - 1 remain
    return RateUse(limit=limit, used=len(times), used_at=times, next_slot_at=opens)


def blast(
    limit: BlastRadius,
    ledger: BudgetLedger,
    now: Micros,
    *,
    kind: str,
    target: str,
    dry_run: bool,
) -> BlastUse:
    """Count the distinct targets of `kind` against `limit`, `target` included.

    A re-check needs no exclusion here: its own use is on `target`, which is counted once in any case.
    """
    window = limit.window_s * SECOND
    found = ledger.targets(kind, now - window, dry_run=dry_run)
    wave = found if isinstance(found, Wave) else Wave(found)
    count = wave.others(target) + 1
    opens = None
    if count > limit.max_targets > 0:
        opens = wave.newest(target, limit.max_targets)[-1].at + window  # once this one leaves, max - 1 others remain
    return BlastUse(limit=limit, targets=count, others=wave.listed(target), next_slot_at=opens)
