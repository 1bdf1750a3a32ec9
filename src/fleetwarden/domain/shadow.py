"""Shadow: what the autoscaler would have asked for, where another controller writes the count, compared with it.

An evaluation that stays the same is one run with a beginning and an end.  The comparison is open: each verdict was made
from where the other controller had put the count, so that it says what would have been asked for next, not where a
fleet of our own would have ended.  Nothing is made up for times without evidence; they are counted as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import Micros, seconds
from fleetwarden.domain.tracking_columns import Reason

__all__ = ["JUDGED", "UNSEEN", "Comparison", "ShadowRun", "Side", "compare"]

UNSEEN: Final = frozenset({Reason.SKIP_UNOBSERVED.code, Reason.SKIP_UNKNOWN.code})  # not even the count was seen
JUDGED: Final = frozenset(
    one.code
    for one in (
        Reason.SCALE_UP,
        Reason.SCALE_DOWN,
        Reason.AT_TARGET,
        Reason.AT_MAX,
        Reason.AT_MIN,
        Reason.DEADBAND,
        Reason.STABILIZING,
        Reason.WINDOW,
        Reason.NOT_PLACED,
        Reason.WARMING,
        Reason.BLOCKED_DOWN,
        Reason.INACTIVE,
        Reason.SKIP_COST,
        Reason.RATE_LIMIT,
    )
)


class ShadowRun(Record):
    """Evaluations in a row with one verdict.  `until`: its end, None while it lasts.

    `current`: replicas that the other controller had asked for; `desired`: what would have been asked for; `raw`: the
    equation's own answer before any limit; `reason`: a reason's code.
    """

    service: str
    at: Micros
    current: int
    desired: int
    raw: int
    reason: str
    number: int = 0  # 1, 2, … of its service; given by the store
    until: Micros | None = None


class Side(Record):
    """One of the two.  `under_s`: seconds with fewer replicas than the equation asks for; a reversal is an action
    against the direction of the one before it."""

    replica_hours: float = 0.0
    actions: int = 0
    reversals: int = 0
    under_s: float = 0.0


class Comparison(Record):
    """`since`, `until`: what is covered; `judged_s`: of it, the seconds with a verdict that rests on evidence;
    `agreement`: the share of these in which both wanted the same count, None without any."""

    since: Micros | None
    until: Micros | None
    judged_s: float
    unjudged_s: float
    agreement: float | None
    ours: Side
    theirs: Side
    runs: int


def compare(runs: Sequence[ShadowRun], *, since: Micros, seen: Micros) -> Comparison:
    """Hold one service's runs (oldest first) against what the other controller did.

    Times before `since` are left out; a run that lasts is known to hold until `seen`.  What was asked for is an action
    of ours where it is another wish than the one before; a changed count is one of theirs.
    """
    cut = [(one, max(one.at, since), _end(one, seen)) for one in runs]
    kept = [(one, begin, end) for one, begin, end in cut if end > begin]
    spans = [(one, seconds(end - begin)) for one, begin, end in kept]
    judged = [(one, span) for one, span in spans if one.reason in JUDGED]
    judged_s = sum(span for _, span in judged)
    agreed_s = sum(span for one, span in judged if one.desired == one.current)
    return Comparison(
        since=min((begin for _, begin, _ in kept), default=None),
        until=max((end for _, _, end in kept), default=None),
        judged_s=judged_s,
        unjudged_s=sum(span for _, span in spans) - judged_s,
        agreement=agreed_s / judged_s if judged_s else None,
        ours=_side(
            _wishes(one for one, _ in judged),
            hours=sum(one.desired * span for one, span in judged) / 3600.0,
            under_s=sum(span for one, span in judged if one.raw > one.desired),
        ),
        theirs=_side(
            _moves(one.current for one, _ in spans if one.reason not in UNSEEN),
            hours=sum(one.current * span for one, span in judged) / 3600.0,
            under_s=sum(span for one, span in judged if one.raw > one.current),
        ),
        runs=len(kept),
    )


def _end(run: ShadowRun, seen: Micros) -> Micros:
    return max(run.at, seen) if run.until is None else run.until


def _side(moves: Sequence[int], *, hours: float, under_s: float) -> Side:
    turns = sum((before > 0) != (after > 0) for before, after in pairwise(moves))
    return Side(replica_hours=hours, actions=len(moves), reversals=turns, under_s=under_s)


def _moves(counts: Iterable[int]) -> list[int]:
    """The changes of a count, signed."""
    listed = list(counts)
    return [after - before for before, after in pairwise(listed) if after != before]


def _wishes(runs: Iterable[ShadowRun]) -> list[int]:
    """The wishes for another count, signed; one that stands through several runs is one wish."""
    found: list[int] = []
    standing: int | None = None
    for one in runs:
        if one.desired == one.current:
            standing = None
        elif one.desired != standing:
            found.append(one.desired - one.current)
            standing = one.desired
    return found
