"""One plane of a simulated history: the real controllers over the real store, put together as the product does.

Every transaction is a port call: the baton is passed before and after it, never inside.  Killing a plane discards its
threads where they stand; what they had committed is all that is left of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from fleetwarden.adapters.substrates.dry_run import DryRunActuator
from fleetwarden.controllers import autoscaler
from fleetwarden.controllers.approvals import WORK_KIND as APPROVED_ACTION
from fleetwarden.controllers.approvals import ApprovalDesk
from fleetwarden.controllers.condition import Condition
from fleetwarden.controllers.deploy_watch import CADENCE as WATCHES
from fleetwarden.controllers.executor import CADENCE as EXECUTOR
from fleetwarden.controllers.executor import Executor, ExecutorLimits
from fleetwarden.controllers.gate import Gate
from fleetwarden.controllers.intent_desk import IntentDesk
from fleetwarden.controllers.loop import Loop, Subscription
from fleetwarden.controllers.readiness import Readiness
from fleetwarden.controllers.reconciler import CADENCE as RECONCILER
from fleetwarden.controllers.reconciler import Reconciler
from fleetwarden.controllers.recovery import Recovery
from fleetwarden.controllers.restraint import Restraint
from fleetwarden.controllers.sealer import CADENCE as SEALER
from fleetwarden.controllers.sealer import Sealer
from fleetwarden.controllers.sightings import Sightings
from fleetwarden.controllers.supervision import Supervision
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.controllers.worker import Worker
from fleetwarden.domain.actions import ActionRequest, LeaseFence
from fleetwarden.domain.errors import OutcomeUnknown, StoreUnavailable
from fleetwarden.domain.fleet import Service
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.storm import StormLimits
from fleetwarden.ports.stores import Store, StoreHealth, Tx
from fleetwarden.testing import FakeIds
from tests.simulation.load import SimSignals, declared
from tests.simulation.outsiders import OutsideOf
from tests.simulation.remedies import admission_of, playbooks_of
from tests.simulation.trace import MARKER
from tests.simulation.watching import watches_of

if TYPE_CHECKING:
    from tests.simulation.history import History

__all__ = ["BACK_OFF_S", "RECONCILER", "START_WINDOW_S", "WATCH_S", "SimPlane", "SimStore"]

T = TypeVar("T")
START_WINDOW_S = 2.0
WATCH_S = 20.0
INTERVAL_S = 40.0
TICK_S = 20.0  # of the autoscaler
CONVERGE_S = 150.0
BACK_OFF_S = 100.0  # longer than between two passes, so that only a pause keeps them apart


class RolledBack(Exception):
    """Ends a transaction after its last statement."""


class SimStore:
    """The store as one plane sees it: each transaction is named in the journal, may fail, and passes the baton."""

    def __init__(self, history: History, store: Store, plane: str) -> None:
        self._history, self._store, self._plane = history, store, plane

    def transact(self, name: str, fn: Callable[[Tx], T]) -> T:
        history = self._history
        history.planted.before(name, self)
        history.baton.pause(f"{name}?")
        fault = history.store_fault(name)
        if fault == "before":
            history.journal.line(f"{self._plane} {name}: the store fails")
            raise StoreUnavailable("the store fails, and nothing was kept")
        try:
            if fault in ("full", "again"):
                value = self._rolled_back(name, fn)
                history.journal.line(f"{self._plane} {name}: run to its end, and rolled back")
                if fault == "full":
                    return self._tell_full(value)
                history.baton.pause(f"{name}~")  # whatever others do now, the next run has to read anew
            value = self._at_once(name, fn)
        except Exception as error:
            history.journal.line(f"{self._plane} {name} is refused: {type(error).__name__}: {error}")
            raise
        if fault == "after":
            history.journal.line(f"{self._plane} {name}: committed, and the answer is lost")
            raise OutcomeUnknown("the connection was lost during COMMIT")
        history.baton.pause(f"{name}!")
        return value

    def _rolled_back(self, name: str, fn: Callable[[Tx], T]) -> T:
        """What a run came to of which the database keeps nothing: its disk is full, or others were in its way."""
        told: list[T] = []

        def run(tx: Tx) -> T:
            told.append(fn(self._history.planted.tx(name, tx)))
            raise RolledBack

        try:
            self._store.transact(name, run)
        except RolledBack:
            return told[0]
        finally:
            self._history.planted.after(name)
        raise AssertionError("a transaction that raises has ended well")

    def _tell_full(self, value: T) -> T:
        raise StoreUnavailable("the disk is full, and nothing was kept")

    def _at_once(self, name: str, fn: Callable[[Tx], T]) -> T:
        history = self._history
        marker = {
            "step": history.journal.tick(f"{self._plane} {name}"),
            "name": name,
            "plane": self._plane,
            "mono": history.clock.elapsed / SECOND,
        }

        def run(tx: Tx) -> T:
            value = fn(history.planted.tx(name, tx))
            written: Any = tx
            written._session.flush()  # the marker comes last, also after what is put off until the commit
            tx.facts.put(MARKER, marker)
            return value

        try:
            return self._store.transact(name, run)
        finally:
            history.planted.after(name)

    def read(self, fn: Callable[[Tx], T]) -> T:
        if self._history.store_fault("read") == "before":
            raise StoreUnavailable("the store cannot be read")
        return self._store.read(fn)

    def health(self) -> StoreHealth:
        return self._store.health()

    def close(self) -> None:
        """The engine outlives its planes."""


class SimPlane:
    """The controllers of one plane, and the loops that run them as actors of the baton."""

    def __init__(self, history: History, name: str) -> None:
        self.name = name
        self.ids = FakeIds(f"{history.plan.seed}:{name}")
        self.history = history
        self.store = store = SimStore(history, history.engine, name)
        clock, files, self.wakes = history.clock, history.files, Wakes()
        substrates = history.substrates
        self.sightings = Sightings(store, list(substrates.values()), max_age_s=240)
        self.supervision = Supervision(store, max_age_s=60.0)
        self.readiness = Readiness(self.supervision, files)
        self.gate = Gate(store, files, self.wakes, prepared_ttl_s=45.0)
        self.executor = Executor(
            clock,
            store,
            files,
            self.sightings,
            substrates,
            DryRunActuator(clock),
            self.wakes,
            self._dispatch,
            unready=self.readiness.why_not,
            holder=name,
            limits=ExecutorLimits(
                fence_gap_max_s=START_WINDOW_S,
                lease_ttl_s=history.plan.lease_ttl_s,
                watch_window_s=WATCH_S,
                parallel_max=3,
                converge_s=CONVERGE_S,
            ),
        )
        self.recovery = Recovery(
            store,
            files,
            self.sightings,
            self.wakes,
            self.executor.executing,
            watch_window_s=WATCH_S,
            converge_s=CONVERGE_S,
        )
        self.desk = ApprovalDesk(self.ids, store, files, self.sightings, self.gate, self.wakes)
        self.restraint = Restraint(store, interval_s=BACK_OFF_S)
        self.reconciler = Reconciler(
            self.ids,
            store,
            files,
            self.sightings,
            self.supervision,
            self.gate,
            self.desk,
            self.restraint,
            self._refusal,
            acting=frozenset(substrates),
            actions_max=4,
            condition=Condition(store, limits=StormLimits(least=history.plan.storm_least)),
        )
        handlers = {APPROVED_ACTION: self.readiness.gated(self.desk.carry_out)}
        if history.alerts.busy:
            self.admission = admission_of(self)
            handlers |= playbooks_of(self)
        if history.outsiders.busy:
            self.outside = OutsideOf(self)
        self.worker = Worker(store, handlers, holder=name, lease_s=30.0)
        self.watches = watches_of(self)
        self.sealer = Sealer(store, None)
        poll_s = history.plan.poll_s
        self.subscriptions = [
            Subscription(name=EXECUTOR, interval_s=poll_s, run=self._execute),
            Subscription(name="worker", interval_s=poll_s, run=lambda _: self.worker.run(), leased=False),
            Subscription(name="observation", interval_s=INTERVAL_S, run=self._observe, leased=False),
            Subscription(name=RECONCILER, interval_s=INTERVAL_S, run=self._reconcile),
            Subscription(name=WATCHES, interval_s=poll_s, run=self._watch),
            *self._autoscaling(),
            *(self.outside.subscriptions() if history.outsiders.busy else ()),
            *([Subscription(name=SEALER, interval_s=INTERVAL_S, run=self._seal)] if history.plan.seals else ()),
        ]
        self.loop = Loop(
            clock,
            self.ids,
            store,
            self.wakes,
            self.supervision,
            self.subscriptions,
            holder=name,
            lease_ttl_s=history.plan.lease_ttl_s,
        )

    def _autoscaling(self) -> list[Subscription]:
        """The autoscaler, where anything follows load."""
        if not self.history.load.busy:
            return []
        self.signals = SimSignals(self.history, self.name)
        self.intents = IntentDesk(self.store, self.history.files, self.wakes, self.gate.texts)
        self.autoscaler = autoscaler.Autoscaler(
            self.store,
            self.history.files,
            self.sightings,
            self.supervision,
            self.intents,
            self.signals,
            declared=declared,
            acting=frozenset(self.history.substrates),
            actions_max=4,
        )
        return [Subscription(name=autoscaler.CADENCE, interval_s=TICK_S, run=self._scale)]

    def start(self) -> None:
        """Every loop an actor of its own, as `Loop.start` makes each a thread."""
        for one in self.subscriptions:
            self.history.baton.spawn(f"{self.name}:{one.name}", self.name, partial(self.loop._serve, one))

    def _dispatch(self, job: Callable[[], None]) -> None:
        self.history.baton.spawn(f"{self.name}:action", self.name, job)

    def _execute(self, fence: LeaseFence | None) -> int:
        assert fence is not None
        return self.recovery.run(fence) + self.executor.run_prepared(fence)

    def _observe(self, _: LeaseFence | None) -> None:
        """What health rests on, also where another plane leads the reconciler."""
        configuration = self.history.files.current()
        look = self.sightings.look(list(configuration.fleet.services.values()))
        self.supervision.configured(look.at, configuration)
        used = {one.substrate for one in configuration.fleet.services.values()}
        asked = {one.name: one.substrates for one in self.sightings.observers if one.substrates & used}
        self.supervision.observed(look.at, asked, look.failed, errors=look.errors)

    def _reconcile(self, fence: LeaseFence | None) -> object:
        assert fence is not None
        began = self.history.journal.step
        report = self.reconciler.run(fence)
        if self.history.alerts.busy:
            self.history.journal.event("whole_pass", plane=self.name, began=began, status=report.status)
        return report

    def _watch(self, fence: LeaseFence | None) -> object:
        assert fence is not None
        return self.watches.run(fence)

    def _seal(self, fence: LeaseFence | None) -> object:
        return self.sealer.run(fence)

    def _scale(self, fence: LeaseFence | None) -> object:
        assert fence is not None
        self.signals.under(fence.token)
        return self.autoscaler.run(fence)

    def _refusal(self, request: ActionRequest, service: Service) -> str | None:
        return None if request.dry_run else self.history.substrates[service.substrate].refusal(request, service)
