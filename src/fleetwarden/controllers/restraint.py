"""What a pass needs and may not ask for yet: a dependency that is down, a row of failures.

Between what the fleet needs and what is proposed.  It only takes away and says why; it never proposes, and a request
that it holds leaves no decision and costs no budget.  Everything is read anew on each pass, from the look that the pass
rests on and from the ledger, so that nothing stays held for longer than its reason lasts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleetwarden.domain.actions import ActionRequest, OutboxRecord, Record
from fleetwarden.domain.depends_on import holds_up, repairs
from fleetwarden.domain.fleet import ObservedService, Service
from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.lifecycles import OPEN_RECORDS
from fleetwarden.domain.repeated_failures import SPAN, Streak, held_reason, next_try_at, streak_of
from fleetwarden.ports.stores import Store, Tx

__all__ = ["BACKING_OFF", "Held", "Restraint"]

BACKING_OFF = "backing_off"


class Held(Record):
    """Why a request is not made now.  `code`: waits_for | backing_off.  `until`: when it is made again at the
    latest, where that is a matter of time."""

    code: str
    reason: str
    kind: str
    until: Micros | None = None


class Restraint:
    """`interval_s`: the reconciler's, with which a back-off starts."""

    def __init__(self, store: Store, *, interval_s: float) -> None:
        self._store = store
        self._interval_s = interval_s

    def sift(
        self,
        requests: Sequence[ActionRequest],
        fleet: Mapping[str, Service],
        seen: Mapping[str, ObservedService],
    ) -> tuple[list[ActionRequest], dict[str, Held]]:
        """The requests that may be made, in their order, and why the others may not.  Raises StoreUnavailable."""
        if not requests:
            return [], {}
        now, repaired, streaks = self._store.read(lambda tx: self._read(tx, [one.target for one in requests]))
        kept: list[ActionRequest] = []
        held: dict[str, Held] = {}
        for request in requests:
            why = self._why(request, fleet, seen, repaired, streaks, now)
            if why is None:
                kept.append(request)
            else:
                held[request.target] = why
        return kept, held

    def one(
        self, tx: Tx, request: ActionRequest, fleet: Mapping[str, Service], seen: Mapping[str, ObservedService]
    ) -> Held | None:
        """The same of one request, for people who ask."""
        now, repaired, streaks = self._read(tx, [request.target])
        return self._why(request, fleet, seen, repaired, streaks, now)

    @staticmethod
    def _read(tx: Tx, targets: Sequence[str]) -> tuple[Micros, Mapping[str, OutboxRecord], dict[str, list[Streak]]]:
        now = tx.now()
        streaks: dict[str, list[Streak]] = {}
        for row in tx.executions.failing(targets, now - SPAN):
            streaks.setdefault(row.target, []).append(row)
        return now, repairs(tx.outbox.in_state(*OPEN_RECORDS)), streaks

    def _why(
        self,
        request: ActionRequest,
        fleet: Mapping[str, Service],
        seen: Mapping[str, ObservedService],
        repaired: Mapping[str, OutboxRecord],
        streaks: Mapping[str, Sequence[Streak]],
        now: Micros,
    ) -> Held | None:
        service = fleet.get(request.target)
        waits = None if service is None else holds_up(service, request, fleet, seen, repaired)
        if waits is not None:
            return Held(code="waits_for", reason=waits, kind=request.kind)
        row = streak_of(request, streaks.get(request.target, ()))
        at = None if row is None else next_try_at(row, self._interval_s)
        if row is None or at is None or now >= at:
            return None
        return Held(code=BACKING_OFF, reason=held_reason(row, self._interval_s), kind=request.kind, until=at)
