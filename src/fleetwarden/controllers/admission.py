"""Admission of events: a bounded queue in front of the store, emptied in turns, many bodies in one transaction.

A body is taken whole or not at all, and whoever sent it hears of it only after the commit.  Sources take turns, so that
one that floods waits for itself and keeps nobody else waiting.  What does not fit is told to come again; nothing that
was told it is kept is ever dropped.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Lock
from typing import Final

import structlog

from fleetwarden.domain.errors import FleetError, OutcomeUnknown, Retryable
from fleetwarden.domain.events import FleetEvent
from fleetwarden.ports.events import Receipt
from fleetwarden.ports.stores import Store, Tx

__all__ = ["Admission", "Ticket"]

log = structlog.get_logger(__name__)
BATCH_BODIES: Final = 64
BATCH_EVENTS: Final = 500
COUNTED_MAX: Final = 200  # pairs of source and severity; names of senders are not ours to bound
OTHER: Final = "other"
SHARE: Final = 2  # one source may hold half of the queue


class Ticket:
    """One body in the queue.  `done` has the receipts once it is committed, or why it is not; then `told` is called."""

    __slots__ = ("done", "events", "source", "told")

    def __init__(self, source: str, events: Sequence[FleetEvent], told: Callable[[], None] | None) -> None:
        self.source = source
        self.events = events
        self.told = told
        self.done: Future[Sequence[Receipt]] = Future()
        self.done.set_running_or_notify_cancel()  # who goes away meanwhile cannot take it back


class Admission:
    """`placed` says which service an event is about; `taken` is called with every commit's new events.

    `waiting_max`: events that may wait at once.
    """

    def __init__(
        self,
        store: Store,
        placed: Callable[[Sequence[FleetEvent]], list[FleetEvent]],
        taken: Callable[[Tx, Sequence[Receipt]], None],
        *,
        waiting_max: int,
    ) -> None:
        self._store = store
        self._placed = placed
        self._taken = taken
        self._waiting_max = waiting_max
        self._lock = Lock()
        self._queues: dict[str, deque[Ticket]] = {}
        self._turns: deque[str] = deque()
        self._held: Counter[str] = Counter()
        self._waiting = 0
        self._leading = False
        self.accepted: Counter[tuple[str, str]] = Counter()  # by source and severity: a metric
        self.duplicates = 0
        self.refused: Counter[str] = Counter()  # by code: a metric

    @property
    def waiting(self) -> int:
        """Events that wait now."""
        return self._waiting

    def take(self, source: str, events: Sequence[FleetEvent]) -> Sequence[Receipt]:
        """Keep a body's events and return when they are committed.  Raises as `submit` does, and StoreUnavailable."""
        ticket, leads = self.submit(source, events)
        if leads:
            self.lead()
        return ticket.done.result()

    def submit(
        self, source: str, events: Sequence[FleetEvent], told: Callable[[], None] | None = None
    ) -> tuple[Ticket, bool]:
        """Put a body into the queue; with True, whoever calls has to see to it that `lead` runs.

        `told` is called when the body is done, once for all bodies of one commit that have the same; it should not
        raise.  An empty queue takes any body, however large.  Raises Retryable (`busy`).
        """
        ticket = Ticket(source, events, told)
        with self._lock:
            held, most = self._held[source], self._waiting_max // SHARE
            full = self._waiting and self._waiting + len(events) > self._waiting_max
            if full or (held and held + len(events) > most):
                self.refused["busy"] += 1
                raise Retryable(
                    f"{self._waiting:,} events wait to be kept, {held:,} of them of this source: no more are taken now",
                    code="busy",
                    hint="send it again in a second",
                )
            self._held[source] += len(events)
            self._waiting += len(events)
            if source not in self._queues:
                self._queues[source] = deque()
                self._turns.append(source)
            self._queues[source].append(ticket)
            leads, self._leading = not self._leading, True
        return ticket, leads

    def lead(self) -> None:
        """Commit what waits, until nothing does.  One thread at a time; the one that `submit` told to."""
        while batch := self._next():
            try:
                self._commit(batch)
            except BaseException as error:  # whoever waits must hear of it, whatever it is
                log.exception("admission failed")
                for one in batch:
                    if not one.done.done():
                        one.done.set_exception(error)
            finally:
                with self._lock:
                    for one in batch:
                        self._waiting -= len(one.events)
                        self._held[one.source] -= len(one.events)
                        if not self._held[one.source]:
                            del self._held[one.source]
                for told in {one.told for one in batch if one.told is not None}:
                    told()

    def _next(self) -> list[Ticket]:
        """One body of each source in turn, up to a batch; empty: nothing waits, and the lead is given up."""
        batch: list[Ticket] = []
        events = 0
        with self._lock:
            while self._turns and len(batch) < BATCH_BODIES:
                source = self._turns[0]
                queue = self._queues[source]
                if batch and events + len(queue[0].events) > BATCH_EVENTS:
                    break
                self._turns.popleft()
                ticket = queue.popleft()
                batch.append(ticket)
                events += len(ticket.events)
                if queue:
                    self._turns.append(source)
                else:
                    del self._queues[source]
            if not batch:
                self._leading = False
        return batch

    def _commit(self, batch: Sequence[Ticket]) -> None:
        try:
            self._together(batch)
        except (Retryable, OutcomeUnknown) as error:
            self._failed(batch, error)
        except FleetError as error:
            if len(batch) == 1:
                self._failed(batch, error)
                return
            for one in batch:  # one of them cannot be kept: each has to answer for itself
                self._commit([one])

    def _together(self, batch: Sequence[Ticket]) -> None:
        events = self._placed([event for one in batch for event in one.events])

        def run(tx: Tx) -> Sequence[Receipt]:
            made = tx.events.put(events)
            self._taken(tx, [one for one in made if not one.duplicate])
            return made

        made = self._store.transact("events", run)
        self._count(made)
        self.duplicates += sum(one.duplicate for one in made)
        at = 0
        for ticket in batch:
            ticket.done.set_result(list(made[at : at + len(ticket.events)]))
            at += len(ticket.events)

    def _count(self, made: Sequence[Receipt]) -> None:
        found = Counter((one.event.source, one.event.severity) for one in made if not one.duplicate)
        for (source, severity), number in found.items():
            key = (source, severity.value)
            known = key in self.accepted or len(self.accepted) < COUNTED_MAX
            self.accepted[key if known else (OTHER, key[1])] += number

    def _failed(self, batch: Sequence[Ticket], error: FleetError) -> None:
        self.refused[error.code] += len(batch)
        for one in batch:
            one.done.set_exception(error)
