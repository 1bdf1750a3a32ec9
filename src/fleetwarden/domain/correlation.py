"""What a new event changes about its alert: begins it, ends it, repeats it, or comes too late to change anything.

Events come doubled, shuffled and with losses.  An outage is named by when the sender says that it began; where the
sender cannot name it, the same statement within `SAME_WITHIN` is the same message.  What arrives late is kept and
changes nothing: a newer statement about the same alert holds.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fleetwarden.domain.actions import Record
from fleetwarden.domain.events import AlertState, FleetEvent, Phase
from fleetwarden.domain.identifiers import SECOND, Micros

__all__ = ["SAME_WITHIN", "Placed", "place"]

SAME_WITHIN: Final[Micros] = 300 * SECOND  # of messages without a time: a sender's retries end long before


class Placed(Record):
    """`key`: equal for deliveries of one statement.  `same_as`: the stored event that it is a delivery of."""

    key: str
    state: AlertState | None
    same_as: int | None = None
    repeat_of: int | None = None
    closes: int | None = None
    flap: bool = False
    late: bool = False


def place(event: FleetEvent, known: AlertState | None, now: Micros, seq: int) -> Placed:
    """What storing `event` as `seq` at `now` means, given where its alert stands.  `state` is where it stands then."""
    if event.phase is Phase.FIRING:
        return _begun(event, known, now, seq)
    if event.phase is Phase.RESOLVED:
        return _ended(event, known, now, seq)
    told = event.starts_at if event.starts_at is not None else now - now % SAME_WITHIN
    return Placed(key=_key(event, told), state=None)


def _key(event: FleetEvent, named: Micros) -> str:
    word = event.status if event.phase is Phase.NOTE else event.phase.value
    return f"{event.alert}|{word}|{named}"


def _begun(event: FleetEvent, known: AlertState | None, now: Micros, seq: int) -> Placed:
    began = event.starts_at
    state = AlertState(
        alert=event.alert,
        service=event.service or "",
        firing=True,
        class_=event.class_,
        severity=event.severity,
        starts_at=began,
        changed_at=now if began is None else min(began, now),
        seen_at=now,
        event_seq=seq,
        origin=event.origin,
    )
    key = _key(event, now if began is None else began)
    if known is None:
        return Placed(key=key, state=state)
    if _is_delivery(event, known, now):
        return _same(key, known, now)
    if _begins_again(event, known, now):
        return Placed(key=f"{key}|{known.changed_at}", state=msgspec.structs.replace(state, changed_at=now), flap=True)
    if began is not None and _is_older(event, began, known):
        return Placed(key=key, state=None, late=True)
    if known.firing and (began is None or event.repeating or known.starts_at is None):
        reminded = msgspec.structs.replace(known, seen_at=now)
        return Placed(key=key, state=reminded, repeat_of=known.event_seq)
    return Placed(key=key, state=state, flap=not known.firing)


def _is_delivery(event: FleetEvent, known: AlertState, now: Micros) -> bool:
    """Whether this is the statement that holds already."""
    if not known.firing:
        return False
    return now - known.seen_at <= SAME_WITHIN if event.starts_at is None else event.starts_at == known.starts_at


def _begins_again(event: FleetEvent, known: AlertState, now: Micros) -> bool:
    """Whether an outage that had ended goes on: a sender that heard nothing for a while takes an alert for ended, and
    keeps its start when it hears of it again.  Soon after the end it is what was overtaken by it."""
    over = not known.firing and now - known.seen_at > SAME_WITHIN
    return over and not event.repeating and event.starts_at is not None and event.starts_at == known.starts_at


def _is_older(event: FleetEvent, began: Micros, known: AlertState) -> bool:
    """Whether a beginning lies before what is known.  One that is the end's own outage arrived after its end."""
    if not event.repeating and known.starts_at is not None:
        return began == known.starts_at or began <= _stood_since(known, known.starts_at)
    return began < known.changed_at or (began == known.changed_at and not known.firing)


def _stood_since(known: AlertState, starts_at: Micros) -> Micros:
    """When its outage began; a sender's clock that was ahead makes nothing that follows look older than that."""
    return min(starts_at, known.changed_at)


def _ended(event: FleetEvent, known: AlertState | None, now: Micros, seq: int) -> Placed:
    named = event.starts_at
    happened = min(now, now if event.ends_at is None else event.ends_at)
    state = AlertState(
        alert=event.alert,
        service=event.service or "",
        firing=False,
        class_=event.class_,
        severity=event.severity,
        starts_at=named if named is not None or known is None else known.starts_at,
        changed_at=happened,
        seen_at=now,
        event_seq=seq,
        origin=event.origin,
    )
    told = named if named is not None else event.ends_at
    key = _key(event, now if told is None else told)
    if known is None:
        return Placed(key=key, state=state)
    if known.firing and named is not None and named == known.starts_at and known.changed_at > named:  # begun again
        if event.ends_at is not None and happened < known.changed_at:
            return Placed(key=key, state=None, late=True)
        key = f"{key}|{known.changed_at}"
    if not known.firing and _same_end(event, known, happened, now):
        return _same(key, known, now)
    older = named is not None and known.starts_at is not None and named < _stood_since(known, known.starts_at)
    if older or (named is None and event.ends_at is not None and happened < known.changed_at):
        return Placed(key=key, state=None, late=True)
    return Placed(key=key, state=state, closes=known.event_seq if known.firing else None)


def _same_end(event: FleetEvent, known: AlertState, happened: Micros, now: Micros) -> bool:
    if event.starts_at is not None:
        return event.starts_at == known.starts_at
    if event.ends_at is not None:
        return happened == known.changed_at
    return now - known.seen_at <= SAME_WITHIN


def _same(key: str, known: AlertState, now: Micros) -> Placed:
    return Placed(key=key, state=msgspec.structs.replace(known, seen_at=now), same_as=known.event_seq)
