"""Metrics of one plane for Prometheus, read when they are asked for.

Numbers of this process and of the store, never a secret and never free text: label values are names that the product or
the registry gives.  A store that cannot be read leaves its numbers out and says so in `fleetwarden_store_up`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import CollectorRegistry

import fleetwarden
from fleetwarden.app.autoscaling import Autoscaling
from fleetwarden.app.message_views import Messages
from fleetwarden.controllers.admission import Admission
from fleetwarden.controllers.loop import TickState
from fleetwarden.controllers.sightings import Sightings
from fleetwarden.controllers.storm_watch import known_storms
from fleetwarden.controllers.supervision import Supervision
from fleetwarden.domain.errors import FleetError
from fleetwarden.domain.health import HealthStatus
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.stores import Store
from fleetwarden.ports.system import Clock

__all__ = ["CONTENT_TYPE", "NAMES", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NAMES = (
    "fleetwarden_build",
    "fleetwarden_up",
    "fleetwarden_store_up",
    "fleetwarden_store_wal_bytes",
    "fleetwarden_store_slow_transactions",
    "fleetwarden_dependency_healthy",
    "fleetwarden_controller_passes",
    "fleetwarden_controller_failures",
    "fleetwarden_controller_last_pass_seconds",
    "fleetwarden_services",
    "fleetwarden_service_replicas",
    "fleetwarden_approvals_waiting",
    "fleetwarden_storm_breakers_open",
    "fleetwarden_actions_open",
    "fleetwarden_autoscaler_services",
    "fleetwarden_autoscaler_decisions",
    "fleetwarden_signal_samples_accepted",
    "fleetwarden_signal_samples_rejected",
    "fleetwarden_messages",
    "fleetwarden_messages_oldest_waiting_seconds",
    "fleetwarden_events_accepted",
    "fleetwarden_events_duplicates",
    "fleetwarden_events_refused",
    "fleetwarden_events_waiting",
)


class Metrics:
    """The collector of one plane.  `ticks`: its controllers."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        configuration: ConfigurationSource,
        sightings: Sightings,
        supervision: Supervision,
        ticks: Mapping[str, TickState],
        autoscaling: Autoscaling,
        messages: Messages,
        admission: Admission,
    ) -> None:
        self._clock = clock
        self._store = store
        self._configuration = configuration
        self._sightings = sightings
        self._supervision = supervision
        self._ticks = ticks
        self._autoscaling = autoscaling
        self._messages = messages
        self._admission = admission
        self.open_to_all = autoscaling.settings.fleet_metrics_open
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """The exposition, in CONTENT_TYPE."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """Called by the client library."""
        build = GaugeMetricFamily("fleetwarden_build", "This release.", labels=["version"])
        build.add_metric([fleetwarden.__version__], 1)
        yield build
        evidence = self._supervision.evidence()
        yield GaugeMetricFamily("fleetwarden_up", "Whether the plane serves.", value=float(evidence.ready))
        healthy = GaugeMetricFamily(
            "fleetwarden_dependency_healthy", "Whether a dependency is healthy.", labels=["dependency"]
        )
        for name, one in evidence.dependencies.items():
            healthy.add_metric([name], float(one.status is HealthStatus.HEALTHY))
        yield healthy
        yield from self._of_controllers()
        yield from self._of_services()
        yield from self._of_store()
        yield from self._of_scaling()
        yield from self._of_messages()
        yield from self._of_events()

    def _of_controllers(self) -> Iterable[Metric]:
        passes = CounterMetricFamily("fleetwarden_controller_passes", "Passes of a controller.", labels=["controller"])
        failures = CounterMetricFamily("fleetwarden_controller_failures", "Passes that raised.", labels=["controller"])
        since = GaugeMetricFamily(
            "fleetwarden_controller_last_pass_seconds", "Seconds since its last pass ended.", labels=["controller"]
        )
        for name, state in self._ticks.items():
            passes.add_metric([name], state.runs)
            failures.add_metric([name], state.failures)
            if state.last_ended is not None:
                since.add_metric([name], self._clock.monotonic() - state.last_ended)
        yield passes
        yield failures
        yield since

    def _of_services(self) -> Iterable[Metric]:
        services = self._configuration.current().last_good_fleet.services
        seen = self._sightings.last()
        states = Counter("unobserved" if name not in seen else seen[name].status.value for name in services)
        by_state = GaugeMetricFamily("fleetwarden_services", "Services by state, as last seen.", labels=["state"])
        for state, number in sorted(states.items()):
            by_state.add_metric([state], number)
        yield by_state
        replicas = GaugeMetricFamily(
            "fleetwarden_service_replicas", "Replicas of a service, as last seen.", labels=["service", "what"]
        )
        for name in services:
            if (one := seen.get(name)) is not None:
                for what, number in (("ready", one.ready), ("existing", one.existing), ("wanted", one.total)):
                    replicas.add_metric([name, what], number)
        yield replicas

    def _of_store(self) -> Iterable[Metric]:
        states = (OutboxState.PREPARED, OutboxState.RUNNING, OutboxState.RECOVERY_PENDING)
        try:
            waiting, open_ones, storms = self._store.read(
                lambda tx: (
                    tx.approvals.count(ApprovalState.PENDING),
                    tx.outbox.in_state(*states),
                    known_storms(tx).open,
                )
            )
        except FleetError:
            yield GaugeMetricFamily("fleetwarden_store_up", "Whether the store can be read.", value=0)
            return
        yield GaugeMetricFamily("fleetwarden_store_up", "Whether the store can be read.", value=1)
        health = self._store.health()
        if health.wal_bytes is not None:
            yield GaugeMetricFamily("fleetwarden_store_wal_bytes", "Bytes of the journal.", value=health.wal_bytes)
        yield CounterMetricFamily(
            "fleetwarden_store_slow_transactions", "Transactions over 50 ms.", value=health.slow_transactions
        )
        yield GaugeMetricFamily("fleetwarden_approvals_waiting", "Approvals that wait for people.", value=waiting)
        yield GaugeMetricFamily(
            "fleetwarden_storm_breakers_open", "Scopes in which a storm stops automatic repairs.", value=len(storms)
        )
        opened = GaugeMetricFamily("fleetwarden_actions_open", "Actions that have not ended.", labels=["state"])
        counted = Counter(one.state for one in open_ones)
        for state in states:
            opened.add_metric([state.value], counted[state])
        yield opened

    def _of_scaling(self) -> Iterable[Metric]:
        last = self._autoscaling.autoscaler.last
        now = GaugeMetricFamily(
            "fleetwarden_autoscaler_services", "Services by reason, at the last tick.", labels=["reason"]
        )
        for reason, number in sorted({} if last is None else last.reasons.items()):
            now.add_metric([reason], number)
        yield now
        total = CounterMetricFamily(
            "fleetwarden_autoscaler_decisions", "Evaluations by reason, over all ticks.", labels=["reason"]
        )
        for reason, number in sorted(self._autoscaling.counters().items()):
            total.add_metric([reason], number)
        yield total
        accepted, rejected = self._autoscaling.signals.counts()
        yield CounterMetricFamily(
            "fleetwarden_signal_samples_accepted", "Pushed samples that were taken.", value=accepted
        )
        refused = CounterMetricFamily(
            "fleetwarden_signal_samples_rejected", "Pushed samples that were refused.", labels=["source", "code"]
        )
        for (source, code), number in sorted(rejected.items()):
            refused.add_metric([source, code], number)
        yield refused

    def _of_messages(self) -> Iterable[Metric]:
        try:
            counts, now = self._messages.counts(), self._store.read(lambda tx: tx.now())
        except FleetError:
            return  # the store is told of by itself
        kept = GaugeMetricFamily("fleetwarden_messages", "Messages of 30 days.", labels=["target", "state"])
        oldest = GaugeMetricFamily(
            "fleetwarden_messages_oldest_waiting_seconds", "Since the oldest that waits was made.", labels=["target"]
        )
        for one in counts:
            kept.add_metric([one.target, one.state], one.count)
            if one.state == "waiting":
                oldest.add_metric([one.target], (now - one.oldest_at) / SECOND)
        yield kept
        yield oldest

    def _of_events(self) -> Iterable[Metric]:
        accepted = CounterMetricFamily(
            "fleetwarden_events_accepted", "New events that were kept.", labels=["source", "severity"]
        )
        for (source, severity), number in sorted(self._admission.accepted.items()):
            accepted.add_metric([source, severity], number)
        yield accepted
        yield CounterMetricFamily(
            "fleetwarden_events_duplicates",
            "Deliveries of events that were kept already.",
            value=self._admission.duplicates,
        )
        refused = CounterMetricFamily("fleetwarden_events_refused", "Bodies that were refused.", labels=["code"])
        for code, number in sorted(self._admission.refused.items()):
            refused.add_metric([code], number)
        yield refused
        yield GaugeMetricFamily(
            "fleetwarden_events_waiting", "Events that wait to be kept.", value=self._admission.waiting
        )
