"""The worker: durable steps, each leased with a fencing token, retried with backoff, and buried when hopeless.

A step is a row, not a sleeping thread.  A handler does one step and says what follows: done, again after a while, or
it raises.  The worker never loses a step: what it could not finish is claimed again when its lease lapses, and what
failed too often stays visible as dead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import structlog

from fleetwarden.domain.errors import Conflict, Fenced, FleetError, StoreUnavailable
from fleetwarden.domain.identifiers import SECOND, JsonValue
from fleetwarden.ports.stores import Store, Tx, WorkItem

__all__ = ["Handler", "Step", "Worker", "put_off", "still_ours"]

log = structlog.get_logger(__name__)
BATCH_MAX = 32
BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 300.0


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What follows a step.  `after_s` None: the work is done; else it comes again after that many seconds."""

    after_s: float | None
    note: str
    result: Mapping[str, JsonValue] = {}

    @classmethod
    def done(cls, note: str, **result: JsonValue) -> Step:
        return cls(after_s=None, note=note, result=result)

    @classmethod
    def later(cls, after_s: float, note: str) -> Step:
        return cls(after_s=after_s, note=note)


Handler = Callable[[WorkItem], Step]


def still_ours(tx: Tx, item: WorkItem) -> None:
    """Raises Fenced if the step was claimed again meanwhile: then its new holder carries it out."""
    if item.lease_until is not None:
        tx.work.extend(item.seq, item.token, item.lease_until - item.updated_at)


class Worker:
    """Claims due steps and runs their handlers.  `lease_s`: longer than any single step may take."""

    def __init__(self, store: Store, handlers: Mapping[str, Handler], *, holder: str, lease_s: float) -> None:
        self._store = store
        self._handlers = dict(handlers)
        self._holder = holder
        self._lease_us = int(lease_s * SECOND)

    def run(self) -> int:
        """Claim what is due, at most one batch, and do it; returns how many steps were done.

        With nothing due it only reads: an idle plane writes nothing.
        """
        due, now = self._store.read(lambda tx: (tx.work.next_due(sorted(self._handlers)), tx.now()))
        if due is None or due > now:
            return 0
        items = self._store.transact(
            "claim_work", lambda tx: tx.work.claim(self._holder, sorted(self._handlers), self._lease_us, BATCH_MAX)
        )
        for item in items:
            self._one(item)
        return len(items)

    def _one(self, item: WorkItem) -> None:
        if item.attempts > item.max_attempts:  # its earlier holders died with it: it must not take us down for ever
            self._failed(item, "whoever carried it out never came back")
            return
        try:
            step = self._handlers[item.kind](item)
        except StoreUnavailable as error:
            log.warning("work waits for the store", work=item.seq, error=str(error))
            return  # its lease lapses and it is claimed again
        except FleetError as error:
            self._failed(item, str(error))
        except Exception as error:  # a broken handler must not stop the others
            log.exception("work failed", work=item.seq, kind=item.kind)
            self._failed(item, f"{type(error).__name__}: {error}")
        else:
            self._settle(item, lambda tx: self._follow(tx, item, step))

    @staticmethod
    def _follow(tx: Tx, item: WorkItem, step: Step) -> None:
        if step.after_s is None:
            tx.work.complete(item.seq, item.token, {"note": step.note, **step.result})
        else:
            due = tx.now() + int(step.after_s * SECOND)
            tx.work.again(item.seq, item.token, not_before=due, error=step.note, count=False)

    def _failed(self, item: WorkItem, error: str) -> None:
        self._settle(item, lambda tx: put_off(tx, item, error))

    def _settle(self, item: WorkItem, run: Callable[[Tx], object]) -> None:
        try:
            self._store.transact("settle_work", run)
        except (Fenced, Conflict) as error:
            log.warning("work was taken over", work=item.seq, error=str(error))
        except FleetError as error:  # one that cannot be settled must not keep the rest of the batch from its turn
            log.warning("work waits", work=item.seq, error=str(error))


def put_off(tx: Tx, item: WorkItem, error: str) -> bool:
    """Try a failed step again after a while, or give it up, visibly, where it has failed too often; whether it comes
    again.  Part of the caller's transaction.  Raises Fenced, Conflict."""
    if item.attempts >= item.max_attempts:
        tx.work.bury(item.seq, item.token, error)
        tx.journal.write(
            topic="notice",
            actor="worker",
            subject=item.target,
            severity="error",
            summary=f"work W-{item.seq} ({item.kind}) failed {item.attempts} times and is given up: {error}",
            detail={"work": f"W-{item.seq}"},
        )
        return False
    wait = min(BACKOFF_FIRST_S * 2 ** max(0, item.attempts - 1), BACKOFF_MAX_S)
    tx.work.again(item.seq, item.token, not_before=tx.now() + int(wait * SECOND), error=error)
    return True
