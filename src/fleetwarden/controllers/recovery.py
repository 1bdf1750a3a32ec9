"""Recovery: what stopped between the two commits is marked, looked at, and settled; it is never called again.

A running record whose lease is older than ours, or that is under our own lease and no thread of ours carries out, is
marked `recovery_pending`.  A pending one is settled by one fresh observation where the domain can judge it, and waits
for a person where it cannot.  Settlement needs no old token: whoever holds the newest lease may settle.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from fleetwarden.controllers.settlement import end_record
from fleetwarden.controllers.sightings import Sightings
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.domain.actions import LeaseFence, OutboxRecord, Outcome
from fleetwarden.domain.errors import Conflict, Refused
from fleetwarden.domain.identifiers import rfc3339
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.domain.recovery import Judgement, after_horizon, judge
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.stores import Store, Tx

__all__ = ["Recovery"]

log = structlog.get_logger(__name__)


class Recovery:
    """Marks and settles.  `executing` tells which records a thread of this plane carries out right now."""

    def __init__(
        self,
        store: Store,
        configuration: ConfigurationSource,
        sightings: Sightings,
        wakes: Wakes,
        executing: Callable[[], frozenset[int]],
        *,
        watch_window_s: float,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._sightings = sightings
        self._wakes = wakes
        self._executing = executing
        self._watch_window_s = watch_window_s

    def run(self, fence: LeaseFence) -> int:
        """Mark, then settle what can be settled; returns how many records it settled."""
        pending = self._store.read(lambda tx: tx.outbox.in_state(OutboxState.RUNNING, OutboxState.RECOVERY_PENDING))
        if not pending:
            return 0
        settled = 0
        for record in pending:
            if record.state is OutboxState.RUNNING and not self._mark(record, fence):
                continue
            settled += self._settle(record.seq, fence)
        return settled

    def _mark(self, record: OutboxRecord, fence: LeaseFence) -> bool:
        """running → recovery_pending, if nobody is carrying it out any more."""
        if record.seq in self._executing() or not self._orphan(record, fence):
            return False

        def run(tx: Tx) -> bool:
            tx.leases.check(fence)
            now = tx.outbox.get(record.seq)
            if now.state is not OutboxState.RUNNING:
                return now.state is OutboxState.RECOVERY_PENDING
            told = Outcome(
                ok=False, unknown_outcome=True, code="interrupted", detail="the plane stopped during the call"
            )
            end_record(tx, now, OutboxState.RECOVERY_PENDING, told, watch_window_s=self._watch_window_s)
            return True

        return self._store.transact("mark_unknown", run)

    @staticmethod
    def _orphan(record: OutboxRecord, fence: LeaseFence) -> bool:
        theirs = record.fence
        same = theirs is not None and (theirs.cadence, theirs.shard) == (fence.cadence, fence.shard)
        return theirs is not None and same and theirs.token <= fence.token

    def _settle(self, seq: int, fence: LeaseFence) -> int:
        record = self._store.read(lambda tx: tx.outbox.get(seq))
        if record.state is not OutboxState.RECOVERY_PENDING:
            return 0
        judgement = self._judge(record)
        if judgement.done is None:
            log.info("outcome still unknown", action=record.id, reason=judgement.reason)
            return 0

        def run(tx: Tx) -> int:
            tx.leases.check(fence)
            now = tx.outbox.get(seq)
            if now.state is not OutboxState.RECOVERY_PENDING:
                return 0
            self._write(tx, now, judgement, by="evidence")
            return 1

        return self._store.transact("settle", run)

    def _judge(self, record: OutboxRecord) -> Judgement:
        fleet = self._configuration.current().fleet
        service = fleet.services.get(record.request.target)
        if service is None and fleet.error:
            return Judgement(done=None, reason=f"the registry cannot be read: {fleet.error}")
        if service is None and not record.request.dry_run:
            return Judgement(
                done=None, reason=f"{record.request.target} is no longer in the registry: a person settles it"
            )
        return judge(record, None if service is None else self._sightings.look_at(service))

    def settle_by_person(self, seq: int, *, succeeded: bool, reason: str, by: str) -> OutboxRecord:
        """A person's word ends an unknown outcome.

        Raises NotFound, Conflict (not recovery_pending), Refused (as failed before the horizon: it may still land).
        """

        def run(tx: Tx) -> OutboxRecord:
            record = tx.outbox.get(seq)
            if record.state is not OutboxState.RECOVERY_PENDING:
                raise Conflict(f"{record.id} is {record.state.value}: there is nothing to settle")
            if not succeeded and not after_horizon(record, tx.now()):
                raise Refused(
                    f"{record.id} cannot be settled as failed yet: its effect may still land",
                    code="before_horizon",
                    hint=f"after {rfc3339(record.horizon_at)}",
                )
            told = Judgement(done=succeeded, reason=reason, code="" if succeeded else "settled_failed")
            return self._write(tx, record, told, by=by)

        return self._store.transact("settle_by_person", run)

    def _write(self, tx: Tx, record: OutboxRecord, judgement: Judgement, *, by: str) -> OutboxRecord:
        done = bool(judgement.done)
        outcome = Outcome(
            ok=done,
            dry_run=record.request.dry_run,
            code="" if done else judgement.code,
            detail=judgement.reason,
            evidence=judgement.evidence,
        )
        to = OutboxState.SUCCEEDED if done else OutboxState.FAILED
        ended = end_record(
            tx, record, to, outcome, settled_by=by, note=judgement.reason, watch_window_s=self._watch_window_s
        )
        tx.after_commit(self._wakes.waker("fleet_reconciler"))
        return ended
