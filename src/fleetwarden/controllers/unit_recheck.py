"""The scaling contract at the two moments that count: when a count is put, and right before it is set.

It reads what stands inside the caller's transaction, under the admission lock, and answers with a refusal or none.  It
writes one thing only, and that with a change's success: what the unit takes of its pool from then on.
"""

from __future__ import annotations

from collections.abc import Callable

from fleetwarden.domain.actions import ActionRequest, Kind, OutboxRecord
from fleetwarden.domain.contract.capacity import CountChange, Room, UnitRefusal, refusal
from fleetwarden.domain.fleet import Fleet
from fleetwarden.domain.intent_requests import stands_for_intent
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.ports.stores import Tx

__all__ = ["Roomy", "note_allocation", "unit_refusal"]

_COUNTS = frozenset({Kind.SCALE, Kind.START})


class Roomy:
    """What is taken, read at most once in a transaction, whoever asks how often."""

    def __init__(self, tx: Tx, fleet: Fleet) -> None:
        self._tx = tx
        self._fleet = fleet
        self._room: Room | None = None

    def __call__(self) -> Room:
        if self._room is None:
            begun = self._tx.outbox.in_state(OutboxState.RUNNING, OutboxState.RECOVERY_PENDING)
            self._room = Room(
                self._fleet.catalogue,
                allocated=self._tx.allocations.all(),
                under_way={
                    one.request.target: count
                    for one in begun
                    if not one.request.dry_run and (count := _count(one.request)) is not None
                },
                declared={one.name: one.wanted for one in self._fleet.services.values()},
            )
        return self._room


def unit_refusal(
    tx: Tx, fleet: Fleet, request: ActionRequest, *, current: int, room: Callable[[], Room] | None = None
) -> UnitRefusal | None:
    """Why the scaling contract does not allow this request now, or None; only changes of a count are limited.

    `current`: the target's wanted count, as seen.  `room`: for many requests of one transaction.
    """
    desired = _count(request)
    if desired is None or request.kind != Kind.SCALE:
        return None
    change = CountChange(
        unit=request.target,
        current=current,
        desired=desired,
        follows_load=stands_for_intent(request),
        any_time=request.break_glass,
    )
    return refusal(fleet.catalogue, fleet.unit_problems, change, room or Roomy(tx, fleet), tx.now())


def note_allocation(tx: Tx, record: OutboxRecord, to: OutboxState) -> None:
    """Set what the target takes of its pool, if this end of its record says so.  Part of commit 2 or a settlement.

    A stopped unit keeps its place, so that it can be started again.
    """
    request = record.request
    if to is not OutboxState.SUCCEEDED or request.dry_run:
        return
    if (count := _count(request)) is not None:
        tx.allocations.put(request.target, count)


def _count(request: ActionRequest) -> int | None:
    count = request.params.get("replicas") if request.kind in _COUNTS else None
    return count if type(count) is int else None
