"""What a sample that is believed may be used for: news, the same measurement once more, or of a count that is gone.

One rule for a running plane and for a replay, so that both count the same samples.  It never judges whether a sample is
believed; `signal_rules` does.
"""

from __future__ import annotations

from enum import Enum

from fleetwarden.domain.identifiers import Micros

__all__ = ["Use", "use_of"]


class Use(Enum):
    """How far a sample counts."""

    NEWS = "news"
    AGAIN = "again"  # an earlier tick has used it: it may hold a count, and counts no more
    GONE = "gone"  # the count was changed since: it says nothing


def use_of(measured_at: Micros, last_used: Micros, *, averaged: bool, spent: bool, changed_at: Micros) -> Use:
    """How far a sample counts that is no older than the last one used.

    `last_used`: when the newest sample that was used was measured, 0 if none was; `spent`: whether the count changed
    since it was used; `averaged`: whether the value is an average over replicas, which says nothing of another number
    of them; `changed_at`: when the count was changed last, 0 if nobody knows of a change.
    """
    again = measured_at == last_used
    if (averaged and measured_at <= changed_at) or (again and spent):
        return Use.GONE
    return Use.AGAIN if again else Use.NEWS
