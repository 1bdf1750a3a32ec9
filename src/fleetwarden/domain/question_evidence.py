"""What an open question about a count rests on: how long its want may be gone, and when nobody may be asked anew.

A question to a person is only worth a yes while load still wants what it asks for.  These rules are pure: they neither
read nor write, and they never make a question out of nothing.  One noisy tick does not end a question; a want that is
gone for a while does, and so does silence for longer.
"""

from __future__ import annotations

from enum import StrEnum

from fleetwarden.domain.actions import Record
from fleetwarden.domain.fleet import DesiredState, Mode, Service
from fleetwarden.domain.identifiers import SECOND, Micros, rfc3339, seconds
from fleetwarden.domain.scaling import NATIVE

__all__ = ["Patience", "Says", "Want", "closed", "heard", "unfit"]

MARK_EVERY: Micros = 60 * SECOND  # a want that stays is written down no more often


class Patience(Record):
    """Seconds, all at least 0.  `absent_s`: how long ticks may say otherwise before a question is withdrawn;
    `silent_s`: how long nothing may be known of it; `floor_s`: the least time between two replacements of a question.
    """

    absent_s: float = 180.0
    silent_s: float = 600.0
    floor_s: float = 300.0


class Want(Record):
    """What ticks said of a question.  `wanted_at`: the newest time at which it was known to be wanted, at most a minute
    behind; `against_since`: since when ticks with evidence say otherwise; `too_far`: the newest one wants fewer
    replicas, but not as few as it asks for; `why`: what the last one said."""

    wanted_at: Micros
    against_since: Micros | None = None
    why: str = ""
    too_far: bool = False


class Says(StrEnum):
    """What one tick says of a question."""

    WANTED = "wanted"
    TOO_FAR = "too_far"  # it wants the direction, and shrinking as far as the question does is more than it wants
    AGAINST = "against"  # there is evidence, and it does not want this direction
    SILENT = "silent"  # no evidence either way


def closed(service: Service | None) -> str | None:
    """Why nothing follows load there any more, whatever the load is; None where it does."""
    if service is None:
        return "it is no longer in the registry"
    if service.desired is DesiredState.STOPPED:
        return "it is to be stopped"
    if service.count_wish is not None:
        return f"its count is held by {service.count_wish.words}"
    if service.mode is Mode.OBSERVE:
        return "its mode is observe"
    block = service.scaling
    if block is None or service.scaling_error is not None:
        return "it has no valid scaling block any more"
    if block.controller_mode != NATIVE:
        return f"{block.controller_mode} writes its count"
    return "its scaling is paused" if block.paused else None


def heard(want: Want, says: Says, why: str, at: Micros, patience: Patience) -> tuple[Want, str | None]:
    """The want after a tick at `at`, and why the question is withdrawn, if it is.

    Silence does not interrupt a time in which ticks say otherwise: only a tick that wants its direction does.
    """
    if says in (Says.WANTED, Says.TOO_FAR):
        far = says is Says.TOO_FAR
        same = (want.against_since, want.too_far, want.why) == (None, far, why)
        stays = same and at - want.wanted_at < MARK_EVERY
        return (want if stays else Want(wanted_at=max(at, want.wanted_at), why=why, too_far=far)), None
    since = want.against_since
    if says is Says.AGAINST and since is None:
        since = at
    kept = says is Says.SILENT and (since is not None or want.too_far)  # what evidence said outlives a silence
    told = Want(wanted_at=want.wanted_at, against_since=since, why=want.why if kept else why, too_far=want.too_far)
    if says is Says.AGAINST and since is not None and at - since >= int(patience.absent_s * SECOND):
        return told, f"not wanted any more for {seconds(at - since):.0f} s: {why}"
    if at - want.wanted_at >= int(patience.silent_s * SECOND):
        return told, f"nothing has wanted it for {seconds(at - want.wanted_at):.0f} s: {why}"
    return told, None


def unfit(want: Want, now: Micros, patience: Patience) -> str | None:
    """Why a yes to the question may not be carried out at `now`, or None: the newest evidence must still want it."""
    if want.against_since is not None:
        return f"load has not asked for it since {rfc3339(want.against_since)}: {want.why}"
    if want.too_far:
        return f"it takes away more than load allows by now: {want.why}"
    if now - want.wanted_at >= int(patience.silent_s * SECOND):
        told = f": {want.why}" if want.why else ""
        return f"no tick has found it wanted since {rfc3339(want.wanted_at)}{told}"
    return None
