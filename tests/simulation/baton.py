"""The baton: many real threads of which exactly one runs, and a seed that says which.

Every actor is a thread that holds the baton, and gives it up only at `pause` and `block`, which the fakes call at each
port.  Whoever gives it up picks the next holder by the seed and hands over directly, so a history costs one switch a
step and repeats exactly.  Time passes here and nowhere else: a little at each step, and in a leap when everybody waits.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from threading import Event, Lock, Thread

from fleetwarden.domain.identifiers import SECOND, Micros

__all__ = ["Baton", "Dead", "SimClock", "Task", "on_one_processor"]

STEPS_MAX = 50_000  # a history that takes more does not end by itself
START: Micros = 1_800_000_000 * SECOND


class Dead(BaseException):
    """Unwinds the threads of a process that was killed; no product code may catch it."""


class SimClock:
    """The Clock port on simulated time.  Only the baton moves it."""

    def __init__(self) -> None:
        self.elapsed: Micros = 0
        self.offset: Micros = START
        self._baton: Baton | None = None

    def belongs_to(self, baton: Baton) -> None:
        self._baton = baton

    def now(self) -> Micros:
        return self.offset + self.elapsed

    def monotonic(self) -> float:
        return self.elapsed / SECOND

    def wait(self, event: Event, timeout_s: float) -> bool:
        assert self._baton is not None
        self._baton.block(event, timeout_s)
        return event.is_set()


@contextmanager
def on_one_processor() -> Iterator[None]:
    """Only one thread runs at a time: handing over is a good deal cheaper if it never wakes another processor.

    Threads that are started meanwhile stay there too.  Several test workers spread over what there is.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw") or 0)
    os.sched_setaffinity(0, {sorted(allowed)[worker % len(allowed)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


class Task:
    """One actor's thread.  `owner` is the process that it belongs to; killing that process discards it."""

    def __init__(self, name: str, owner: str) -> None:
        self.name = name
        self.owner = owner
        self.turn = Lock()
        self.turn.acquire()
        self.ended = Lock()
        self.ended.acquire()
        self.done = False
        self.dead = False
        self.reaped = False  # somebody waits for its end, and has the baton
        self.asleep_until: Micros = 0  # waits for time …
        self.waits_for: Event | None = None  # … or for this, whatever comes first
        self.at = "start"


class Baton:
    """Runs tasks one at a time.

    `note(task, point)` hears every step.  `between(task, point)` is called at every step before the next holder is
    chosen; what it does (an instance crashes, a process is killed) happens while nobody else runs.  `idle()` is called
    when all wait, before time leaps; it may make somebody ready, and kills nobody.  `over()` ends it.
    """

    def __init__(
        self,
        rng: Random,
        clock: SimClock,
        *,
        note: Callable[[str, str], None],
        between: Callable[[Task, str], None],
        over: Callable[[], bool],
        idle: Callable[[], None],
    ) -> None:
        self.rng = rng
        self.clock = clock
        self.steps = 0
        self.failures: list[str] = []
        self._note, self._between, self._over, self._idle = note, between, over, idle
        self._tasks: list[Task] = []
        self._current: Task | None = None
        self._ending = False
        self._finished = Lock()
        self._finished.acquire()
        clock.belongs_to(self)

    @property
    def current(self) -> Task:
        assert self._current is not None
        return self._current

    def tasks(self, owner: str) -> list[Task]:
        return [one for one in self._tasks if one.owner == owner and not one.done]

    def spawn(self, name: str, owner: str, run: Callable[[], object]) -> Task:
        """Add an actor; it first runs when it is chosen."""
        task = Task(name, owner)
        self._tasks.append(task)
        Thread(target=self._life, args=(task, run), name=name, daemon=True).start()
        return task

    def run(self) -> None:
        """Let the actors run until it is over, then discard those that are left."""
        self._hand_over()
        self._finished.acquire()
        self._current = None
        self.kill(lambda _: True)

    def pause(self, point: str) -> None:
        """Give others a chance.  Raises Dead if this task's process was killed."""
        me = self._living()
        me.at = point
        self._pass_on(me, point)

    def block(self, event: Event, timeout_s: float) -> None:
        """Wait for the event or the time, while others run."""
        me = self._living()
        me.at = "wait"
        me.waits_for, me.asleep_until = event, self.clock.elapsed + max(1, round(timeout_s * SECOND))
        self._pass_on(me, "wait")
        me.waits_for = None

    def stall(self, task: Task, seconds: float) -> None:
        """Let a task stand still where it is for so long, whatever it waits for."""
        task.waits_for, task.asleep_until = None, self.clock.elapsed + round(seconds * SECOND)

    def kill(self, which: Callable[[Task], bool]) -> None:
        """Discard tasks at the very points where they stand.  The one that calls, if it is one, ends when it returns to
        the baton."""
        me = self._current
        for task in [one for one in self._tasks if not one.done and which(one)]:
            task.dead = True
            if task is not me:
                task.reaped = True
                self._current = task
                task.turn.release()
                task.ended.acquire()
        self._current = me
        self._tasks = [one for one in self._tasks if not one.done]

    def _living(self) -> Task:
        me = self.current
        if me.dead:
            raise Dead
        return me

    def _pass_on(self, me: Task, point: str) -> None:
        self.steps += 1
        self._note(me.name, point)
        self.clock.elapsed += self._moment()
        self._between(me, point)
        if not me.dead and self._hand_over() is not me:
            me.turn.acquire()
        if me.dead:
            raise Dead

    def _moment(self) -> Micros:
        """How long a step takes: mostly next to nothing, at times long enough for a deadline to pass."""
        draw = self.rng.random()
        if draw < 0.95:
            return 1 + int(draw * 5_000)
        return 1 + int(self.rng.random() ** 3 * 1_500_000)

    def _hand_over(self) -> Task | None:
        """Choose who runs next and let it run; None: it is over, and `run` goes on."""
        if self.steps > STEPS_MAX:
            self.failures.append(f"no end after {STEPS_MAX} steps")
        to = None if self._ending or self.steps > STEPS_MAX or self._over() else self._choose()
        if to is None:
            self._ending = True
            self._finished.release()
        elif to is not self._current:
            self._current = to
            to.turn.release()
        return to

    def _choose(self) -> Task | None:
        """The next holder, by the seed; if all wait, time leaps to the first that need not wait any more."""
        now = self.clock.elapsed
        ready = self._ready(now)
        if not ready:
            self._idle()
            ready = self._ready(now)
        if not ready:
            times = [one.asleep_until for one in self._tasks if not one.done]
            if not times:
                self.failures.append("nobody is left to run")
                return None
            self.clock.elapsed = now = min(times)
            ready = self._ready(now)
        return ready[int(self.rng.random() * len(ready))] if len(ready) > 1 else ready[0]

    def _ready(self, now: Micros) -> list[Task]:
        """Who could run at this time.  Asked at every step of every history, so written out."""
        return [
            one
            for one in self._tasks
            if not one.done and (one.asleep_until <= now or ((event := one.waits_for) is not None and event.is_set()))
        ]

    def _life(self, task: Task, run: Callable[[], object]) -> None:
        task.turn.acquire()
        try:
            if not task.dead:
                run()
        except Dead:
            pass
        except BaseException:  # noqa: BLE001 - whatever an actor did not expect is a finding of this history
            self.failures.append(f"{task.name} failed: {traceback.format_exc()}")
        task.done = True
        if not task.reaped:
            self._tasks.remove(task)
            self._hand_over()
        task.ended.release()
