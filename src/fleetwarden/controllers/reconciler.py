"""The reconciler: one pass over the whole fleet, from evidence to proposals.

Each pass reads everything again: files, the fleet, open records, approvals.  It acts only on healthy evidence; an
unreadable authority is a not-ready report, never an empty fleet, and a blind observer holds its own services only.  It
proposes, drains grants and ends what expired; it never actuates, and a pending approval costs it neither budget nor a
row.  A targeted pass does the same for a few services, beside whatever the whole pass is doing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Lock
from typing import NamedTuple

import msgspec
import structlog

from fleetwarden.controllers.approvals import ApprovalDesk
from fleetwarden.controllers.condition import Condition
from fleetwarden.controllers.convergence_watch import ConvergenceWatch
from fleetwarden.controllers.foreign import ForeignWatch
from fleetwarden.controllers.gate import Admission, Answer, Gate
from fleetwarden.controllers.intent_authorising import Authorised, IntentAuthorising
from fleetwarden.controllers.rehearsal import rehearsed
from fleetwarden.controllers.restraint import BACKING_OFF, Held, Restraint
from fleetwarden.controllers.sightings import Look, Sightings
from fleetwarden.controllers.supervision import Envelopes, Supervision
from fleetwarden.controllers.wishes import as_asked
from fleetwarden.domain.actions import ActionApproval, ActionRequest, Evidence, Kind, LeaseFence, Record, Source
from fleetwarden.domain.convergence import Need, Rest, beside, converge, facts, identity
from fleetwarden.domain.fleet import Mode, ObservedService, Service
from fleetwarden.domain.health import trouble
from fleetwarden.domain.identifiers import JsonValue, Micros, plain
from fleetwarden.domain.lifecycles import ApprovalState
from fleetwarden.domain.other_repairs import other_repairs
from fleetwarden.ports.configuration import Configuration, ConfigurationSource
from fleetwarden.ports.stores import Store, Tx
from fleetwarden.ports.system import IdSource

__all__ = ["CADENCE", "Plan", "ReconcileReport", "Reconciler", "Standing", "request_for"]

log = structlog.get_logger(__name__)
CADENCE = "fleet_reconciler"
INTENT_CODES = {
    "goes": "prepared",
    "waits": "intent_waits",
    "rejected": "intent_rejected",
    "superseded": "follows_load",
}


class Standing(Record, gc=False):
    """Where one service stood at the end of the last pass: a code, a sentence, and what was asked for it."""

    code: str
    reason: str
    kind: str = ""
    at: Micros = 0
    until: Micros | None = None  # when it is asked for again, where that is a matter of time


class ReconcileReport(Record):
    """One pass.  `status`: ok | partial (some services could not be acted upon) | not_ready (none could); with the
    evidence unless ok.  Lists hold ids or `service: reason` lines.  `targets`: the services of a targeted pass, empty
    for the whole fleet.  `held`: needs that wait for a dependency or after a row of failures.
    """

    at: Micros
    status: str
    services: int = 0
    proposed: int = 0
    prepared: tuple[str, ...] = ()
    queued: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    waiting: int = 0
    held: int = 0
    deferred: int = 0
    drained: int = 0
    expired: int = 0
    problems: tuple[str, ...] = ()
    evidence: Mapping[str, JsonValue] | None = None
    targets: tuple[str, ...] = ()

    @property
    def quiet(self) -> bool:
        """Whether nothing happened that somebody may want to read later."""
        return not (self.prepared or self.queued or self.denied or self.drained or self.expired)


class Plan(Record):
    """What a pass would do at `at`.  Of the answers, only what was asked and what it came to is real."""

    at: Micros
    paused: bool
    error: str  # why the registry cannot be read, or ""
    standings: Mapping[str, Standing]
    answers: tuple[Admission, ...]
    granted: tuple[ActionApproval, ...]  # what people said yes to and is not carried out yet


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
        restraint: Restraint,
        refusal: Callable[[ActionRequest, Service], str | None],
        *,
        acting: frozenset[str],
        actions_max: int,
        foreign_hold_s: float = 1800.0,
        intents: IntentAuthorising | None = None,
        condition: Condition | None = None,
    ) -> None:
        self._ids = ids
        self._store = store
        self._configuration = configuration
        self._sightings = sightings
        self._supervision = supervision
        self._gate = gate
        self._desk = desk
        self._restraint = restraint
        self._refusal = refusal
        self._acting = acting
        self._actions_max = actions_max
        self._foreign = ForeignWatch(store, hold_s=foreign_hold_s)
        self._intents = intents or IntentAuthorising(store, configuration, gate)
        self._converging = ConvergenceWatch(store)
        self._condition = condition or Condition(store)
        self._after = ""  # fairness: the next pass begins behind the last service that was served
        self._status = ""
        self._fence: LeaseFence | None = None  # of the pass that runs
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
        self._fence = fence
        expired = self._desk.expire_due(fence)
        self._foreign.expire(fence)
        files = self._configuration.current()
        configuration = self._store.read(lambda tx: as_asked(tx, files))
        services = [] if configuration.fleet.error else list(configuration.fleet.services.values())
        look = self._sightings.look(services)
        self._condition.run(configuration.fleet, look, fence)
        self._supervision.configured(look.at, configuration)
        self._supervision.looked(look, self._sightings.asked(services))
        envelopes = self._supervision.envelopes()
        unready = _unready(services, envelopes)
        if self.paused or _none_ready(services, unready, envelopes):
            return self._not_ready(look.at, envelopes, expired, configuration)
        if self._foreign.run(files, look.seen, fence):
            configuration = self._store.read(lambda tx: as_asked(tx, files))
            services = list(configuration.fleet.services.values())
        known = {one.name: one.substrate for one in services}
        self._converging.run(look.seen, fence)
        drained = self._desk.drain(self._actions_max, fence, lambda target: unready.get(known.get(target, "")))
        done = self._propose(services, look, unready, fence, most=self._actions_max - drained)
        with self._lock:
            self._standings = done.standings
        report = self._report(look.at, services, done, drained, expired, configuration, unready, envelopes)
        return self._keep(report)

    def drain(self, fence: LeaseFence) -> int:
        """Make grants into work and nothing else, for a plane that reconciles nothing: what a person has said yes to is
        carried out there as well.  Returns how many were new.  Raises Fenced, StoreUnavailable.
        """
        services = list(self._configuration.current().last_good_fleet.services.values())
        unready = _unready(services, self._supervision.envelopes())
        known = {one.name: one.substrate for one in services}
        return self._desk.drain(self._actions_max, fence, lambda target: unready.get(known.get(target, "")))

    def plan(self) -> Plan:
        """What a whole pass would do now: the same code, every transaction taken back.  Raises StoreUnavailable.

        The services are looked at; nothing else happens, and health is as the last pass left it.
        """
        files = self._configuration.current()
        services = [] if files.fleet.error else list(files.fleet.services.values())
        look = self._sightings.look(services)
        configuration = rehearsed(self._store, lambda tx: self._foreign.foreseen(tx, files, look.seen))
        services = [] if files.fleet.error else list(configuration.fleet.services.values())
        granted = self._store.read(lambda tx: tx.approvals.in_state(ApprovalState.GRANTED))
        most = max(0, self._actions_max - len(granted))
        done = self._propose(services, look, _unready(services, self._supervision.envelopes()), None, most=most)
        return Plan(
            at=look.at,
            paused=self.paused,
            error=files.fleet.error,
            standings=done.standings,
            answers=tuple(done.answers),
            granted=tuple(granted[: self._actions_max]),
        )

    def run_for(self, names: Collection[str], fence: LeaseFence) -> ReconcileReport | None:
        """A targeted pass: only these services are converged; their dependencies are looked at, too.

        Nothing is ended and no grant is drained; the whole pass does that, and may run at the same time: whoever comes
        second at the gate finds the target busy, or its own evidence stale.  None if there is nothing to be done with
        them now.  Raises Fenced, StoreUnavailable.
        """
        files = self._configuration.current()
        configuration = self._store.read(lambda tx: as_asked(tx, files))
        fleet = {} if configuration.fleet.error else configuration.fleet.services
        chosen = [fleet[name] for name in sorted(names) if name in fleet]
        if self.paused or not chosen:
            return None
        needed = {name for one in chosen for name in one.depends_on if name in fleet} - {one.name for one in chosen}
        look = self._sightings.look([*chosen, *(fleet[name] for name in sorted(needed))])
        self._supervision.looked(look, self._sightings.asked(chosen), whole=False)
        envelopes = self._supervision.envelopes()
        unready = _unready(chosen, envelopes)
        self._condition.run(configuration.fleet, look, fence)
        if self._foreign.run(files, look.seen, fence):
            configuration = self._store.read(lambda tx: as_asked(tx, files))
            chosen = [configuration.fleet.services[one.name] for one in chosen]
        done = self._propose(chosen, look, unready, fence, most=self._actions_max)
        with self._lock:
            self._standings = {**self._standings, **done.standings}
        report = self._report(look.at, chosen, done, 0, 0, configuration, unready, envelopes)
        report = msgspec.structs.replace(report, targets=tuple(one.name for one in chosen))
        if not report.quiet:
            self._append(report, fence)
        return report

    def _propose(
        self,
        services: Sequence[Service],
        look: Look,
        unready: Mapping[str, str],
        fence: LeaseFence | None,
        *,
        most: int,
    ) -> _Done:
        """What these services need, asked for as far as it may be, and where each of them stands then.

        Without a fence it is only rehearsed: nothing is written, and nobody's turn moves on.
        """
        needs, standings = self._needs(services, look, unready)
        configuration = self._configuration.current()
        fleet = {**configuration.fleet.services, **{one.name: one for one in services}}
        asked, held = self._restraint.sift(needs, fleet, look.seen)
        for name, why in held.items():
            standings[name] = Standing(code=why.code, reason=why.reason, kind=why.kind, at=look.at, until=why.until)
        asked += self._around(needs, held, fleet, look)
        if fence is None:
            answers = self._gate.rehearse(asked, most=most)
        else:
            answers = self._gate.admit(asked, fence=fence, most=most)
        told: set[str] = set()
        for one in answers:
            name = one.request.target
            if one.answer is Answer.BUSY and name in told:
                continue  # the second request of a service whose first one goes ahead
            told.add(name)
            standings[name] = Standing(code=one.answer.value, reason=one.reason, kind=one.request.kind, at=look.at)
            if fence is not None and one.answer in (Answer.PREPARED, Answer.QUEUED):
                self._after = name
        done = sum(one.answer in (Answer.PREPARED, Answer.QUEUED) for one in answers)
        ready = {one.name: one for one in services if one.substrate not in unready and one.mode is not Mode.OBSERVE}
        scaled = self._intents.run(ready, look.seen, fence, most=max(0, most - done))
        for each in scaled:
            if each.service not in told:
                standings[each.service] = Standing(
                    code=INTENT_CODES.get(each.fate, each.fate),
                    reason=f"{each.row.id} ({each.row.intent.desired_replicas} replicas): {each.reason}",
                    kind=Kind.SCALE,
                    at=look.at,
                    until=each.until,
                )
        return _Done(standings, answers, len(held), scaled)

    def _needs(
        self, services: Sequence[Service], look: Look, unready: Mapping[str, str]
    ) -> tuple[list[ActionRequest], dict[str, Standing]]:
        """What each service needs, in fair order, and why the others need nothing."""
        needs: list[ActionRequest] = []
        standings: dict[str, Standing] = {}
        ordered = sorted(services, key=lambda one: (one.name <= self._after, one.name))
        for service in ordered:
            if (blind := unready.get(service.substrate)) is not None:
                standings[service.name] = Standing(code="not_ready", reason=blind, at=look.at)
                continue
            observed = look.of(service.name)
            now = converge(service, observed)
            if isinstance(now, Rest):
                standings[service.name] = Standing(code=now.code, reason=now.reason, at=look.at)
                continue
            assert observed is not None
            request = self._request(now, service, observed)
            if (why := self._refusal(request, service)) is not None:
                standings[service.name] = Standing(code="refused", reason=why, kind=now.kind, at=look.at)
                continue
            needs.append(request)
            needs += self._beside(now, service, observed)
        return needs, standings

    def _around(
        self, needs: Sequence[ActionRequest], held: Mapping[str, Held], fleet: Mapping[str, Service], look: Look
    ) -> list[ActionRequest]:
        """Where one instance is left alone after a row of failures: the next one of its service that may be tried."""
        stuck = [
            one
            for one in needs
            if one.target in held and held[one.target].code == BACKING_OFF and one.target in look.seen
        ]
        others = [
            self._request(need, fleet[one.target], look.seen[one.target])
            for one in stuck
            for need in other_repairs(one, look.seen[one.target])
        ]
        first: dict[str, ActionRequest] = {}
        for request in self._restraint.sift(others, fleet, look.seen)[0]:
            first.setdefault(request.target, request)
        return list(first.values())

    def _beside(self, need: Need, service: Service, observed: ObservedService) -> list[ActionRequest]:
        """A second request for what is down in another version than the declared one; see `convergence.beside`."""
        other = beside(need, service, observed)
        if other is None:
            return []
        request = self._request(other, service, observed)
        return [] if self._refusal(request, service) is not None else [request]

    def _request(self, need: Need, service: Service, observed: ObservedService) -> ActionRequest:
        return request_for(
            need,
            service,
            observed,
            key=self._ids.new(),
            source=Source.RECONCILER,
            by="reconciler",
            acting=self._acting,
        )

    def _not_ready(
        self, at: Micros, envelopes: Envelopes, expired: int, configuration: Configuration
    ) -> ReconcileReport:
        why = "this plane is stopping" if self.paused else ""
        with self._lock:
            self._standings = {
                name: Standing(code="not_ready", reason=why or trouble(envelopes.of(one.substrate)), at=at)
                for name, one in configuration.last_good_fleet.services.items()
            }
        report = ReconcileReport(
            at=at,
            status="not_ready",
            expired=expired,
            problems=_problems(configuration),
            evidence=plain(envelopes.whole),
        )
        return self._keep(report)

    @staticmethod
    def _report(
        at: Micros,
        services: Sequence[Service],
        done: _Done,
        drained: int,
        expired: int,
        configuration: Configuration,
        unready: Mapping[str, str],
        envelopes: Envelopes,
    ) -> ReconcileReport:
        def of(*wanted: Answer) -> list[Admission]:
            return [one for one in done.answers if one.answer in wanted]

        return ReconcileReport(
            at=at,
            status="partial" if unready else "ok",
            services=len(services),
            proposed=len(done.answers),
            prepared=tuple(
                record.id
                for record in (*(one.record for one in of(Answer.PREPARED)), *(one.record for one in done.scaled))
                if record is not None
            ),
            queued=tuple(one.approval.id for one in of(Answer.QUEUED) if one.approval is not None),
            denied=tuple(f"{one.request.target}: {one.reason}" for one in of(Answer.DENIED)),
            waiting=len(of(Answer.WAITING, Answer.BUSY, Answer.STALE, Answer.REPEATED)),
            held=done.held,
            deferred=len(of(Answer.DEFERRED)),
            drained=drained,
            expired=expired,
            problems=_problems(configuration),
            evidence=plain(envelopes.whole) if unready else None,
        )

    def _keep(self, report: ReconcileReport) -> ReconcileReport:
        """Store a report that says something new; a quiet pass writes nothing."""
        self.last = report
        if report.quiet and report.status == self._status:
            return report
        self._status = report.status
        self._append(report, self._fence)
        return report

    def _append(self, report: ReconcileReport, fence: LeaseFence | None) -> None:
        def run(tx: Tx) -> None:
            if fence is not None:
                tx.leases.check(fence)
            tx.reports.append("reconcile", plain(report))

        self._store.transact("report", run)
        log.info("pass", status=report.status, prepared=len(report.prepared), queued=len(report.queued))


class _Done(NamedTuple):
    """What a pass came to: where each service stands, the gate's answers, and how many needs were held."""

    standings: dict[str, Standing]
    answers: Sequence[Admission]
    held: int
    scaled: Sequence[Authorised] = ()


def _unready(services: Sequence[Service], envelopes: Envelopes) -> dict[str, str]:
    """The substrates on which nothing may be done now, and why."""
    told = {one: trouble(envelopes.of(one)) for one in {service.substrate for service in services}}
    return {substrate: why for substrate, why in told.items() if why}


def _none_ready(services: Sequence[Service], unready: Mapping[str, str], envelopes: Envelopes) -> bool:
    if not services:
        return bool(trouble(envelopes.whole))
    return all(one.substrate in unready for one in services)


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
