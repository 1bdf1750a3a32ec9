"""The composition root: settings in, a running plane out.

The only place that names concrete stores, adapters and controllers together.  It is a list, not a program: nothing is
decided here but what is built from what.  Every part can be injected, which is the real API for deployments and tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog

from fleetwarden.adapters.deadlines import DeadlineActuator, DeadlineObserver
from fleetwarden.adapters.files.checkpoints import CheckpointFile
from fleetwarden.adapters.notify import JournalNotifier
from fleetwarden.adapters.substrates.dry_run import DryRunActuator
from fleetwarden.adapters.system import SystemClock, SystemIds
from fleetwarden.app import first_token, plugins, substrates
from fleetwarden.app.administration import Administration
from fleetwarden.app.approving import Approving
from fleetwarden.app.autoscaling import Autoscaling, intent_limits, patience_of
from fleetwarden.app.diagnosis import Diagnosis
from fleetwarden.app.explaining import Explaining
from fleetwarden.app.facts import plane_facts
from fleetwarden.app.fleet_views import FleetViews, PlaneFacts
from fleetwarden.app.history import History
from fleetwarden.app.identity import Caller, authenticate, authenticate_digest
from fleetwarden.app.injection import injected, readable
from fleetwarden.app.ledger_export import LedgerExport
from fleetwarden.app.limits import executor_limits, fleet_id
from fleetwarden.app.listing import Lists
from fleetwarden.app.metrics import Metrics
from fleetwarden.app.neighbours import neighbours_of
from fleetwarden.app.offline import Offline, configuration_of, evidence_age_s
from fleetwarden.app.onlooking import OBSERVATION, Onlooking
from fleetwarden.app.planning import Planning
from fleetwarden.app.proposing import Proposing
from fleetwarden.app.remedies import Remedies
from fleetwarden.app.replica_logs import ReplicaLogs
from fleetwarden.app.settings import Settings
from fleetwarden.app.stopping import Stopping
from fleetwarden.app.storage import EpochOperations, open_migrated
from fleetwarden.app.storms import condition_of
from fleetwarden.app.version_views import VersionViews
from fleetwarden.app.wishes import Wishes
from fleetwarden.controllers.approvals import WORK_KIND as APPROVED_ACTION
from fleetwarden.controllers.approvals import ApprovalDesk
from fleetwarden.controllers.capturing import Capturing
from fleetwarden.controllers.executor import CADENCE as EXECUTOR
from fleetwarden.controllers.executor import Executor
from fleetwarden.controllers.expiry import CADENCE as EXPIRY
from fleetwarden.controllers.expiry import Expiry
from fleetwarden.controllers.gate import Gate
from fleetwarden.controllers.intent_authorising import IntentAuthorising
from fleetwarden.controllers.loop import Loop, Subscription
from fleetwarden.controllers.publishing import CADENCE as HOST_OBSERVER
from fleetwarden.controllers.publishing import published_elsewhere
from fleetwarden.controllers.push import CADENCE as PUSH
from fleetwarden.controllers.push import Push
from fleetwarden.controllers.readiness import Readiness
from fleetwarden.controllers.reconciler import CADENCE as RECONCILER
from fleetwarden.controllers.reconciler import Reconciler
from fleetwarden.controllers.recovery import Recovery
from fleetwarden.controllers.restraint import Restraint
from fleetwarden.controllers.sealer import CADENCE as SEALER
from fleetwarden.controllers.sealer import Sealer
from fleetwarden.controllers.sightings import Look, Sightings
from fleetwarden.controllers.supervision import Supervision
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.controllers.worker import Worker
from fleetwarden.domain.actions import ActionRequest, LeaseFence
from fleetwarden.domain.fleet import Service
from fleetwarden.domain.health import FleetHealthEvidence
from fleetwarden.ports.actuation import FleetActuator
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.events import TRIAGE
from fleetwarden.ports.observation import FleetObserver
from fleetwarden.ports.signals import ScalingSignalProvider, SignalProvider
from fleetwarden.ports.stores import Store
from fleetwarden.ports.system import Clock, IdSource, Notifier
from fleetwarden.store.opening import require_capabilities

__all__ = ["Offline", "Plane", "configuration_of"]

log = structlog.get_logger(__name__)


class Plane:
    """One running process of fleetwarden.

    `health` judges the plane's health instead of the plane itself, for every service.
    `actuators` (by substrate), `observers`, `configuration`, `store`, `notifier`, `clock` and `ids` replace what the
    settings would build.  `tick(name)` runs one pass by hand; `start()` runs everything on threads until `stop()`.
    Under an injected clock nothing waits on the real one: calls run on the caller's thread, without deadline threads,
    so that passes by hand are deterministic.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        actuators: Mapping[str, FleetActuator] | None = None,
        observers: Sequence[FleetObserver] | None = None,
        configuration: ConfigurationSource | None = None,
        store: Store | None = None,
        notifier: Notifier | None = None,
        signals: SignalProvider | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        health: Callable[[], FleetHealthEvidence] | None = None,
    ) -> None:
        self.settings = settings
        self._health = health
        put, self._plugin_warnings = plugins.with_installed(injected(), settings.fleet_actuator)
        self._signals = readable(signals) or readable(plugins.signal_provider(settings.fleet_signal_provider))
        self.notifier: Notifier = notifier or put.notifier or JournalNotifier()
        self.by_hand = self._by_hand = clock is not None
        self._ending = False
        self.clock: Clock = clock or SystemClock()
        self.ids: IdSource = ids or SystemIds()
        self.configuration = configuration or configuration_of(settings, self.clock)
        if store is not None:
            require_capabilities(store)  # one that was opened here has shown them already
        self.store: Store = store if store is not None else open_migrated(settings, self.clock)
        self.holder = f"{settings.fleet_host}:{os.getpid()}:{self.ids.new()}"
        self.wakes = Wakes()
        self._admin_token = first_token.watched(self.store, settings)
        self.neighbours = neighbours_of(
            settings,
            self.clock,
            self.store,
            self.configuration,
            self.wakes,
            holder=self.holder,
            by_hand=self._by_hand,
        )
        if self.neighbours is not None:
            self.configuration = self.neighbours.configuration
        self.push: Push | None = None  # there is none yet while the substrates are built
        built = substrates.build(settings, self.clock, fleet_id(settings, self.store, self.ids), self._ended)
        self._substrates = built
        if self.neighbours is not None and built.observers:
            self.neighbours.register(self.ids.new())
        served = {**built.actuators, **put.actuators} if actuators is None else dict(actuators)
        self._actuators = {name: self._bounded(one) for name, one in served.items()}
        watching = [*built.observers, *put.observers] if observers is None else observers
        sources = (*built.evidence, *watching, *served.values())
        self._capturing = Capturing(substrates.evidence_of(sources, None if self._by_hand else self.clock))
        self.sightings = Sightings(
            self.store,
            [one if self._by_hand else DeadlineObserver(self.clock, one) for one in watching],
            max_age_s=evidence_age_s(settings),
            clock=self.clock,
            slow_s=settings.fleet_reconciler_interval,
            published=published_elsewhere(self.neighbours.host) if self.neighbours is not None else None,
        )
        self.acting = frozenset(name for name, one in served.items() if not one.simulates)
        self._build_controllers()
        self._build_operations()

    def _bounded(self, actuator: FleetActuator) -> FleetActuator:
        return actuator if self._by_hand else DeadlineActuator(self.clock, actuator)

    def _ended(self, service: str) -> None:
        """An instance ended: a targeted pass looks at its service at once.  Called from the substrate's thread."""
        if self.settings.fleet_reconciler and self.push is not None:
            self.push.ended(service)
        else:
            self.wakes.wake(OBSERVATION)

    def _build_controllers(self) -> None:
        settings, store, files = self.settings, self.store, self.configuration
        age = max(2.0 * settings.fleet_reconciler_interval, 30.0)
        self.supervision = Supervision(store, max_age_s=age, envelope=self._health)
        self.supervision.configured(store.read(lambda tx: tx.now()), files.current())
        self.readiness = Readiness(self.supervision, files)
        shared = self.neighbours
        host = "" if shared is None else shared.host
        self.gate = Gate(
            store,
            files,
            self.wakes,
            prepared_ttl_s=settings.fleet_prepared_ttl_s,
            claim=None if shared is None else shared.configuration.claim,
        )
        self.pool = ThreadPoolExecutor(settings.fleet_executor_threads, thread_name_prefix="action")
        self.executor = Executor(
            self.clock,
            store,
            files,
            self.sightings,
            self._actuators,
            DryRunActuator(self.clock),
            self.wakes,
            self._dispatch,
            unready=self.readiness.why_not,
            capturing=self._capturing,
            holder=self.holder,
            limits=executor_limits(settings),
            host=host,
        )
        self.recovery = Recovery(
            store,
            files,
            self.sightings,
            self.wakes,
            self.executor.executing,
            watch_window_s=settings.deploy_watch_window,
            host=host,
            converge_s=settings.intent_converge_s,
        )
        self._build_passes()

    def _build_passes(self) -> None:
        """What looks, proposes and carries on, over the gate and the executor."""
        settings, store, files, shared = self.settings, self.store, self.configuration, self.neighbours
        patience = patience_of(settings)
        self.desk = ApprovalDesk(self.ids, store, files, self.sightings, self.gate, self.wakes, patience=patience)
        self.expiry = Expiry(store, files, self.desk, self.wakes)
        interval, hold = settings.fleet_reconciler_interval, settings.fleet_rejected_hold_s
        self.restraint = Restraint(store, interval_s=interval, rejected_hold_s=hold)
        self.reconciler = Reconciler(
            self.ids,
            store,
            files,
            self.sightings,
            self.supervision,
            self.gate,
            self.desk,
            self.restraint,
            self.refusal,
            acting=self.acting,
            actions_max=settings.fleet_reconciler_max_actions,
            foreign_hold_s=settings.foreign_hold_s,
            condition=condition_of(settings, store),
            intents=IntentAuthorising(store, files, self.gate, limits=intent_limits(settings)),
        )
        self.autoscaling = Autoscaling(
            settings,
            store,
            files,
            self.sightings,
            self.supervision,
            self.wakes,
            self.gate.texts,
            self._signals,
            acting=self.acting,
        )
        self.provider: ScalingSignalProvider = self.autoscaling.sources.provider
        self.signals, self.lineages, self.shadows = self.autoscaling.operations()
        self.remedies = Remedies(self)
        self.messages = self.remedies.telling.views
        self.events = self.remedies.events.operations
        handlers = {APPROVED_ACTION: self.readiness.gated(self.desk.carry_out), **self.remedies.handlers()}
        self.worker = Worker(store, handlers, holder=self.holder, lease_s=settings.fleet_lease_ttl_s * 4)
        self.checkpoints = CheckpointFile(settings.fleet_data_dir)
        self.sealer = Sealer(store, self.checkpoints)
        self.push = Push(self.clock, self.reconciler, self.wakes, lambda: self.loop.lease(RECONCILER))
        self.loop: Loop = Loop(
            self.clock,
            self.ids,
            store,
            self.wakes,
            self.supervision,
            self._subscriptions(),
            holder=self.holder,
            lease_ttl_s=settings.fleet_lease_ttl_s,
            heartbeat=None if shared is None else shared.heartbeat,
        )

    def refusal(self, request: ActionRequest, service: Service) -> str | None:
        """Why nothing here carries this out, or None; what belongs to another host is for that host's plane to say."""
        elsewhere = self.neighbours is not None and not self.neighbours.configuration.is_here(service)
        return None if elsewhere else self.executor.refusal(request, service)

    def _subscriptions(self) -> list[Subscription]:
        """Everything that runs.  Read this to know what a plane does."""
        settings, shared = self.settings, self.neighbours  # one plane executes for the fleet, or one for each host
        every = [
            Subscription(
                name=EXECUTOR, interval_s=1.0, run=self._execute, shard="0" if shared is None else shared.host
            ),
            Subscription(name="worker", interval_s=1.0, run=lambda _: self.worker.run(), leased=False),
            Subscription(name="configuration", interval_s=settings.fleet_config_poll_s, run=self._reread, leased=False),
            *self.remedies.subscriptions(),
            Subscription(name=EXPIRY, interval_s=5.0, run=self.expiry.run, vital=False),
            Subscription(name=SEALER, interval_s=1.0, run=self.sealer.run, vital=False),
            Subscription(name="supervision", interval_s=5.0, run=self._supervise, leased=False),
        ]
        if self.neighbours is not None:
            publisher = self.neighbours.publisher(self.sightings, self._looked)
            look_every_s = self.neighbours.interval_s
            every.append(
                Subscription(name=HOST_OBSERVER, interval_s=look_every_s, run=lambda _: publisher.run(), leased=False)
            )
        every += self.autoscaling.subscriptions(self._pausing)
        if settings.fleet_reconciler:
            interval = settings.fleet_reconciler_interval
            every.append(Subscription(name=RECONCILER, interval_s=interval, run=self._reconcile))
            every.append(Subscription(name=PUSH, interval_s=1.0, run=self._pushed, leased=False, vital=False))
        else:
            onlooking = Onlooking(
                self.configuration, self.sightings, self.reconciler, looked=self._looked, pausing=self._pausing
            )
            every += onlooking.subscriptions(settings.fleet_reconciler_interval if shared is None else None)
        return every

    def _pausing(self) -> bool:
        return self._ending or self.stopping.pausing()

    def _looked(self, services: Sequence[Service], look: Look) -> None:
        """Health rests on looks also where another plane leads."""
        self.supervision.looked(look, self.sightings.asked(services))

    def _pushed(self, _: LeaseFence | None) -> int:
        assert self.push is not None
        self.reconciler.paused = self._pausing()
        return self.push.run()

    def _reconcile(self, fence: LeaseFence | None) -> object:
        assert fence is not None
        self.reconciler.paused = self._pausing()
        if self.neighbours is not None:
            self.neighbours.configuration.learn()
        return self.reconciler.run(fence)

    def _execute(self, fence: LeaseFence | None) -> int:
        """Settle what is unknown before anything new is begun."""
        assert fence is not None
        self.executor.only_stops = self.neighbours is not None and self.stopping.pausing()
        return self.recovery.run(fence) + self.executor.run_prepared(fence)

    def _reread(self, _: LeaseFence | None) -> bool:
        self.autoscaling.sources.file.refresh()
        self.remedies.refresh()
        changed = self.configuration.refresh()
        if changed:
            log.info("configuration changed")
            self.wakes.wake(RECONCILER)
        if self._admin_token is not None:
            self._admin_token.look()
        return changed

    def _supervise(self, _: LeaseFence | None) -> list[str]:
        """What health rests on besides the fleet itself, also where no reconciler looks."""
        self.supervision.configured(self.store.read(lambda tx: tx.now()), self.configuration.current())
        return self.loop.watch_over()

    def _dispatch(self, job: Callable[[], None]) -> None:
        if self._by_hand:
            job()
        else:
            self.pool.submit(job)

    def _facts(self) -> PlaneFacts:
        host = "" if self.neighbours is None else self.neighbours.host
        told = (*self._plugin_warnings, *self._substrates.fallbacks)
        return plane_facts(self.settings, self.store.health().dialect, acting=self.acting, fallbacks=told, host=host)

    def _build_operations(self) -> None:
        settings, facts, shared = self.settings, self._facts(), self.neighbours
        self.lists, self.epochs, self.history = Lists(self.store), EpochOperations(self.store), History(self.store)
        self.ledger = LedgerExport(self.store, self.checkpoints)
        self.administration = Administration(
            self.store, self.recovery, self.configuration.freeze_file, lambda: self.configuration.current().fleet
        )
        self.approving = Approving(self.desk)
        self.proposing = Proposing(
            self.ids,
            self.store,
            self.configuration,
            self.sightings,
            self.gate,
            self.refusal,
            acting=self.acting,
        )
        self.fleet = FleetViews(
            self.clock,
            self.store,
            self.configuration,
            self.sightings,
            self.supervision,
            self.reconciler,
            self.loop.states,
            facts,
            self._substrates.unmanaged,
            lambda: self.remedies.warnings() + ([] if shared is None else shared.warnings(evidence_age_s(settings))),
            scaling=self.autoscaling.views,
        )
        self.metrics = Metrics(
            self.clock,
            self.store,
            self.configuration,
            self.sightings,
            self.supervision,
            self.loop.states,
            self.autoscaling,
            self.messages,
            self.events.admission,
        )
        self.wishes = Wishes(self.store, self.configuration, self.wakes)
        self.planning = Planning(self.reconciler, on=settings.fleet_reconciler)
        self.diagnosis = Diagnosis(
            self.store, self.clock, self.supervision, self.loop.states, self.loop.leased, facts.fallbacks
        )
        self.versions = VersionViews(self.store, self.configuration, self.fleet)
        self.logs = ReplicaLogs(self.configuration, self._capturing, shared)
        self.explaining = Explaining(self.store, self.configuration, self.fleet, self.restraint)
        self.stopping = Stopping(
            self.clock,
            self.ids,
            self.store,
            self.configuration,
            self.sightings,
            self.gate,
            self.reconciler,
            here=lambda service: shared is None or shared.configuration.is_here(service),
        )

    def authenticate(self, secret: str) -> Caller:
        """The caller behind a token.  Raises Unauthenticated, StoreUnavailable."""
        return authenticate(self.store, secret)

    def recognise(self, digest: str) -> Caller:
        """The caller behind a token's digest: what a browser's session keeps.  Raises as `authenticate` does."""
        return authenticate_digest(self.store, digest)

    def tick(self, name: str) -> object:
        """One pass of one subscription by hand: `fleet_reconciler`, `action_executor`, `worker`, …

        `fleet_event_triage` is what the worker does.  Raises NotFound for a pass that this plane does not run.
        """
        return self.loop.tick("worker" if name == TRIAGE else name)

    def start(self) -> None:
        """Run everything on threads."""
        self.store.transact(
            "plane_up",
            lambda tx: tx.journal.write(topic="plane", actor=self.holder, summary="the plane is up"),
        )
        if self.neighbours is not None:
            self.neighbours.start(list(self.loop.states))
        self.loop.start()

    def stop(self, timeout_s: float = 30.0) -> bool:
        """Drain: let passes and calls in flight end, give leases back, close.  Services keep running.

        Returns whether everything ended in time; what did not is settled by recovery on the next start.
        """
        self._ending = self.reconciler.paused = True
        ended = self.loop.stop(timeout_s)
        self.pool.shutdown(wait=ended, cancel_futures=True)
        self.remedies.close(wait=ended)
        self._substrates.close()
        self.autoscaling.sources.close()
        if self.neighbours is not None:
            self.neighbours.close()
        self.store.close()
        return ended
