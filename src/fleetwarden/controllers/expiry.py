"""What ends by itself: approvals that nobody answered, freezes whose end has come, evidence that was kept long enough.

Runs whatever the fleet's health, since time passes for a fleet that cannot be seen, too.  An end is told before it
comes, where a person could still act on it, and written down when it has come; it never rejects and never grants.
"""

from __future__ import annotations

from fleetwarden.controllers.approvals import ApprovalDesk
from fleetwarden.controllers.capturing import prune
from fleetwarden.controllers.shadowing import prune as prune_shadows
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.domain import freezing
from fleetwarden.domain.actions import ActionApproval, LeaseFence
from fleetwarden.domain.errors import Conflict
from fleetwarden.domain.identifiers import SECOND, Micros, rfc3339
from fleetwarden.domain.lifecycles import ApprovalState
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.stores import Store, Tx

__all__ = ["CADENCE", "Expiry", "warns_at"]

CADENCE = "expiry"
SHARE = 4  # a warning comes in the last quarter of an approval's time at the earliest


class Expiry:
    """Tells of ends: `run` is one pass under a lease; each end is told once even where several planes run it."""

    def __init__(self, store: Store, configuration: ConfigurationSource, desk: ApprovalDesk, wakes: Wakes) -> None:
        self._store = store
        self._configuration = configuration
        self._desk = desk
        self._wakes = wakes

    def run(self, fence: LeaseFence | None = None) -> int:
        """Expire, warn, tell; returns how much of it there was.  Raises Fenced, StoreUnavailable."""
        kept_long_enough = prune(self._store) + prune_shadows(self._store)
        return self._desk.expire_due(fence) + self._warn(fence) + self._tell_ended(fence) + kept_long_enough

    def _warn(self, fence: LeaseFence | None) -> int:
        warns_s = self._configuration.current().policy.options.approval_warns_s
        if warns_s == 0:
            return 0
        now, pending = self._store.read(lambda tx: (tx.now(), tx.approvals.in_state(ApprovalState.PENDING)))
        due = [one for one in pending if one.warned_at is None and warns_at(one, warns_s) <= now < one.expires_at]
        return sum(self._warn_of(one.seq, fence) for one in due)

    def _warn_of(self, seq: int, fence: LeaseFence | None) -> int:
        def run(tx: Tx) -> int:
            if fence is not None:
                tx.leases.check(fence)
            one = tx.approvals.get(seq)
            if one.status is not ApprovalState.PENDING or one.warned_at is not None or one.expires_at <= tx.now():
                return 0
            tx.approvals.warned(seq)
            yes = sum(vote.decision == "approved" for vote in one.votes)
            tx.journal.write(
                topic="notice",
                actor="gate",
                subject=one.request.target,
                severity="warning",
                summary=f"approval {one.id} ({one.request.kind} {one.request.target}) expires at "
                f"{rfc3339(one.expires_at)}: {yes} of {one.needed.count} needed have granted it",
                detail={"approval": one.id},
            )
            return 1

        return self._store.transact("warn", run)

    def _tell_ended(self, fence: LeaseFence | None) -> int:
        ended = self._store.read(lambda tx: tx.freezes.ended())
        return sum(self._tell(one.seq, fence) for one in ended)

    def _tell(self, seq: int, fence: LeaseFence | None) -> int:
        def run(tx: Tx) -> int:
            if fence is not None:
                tx.leases.check(fence)
            one = tx.freezes.told(seq)
            tx.journal.write(
                topic="notice",
                actor="gate",
                subject=one.value,
                severity="warning",
                summary=f"the freeze of {freezing.words(one.scope, one.value)} by {one.owner} ended by itself at "
                f"{rfc3339(one.until)}: what is needed is decided anew",
                detail={"freeze": one.seq},
            )
            tx.after_commit(self._wakes.waker("fleet_reconciler"))
            return 1

        try:
            return self._store.transact("tell_thaw", run)
        except Conflict:  # another plane told it, or it was lifted
            return 0


def warns_at(approval: ActionApproval, warns_s: int) -> Micros:
    """When people are told that it will expire: `warns_s` before, but not before the last quarter of its time."""
    lifetime = approval.expires_at - approval.created_at
    return approval.expires_at - min(warns_s * SECOND, lifetime // SHARE)
