"""The pause after a change of a service's count, read off the ledger of executions and nothing else.

Only real successes of `scale_service` count, whoever asked for them; decisions, dry runs and failures never do.  What
cannot be known (an unsettled outcome, a time that lies too far ahead, a row that makes no sense) is unknown, and
unknown is never taken for over.
"""

from __future__ import annotations

from enum import StrEnum

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import SECOND, Micros

__all__ = ["SKEW_S", "CooldownState", "CooldownView", "cooldown"]

SKEW_S = 5.0  # the setting's default


class CooldownState(StrEnum):
    OVER = "over"
    RUNNING = "running"
    UNKNOWN = "unknown"


class CooldownView(Record):
    """`until`: when it is over, where it is running; at exactly that moment it is over."""

    state: CooldownState
    reason: str = ""
    last_at: Micros | None = None
    until: Micros | None = None


def cooldown(
    last_at: Micros | None,
    now: Micros,
    cooldown_s: float,
    *,
    unsettled: str = "",
    skew_s: float = SKEW_S,
) -> CooldownView:
    """Where the cooldown stands at `now`.

    `last_at`: the newest time of a success, or None; `cooldown_s` 0 means none; `unsettled`: the action of the service
    whose outcome is unknown.  A time up to `skew_s` seconds ahead counts as now.
    """
    if unsettled:
        return CooldownView(
            state=CooldownState.UNKNOWN, reason=f"the outcome of {unsettled} is unknown, so the cooldown is, too"
        )
    if last_at is None:
        return CooldownView(state=CooldownState.OVER)
    if last_at <= 0:
        reason = "the last execution has no usable time, so the cooldown is unknown"
        return CooldownView(state=CooldownState.UNKNOWN, reason=reason, last_at=last_at)
    if last_at > now + int(skew_s * SECOND):
        ahead = (last_at - now) / SECOND
        reason = f"the last execution is dated {ahead:.1f} s ahead, so the cooldown is unknown"
        return CooldownView(state=CooldownState.UNKNOWN, reason=reason, last_at=last_at)
    until = min(last_at, now) + round(cooldown_s * SECOND)
    if now >= until:
        return CooldownView(state=CooldownState.OVER, last_at=last_at)
    left = (until - now) / SECOND
    return CooldownView(
        state=CooldownState.RUNNING,
        reason=f"cooling down: {left:.1f} s of {cooldown_s:g} s left",
        last_at=last_at,
        until=until,
    )
