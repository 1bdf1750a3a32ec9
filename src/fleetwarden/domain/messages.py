"""Notices folded into messages: what belongs together, and when a message is due.

Pure.  A message is for one target.  Notices of the same kind about the same subject that come within a window are one
message with a count, and a target gets a bounded number of messages a window: what comes beyond it is counted in one
message that says so.  A notice is never dropped, only counted where it says what another one says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import SECOND, Micros, show_id

__all__ = [
    "ATTEMPTS_MAX",
    "CRITICAL",
    "LINES_MAX",
    "OPEN_MESSAGES",
    "PER_WINDOW_MAX",
    "WINDOW",
    "Delivery",
    "DeliveryState",
    "Line",
    "Told",
    "fold",
    "retry_after",
]

CRITICAL: Final = "critical"
WINDOW: Final[Micros] = 30 * SECOND  # what is not critical waits this long for more of its kind
PER_WINDOW_MAX: Final = 20  # messages a target gets in a window, besides the one that counts the rest
LINES_MAX: Final = 10  # different sentences that one message keeps
ATTEMPTS_MAX: Final = 20  # about 75 minutes
_BACKOFF_FIRST: Final[Micros] = 5 * SECOND
_BACKOFF_MAX: Final[Micros] = 300 * SECOND
_REST: Final = "*"  # the kind of the message that counts what came beyond the bound
_WORST_FIRST = (CRITICAL, "error", "warning", "info")
OPEN_MESSAGES: Final = ("waiting", "sending")  # states, as the store spells them


class DeliveryState(StrEnum):
    """waiting → sending → delivered | dead; sending → waiting after a failure."""

    WAITING = "waiting"
    SENDING = "sending"
    DELIVERED = "delivered"
    DEAD = "dead"


class Line(Record):
    """One sentence, when it was first said, and how often."""

    at: Micros
    summary: str
    count: int = 1


class Told(Record):
    """One notice on its way to one target.  `kind`: what sort of news it is; `entry`: its number in the journal."""

    entry: int
    at: Micros
    severity: str
    subject: str
    kind: str
    summary: str


class Delivery(Record):
    """One message for one target.  `count`: the notices in it, from journal entry `first_entry` to `last_entry`.

    `not_before`: when it may be sent next; `claimed_until`: until when nobody else may send it, while it is sent.
    """

    seq: int = 0
    at: Micros
    target: str
    kind: str
    subject: str
    severity: str
    lines: tuple[Line, ...]
    count: int
    first_entry: int
    last_entry: int
    state: DeliveryState = DeliveryState.WAITING
    attempts: int = 0
    not_before: Micros
    claimed_until: Micros | None = None
    error: str = ""
    ended_at: Micros | None = None

    @property
    def id(self) -> str:
        return show_id("M", self.seq)

    @property
    def critical(self) -> bool:
        return self.severity == CRITICAL


def retry_after(attempts: int) -> Micros:
    """How long to wait after that many attempts failed (≥ 1): 5 s, doubled each time, at most 300 s."""
    return min(_BACKOFF_FIRST << min(attempts - 1, 16), _BACKOFF_MAX)


def fold(target: str, recent: Sequence[Delivery], news: Iterable[Told], now: Micros) -> list[Delivery]:
    """The messages for `target` that are new or changed, in order; new ones have seq 0.

    `recent`: its messages that wait, and those made within the last window whatever became of them.
    """
    kept, changed = list(recent), dict[int, Delivery]()
    for one in news:
        place = _place(kept, one)
        if place is not None:
            kept[place] = changed[place] = _joined(kept[place], one)
            continue
        critical = one.severity == CRITICAL
        if _room(kept, critical, now):
            kept.append(_message(target, one, one.kind, one.subject, _due(kept, one, now), now))
        elif (rest := _rest(kept, critical)) is not None:
            kept[rest] = changed[rest] = _joined(kept[rest], one)
            continue
        else:
            kept.append(_message(target, one, _REST, "", now + WINDOW, now))
        changed[len(kept) - 1] = kept[-1]
        if critical:
            changed |= _flushed(kept, one.subject, now)
    return [changed[place] for place in sorted(changed)]


def _room(kept: Sequence[Delivery], critical: bool, now: Micros) -> bool:
    """Whether one more message may be made.  What waits counts, too: a target that fails gets no pile afterwards."""
    made = sum(
        each.critical == critical and each.kind != _REST and (each.at > now - WINDOW or _untried(each)) for each in kept
    )
    return made < PER_WINDOW_MAX


def _flushed(kept: list[Delivery], subject: str, now: Micros) -> dict[int, Delivery]:
    """Earlier news of the same subject go before a critical one, so that the order stays what it was."""
    found = {}
    for place, each in enumerate(kept):
        if _untried(each) and not each.critical and each.subject == subject and each.not_before > now:
            kept[place] = found[place] = msgspec.structs.replace(each, not_before=now)
    return found


def _untried(one: Delivery) -> bool:
    return one.state == DeliveryState.WAITING and one.attempts == 0


def _place(kept: Sequence[Delivery], one: Told) -> int | None:
    """The waiting message that this notice belongs to.  A critical one never joins one that is due later."""
    critical = one.severity == CRITICAL
    for place, each in enumerate(kept):
        if _untried(each) and (each.kind, each.subject) == (one.kind, one.subject) and each.critical == critical:
            return place
    return None


def _rest(kept: Sequence[Delivery], critical: bool) -> int | None:
    for place, each in enumerate(kept):
        if _untried(each) and each.kind == _REST and each.critical == critical:
            return place
    return None


def _due(kept: Sequence[Delivery], one: Told, now: Micros) -> Micros:
    """A critical notice goes at once, unless the same was told within the window: then when that is over."""
    if one.severity != CRITICAL:
        return now + WINDOW
    same = [each.at for each in kept if each.critical and (each.kind, each.subject) == (one.kind, one.subject)]
    return max([now, *(at + WINDOW for at in same)])


def _message(target: str, one: Told, kind: str, subject: str, due: Micros, now: Micros) -> Delivery:
    return Delivery(
        at=now,
        target=target,
        kind=kind,
        subject=subject,
        severity=one.severity,
        lines=(Line(at=one.at, summary=one.summary),),
        count=1,
        first_entry=one.entry,
        last_entry=one.entry,
        not_before=due,
    )


def _joined(message: Delivery, one: Told) -> Delivery:
    lines = list(message.lines)
    for place, line in enumerate(lines):
        if line.summary == one.summary:
            lines[place] = msgspec.structs.replace(line, count=line.count + 1)
            break
    else:
        if len(lines) < LINES_MAX:
            lines.append(Line(at=one.at, summary=one.summary))
    worst = min(message.severity, one.severity, key=_WORST_FIRST.index)
    return msgspec.structs.replace(
        message,
        lines=tuple(lines),
        count=message.count + 1,
        last_entry=max(message.last_entry, one.entry),
        severity=worst,
    )
