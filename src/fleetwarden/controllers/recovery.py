"""Recovery: what stopped between the two commits is marked, looked at, and settled; it is never called again.

A running record whose lease is older than ours, or that is under our own lease and no thread of ours carries out, is
marked `recovery_pending`.  A pending one is settled by one fresh observation where the domain can judge it, and waits
for a person where it cannot.  Settlement needs no old token: whoever holds the newest lease may settle.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from fleetwarden.controllers.intent_moves import DEADLINE_S
from fleetwarden.controllers.patience import Patience
from fleetwarden.controllers.settlement import end_record
from fleetwarden.controllers.sightings import Sightings
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.controllers.watch_again import follow_again
from fleetwarden.domain.actions import LeaseFence, OutboxRecord, Outcome
from fleetwarden.domain.errors import Conflict, Fenced, Refused
from fleetwarden.domain.identifiers import rfc3339
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.domain.outside import carried_out_elsewhere
from fleetwarden.domain.recovery import Judgement, after_horizon, judge
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.stores import Store, Tx

__all__ = ["Recovery"]

log = structlog.get_logger(__name__)


class Recovery:
    """Marks and settles.  `executing` tells which records a thread of this plane carries out right now.

    `host`: where several planes share the fleet, this one's.  What other hosts' planes began is marked once their lease
    has lapsed, and left to them to settle, since only they can look; what they never began and let lapse is abandoned,
    so that its target is free again.  "" looks after everything.
    """

    def __init__(
        self,
        store: Store,
        configuration: ConfigurationSource,
        sightings: Sightings,
        wakes: Wakes,
        executing: Callable[[], frozenset[int]],
        *,
        watch_window_s: float,
        host: str = "",
        converge_s: float = DEADLINE_S,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._sightings = sightings
        self._wakes = wakes
        self._executing = executing
        self._watch_window_s = watch_window_s
        self._host = host
        self._converge_s = converge_s
        self._patience = Patience()

    def run(self, fence: LeaseFence) -> int:
        """Mark, then settle what can be settled; returns how many records it settled."""
        found, now = self._store.read(lambda tx: (tx.outbox.in_state(*self._states()), tx.now()))
        pending = [one for one in found if not carried_out_elsewhere(one.request)]  # whose claimant says how it ended
        self._patience.forget_others([one.seq for one in pending])
        settled = 0
        for record in pending:
            if record.state is OutboxState.PREPARED:
                if not self._ours(record) and now > record.expires_at:
                    self._drop(record, fence)
                continue
            if record.state is OutboxState.RUNNING and not self._mark(record, fence):
                continue
            if self._ours(record) and self._patience.is_due(record.seq, now, self._declared()):
                settled += self._settle(record.seq, fence)
        return settled

    def _states(self) -> tuple[OutboxState, ...]:
        """A prepared record of our own is the executor's; others' are looked at only where there are others."""
        begun = (OutboxState.RUNNING, OutboxState.RECOVERY_PENDING)
        return (OutboxState.PREPARED, *begun) if self._host else begun

    def _ours(self, record: OutboxRecord) -> bool:
        return not self._host or record.host in ("", self._host)

    def _drop(self, record: OutboxRecord, fence: LeaseFence) -> None:
        """Another host's authorisation that lapsed: it was never begun, and nobody there may be left to say so."""

        def run(tx: Tx) -> None:
            tx.lock_admission(exclusive=True)
            tx.leases.check(fence)
            now = tx.outbox.get(record.seq)
            if now.state is OutboxState.PREPARED and tx.now() > now.expires_at:
                lapsed = tx.outbox.abandon(now.seq, f"the authorisation lapsed: no plane of host {now.host} began it")
                follow_again(tx, lapsed)

        self._store.transact("drop_lapsed", run)

    def _mark(self, record: OutboxRecord, fence: LeaseFence) -> bool:
        """running → recovery_pending, if nobody is carrying it out any more."""
        same = self._same_lease(record, fence)
        if record.seq in self._executing() or (same and not self._orphan(record, fence)):
            return False

        def run(tx: Tx) -> bool:
            tx.leases.check(fence)
            if not same and not _lapsed(tx, record):
                return False
            now = tx.outbox.get(record.seq)
            if now.state is not OutboxState.RUNNING:
                return now.state is OutboxState.RECOVERY_PENDING
            told = Outcome(
                ok=False, unknown_outcome=True, code="interrupted", detail="the plane stopped during the call"
            )
            end_record(tx, now, OutboxState.RECOVERY_PENDING, told, watch_window_s=self._watch_window_s)
            return True

        return self._store.transact("mark_unknown", run)

    def _same_lease(self, record: OutboxRecord, fence: LeaseFence) -> bool:
        """Whether it was begun under this lease; it may be another only where each host has one of its own."""
        theirs = record.fence
        return not self._host or (theirs is not None and (theirs.cadence, theirs.shard) == (fence.cadence, fence.shard))

    @staticmethod
    def _orphan(record: OutboxRecord, fence: LeaseFence) -> bool:
        theirs = record.fence
        same = theirs is not None and (theirs.cadence, theirs.shard) == (fence.cadence, fence.shard)
        return theirs is not None and same and theirs.token <= fence.token

    def _declared(self) -> str:
        return self._configuration.current().fleet.digest

    def _settle(self, seq: int, fence: LeaseFence) -> int:
        record, now = self._store.read(lambda tx: (tx.outbox.get(seq), tx.now()))
        if record.state is not OutboxState.RECOVERY_PENDING:
            return 0
        judgement = self._judge(record)
        if judgement.done is None:
            if judgement.by_person:
                self._patience.wait(seq, now, self._declared())
            log.info("outcome still unknown", action=record.id, reason=judgement.reason)
            return 0

        def run(tx: Tx) -> int:
            tx.leases.check(fence)
            known = tx.outbox.get(seq)
            if known.state is not OutboxState.RECOVERY_PENDING:
                return 0
            self._write(tx, known, judgement, by="evidence")
            return 1

        return self._store.transact("settle", run)

    def _judge(self, record: OutboxRecord) -> Judgement:
        fleet = self._configuration.current().fleet
        service = fleet.services.get(record.request.target)
        if service is None and fleet.error:
            return Judgement(done=None, reason=f"the registry cannot be read: {fleet.error}")
        if service is None and not record.request.dry_run:
            told = f"{record.request.target} is no longer in the registry: a person settles it"
            return Judgement(done=None, reason=told, by_person=True)
        return judge(record, None if service is None else self._sightings.seen(service))

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
            tx,
            record,
            to,
            outcome,
            settled_by=by,
            note=judgement.reason,
            watch_window_s=self._watch_window_s,
            watch_scale_down=self._configuration.current().policy.options.watch_scale_down,
            converge_s=self._converge_s,
        )
        tx.after_commit(self._wakes.waker("fleet_reconciler"))
        return ended


def _lapsed(tx: Tx, record: OutboxRecord) -> bool:
    """Whether nobody can be carrying it out any more: the lease under which it was begun has ended or moved on.

    A lease outlives the calls under it.  The row stays locked, so that it cannot be extended beside us.
    """
    if record.fence is None:
        return True
    try:
        return tx.leases.check(record.fence) < tx.now()
    except Fenced:
        return True
