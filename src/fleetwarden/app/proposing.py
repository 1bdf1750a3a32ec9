"""A person proposes an action of the fleet's own kinds, through the same gate as every controller.

The person is the one behind the token, and the ledger says so.  An idempotency key belongs to its person: the same key
with the same body is answered as it was, with another it is a conflict.  Breaking the glass is an administrator's: it
passes freezes and maintenance windows, is told to everybody, and changes nothing else about the decision.  Nothing is
ever begun here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from fleetwarden.app import views
from fleetwarden.app.asking import check_asking, key_of, other_body
from fleetwarden.app.identity import Caller, Role, require, require_somewhere
from fleetwarden.controllers.gate import Admission, Answer, Gate
from fleetwarden.controllers.holding import held_by
from fleetwarden.controllers.reconciler import request_for
from fleetwarden.controllers.sightings import Sightings
from fleetwarden.controllers.verified_versions import known_versions
from fleetwarden.controllers.wishes import as_asked
from fleetwarden.domain import versions
from fleetwarden.domain.actions import ACTUATED_KINDS, ActionDecision, ActionRequest, Kind, Source
from fleetwarden.domain.convergence import Need
from fleetwarden.domain.errors import Conflict, Misconfigured, NotFound, Refused, Retryable
from fleetwarden.domain.fleet import Mode, ObservedService, Service
from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.domain.rollback_target import way_back
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.stores import Store, Tx
from fleetwarden.ports.system import IdSource

__all__ = ["Proposing"]

COMPLETED = {Kind.START.value: "replicas", Kind.ROLLBACK.value: "version"}  # what may be left to the plane


class Proposing:
    """`refusal`: why no actuator of this plane would ever carry a request out, or None.  `acting`: substrates that may
    act; elsewhere what is proposed is decided and simulated."""

    def __init__(
        self,
        ids: IdSource,
        store: Store,
        configuration: ConfigurationSource,
        sightings: Sightings,
        gate: Gate,
        refusal: Callable[[ActionRequest, Service], str | None],
        *,
        acting: frozenset[str],
    ) -> None:
        self._ids = ids
        self._store = store
        self._configuration = configuration
        self._sightings = sightings
        self._gate = gate
        self._refusal = refusal
        self._acting = acting

    def propose(
        self,
        caller: Caller,
        *,
        kind: str,
        target: str,
        params: Mapping[str, JsonValue],
        reason: str,
        key: str | None = None,
        break_glass: bool = False,
    ) -> dict[str, JsonValue]:
        """Ask for one action.  Returns `{decision, decision_id, approval_id, action_id, reason, held, …}`.

        Raises Forbidden, Misconfigured (kind, key or reason), NotFound (the target), Refused (nothing here could carry
        it out), Conflict (another action of the target is open; the key came with another body), Retryable (the target
        cannot be observed now).  A denial is an answer, and on record.
        """
        require_somewhere(caller, Role.OPERATOR)
        _check(kind)
        check_asking(reason, key)
        service = self._service(target)
        require(caller, Role.ADMIN if break_glass else Role.OPERATOR, service.group)
        inner = key_of(caller.person, key or self._ids.new())
        if (before := self._store.read(lambda tx: tx.decisions.by_key(inner))) is not None:
            repeated = {**_left_out(kind, params, before.request), **params}
            _refuse_other_body(before.request, kind, target, repeated, reason, break_glass)
            return self._answer(before)
        asked = self._completed(kind, params, service)
        request = self._request(caller, service, kind, asked, reason, inner, break_glass)
        [admission] = self._gate.admit([request], fence=None)
        return self._admitted(admission)

    def _completed(self, kind: str, params: Mapping[str, JsonValue], service: Service) -> Mapping[str, JsonValue]:
        """A start without a count is one of as many as are asked for, a rollback without a version one to the last
        version that was verified healthy."""
        if kind == Kind.START and "replicas" not in params:
            return {**params, "replicas": service.replicas}
        if kind == Kind.ROLLBACK and "version" not in params:
            return {**params, "version": self._verified(service)}
        return dict(params)

    def _verified(self, service: Service) -> str:
        """The version to go back to.  Raises Refused where there is none, or what runs was itself gone back to, and
        Conflict while a change of the service is open."""
        running = versions.running(self._seen(service))
        known, ran, open_now = self._store.read(
            lambda tx: (
                known_versions(tx, service.name),
                tx.versions.of_service(service.name, 1),
                tx.outbox.open_of(service.name),
            )
        )
        if open_now is not None:  # what it leads to is not known yet, so neither is what to go back from
            raise Conflict(
                f"nothing was decided: {open_now.id} of {service.name} is still open",
                code="target_busy",
                hint="try again later, or name the version",
            )
        target = way_back(
            service,
            last=ran[0].version if ran else "",
            rolled_back=bool(ran) and ran[0].kind == Kind.ROLLBACK,
            running=running,
            **known,
        )
        if not target.version:
            raise Refused(
                f"nothing was proposed: {target.reason}",
                code="no_verified_version",
                hint=f"name the version; fleetwarden versions {service.name} lists them",
            )
        return target.version

    def _seen(self, service: Service) -> ObservedService:
        seen = self._sightings.look_at(service)
        if seen is None:
            raise Retryable(f"{service.name} cannot be observed now", hint="status says why; try again")
        return seen

    def _service(self, target: str) -> Service:
        """The service as it is asked for now, overrides included."""
        fleet = self._store.read(lambda tx: as_asked(tx, self._configuration.current())).fleet
        if fleet.error:
            raise Retryable(f"the registry cannot be read: {fleet.error}", hint="nothing was proposed")
        service = fleet.services.get(target)
        if service is None:
            raise NotFound(
                f"no service {target!r} in the registry", hint=f"known: {', '.join(sorted(fleet.services)) or 'none'}"
            )
        if service.mode is Mode.OBSERVE:
            raise Refused(
                f"the mode of {target} is observe: it is looked at and left alone", hint="declare another mode"
            )
        return service

    def _request(
        self,
        caller: Caller,
        service: Service,
        kind: str,
        params: Mapping[str, JsonValue],
        reason: str,
        key: str,
        break_glass: bool,
    ) -> ActionRequest:
        if kind == Kind.DEPLOY and params.get("version") != service.version:
            raise Refused(
                f"{service.name} is declared in version {service.version or 'none'}: what is deployed besides would be "
                "put back by the next pass",
                code="not_declared",
                hint="declare the version, or roll back to one that ran",
            )
        seen = self._seen(service)
        need = Need(kind=Kind(kind), params=params, reason=reason, direction=_direction(kind, params, seen))
        request = request_for(
            need, service, seen, key=key, source=Source.OPERATOR, by=caller.person, acting=self._acting
        )
        request = msgspec.structs.replace(request, holds=True, break_glass=break_glass)
        if (why := self._refusal(request, service)) is not None:
            raise Refused(f"nothing was proposed: {why}", code="not_served")
        return request

    def _admitted(self, admission: Admission) -> dict[str, JsonValue]:
        if admission.answer in (Answer.BUSY, Answer.STALE):
            raise Conflict(f"nothing was decided: {admission.reason}", code="target_busy", hint="try again later")
        if admission.decision is None:  # somebody was asked about this very request before
            assert admission.approval is not None
            seq = admission.approval.decision_seq
            return self._answer(self._store.read(lambda tx: tx.decisions.get(seq)))
        return self._answer(admission.decision)

    def _answer(self, decision: ActionDecision) -> dict[str, JsonValue]:
        def read(tx: Tx) -> dict[str, JsonValue]:
            now = tx.decisions.get(decision.seq)
            approval = None if now.approval_seq is None else tx.approvals.get(now.approval_seq)
            record = tx.outbox.by_key(now.request.key)
            if record is None and approval is not None:
                record = tx.outbox.by_approval(approval.seq)
            return {
                "decision": now.verdict.value,
                "decision_id": now.id,
                "approval_id": None if approval is None else approval.id,
                "action_id": None if record is None else record.id,
                "reason": now.reason,
                "requested_by": now.request.requested_by,
                "dry_run": now.request.dry_run,
                "break_glass": now.request.break_glass,
                "held": held_by(now.request) or None,
                "approval": None if approval is None else views.approval(approval),
            }

        return self._store.read(read)


def _check(kind: str) -> None:
    if kind not in ACTUATED_KINDS:
        raise Misconfigured(
            f"{kind!r} is no kind of action on a service",
            hint=f"one of {', '.join(sorted(ACTUATED_KINDS))}",
        )


def _left_out(kind: str, params: Mapping[str, JsonValue], before: ActionRequest) -> Mapping[str, JsonValue]:
    """What this request leaves to the plane, as it was found for the same one before."""
    name = COMPLETED.get(kind, "")
    known = before.kind == kind and name in before.params and name not in params
    return {name: before.params[name]} if known else {}


def _direction(kind: str, params: Mapping[str, JsonValue], seen: ObservedService) -> str:
    if kind == Kind.SCALE:
        count = params.get("replicas")
        return "" if type(count) is not int or count == seen.total else "up" if count > seen.total else "down"
    return {Kind.START: "up", Kind.STOP: "down"}.get(Kind(kind), "")


def _refuse_other_body(
    before: ActionRequest, kind: str, target: str, params: Mapping[str, JsonValue], reason: str, break_glass: bool
) -> None:
    same = (before.kind, before.target, dict(before.params), before.reason, before.break_glass)
    if same != (kind, target, dict(params), reason, break_glass):
        raise other_body(before)
