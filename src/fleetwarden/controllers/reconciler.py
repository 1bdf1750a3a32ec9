"""The reconciler: one pass over the whole fleet, from evidence to proposals.

Each pass reads everything again: files, the fleet, open records, approvals.  It acts only on healthy evidence; an
unreadable authority is a not-ready report, never an empty fleet.  It proposes, drains grants and ends what expired;
it never actuates, and a pending approval costs it neither budget nor a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock

import structlog

from fleetwarden.controllers.approvals import ApprovalDesk
from fleetwarden.controllers.gate import Admission, Answer, Gate
from fleetwarden.controllers.sightings import Look, Sightings
from fleetwarden.controllers.supervision import Supervision
from fleetwarden.domain.actions import ActionRequest, Evidence, LeaseFence, Record, Source
from fleetwarden.domain.convergence import Need, Rest, converge, facts, identity
from fleetwarden.domain.fleet import Mode, ObservedService, Service
from fleetwarden.domain.health import FleetHealthEvidence
from fleetwarden.domain.identifiers import JsonValue, Micros, plain
from fleetwarden.ports.configuration import Configuration, ConfigurationSource
from fleetwarden.ports.stores import Store
from fleetwarden.ports.system import IdSource

__all__ = ["CADENCE", "ReconcileReport", "Reconciler", "Standing", "request_for"]

log = structlog.get_logger(__name__)
CADENCE = "fleet_reconciler"


class Standing(Record):
    """Where one service stood at the end of the last pass: a code, a sentence, and what was asked for it."""

    code: str
    reason: str
    kind: str = ""
    at: Micros = 0


class ReconcileReport(Record):
    """One pass.  `status`: ok | not_ready | error.  Lists hold ids or `service: reason` lines."""

    at: Micros
    status: str
    services: int = 0
    proposed: int = 0
    prepared: tuple[str, ...] = ()
    queued: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    waiting: int = 0
    deferred: int = 0
    drained: int = 0
    expired: int = 0
    problems: tuple[str, ...] = ()
    evidence: Mapping[str, JsonValue] | None = None

    @property
    def quiet(self) -> bool:
        """Whether nothing happened that somebody may want to read later."""
        return not (self.prepared or self.queued or self.denied or self.drained or self.expired)


class Reconciler:
    """Runs passes.  `acting`: substrates that may act; elsewhere decisions are dry runs.  `refusal`: why no actuator
    here serves a kind on a service, or None."""

    def __init__(
        self,
        ids: IdSource,
        store: Store,
        configuration: ConfigurationSource,
        sightings: Sightings,
        supervision: Supervision,
        gate: Gate,
        desk: ApprovalDesk,
        refusal: Callable[[ActionRequest, Service], str | None],
        *,
        acting: frozenset[str],
        actions_max: int,
    ) -> None:
        self._ids = ids
        self._store = store
        self._configuration = configuration
        self._sightings = sightings
        self._supervision = supervision
        self._gate = gate
        self._desk = desk
        self._refusal = refusal
        self._acting = acting
        self._actions_max = actions_max
        self._after = ""  # fairness: the next pass begins behind the last service that was served
        self._status = ""
        self._lock = Lock()
        self._standings: dict[str, Standing] = {}
        self.paused = False
        self.last: ReconcileReport | None = None

    def standings(self) -> Mapping[str, Standing]:
        """Where each service stood at the end of the last pass, for people to read."""
        with self._lock:
            return dict(self._standings)

    def run(self, fence: LeaseFence) -> ReconcileReport:
        """One pass under the reconciler's lease.  Raises Fenced, StoreUnavailable."""
        expired = self._desk.expire_due()
        configuration = self._configuration.current()
        services = [] if configuration.fleet.error else list(configuration.fleet.services.values())
        look = self._sightings.look(services)
        self._supervision.configured(look.at, configuration)
        self._supervision.observed(look.at, self._asked(services), look.failed)
        health = self._supervision.evidence()
        if not health.convergence_ready or self.paused:
            return self._not_ready(look.at, health, expired, configuration)
        drained = self._desk.drain(self._actions_max)
        needs, standings = self._needs(services, look)
        answers = self._gate.admit(needs, fence=fence, most=self._actions_max - drained)
        self._remember(standings, answers, look.at)
        return self._report(look.at, services, answers, drained, expired, configuration)

    def _asked(self, services: Sequence[Service]) -> list[str]:
        used = {one.substrate for one in services}
        return [one.name for one in self._sightings.observers if one.substrates & used]

    def _needs(self, services: Sequence[Service], look: Look) -> tuple[list[ActionRequest], dict[str, Standing]]:
        """What each service needs, in fair order, and why the others need nothing."""
        needs: list[ActionRequest] = []
        standings: dict[str, Standing] = {}
        ordered = sorted(services, key=lambda one: (one.name <= self._after, one.name))
        for service in ordered:
            observed = look.seen.get(service.name)
            now = converge(service, observed)
            if isinstance(now, Rest):
                standings[service.name] = Standing(code=now.code, reason=now.reason, at=look.at)
                continue
            assert observed is not None
            request = request_for(
                now,
                service,
                observed,
                key=self._ids.new(),
                source=Source.RECONCILER,
                by="reconciler",
                acting=self._acting,
            )
            if (why := self._refusal(request, service)) is not None:
                standings[service.name] = Standing(code="refused", reason=why, kind=now.kind, at=look.at)
                continue
            needs.append(request)
        return needs, standings

    def _remember(self, standings: dict[str, Standing], answers: Sequence[Admission], at: Micros) -> None:
        for one in answers:
            name = one.request.target
            standings[name] = Standing(code=one.answer.value, reason=one.reason, kind=one.request.kind, at=at)
            if one.answer in (Answer.PREPARED, Answer.QUEUED):
                self._after = name
        with self._lock:
            self._standings = standings

    def _not_ready(
        self, at: Micros, health: FleetHealthEvidence, expired: int, configuration: Configuration
    ) -> ReconcileReport:
        reason = "this plane is stopping" if self.paused else f"the plane's health is {health.status.value}"
        with self._lock:
            self._standings = {
                name: Standing(code="not_ready", reason=reason, at=at)
                for name in configuration.last_good_fleet.services
            }
        report = ReconcileReport(
            at=at,
            status="not_ready",
            expired=expired,
            problems=_problems(configuration),
            evidence=plain(health),
        )
        return self._keep(report)

    def _report(
        self,
        at: Micros,
        services: Sequence[Service],
        answers: Sequence[Admission],
        drained: int,
        expired: int,
        configuration: Configuration,
    ) -> ReconcileReport:
        def of(*wanted: Answer) -> list[Admission]:
            return [one for one in answers if one.answer in wanted]

        report = ReconcileReport(
            at=at,
            status="ok",
            services=len(services),
            proposed=len(answers),
            prepared=tuple(one.record.id for one in of(Answer.PREPARED) if one.record is not None),
            queued=tuple(one.approval.id for one in of(Answer.QUEUED) if one.approval is not None),
            denied=tuple(f"{one.request.target}: {one.reason}" for one in of(Answer.DENIED)),
            waiting=len(of(Answer.WAITING, Answer.BUSY, Answer.STALE, Answer.REPEATED)),
            deferred=len(of(Answer.DEFERRED)),
            drained=drained,
            expired=expired,
            problems=_problems(configuration),
        )
        return self._keep(report)

    def _keep(self, report: ReconcileReport) -> ReconcileReport:
        """Store a report that says something new; a quiet pass writes nothing."""
        self.last = report
        if report.quiet and report.status == self._status:
            return report
        self._status = report.status
        self._store.transact("report", lambda tx: tx.reports.append("reconcile", plain(report)))
        log.info("pass", status=report.status, prepared=len(report.prepared), queued=len(report.queued))
        return report


def _problems(configuration: Configuration) -> tuple[str, ...]:
    told = [configuration.fleet.error] if configuration.fleet.error else []
    return tuple([*told, *map(str, configuration.fleet.problems), *map(str, configuration.policy_problems)][:20])


def request_for(
    need: Need,
    service: Service,
    observed: ObservedService,
    *,
    key: str,
    source: str,
    by: str,
    acting: frozenset[str],
) -> ActionRequest:
    """The request for a need, bound to the service as asked for and to what was seen.

    A person's own wish is asked for in that person's name, so that nobody approves what they asked for themselves.
    """
    return ActionRequest(
        kind=need.kind,
        target=service.name,
        params=need.params,
        source=source,
        requested_by=need.by or by,
        reason=need.reason,
        key=key,
        group=service.group,
        substrate=service.substrate,
        direction=need.direction,
        identity=identity(service),
        dry_run=service.mode is Mode.DRY_RUN or service.substrate not in acting,
        evidence=Evidence(observed_at=observed.observed_at, reason=need.reason, facts=facts(observed)),
    )
