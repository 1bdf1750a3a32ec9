"""Delivering: sends the messages that are due, each target's on a thread of its own, in their order.

A message is claimed in one transaction, sent outside of any, and settled in another: whatever stops in between, the
claim lapses and it is sent again.  So a message arrives at least once, and now and then twice.  A target that fails is
tried again later and later and holds up nobody else's messages; its own critical ones do not wait behind others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock

import structlog

from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.errors import Conflict, FleetError
from fleetwarden.domain.identifiers import SECOND, Micros, rfc3339
from fleetwarden.domain.messages import ATTEMPTS_MAX, Delivery, DeliveryState, retry_after
from fleetwarden.domain.scrubbing import scrubbed
from fleetwarden.ports.notices import Channel, Message, NotifySource
from fleetwarden.ports.stores import Store, Tx

__all__ = ["CLAIM", "KEPT", "Delivering", "message_of"]

log = structlog.get_logger(__name__)
CLAIM: Micros = 60 * SECOND  # longer than any message may take
KEPT: Micros = 30 * 86_400 * SECOND
PRUNE_EVERY: Micros = 600 * SECOND
AT_ONCE = 50  # messages of one target in one go
LOOKED_AT = 200
ERROR_CHARACTERS_MAX = 500
SUMMARY_CHARACTERS_MAX = 1000


class Delivering:
    """`dispatch` runs a job beside others; `sender`: how this plane calls itself in a message."""

    def __init__(
        self,
        store: Store,
        source: NotifySource,
        channel: Channel,
        dispatch: Callable[[Callable[[], None]], None],
        *,
        sender: str,
    ) -> None:
        self._store = store
        self._source = source
        self._channel = channel
        self._dispatch = dispatch
        self._sender = sender
        self._lock = Lock()
        self._busy: set[str] = set()
        self._pruned_at: Micros | None = None

    def run(self, fence: LeaseFence | None = None) -> int:
        """Begin with every target that has messages and is not being served; returns how many those are."""
        if self._source.unreadable:
            return 0
        targets, now = self._store.read(lambda tx: (tx.deliveries.open_targets(), tx.now()))
        begun = 0
        for name in targets:
            with self._lock:
                if name in self._busy:
                    continue
                self._busy.add(name)
            begun += 1
            try:
                self._dispatch(partial(self._serve, name, fence))
            except RuntimeError:  # the plane ends
                self._leave(name)
        self._prune(now)
        return begun

    def _prune(self, now: Micros) -> None:
        if self._pruned_at is not None and 0 <= now - self._pruned_at < PRUNE_EVERY:
            return
        self._pruned_at = now
        self._store.transact("prune_messages", lambda tx: tx.deliveries.prune(now - KEPT))

    def _leave(self, name: str) -> None:
        with self._lock:
            self._busy.discard(name)

    def _serve(self, name: str, fence: LeaseFence | None) -> None:
        try:
            for _ in range(AT_ONCE):
                claimed = self._store.transact("claim_message", partial(self._claim, name, fence))
                if claimed is None or not self._send(claimed):
                    return
        except FleetError as error:  # the lease is lost or the store away: whoever leads next goes on
            log.warning("messages wait", target=name, error=str(error))
        finally:
            self._leave(name)

    @staticmethod
    def _claim(name: str, fence: LeaseFence | None, tx: Tx) -> Delivery | None:
        if fence is not None:
            tx.leases.check(fence)
        now = tx.now()
        due = _next(tx.deliveries.open(name, limit=LOOKED_AT), now)
        return None if due is None else tx.deliveries.claim(due.seq, until=now + CLAIM)

    def _send(self, claimed: Delivery) -> bool:
        """Whether the next one may follow."""
        target = self._source.current().targets.get(claimed.target)
        if target is None:
            gone = f"{claimed.target} is no target of notify.yml any more"
            self._store.transact("bury_message", partial(_bury, claimed, gone))
            return True
        error = ""
        try:
            self._channel.send(target, message_of(claimed, self._sender))
        except Exception as raised:  # noqa: BLE001 - anybody's code may be behind it
            said = str(raised) if isinstance(raised, FleetError) else f"{type(raised).__name__}: {raised}"
            error = scrubbed(" ".join(said.split()))[:ERROR_CHARACTERS_MAX]
            log.warning("message not delivered", target=target.name, message=claimed.id, error=error)
        self._store.transact("settle_message", partial(_settle, claimed, error))
        return not error


def _settle(claimed: Delivery, error: str, tx: Tx) -> None:
    try:
        if not error:
            tx.deliveries.finish(claimed, state=DeliveryState.DELIVERED, not_before=claimed.not_before, error="")
        elif claimed.attempts >= ATTEMPTS_MAX:
            _bury(claimed, f"failed {claimed.attempts} times, the last time: {error}", tx)
        else:
            later = tx.now() + retry_after(claimed.attempts)
            tx.deliveries.finish(claimed, state=DeliveryState.WAITING, not_before=later, error=error)
    except Conflict as conflict:  # it took longer than its claim, and somebody else sends it
        log.warning("message was taken over", message=claimed.id, error=str(conflict))


def _bury(claimed: Delivery, error: str, tx: Tx) -> None:
    """Given up.  Written into the journal, but not told: it would be told through the very targets that fail."""
    tx.deliveries.finish(claimed, state=DeliveryState.DEAD, not_before=claimed.not_before, error=error)
    tx.journal.write(
        topic="notification",
        actor="notifier",
        subject=claimed.subject,
        severity="error",
        summary=f"message {claimed.id} to {claimed.target} was given up: {error}",
        detail={"message": claimed.id, "target": claimed.target, "notices": claimed.count},
    )


def _next(waiting: Sequence[Delivery], now: Micros) -> Delivery | None:
    """The message that goes next: the oldest one that is due, and not behind one that is to be tried again first."""
    held: set[bool] = set()  # by whether critical: those that failed hold up only their own kind
    for one in waiting:
        claimed = one.claimed_until is not None and one.claimed_until > now
        if one.critical in held:
            continue
        if claimed or (one.attempts and one.not_before > now):
            held.add(one.critical)
        elif one.not_before <= now:
            return one
    return None


def message_of(delivery: Delivery, sender: str) -> Message:
    """What people read."""
    first, *others = delivery.lines
    about = f"{delivery.subject}: " if delivery.subject and not first.summary.startswith(delivery.subject) else ""
    more = f" (and {delivery.count - 1} more)" if delivery.count > 1 else ""
    lines = [
        f"{rfc3339(one.at)}  {_short(one.summary)}" + (f"  ({one.count} times)" if one.count > 1 else "")
        for one in (first, *others)
    ]
    beyond = delivery.count - sum(one.count for one in delivery.lines)
    if beyond:
        lines.append(f"and {beyond} more notices: fleetwarden journal list --kind notice")
    lines.append(f"-- fleetwarden on {sender}, message {delivery.id}")
    title = f"[{delivery.severity}] {about}{_short(first.summary)[:200]}{more}"
    return Message(severity=delivery.severity, title=title, body="\n".join(lines))


def _short(summary: str) -> str:
    return scrubbed(" ".join(summary.split()))[:SUMMARY_CHARACTERS_MAX]
