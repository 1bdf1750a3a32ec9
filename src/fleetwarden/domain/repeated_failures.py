"""The same action failing again and again: when to tell people, and how long to leave it alone.

A streak is what the ledger says: executions of one request (kind, target, identity and parameters, as its digest names
them) that ended as failed, with no success since.  Another declaration is another request, so that a repaired one is
tried at once.  Nothing is remembered beside the ledger: a plane that starts again counts the same.  A person's own
request is never held back here.
"""

from __future__ import annotations

from collections.abc import Iterable

from fleetwarden.domain.actions import ActionRequest, Record
from fleetwarden.domain.identifiers import SECOND, Micros, rfc3339

__all__ = [
    "ESCALATE_AT",
    "PAUSE_MAX_S",
    "SPAN",
    "Streak",
    "escalation",
    "held_reason",
    "next_try_at",
    "pause_s",
    "streak_of",
]

ESCALATE_AT = 3  # failures in a row
PAUSE_MAX_S = 3600.0
SPAN: Micros = 7 * 86_400 * SECOND  # how far back a row of failures is counted
_DOUBLINGS_MAX = 32  # bounds the power, far beyond where the cap holds


class Streak(Record):
    """Failed executions of one request without a success since.  `count` is at least 1; times are of the outcomes."""

    target: str
    kind: str
    digest: str
    count: int
    first_at: Micros
    last_at: Micros


def pause_s(count: int, interval_s: float) -> float:
    """How long a request is left alone after `count` failures in a row, in seconds (0 to PAUSE_MAX_S).

    Nothing before the third; then one interval of the reconciler, twice that, and so on.
    """
    if count < ESCALATE_AT:
        return 0.0
    doublings = min(count - ESCALATE_AT, _DOUBLINGS_MAX)
    return min(interval_s * 2.0**doublings, PAUSE_MAX_S)


def next_try_at(streak: Streak, interval_s: float) -> Micros | None:
    """When it may be proposed again, or None while the row is too short to be held back."""
    if streak.count < ESCALATE_AT:
        return None
    return streak.last_at + int(pause_s(streak.count, interval_s) * SECOND)


def streak_of(request: ActionRequest, streaks: Iterable[Streak]) -> Streak | None:
    """The row that this request would lengthen."""
    digest = request.digest()
    return next((one for one in streaks if one.target == request.target and one.digest == digest), None)


def held_reason(streak: Streak, interval_s: float) -> str:
    """Why it is left alone, until when, and what ends that sooner."""
    at = next_try_at(streak, interval_s)
    assert at is not None
    return (
        f"{streak.kind} {streak.target} failed {streak.count} times in a row: tried again after {rfc3339(at)};"
        f" sooner once it is declared differently or an action on {streak.target} succeeds"
    )


def escalation(streak: Streak, detail: str) -> str:
    """What people are told, once, when a row becomes long enough."""
    why = f" (last: {detail})" if detail else ""
    return (
        f"{streak.kind} {streak.target} failed {streak.count} times in a row{why}:"
        f" it is tried again after growing pauses, up to {PAUSE_MAX_S / 60:.0f} minutes each"
    )
