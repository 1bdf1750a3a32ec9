"""What a pass needs and may not ask for yet: a dependency that is down, a row of failures, a person's no.

Between what the fleet needs and what is proposed.  It only takes away and says why; it never proposes, and a request
that it holds leaves no decision and costs no budget.  Everything is read anew on each pass, from the look that the pass
rests on and from the ledger, so that nothing stays held for longer than its reason lasts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleetwarden.domain.actions import ActionApproval, ActionRequest, OutboxRecord, Record
from fleetwarden.domain.depends_on import holds_up, repairs
from fleetwarden.domain.fleet import ObservedService, Service
from fleetwarden.domain.identifiers import SECOND, Micros, rfc3339
from fleetwarden.domain.lifecycles import OPEN_RECORDS
from fleetwarden.domain.repeated_failures import SPAN, Streak, held_reason, next_try_at, streak_of
from fleetwarden.ports.stores import Store, Tx

__all__ = ["BACKING_OFF", "REJECTED", "Held", "Restraint"]

BACKING_OFF = "backing_off"
REJECTED = "rejected"


class Held(Record):
    """Why a request is not made now.  `code`: waits_for | rejected | backing_off.

    `until`: when it is made again at the latest, where that is a matter of time.
    """

    code: str
    reason: str
    kind: str
    until: Micros | None = None


class Restraint:
    """`interval_s`: the reconciler's, with which a back-off starts.  `rejected_hold_s` (≥ 0): how long a request that
    a person rejected is not asked again; 0 asks at once."""

    def __init__(self, store: Store, *, interval_s: float, rejected_hold_s: float = 0.0) -> None:
        self._store = store
        self._interval_s = interval_s
        self._rejected_hold = int(rejected_hold_s * SECOND)

    def sift(
        self,
        requests: Sequence[ActionRequest],
        fleet: Mapping[str, Service],
        seen: Mapping[str, ObservedService],
    ) -> tuple[list[ActionRequest], dict[str, Held]]:
        """The requests that may be made, in their order, and why the others may not.  Raises StoreUnavailable."""
        if not requests:
            return [], {}
        known = self._store.read(lambda tx: self._read(tx, [one.target for one in requests]))
        kept: list[ActionRequest] = []
        held: dict[str, Held] = {}
        for request in requests:
            why = self._why(request, fleet, seen, known)
            if why is None:
                kept.append(request)
            else:
                held[request.target] = why
        return kept, held

    def one(
        self, tx: Tx, request: ActionRequest, fleet: Mapping[str, Service], seen: Mapping[str, ObservedService]
    ) -> Held | None:
        """The same of one request, for people who ask."""
        return self._why(request, fleet, seen, self._read(tx, [request.target]))

    def _read(self, tx: Tx, targets: Sequence[str]) -> _Known:
        now = tx.now()
        streaks: dict[str, list[Streak]] = {}
        for row in tx.executions.failing(targets, now - SPAN):
            streaks.setdefault(row.target, []).append(row)
        refused = tx.approvals.rejected(targets, now - self._rejected_hold) if self._rejected_hold else ()
        return _Known(
            now=now,
            repaired=repairs(tx.outbox.in_state(*OPEN_RECORDS)),
            streaks=streaks,
            rejected={one.digest: one for one in refused},
        )

    def _why(
        self,
        request: ActionRequest,
        fleet: Mapping[str, Service],
        seen: Mapping[str, ObservedService],
        known: _Known,
    ) -> Held | None:
        service = fleet.get(request.target)
        waits = None if service is None else holds_up(service, request, fleet, seen, known.repaired)
        if waits is not None:
            return Held(code="waits_for", reason=waits, kind=request.kind)
        return self._rejected(request, known) or self._failing(request, known)

    def _rejected(self, request: ActionRequest, known: _Known) -> Held | None:
        """A person said no: the same is not asked of people again at once."""
        refused = known.rejected.get(request.digest())
        if refused is None or refused.ended_at is None:
            return None
        at = refused.ended_at + self._rejected_hold
        if known.now >= at:
            return None
        by = ", ".join(vote.by for vote in refused.votes if vote.decision != "approved")
        reason = f"{refused.id} was rejected{f' by {by}' if by else ''}: not asked again before {rfc3339(at)}"
        return Held(code=REJECTED, reason=reason, kind=request.kind, until=at)

    def _failing(self, request: ActionRequest, known: _Known) -> Held | None:
        row = streak_of(request, known.streaks.get(request.target, ()))
        at = None if row is None else next_try_at(row, self._interval_s)
        if row is None or at is None or known.now >= at:
            return None
        return Held(code=BACKING_OFF, reason=held_reason(row, self._interval_s), kind=request.kind, until=at)


class _Known(Record):
    """What the ledger says of the targets of one pass."""

    now: Micros
    repaired: Mapping[str, OutboxRecord]
    streaks: Mapping[str, Sequence[Streak]]
    rejected: Mapping[str, ActionApproval]  # by the digest of the request
