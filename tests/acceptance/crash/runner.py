"""The real plane in a process of its own, driven through a list of steps, killed at the place that the plan names.

    python -m tests.acceptance.crash.runner            plans as lines of JSON on stdin, one process forked for each
    python -m tests.acceptance.crash.runner PLAN.json  one plan in this very process

The plane is composed as the product composes it; only what has a seam (store, actuator, spawner, signaller, slot files,
clock) has a decorator in front.  Passes are run by hand, one after the other, so that a kill point is the same place in
every run; with `threads` in the plan the plane runs as `up` runs it.  A plan that was interrupted is taken up again at
the step in which the plane died: what people do is written so that doing it again is harmless.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import structlog

from fleetwarden.adapters.substrates.process.signalling import PosixSignaller
from fleetwarden.adapters.substrates.process.spawning import PosixSpawner
from fleetwarden.adapters.substrates.process.substrate import ProcessSubstrate
from fleetwarden.adapters.system import SystemClock
from fleetwarden.app import bootstrap, substrates
from fleetwarden.app.approving import NotCarriedOut
from fleetwarden.app.bootstrap import Plane
from fleetwarden.app.settings import load_settings
from fleetwarden.domain.errors import Conflict
from fleetwarden.domain.lifecycles import OPEN_APPROVALS, OPEN_RECORDS, ApprovalState, OutboxState
from fleetwarden.ports.stores import Page, Tx
from fleetwarden.ports.system import Notice
from fleetwarden.store.opening import open_store
from fleetwarden.store.statements import Statement
from tests.acceptance.crash import processes
from tests.acceptance.crash.people import PERSON, People
from tests.acceptance.crash.seams import (
    ObservedActuator,
    ObservedSignaller,
    ObservedSlots,
    ObservedSpawner,
    ObservedStore,
    Steps,
)

LOOKS = ("observation", "host_observer")  # where no reconciler looks
TICKS = ("configuration", *LOOKS, "fleet_reconciler", "worker", "action_executor", "notifier")
WATCHES = "deploy_watch"
LED = ("fleet_reconciler", "action_executor")  # passes that wait for the lease of a dead plane
ROUNDS_MAX = 80
ADVANCE_S = 20.0
POLL_S, STABLE, IMPATIENT_AFTER, GIVE_UP_AFTER = (
    0.1,
    4,
    15,
    600,
)  # with threads: polls that are a tenth of a second apart
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

Json = dict[str, Any]


class ShiftedClock(SystemClock):
    """This machine's clock, moved forward by hand: waiting for a horizon costs no time."""

    def __init__(self, offset: Path) -> None:
        self._file = offset
        self._offset_s = float(offset.read_text(encoding="ascii")) if offset.exists() else 0.0

    def now(self) -> int:
        return super().now() + int(self._offset_s * 1_000_000)

    def monotonic(self) -> float:
        return super().monotonic() + self._offset_s

    def advance(self, seconds: float) -> None:
        self._offset_s += seconds
        self._file.write_text(str(self._offset_s), encoding="ascii")


class NotedNotifier:
    """Tells people by writing it down."""

    name = "noted"

    def __init__(self, file: Path) -> None:
        self._file = file

    def notify(self, notice: Notice) -> bool:
        with self._file.open("a", encoding="utf-8") as told:
            told.write(f"{notice.summary}\n")
        return True


class Driver(People):
    """One plane and what people do to it.  `also`: passes that a story has besides the usual ones, which come first."""

    def __init__(self, plan: Json) -> None:
        self.plan = plan
        self.folder = Path(plan["folder"])
        self.steps = Steps(self.folder / plan["trace"], plan["kill"])
        self.steps.armed = plan["armed"]
        self.clock = ShiftedClock(self.folder / "clock.offset")
        self.also: tuple[str, ...] = ()
        self._begin(plan["from"])
        settings = load_settings(Path(plan["config"]), {**os.environ, **plan["environment"]})
        store = ObservedStore(open_store(settings.store_url, self.clock), self.steps)
        composed = patch.object(substrates, "ProcessSubstrate", self._substrate)
        timed = patch.object(bootstrap, "SystemClock", lambda: self.clock)
        with composed, timed:
            self.plane = Plane(settings, store=store, notifier=NotedNotifier(self.folder / "told"))
        if plan["threads"]:
            self.plane.start()

    def _substrate(self, *arguments: Any, **options: Any) -> ProcessSubstrate:
        """The product's own substrate with a decorator at each of its seams."""
        spawner = ObservedSpawner(PosixSpawner(), self.steps)
        signaller = ObservedSignaller(PosixSignaller(), self.steps)
        made = ProcessSubstrate(*arguments, **options, spawner=spawner, signaller=signaller)
        made.supervisor.slots = ObservedSlots(made.supervisor.slots, self.steps)  # type: ignore[assignment]
        made.actuator = ObservedActuator(made.actuator, self.steps)  # type: ignore[assignment]
        return made

    def run(self) -> None:
        """All steps from `from` on; the number of the step that has begun is written down before it begins."""
        for number, (verb, *arguments) in enumerate(self.plan["steps"]):
            if number >= self.plan["from"]:
                self._begin(number)
                getattr(self, f"do_{verb}")(*arguments)
        uses = self.plane.store.read(self._uses)
        (self.folder / "uses.json").write_text(json.dumps(uses), encoding="utf-8")
        self.plane.stop()

    def _begin(self, number: int) -> None:
        (self.folder / "progress").write_text(str(number), encoding="ascii")

    # --- what happens in a plan

    def do_arm(self) -> None:
        """From here on steps are counted."""
        self.steps.armed = True

    def do_settle(self, patience_s: float = 240.0, *also: str) -> None:
        """Run until nothing changes any more; if something waits for time, let time pass."""
        self.also = also
        if self.plan["threads"]:
            self._settled_by_threads()
            return
        waited = 0.0
        while True:
            self._until_quiet()
            if waited >= patience_s or not self._waits():
                return
            self.do_advance(ADVANCE_S)
            self.report_load()
            waited += ADVANCE_S

    def do_tick(self, name: str) -> None:
        """One pass of one controller."""
        self.plane.tick(name)
        self._calls_ended()

    def do_look(self) -> None:
        """See the fleet once, where no reconciler does."""
        for name in LOOKS:
            if name in self.plane.loop.states:
                self.do_tick(name)

    def do_advance(self, seconds: float) -> None:
        """Let time pass, for the plane and for the database."""
        before = self.plane.store.read(lambda tx: tx.now())
        self.clock.advance(seconds)
        if self.plan["database"].startswith("postgresql"):
            with psycopg.connect(self.plan["database"], autocommit=True) as connection:
                connection.execute("UPDATE test_clock SET seconds = seconds + %s", [seconds])
        passed = self.plane.store.read(lambda tx: tx.now()) - before
        assert passed >= seconds * 1_000_000, "the store's time did not follow: it is read some other way by now"

    def do_write(self, name: str, text: str) -> None:
        """Somebody edits a file of the configuration folder."""
        (Path(self.plan["config"]) / name).write_text(text, encoding="utf-8")

    def do_remove(self, name: str) -> None:
        (Path(self.plan["config"]) / name).unlink(missing_ok=True)

    def do_lose(self, service: str, index: int) -> None:
        """kill -9 of one instance."""
        processes.lose(self.plan["world"], service, index, self.folder / "lost")

    def do_sicken(self, index: int) -> None:
        """An instance lives on and is not well any more, until it is started anew."""
        (self.folder / f"sick-{index}").touch()

    def do_spoil(self, version: str) -> None:
        """From now on that version is not well, wherever it runs."""
        (self.folder / f"spoilt-{version}").touch()

    def do_age(self) -> None:
        """Until no instance counts as starting any more: its age is the kernel's, and cannot be moved."""
        time.sleep(0.6)

    def do_grant(self) -> None:
        """A person grants whatever waits for one."""
        for approval in self.plane.store.read(lambda tx: tx.approvals.in_state(ApprovalState.PENDING)):
            try:
                self.plane.approving.answer(PERSON, approval.id, decision="approved", reason="go on")
            except NotCarriedOut:
                continue

    def do_reject(self) -> None:
        for approval in self.plane.store.read(lambda tx: tx.approvals.in_state(*OPEN_APPROVALS)):
            try:
                self.plane.approving.answer(PERSON, approval.id, decision="denied", reason="no")
            except Conflict:
                continue

    def do_freeze(self) -> None:
        """Freeze the fleet, once."""
        if not self.plane.administration.freeze_status(PERSON)["freezes"]:
            answer = self.plane.administration.freeze(PERSON, reason="a test", for_s=None)
            (self.folder / "in_flight.json").write_text(json.dumps(answer["in_flight"]), encoding="utf-8")

    def do_thaw(self) -> None:
        self.plane.administration.thaw(PERSON, reason="a test")

    def do_mark(self) -> None:
        """Let the executor's passes go on until what the dead plane was doing is known to be unknown."""
        while self.plane.store.read(lambda tx: tx.outbox.in_state(OutboxState.RUNNING)):
            self.do_tick("action_executor")
            if not self.plane.loop.states["action_executor"].leader:
                self.do_advance(ADVANCE_S)

    def do_say_failed(self, action: str) -> None:
        """A person has looked, and says that it was not done."""
        self.plane.administration.settle(PERSON, action, outcome="failed", reason="nothing of it is there")

    def do_at(self, step: str, verb: str, *arguments: Any) -> None:
        """What somebody will do when the plane comes to that step."""
        self.steps.at(step, partial(getattr(self, f"do_{verb}"), *arguments))

    # --- one round after the other

    def _until_quiet(self) -> None:
        before, same = None, 0
        for _ in range(ROUNDS_MAX):
            self._round()
            now = self.plane.store.read(self._state)
            same = same + 1 if now == before else 0
            before = now
            if same >= 1:
                return
        raise AssertionError(f"still not quiet after {ROUNDS_MAX} rounds: {before}")

    def _settled_by_threads(self) -> None:
        """Until the fleet is as declared, or a person is asked, and nothing is on its way, for a few polls in a row."""
        stable = 0
        for poll in range(1, GIVE_UP_AFTER):
            asked = self.plane.store.read(lambda tx: tx.approvals.in_state(ApprovalState.PENDING))
            stable = stable + 1 if (asked or not self._differs()) and not self._waits() else 0
            if stable >= STABLE:
                return
            if poll % IMPATIENT_AFTER == 0:
                self.do_advance(ADVANCE_S)
            time.sleep(POLL_S)
        raise AssertionError(f"the threads never came to rest: {self.plane.store.read(self._state)}")

    def _round(self) -> None:
        for name in (*self.also, *TICKS):
            if name in self.plane.loop.states:
                self.plane.tick(name)
        self._calls_ended()

    def _calls_ended(self) -> None:
        while self.plane.executor.executing():
            time.sleep(0.001)

    def _differs(self) -> bool:
        """Whether the processes are not as declared."""
        registry = json.loads((Path(self.plan["config"]) / "fleet.yml").read_text(encoding="utf-8"))
        declared = {one["name"]: one["replicas"] if one["desired"] == "running" else 0 for one in registry["services"]}
        living = [one.service for one in processes.instances(self.plan["world"])]
        return any(living.count(service) != count for service, count in declared.items())

    @staticmethod
    def _state(tx: Tx) -> list[Any]:
        """What changes whenever anything of interest happens."""
        page = Page(limit=30)
        return [
            [one.seq for one in tx.decisions.list(Page(limit=1))],
            [(one.seq, one.state.value) for one in tx.outbox.list(page)],
            [(one.seq, one.status.value) for one in tx.approvals.list(page)],
            [one.seq for one in tx.executions.list(Page(limit=1))],
            [(one.seq, one.state.value) for one in tx.work.list(page)],
            [(one.seq, one.state.value) for one in tx.intents.list(page)],
        ]

    def _waits(self) -> bool:
        """Whether anything can only go on once time has passed."""

        def run(tx: Tx) -> bool:
            states = (*OPEN_RECORDS, OutboxState.RECOVERY_PENDING)
            work = [one for one in tx.work.list(Page(limit=200)) if one.kind != WATCHES or WATCHES in self.also]
            return (
                bool(tx.outbox.in_state(*states))
                or bool(tx.approvals.in_state(ApprovalState.GRANTED))
                or any(one.state.value in ("ready", "leased") for one in work)
            )

        states = self.plane.loop.states
        away = [name for name in (*self.also, *LED) if name in states and not states[name].leader]
        return bool(away) or self.plane.store.read(run)

    @staticmethod
    def _uses(tx: Tx) -> Json:
        """What the product itself counts against its budgets, for the auditor to compare."""
        targets = {(one.request.kind, one.request.target) for one in tx.decisions.list(Page(limit=500))}
        return {
            f"{kind} {target}": len(tx.decisions.uses(kind, target, 0, dry_run=False, limit=1000))
            for kind, target in sorted(targets)
        }


def drive(plan: Json) -> None:
    """Run one plan in this process."""
    structlog.configure(processors=[structlog.processors.ExceptionRenderer(), structlog.processors.KeyValueRenderer()])
    os.environ[processes.WORLD] = plan["world"]
    Driver(plan).run()


def warm_up() -> None:
    """Do once what every plane would do again: load both engines and compile all statements."""
    for engine in ("sqlite_engine", "postgresql_engine"):
        importlib.import_module(f"fleetwarden.store.{engine}")
    for one in gc.get_objects():
        if isinstance(one, Statement):
            assert one.sqlite
            assert one.postgresql


def serve() -> None:
    """Fork a process for each plan that comes in; say how it ended.

    What a killed plane leaves behind becomes our child, and is reaped while we wait for the next one.
    """
    warm_up()
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for line in sys.stdin:
        plan = json.loads(line)
        child = os.fork()
        if child == 0:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            _in_a_child(Path(plan["folder"]) / "plane.log", partial(drive, plan))
        ended, status = 0, 0
        while ended != child:
            ended, status = os.wait()
        print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), flush=True)


def _in_a_child(log: Path, work: Callable[[], None]) -> None:
    """Never returns."""
    code = 70
    try:
        os.setsid()
        with log.open("ab", buffering=0) as output, Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - the parent only sees the code, a person reads the log
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        drive(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    else:
        serve()
