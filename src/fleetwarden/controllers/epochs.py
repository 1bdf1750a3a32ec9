"""What a new epoch does to what was under way: nothing goes on by itself, and nothing is taken for not done.

After a restore every authorised or begun action may have been carried out in the part of the history that is lost: its
outcome is unknown, and settled by positive evidence or by a person, never repeated.  A request that waited for people
may have been answered and carried out: it ends, and is asked anew where it is still needed.  A copy loses nothing, so
there everything stays as it is; only leases and tokens are new.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleetwarden.controllers.intent_moves import approval_withdrawn
from fleetwarden.controllers.settlement import end_record
from fleetwarden.domain.actions import Outcome
from fleetwarden.domain.errors import Conflict, Misconfigured
from fleetwarden.domain.identifiers import SECOND, JsonValue, Micros, rfc3339, show_id
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.ports.epochs import Epoch
from fleetwarden.ports.stores import Tx

__all__ = ["OWNER", "SMALL_GAP", "begin_copied", "begin_restored", "jumped", "release"]

OWNER = "restore"
LATEST_EFFECT_S = 3600  # after a restore: how long the effect of a call that nobody remembers may still land
GAP = 1_000_000
SMALL_GAP = 10_000  # of numbers that people say to each other
_COUNTED_FROM: Micros = 1_767_225_600 * SECOND  # 2026-01-01


def jumped(now: Micros, highest: int) -> int:
    """The floor of numbers after a restore.

    Above everything that is known to have been given out, and above what a history that is lost altogether, between
    an earlier restore of the same backup and this one, can have used at less than one number a second.
    """
    return max(highest, (now - _COUNTED_FROM) // SECOND, 0) + GAP


def _leap(now: Micros, taken_at: Micros) -> int:
    """How far the numbers of what is made at the pace of people jump, so that they stay short enough to be said.

    Above what a history that is lost altogether can have used since the backup at less than one number a second, which
    also keeps two restores of the same backup apart.
    """
    return max(0, now - (taken_at or _COUNTED_FROM)) // SECOND + SMALL_GAP


def begin_restored(
    tx: Tx, origin: Mapping[str, JsonValue], *, at: Micros, highest: Mapping[str, int], by: str
) -> Epoch:
    """Begin the epoch of a restored store, in the transaction that `tx` is.  `at`: when its backup was taken;
    `highest`: what is known to have been given out in the store that it replaces, by table."""
    taken = rfc3339(at) or "an unknown time"
    tx.epochs.jump(
        floor=jumped(tx.now(), max(highest.values(), default=0)), leap=_leap(tx.now(), at), given=highest
    )  # first of all: the freeze of this restore is given a number, too
    frozen = tx.freezes.add(
        owner=OWNER,
        reason=f"restored from the backup of {taken}: what happened since is unknown. "
        "An admin looks, then: fleetwarden db release --reason …",
    )
    epoch = tx.epochs.begin("restored", origin, freeze_seq=frozen.seq)
    _doubt_actions(tx, taken)
    _end_requests(tx, taken)
    tx.work.void_all()
    tx.journal.write(
        topic="recovery",
        actor=by,
        subject="store",
        severity="critical",
        summary=f"the store was restored from the backup of {taken}; it is frozen until an admin releases it",
        detail={"epoch": epoch.seq, "freeze": frozen.seq, **origin},
    )
    return epoch


def _doubt_actions(tx: Tx, taken: str) -> None:
    latest = max(
        (one.expires_at for one in tx.outbox.in_state(OutboxState.PREPARED)), default=tx.now()
    )  # until then an authorised one could be begun
    tx.epochs.unsure(max(latest, tx.now()) + LATEST_EFFECT_S * SECOND)
    told = Outcome(
        ok=False,
        unknown_outcome=True,
        code="restored",
        detail=f"the store was restored from the backup of {taken}; what became of this since is unknown",
    )
    for record in tx.outbox.in_state(OutboxState.RUNNING):
        end_record(tx, record, OutboxState.RECOVERY_PENDING, told, watch_window_s=0.0)


def _end_requests(tx: Tx, taken: str) -> None:
    """Pending and granted ones; a granted one whose action is in doubt ends with that action's settlement."""
    for one in tx.approvals.in_state(ApprovalState.PENDING, ApprovalState.GRANTED):
        if tx.outbox.by_approval(one.seq) is not None:
            continue
        note = f"the store was restored from the backup of {taken}: this may have been answered since; it is asked anew"
        approval_withdrawn(tx, one, note)
        tx.approvals.move(one.seq, came_from=one.status, to=ApprovalState.EXPIRED, note=note)


def begin_copied(tx: Tx, origin: Mapping[str, JsonValue], *, by: str) -> Epoch:
    """Begin the epoch of a store that goes on elsewhere: nothing is lost, and no lease or token of before counts."""
    tx.epochs.jump(floor=0, leap=0, given={})
    epoch = tx.epochs.begin("copied", origin, freeze_seq=None)
    tx.work.void_all()
    tx.journal.write(
        topic="recovery",
        actor=by,
        subject="store",
        severity="warning",
        summary=f"the store is copied to {origin.get('to', 'another one')}",
        detail={"epoch": epoch.seq, **origin},
    )
    return epoch


def release(tx: Tx, *, by: str, reason: str) -> list[Epoch]:
    """End the freeze of every epoch that holds.  Raises Misconfigured (no reason), Conflict (nothing holds)."""
    if not reason.strip():
        raise Misconfigured("a release needs a reason", hint="say what you looked at and found")
    tx.lock_admission(exclusive=True)
    holding = tx.epochs.holding()
    if not holding:
        raise Conflict("nothing is to be released: no restore holds this store", code="nothing_held")
    released = [tx.epochs.release(one.seq, by=by, reason=reason) for one in holding]
    for one in released:
        tx.journal.write(
            topic="recovery",
            actor=by,
            subject="store",
            severity="warning",
            summary=f"{by} released the store after its restore ({show_id('E', one.seq)}): {reason}",
            detail={"epoch": one.seq},
        )
    return released
