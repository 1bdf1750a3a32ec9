"""The loop: everything that runs, each on a thread of its own, under a lease where only one may run.

A subscription is a name, an interval and a call.  Its thread waits for a wake-up or the interval (with jitter), takes
its lease, and runs one pass; whatever a pass raises is logged and counted, and the thread goes on.  Stopping drains:
no pass is cut off, and leases are given back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import Event, Lock, Thread

import msgspec
import structlog

from fleetwarden.controllers.heartbeat import Heartbeat, Wanted
from fleetwarden.controllers.sightings import SLOW_MIN_S
from fleetwarden.controllers.supervision import Supervision
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.errors import Fenced, FleetError, NotFound
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.ports.stores import Store, Tx
from fleetwarden.ports.system import Clock, IdSource

__all__ = ["Loop", "Subscription", "TickState"]

log = structlog.get_logger(__name__)
JITTER = 0.1
LATE_FACTOR = 3.0  # a pass this many intervals late counts as overdue


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that runs.  `leased`: only under the lease (name, shard), whose fence the call gets.  `vital`: the
    plane's health depends on it; one that is late and not vital is only named."""

    name: str
    interval_s: float
    run: Callable[[LeaseFence | None], object]
    leased: bool = True
    vital: bool = True
    shard: str = "0"


class TickState(msgspec.Struct, kw_only=True):
    """What one subscription did last, for status and health.  Times are on the clock's monotonic scale."""

    last_begun: float | None = None
    last_ended: float | None = None
    took_s: float = 0.0
    runs: int = 0
    failures: int = 0
    restarts: int = 0  # of its thread, which should never be needed
    error: str = ""
    late: str = ""
    slow: str = ""
    leader: bool = False


class Loop:
    """Runs subscriptions until it is stopped."""

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        store: Store,
        wakes: Wakes,
        supervision: Supervision,
        subscriptions: Sequence[Subscription],
        *,
        holder: str,
        lease_ttl_s: float,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        """`heartbeat`: where other planes may lead, leases live for `lease_ttl_s` and beats extend them; without it
        they are extended by their passes, and live for two intervals at least."""
        self._clock = clock
        self._ids = ids
        self._store = store
        self._wakes = wakes
        self._supervision = supervision
        self._subscriptions = {one.name: one for one in subscriptions}
        self._holder = holder
        self._ttl = lease_ttl_s
        self._heartbeat = heartbeat
        self._stop = Event()
        self._lock = Lock()
        self._threads: dict[str, Thread] = {}
        self._fences: dict[str, tuple[LeaseFence, float]] = {}
        self.states = {one.name: TickState() for one in subscriptions}
        self.leased = tuple(one.name for one in subscriptions if one.leased)

    def start(self) -> None:
        """Start one thread per subscription, and one that watches over them."""
        for name in self._subscriptions:
            self._spawn(name)
        if self._heartbeat is not None:
            thread = Thread(target=self._beat_on, args=(self._heartbeat,), name="heartbeat", daemon=True)
            with self._lock:
                thread.start()
                self._threads["heartbeat"] = thread

    def _beat_on(self, heartbeat: Heartbeat) -> None:
        pause = 0.0
        while not self._stop.is_set():
            self._clock.wait(self._stop, pause)
            if not self._stop.is_set():
                pause = self._beat(heartbeat)

    def _beat(self, heartbeat: Heartbeat) -> float:
        """Extend what is held and in use.  A pass that hangs is given up for: its lease lapses, another takes over."""
        held = dict(self._fences)
        wanted = []
        for name, one in self._subscriptions.items():
            fence = held.get(name)
            if one.leased and not (fence is not None and self._late(name, one)):
                wanted.append(Wanted(name=name, shard=one.shard, fence=None if fence is None else fence[0]))
        began = self._clock.monotonic()
        beat = heartbeat.beat(wanted)
        for extended in beat.extended:
            if (known := self._fences.get(extended.cadence)) is not None and known[0] == extended:
                self._fences[extended.cadence] = (extended, began)
        for name in beat.lost:
            self._fences.pop(name, None)
            self.states[name].leader = False
        return beat.next_s

    def _spawn(self, name: str) -> None:
        thread = Thread(target=self._serve, args=(self._subscriptions[name],), name=name, daemon=True)
        with self._lock:  # whoever watches must not see it before it lives, and take it for dead
            thread.start()
            self._threads[name] = thread

    def _serve(self, one: Subscription) -> None:
        event = self._wakes.event(one.name)
        while not self._stop.is_set():
            event.clear()  # before the pass: a wake-up during it is not lost
            self.tick(one.name)
            if not self._stop.is_set():
                jitter = 1.0 + JITTER * (2.0 * self._ids.fraction() - 1.0)
                self._clock.wait(event, one.interval_s * jitter)

    def tick(self, name: str) -> object:
        """One pass of one subscription, by hand or by its thread; returns what the pass returned, None if it failed
        or another plane holds the lease.  Raises NotFound."""
        if name not in self._subscriptions:
            raise NotFound(
                f"this plane runs no pass {name!r}", hint=f"it runs {', '.join(sorted(self._subscriptions))}"
            )
        one, state = self._subscriptions[name], self.states[name]
        state.last_begun = self._clock.monotonic()
        try:
            fence = self._acquire(one) if one.leased else None
            state.leader = fence is not None or not one.leased
            result = one.run(fence) if state.leader else None
            state.error = ""
            return result
        except Fenced as error:
            self._fences.pop(name, None)
            state.leader, state.error = False, str(error)
            log.warning("lease lost", tick=name, error=str(error))
        except FleetError as error:
            state.failures, state.error = state.failures + 1, str(error)
            log.error("pass failed", tick=name, error=str(error))
        except Exception as error:  # the loop and the entry points catch everything: a thread must not die
            state.failures, state.error = state.failures + 1, f"{type(error).__name__}: {error}"
            log.exception("pass failed", tick=name)
        finally:
            state.runs += 1
            state.last_ended = self._clock.monotonic()
            state.took_s = state.last_ended - state.last_begun
        return None

    def _acquire(self, one: Subscription) -> LeaseFence | None:
        """The subscription's lease, extended only when a third of it has passed: an idle pass writes nothing.

        A kept fence may be stale by now; every write under it is checked by the store.
        """
        ttl = self._ttl if self._heartbeat is not None else max(self._ttl, 2 * one.interval_s)
        now = self._clock.monotonic()
        known = self._fences.get(one.name)
        if known is not None and now - known[1] < ttl / 3:
            return known[0]
        fence = self._store.transact(
            "acquire_lease", lambda tx: tx.leases.acquire(one.name, one.shard, self._holder, int(ttl * SECOND))
        )
        if fence is None:
            self._fences.pop(one.name, None)
        else:
            self._fences[one.name] = (fence, now)
        return fence

    def watch_over(self) -> list[str]:
        """Restart threads that died, and tell supervision which are late; returns the names that were restarted.

        A pass that was slow and has ended is only named: what it rested on has ages and deadlines of its own.
        """
        restarted = []
        for name, one in self._subscriptions.items():
            thread = self._threads.get(name)
            if thread is not None and not thread.is_alive() and not self._stop.is_set():
                self.states[name].restarts += 1
                log.error("controller thread died", tick=name)
                self._spawn(name)
                restarted.append(name)
            late = self._late(name, one)
            self.states[name].late = late
            self.states[name].slow = "" if late else self._slow(name, one)
            self._supervision.overdue(name, late if one.vital else "")
        return restarted

    def lease(self, name: str) -> LeaseFence | None:
        """The lease of a subscription, for a pass that belongs to it and runs on another thread; None if another
        plane holds it.  Raises StoreUnavailable."""
        return self._acquire(self._subscriptions[name])

    def _slow(self, name: str, one: Subscription) -> str:
        """Whether its last whole pass took longer than the time between two of them."""
        state = self.states[name]
        bound = max(one.interval_s, SLOW_MIN_S)
        return f"its last pass took {state.took_s:.0f} s, more than {bound:.0f} s" if state.took_s > bound else ""

    def _late(self, name: str, one: Subscription) -> str:
        state = self.states[name]
        if state.last_begun is None:
            return ""
        since = self._clock.monotonic() - max(state.last_begun, state.last_ended or 0.0)
        bound = max(LATE_FACTOR * one.interval_s, 30.0)
        return f"no pass for {since:.0f} s" if since > bound else ""

    def stop(self, timeout_s: float) -> bool:
        """Let running passes end, give leases back; returns whether all threads ended within `timeout_s`."""
        self._stop.set()
        for name in self._subscriptions:
            self._wakes.wake(name)
        until = self._clock.monotonic() + timeout_s
        with self._lock:
            threads = list(self._threads.values())
        for thread in threads:
            thread.join(max(0.0, until - self._clock.monotonic()))
        ended = not any(thread.is_alive() for thread in threads)
        self._release()
        return ended

    def _release(self) -> None:
        for fence, _ in list(self._fences.values()):
            try:
                self._store.transact("release_lease", partial(self._give_back, fence))
            except FleetError as error:
                log.warning("lease not given back", cadence=fence.cadence, error=str(error))
        self._fences.clear()

    def _give_back(self, fence: LeaseFence, tx: Tx) -> None:
        tx.leases.release(fence)
        tx.after_commit(self._wakes.waker(fence.cadence))  # whoever stands by need not wait for the end of a lease
