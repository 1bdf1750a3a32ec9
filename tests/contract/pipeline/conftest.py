"""The whole action protocol, by hand, over both databases: real gate, executor and store, a fake substrate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from fleetwarden.controllers.approvals import WORK_KIND, ApprovalDesk
from fleetwarden.controllers.capturing import Capturing
from fleetwarden.controllers.deploy_watch import CADENCE as WATCHES
from fleetwarden.controllers.deploy_watch import DeployWatches, Terms
from fleetwarden.controllers.executor import CADENCE as EXECUTOR
from fleetwarden.controllers.executor import Executor, ExecutorLimits
from fleetwarden.controllers.gate import Gate
from fleetwarden.controllers.intent_desk import IntentDesk
from fleetwarden.controllers.readiness import Readiness
from fleetwarden.controllers.reconciler import CADENCE as RECONCILER
from fleetwarden.controllers.reconciler import Reconciler, ReconcileReport
from fleetwarden.controllers.recovery import Recovery
from fleetwarden.controllers.restraint import Restraint
from fleetwarden.controllers.sightings import Sightings
from fleetwarden.controllers.supervision import Supervision
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.controllers.watch_follow_up import WatchFollowUp
from fleetwarden.controllers.worker import Worker
from fleetwarden.domain.actions import ActionApproval, ActionDecision, ActionExecution, LeaseFence, OutboxRecord
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.policy import Policy
from fleetwarden.ports.actuation import ActuationCall, FleetActuator
from fleetwarden.ports.stores import Page, Store
from fleetwarden.testing import (
    FakeClock,
    FakeConfiguration,
    FakeIds,
    FakeSignals,
    FakeSubstrate,
    a_fleet,
    a_policy,
    a_service,
)
from tests.contract.store.conftest import Database, database

__all__ = ["database"]  # the fixture over both databases

PREPARED_TTL_S = 60.0
LEASE_TTL_S = 15.0
INTERVAL_S = 10.0


class Bench:
    """One plane's controllers over a store, driven by hand.  `hold` keeps prepared records from being executed."""

    def __init__(self, store: Store, clock: FakeClock, *, holder: str = "p1", ids: FakeIds | None = None) -> None:
        self.store, self.clock, self.holder = store, clock, holder
        self.ids = ids or FakeIds(holder)
        self.files = FakeConfiguration()
        self.files.declare(fleet=a_fleet(a_service("web", replicas=2)), policy=a_policy())
        self.substrate = FakeSubstrate(clock)
        self.wakes = Wakes()
        self.before_call: Callable[[ActuationCall], None] = lambda _: None
        self.build()

    def build(self, actuator: FleetActuator | None = None, *, actions_max: int = 5, window_s: float = 300.0) -> None:
        from fleetwarden.adapters.substrates.dry_run import DryRunActuator

        self.sightings = Sightings(self.store, [self.substrate], max_age_s=60)
        self.supervision = Supervision(self.store, max_age_s=86_400)
        self.readiness = Readiness(self.supervision, self.files)
        self.gate = Gate(self.store, self.files, self.wakes, prepared_ttl_s=PREPARED_TTL_S)
        self.executor = Executor(
            self.clock,
            self.store,
            self.files,
            self.sightings,
            {"": actuator or self.substrate},
            DryRunActuator(self.clock),
            self.wakes,
            lambda job: job(),
            unready=self.readiness.why_not,
            capturing=Capturing({"": self.substrate}),
            holder=self.holder,
            limits=ExecutorLimits(lease_ttl_s=LEASE_TTL_S, watch_window_s=window_s),
        )
        self.recovery = Recovery(
            self.store, self.files, self.sightings, self.wakes, self.executor.executing, watch_window_s=window_s
        )
        self.desk = ApprovalDesk(self.ids, self.store, self.files, self.sightings, self.gate, self.wakes)
        self.reconciler = Reconciler(
            self.ids,
            self.store,
            self.files,
            self.sightings,
            self.supervision,
            self.gate,
            self.desk,
            Restraint(self.store, interval_s=INTERVAL_S),
            lambda request, service: None,
            acting=frozenset({""}),
            actions_max=actions_max,
        )
        carry_out = self.readiness.gated(self.desk.carry_out)
        self.worker = Worker(self.store, {WORK_KIND: carry_out}, holder=self.holder, lease_s=60.0)
        self.signals = FakeSignals()
        self.follow_up = WatchFollowUp(
            self.store,
            self.files,
            self.sightings,
            self.gate,
            IntentDesk(self.store, self.files, self.wakes, self.gate.texts),
            acting=frozenset({""}),
            refusal=lambda request, service: None,
        )
        self.watches = DeployWatches(
            self.store,
            self.files,
            self.sightings,
            self.signals,
            self.follow_up.step,
            holder=self.holder,
            lease_s=60.0,
            terms=Terms(window_s=window_s),
        )

    def policy(self, policy: Policy) -> None:
        self.files.declare(policy=policy)

    def fence(self, cadence: str) -> LeaseFence:
        held = self.store.transact(
            "lease", lambda tx: tx.leases.acquire(cadence, "0", self.holder, int(LEASE_TTL_S * SECOND))
        )
        assert held is not None, f"another holds {cadence}"
        return held

    def look(self) -> ReconcileReport:
        """One pass of the reconciler."""
        return self.reconciler.run(self.fence(RECONCILER))

    def act(self) -> int:
        """One pass of recovery and executor."""
        fence = self.fence(EXECUTOR)
        return self.recovery.run(fence) + self.executor.run_prepared(fence)

    def watch(self) -> int:
        """One pass over the steps of watches."""
        return self.watches.run(self.fence(WATCHES))

    def settle_down(self, passes: int = 4) -> None:
        """Some rounds of everything."""
        for _ in range(passes):
            self.look()
            self.worker.run()
            self.act()
            self.watch()

    def decisions(self) -> Sequence[ActionDecision]:
        return self.store.read(lambda tx: tx.decisions.list(Page(limit=500)))

    def approvals(self) -> Sequence[ActionApproval]:
        return self.store.read(lambda tx: tx.approvals.list(Page(limit=500)))

    def records(self) -> Sequence[OutboxRecord]:
        return self.store.read(lambda tx: tx.outbox.list(Page(limit=500)))

    def executions(self) -> Sequence[ActionExecution]:
        return self.store.read(lambda tx: tx.executions.list(Page(limit=500)))

    def notices(self) -> list[str]:
        return [one.summary for one in self.store.read(lambda tx: tx.journal.list(Page(limit=500)))]

    def calls(self) -> int:
        return sum(1 for effect in self.substrate.log if effect.what == "called")


@pytest.fixture
def bench(database: Database) -> Bench:
    """Two replicas of `web` run, and everything is allowed."""
    made = Bench(database.open(), database.clock)
    made.substrate.boot("web", 2)
    return made
