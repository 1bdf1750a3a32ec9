"""The fleet for people: one line per service, the first line of `status`, and why nothing happens.

Reads what the last pass saw and what the ledger says; it changes nothing and observes nothing by itself.  Evidence that
is too old is shown as no evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from fleetwarden.app import views, wishes
from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.app.scaling_views import ScalingViews
from fleetwarden.app.storms import storm_warnings
from fleetwarden.controllers.loop import TickState
from fleetwarden.controllers.publishing import CADENCE as HOST_OBSERVER
from fleetwarden.controllers.reconciler import CADENCE as LEADING
from fleetwarden.controllers.reconciler import Reconciler, Standing
from fleetwarden.controllers.sightings import Sightings
from fleetwarden.controllers.storm_watch import known_storms
from fleetwarden.controllers.supervision import Supervision
from fleetwarden.controllers.wishes import as_asked
from fleetwarden.domain import freezing
from fleetwarden.domain.actions import ActionDecision, ActionExecution
from fleetwarden.domain.convergence import Rest, converge
from fleetwarden.domain.errors import NotFound
from fleetwarden.domain.fleet import Mode, ObservedService, Service, ServiceStatus
from fleetwarden.domain.health import HealthStatus
from fleetwarden.domain.identifiers import SECOND, JsonValue, Micros, plain, rfc3339
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.stores import Store, Tx
from fleetwarden.ports.system import Clock

__all__ = ["FleetViews", "PlaneFacts"]


class PlaneFacts:
    """What is fixed while a plane runs and people want to see."""

    def __init__(
        self,
        *,
        version: str,
        store: str,
        acting: frozenset[str],
        fallbacks: tuple[str, ...],
        reconciler_on: bool,
        evidence_age_s: float,
        config_dir: str,
        data_dir: str,
        host: str = "",
    ) -> None:
        """`host`: this plane's, where several share the fleet; else ""."""
        self.host = host
        self.version = version
        self.store = store
        self.acting = acting
        self.fallbacks = fallbacks
        self.reconciler_on = reconciler_on
        self.evidence_age_s = evidence_age_s
        self.config_dir = config_dir
        self.data_dir = data_dir


class _Rows:
    """What one read transaction says of all services, and the FREEZE file that was there before it."""

    def __init__(self, tx: Tx, names: list[str], freeze_file: str) -> None:
        self.freeze_file = freeze_file
        self.now = tx.now()
        self.decisions: Mapping[str, ActionDecision] = tx.decisions.latest_by_target(names)
        self.executions: Mapping[str, ActionExecution] = tx.executions.latest_by_target(names)
        self.overrides = {one.service: wishes.override_view(one) for one in tx.service_overrides.standing()}
        self.foreign: dict[str, list[views.Item]] = {}
        for one in tx.foreign.standing():
            self.foreign.setdefault(one.service, []).append(wishes.change_view(one))
        self.scaling = tx.autoscale_rows.all()
        self.intents = tx.intents.latest_of(names)
        self.active = tx.freezes.active()
        self.storms = known_storms(tx)
        self.freezes = [views.freeze(one) for one in self.active]
        self.open = {
            one.request.target: one
            for one in tx.outbox.in_state(OutboxState.PREPARED, OutboxState.RUNNING, OutboxState.RECOVERY_PENDING)
        }
        waiting = tx.approvals.in_state(ApprovalState.PENDING, ApprovalState.GRANTED)
        self.waiting = {one.request.target: one for one in waiting}
        self.pending = sum(1 for one in waiting if one.status is ApprovalState.PENDING)


class FleetViews:
    """Views over the whole fleet and over one service."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        configuration: ConfigurationSource,
        sightings: Sightings,
        supervision: Supervision,
        reconciler: Reconciler,
        ticks: Mapping[str, TickState],
        facts: PlaneFacts,
        unmanaged: Callable[[Collection[str]], Mapping[str, int]],
        neighbours: Callable[[], Sequence[str]] = tuple,
        scaling: ScalingViews | None = None,
    ) -> None:
        """`neighbours`: what there is to say of other hosts' planes; `scaling`: what the autoscaler says."""
        self._scaling = scaling or ScalingViews()
        self._neighbours = neighbours
        self._unmanaged = unmanaged
        self._clock = clock
        self._store = store
        self._configuration = configuration
        self._sightings = sightings
        self._supervision = supervision
        self._reconciler = reconciler
        self._ticks = ticks
        self.facts = facts

    def services(self, caller: Caller) -> dict[str, JsonValue]:
        """All services, by name."""
        require(caller, Role.VIEWER)
        services, rows = self._rows()
        return {"items": [self._service(one, rows) for one in services.values()], "next": None}

    def service(self, caller: Caller, name: str) -> views.Item:
        """One service.  Raises NotFound."""
        require(caller, Role.VIEWER)
        services, rows = self._rows()
        if name not in services:
            raise NotFound(
                f"no service {name!r} in the registry", hint=f"known: {', '.join(sorted(services)) or 'none'}"
            )
        return self._service(services[name], rows)

    def _rows(self) -> tuple[dict[str, Service], _Rows]:
        files = self._configuration.current()
        file = self._configuration.freeze_file()  # no file is looked for inside a transaction

        def read(tx: Tx) -> tuple[dict[str, Service], _Rows]:
            services = dict(sorted(as_asked(tx, files).last_good_fleet.services.items()))
            return services, _Rows(tx, list(services), file)

        return self._store.read(read)

    def _service(self, service: Service, rows: _Rows) -> views.Item:
        seen = self.seen(service.name, rows.now)
        decision, execution = rows.decisions.get(service.name), rows.executions.get(service.name)
        standing = self._standing(service, seen)
        opened, waiting = rows.open.get(service.name), rows.waiting.get(service.name)
        status = ServiceStatus.UNKNOWN if seen is None else seen.status
        item: views.Item = {
            "id": service.name,
            "name": service.name,
            "group": service.group or None,
            "owner": service.owner or None,
            "substrate": service.substrate or None,
            "host": None if service.process is None else service.process.host or None,
            "mode": service.mode.value,
            "acts": service.mode is Mode.LIVE and service.substrate in self.facts.acting,
            "controller_mode": service.scaling.controller_mode if service.scaling else "static",
            "desired": {
                "state": service.desired.value,
                "replicas": service.replicas,
                "version": service.version or None,
                "source": service.source,
            },
            "observed": _observed(seen),
            "status": status.value,
            "ready": 0 if seen is None else seen.ready,
            "instances": [] if seen is None else [views.instance(one) for one in seen.instances],
            "last_decision": None if decision is None else views.decision(decision),
            "last_action": None if execution is None else views.execution(execution),
            "open_action": None if opened is None else views.record(opened),
            "approval": None if waiting is None else views.approval(waiting),
            "reason": _reason(standing, self.facts.reconciler_on),
            "reason_code": "reconciler_off" if standing is None else standing.code,
            "retry_at": None if standing is None or standing.until is None else rfc3339(standing.until),
            "depends_on": list(service.depends_on),
            "overrides": rows.overrides.get(service.name),
            "foreign": rows.foreign.get(service.name, []),
            "notes": wishes.notes(service, rows.overrides.get(service.name)),
            "freeze": _freezes_of(service, rows) or None,
            "at": rfc3339(rows.now),
        }
        if service.scaling_error is not None:
            item["scaling_error"] = plain(service.scaling_error)
        self._scaling.add(item, service, rows.scaling, rows.intents.get(service.name))
        return item

    def _standing(self, service: Service, seen: ObservedService | None) -> Standing | None:
        """Where it stood at the end of the last pass; while another plane leads, what can be told from what is seen."""
        host = "" if service.process is None else service.process.host
        looks = self._ticks.get(HOST_OBSERVER)
        if seen is None and host not in ("", self.facts.host) and looks is not None and looks.last_ended is not None:
            told = f"no plane of host {host} is heard of now: nothing is done without evidence"
            return Standing(code="host_silent", reason=told)
        tick = self._ticks.get(LEADING)
        if tick is None or tick.leader or tick.last_ended is None:
            return self._reconciler.standings().get(service.name)
        now = converge(service, seen)
        if isinstance(now, Rest):
            return Standing(code=now.code, reason=now.reason)
        return Standing(code="leader_decides", reason=f"{now.reason}: the plane that leads decides", kind=now.kind)

    def seen(self, name: str, now: Micros) -> ObservedService | None:
        """What was last seen of a service, unless that is too old to say anything about now."""
        last = self._sightings.last().get(name)
        bound = int(self.facts.evidence_age_s * SECOND)
        return None if last is None or now - last.observed_at > bound else last

    def status(self, caller: Caller) -> dict[str, JsonValue]:
        """The first line of `status`, its warnings, and all services."""
        require(caller, Role.VIEWER)
        services, rows = self._rows()
        items = [self._service(one, rows) for one in services.values()]
        counts = {state: sum(1 for one in items if one["status"] == state) for state in map(str, ServiceStatus)}
        return {
            "at": rfc3339(rows.now),
            "version": self.facts.version,
            "store": self.facts.store,
            "services_total": len(items),
            "services_by_status": counts,
            "acting_on": sorted(self.facts.acting),
            "reconciler": "on" if self.facts.reconciler_on else "off",
            "autoscaler": "on" if self._scaling.on else "off",
            "last_pass_s": self._since("fleet_reconciler"),
            "freezes": rows.freezes,
            "freeze_file": rows.freeze_file or None,
            "approvals_waiting": rows.pending,
            "outcome_unknown": sum(1 for one in rows.open.values() if one.state is OutboxState.RECOVERY_PENDING),
            "health": self._supervision.evidence().status.value,
            "policy": self._policy(),
            "warnings": [*storm_warnings(rows.storms), *self.warnings()],
            "controllers": {name: self._tick(state) for name, state in self._ticks.items()},
            "config_dir": self.facts.config_dir,
            "data_dir": self.facts.data_dir,
            "services": items,
        }

    def _tick(self, state: TickState) -> dict[str, JsonValue]:
        ended = None if state.last_ended is None else round(self._clock.monotonic() - state.last_ended, 3)
        return {
            "leads": state.leader,
            "last_pass_s": ended,
            "passes": state.runs,
            "failures": state.failures,
            "thread_restarts": state.restarts,
            "error": state.error or None,
        }

    def _since(self, tick: str) -> float | None:
        state = self._ticks.get(tick)
        if state is None or state.last_ended is None:
            return None
        return round(self._clock.monotonic() - state.last_ended, 3)

    def _policy(self) -> dict[str, JsonValue]:
        policy = self._configuration.current().policy
        return {
            "source": policy.source,
            "digest": policy.digest,
            "rules": len(policy.rules),
            "allow_self_approval": policy.options.allow_self_approval,
        }

    def policy(self, caller: Caller) -> dict[str, JsonValue]:
        """The policy in force, with the overrides that stand before it and what is wrong with a newer file."""
        require(caller, Role.VIEWER)
        configuration = self._configuration.current()
        overrides = self._store.read(lambda tx: tx.overrides.all())
        problems = configuration.policy_problems
        return {
            **configuration.policy.plain(),
            "overrides": [views.override(one) for one in overrides],
            "error": "a newer policy file was rejected whole" if problems else None,
            "problems": [str(one) for one in problems],
        }

    def warnings(self) -> list[str]:
        """What an operator should know before trusting the picture."""
        configuration = self._configuration.current()
        told = [*self.facts.fallbacks]
        if configuration.fleet.error:
            told.append(f"the registry cannot be read, nothing is reconciled: {configuration.fleet.error}")
        told += [f"rejected: {one}" for one in configuration.fleet.problems]
        told += [
            f"policy rejected, the one in force stays {configuration.policy.source}: {one}"
            for one in configuration.policy_problems
        ]
        told += [str(one) for one in configuration.fleet.warnings]
        fleet = configuration.last_good_fleet
        known = {*fleet.services, *fleet.rejected}
        told += [
            f"{name} is not in the registry: {count} of its processes still run, unmanaged"
            for name, count in sorted(self._unmanaged(known).items())
        ]
        if not self.facts.acting:
            told.append(
                "the actuator is dryrun: nothing will change, except what other systems do themselves: "
                "their actions are authorised for real"
            )
        if self._reconciler.paused:
            told.append("services are being stopped (down --services): nothing is started for up to a minute")
        if not self.facts.reconciler_on:
            told.append("the reconciler is off: nothing is proposed; what people grant is done (FLEET_RECONCILER=1)")
        if configuration.policy.options.allow_self_approval:
            told.append("the policy allows people to approve their own requests")
        told += self._scaling.warnings(fleet, reconciler_on=self.facts.reconciler_on)
        told += self._neighbours()
        told += [f"{name}: {state.error}" for name, state in self._ticks.items() if state.error]
        told += [f"{name}: {state.late}" for name, state in self._ticks.items() if state.late]
        told += [
            f"{name} is {one.status.value}, so nothing is proposed: {'; '.join(one.diagnostics) or 'no evidence'}"
            for name, one in self._supervision.evidence().dependencies.items()
            if one.status is not HealthStatus.HEALTHY and not name.startswith("controller:")
        ]
        return told

    def health(self) -> tuple[dict[str, JsonValue], bool]:
        """The fleet.health.v1 envelope, and whether it is healthy.  Open to whoever asks with a token."""
        evidence = self._supervision.evidence()
        return views.health(evidence), evidence.convergence_ready

    def ready(self) -> bool:
        """Whether this plane serves (readiness probe)."""
        return self._supervision.evidence().ready


def _freezes_of(service: Service, rows: _Rows) -> list[views.Item]:
    """What holds something of what could be done to a service."""
    told = [
        views.freeze(one)
        for one in rows.active
        if freezing.covers_service(one.scope, one.value, service=service.name, group=service.group)
    ]
    return [*told, views.freeze_file(rows.freeze_file)] if rows.freeze_file else told


def _observed(seen: ObservedService | None) -> views.Item | None:
    if seen is None:
        return None
    return {
        "status": seen.status.value,
        "presence": seen.presence.value,
        "ready": seen.ready,
        "existing": seen.existing,
        "total": seen.total,
        "version": seen.version or None,
        "observed_at": rfc3339(seen.observed_at),
        "since": rfc3339(seen.since),
        "source": seen.source,
        "detail": seen.detail,
    }


def _reason(standing: Standing | None, reconciler_on: bool) -> str:
    if standing is not None:
        return standing.reason
    return "no pass has looked at it yet" if reconciler_on else "the reconciler is off"
