"""Between the event loop and the threads that judge bodies of events and commit them: many at a time, both ways.

A turn of a thread costs as much as reading a body does, and so does a look at who sends.  So whatever has arrived
meanwhile is judged in one turn, with one look for each sender, which happens after all of them have arrived; and the
answers of one commit come back to the loop in one turn.  Nobody waits for company.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from typing import Final

import anyio.to_thread
from anyio import CapacityLimiter

from fleetwarden.app.event_views import Delivery
from fleetwarden.app.identity import Caller
from fleetwarden.domain.errors import FleetError, Retryable
from fleetwarden.ports.events import Receipt
from fleetwarden.web.callers import caller_by
from fleetwarden.web.plane import ServedPlane

__all__ = ["TOGETHER_BYTES", "EventDesk"]

THREADS: Final = 4  # that judge large bodies, one body each
SENDING_MAX: Final = 128  # requests of one sender at once
TOGETHER_BYTES: Final = 16 * 1024  # a larger body has a turn of its own, and keeps no small one waiting
TOGETHER_MAX: Final = 32  # bodies judged in one turn


class _Waiting:
    """One body, and the loop's future that waits for what becomes of it."""

    __slots__ = ("answer", "delivery", "error", "given", "loop", "receipts")

    def __init__(self, given: str, delivery: Delivery) -> None:
        self.given = given
        self.delivery = delivery
        self.loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Sequence[Receipt]] = self.loop.create_future()
        self.receipts: Sequence[Receipt] = ()
        self.error: BaseException | None = None


class EventDesk:
    """One of each application.  Its requests may come from several loops."""

    def __init__(self, plane: ServedPlane) -> None:
        self._plane = plane
        self.limiter = CapacityLimiter(THREADS)
        self._sending: Counter[str] = Counter()
        self._lock = Lock()
        self._arrived: deque[_Waiting] = deque()
        self._judging = False
        self._settled: deque[_Waiting] = deque()
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="events")  # one judges, one commits

    @contextmanager
    def sender(self, name: str) -> Iterator[None]:
        """While a request of that sender is in work.  Raises Retryable (`busy`) where too many are."""
        if self._sending[name] >= SENDING_MAX:
            raise Retryable(f"{SENDING_MAX} requests of this sender are in work", code="busy", hint="send it again")
        self._sending[name] += 1
        try:
            yield
        finally:
            self._sending[name] -= 1
            if not self._sending[name]:
                del self._sending[name]

    async def kept(self, given: str, delivery: Delivery) -> Sequence[Receipt]:
        """Have a small body judged and kept; its receipts are there after the commit.  Raises as `submit` does."""
        waiting = _Waiting(given, delivery)
        with self._lock:
            self._arrived.append(waiting)
            begins, self._judging = not self._judging, True
        if begins:
            self._threads.submit(self._judge)
        return await waiting.answer

    async def kept_alone(self, given: str, delivery: Delivery) -> Sequence[Receipt]:
        """The same for a body of any size, in a turn of its own."""
        waiting = _Waiting(given, delivery)
        await anyio.to_thread.run_sync(self._judge_these, (waiting,), limiter=self.limiter)
        return await waiting.answer

    def _judge(self) -> None:
        while batch := self._next():
            self._judge_these(batch)

    def _next(self) -> Sequence[_Waiting]:
        with self._lock:
            batch = [self._arrived.popleft() for _ in range(min(TOGETHER_MAX, len(self._arrived)))]
            self._judging = bool(batch)
        return batch

    def _judge_these(self, batch: Sequence[_Waiting]) -> None:
        known: dict[str, Caller | FleetError] = {}
        lead = False
        for one in batch:
            try:
                asks = partial(self._caller, one.given, known)
                ticket, leads = self._plane.events.submit(asks, one.delivery, told=self._tell)
            except BaseException as error:  # noqa: BLE001 -- handed over to the request, whatever it is
                one.error = error
                self._settled.append(one)
                continue
            lead = lead or leads
            ticket.done.add_done_callback(partial(self._settle, one))
        if lead:
            self._threads.submit(self._plane.events.admission.lead)
        self._tell()

    def _caller(self, given: str, known: dict[str, Caller | FleetError]) -> Caller:
        found = known.get(given)
        if found is None:
            try:
                found = caller_by(self._plane, given)
            except FleetError as error:
                found = error
            known[given] = found
        if isinstance(found, FleetError):
            raise found
        return found

    def _settle(self, one: _Waiting, done: Future[Sequence[Receipt]]) -> None:
        one.error = done.exception()
        if one.error is None:
            one.receipts = done.result()
        self._settled.append(one)

    def _tell(self) -> None:
        """Hand over what is settled, in one turn of each loop that waits."""
        found: dict[asyncio.AbstractEventLoop, list[_Waiting]] = {}
        with suppress(IndexError):
            while True:
                one = self._settled.popleft()
                found.setdefault(one.loop, []).append(one)
        for loop, these in found.items():
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_hand_over, these)


def _hand_over(these: Sequence[_Waiting]) -> None:
    for one in these:
        if one.answer.done():
            continue
        if one.error is not None:
            one.answer.set_exception(one.error)
        else:
            one.answer.set_result(one.receipts)
