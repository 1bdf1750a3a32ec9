"""Actions that other systems carry out, as those systems meet them: asking, claiming, and saying how it ended.

The person is the one behind the token.  A target that is one of our services belongs to its group, so that a role that
is limited to a group asks for nothing else.  Nothing is carried out here, and nothing that cannot be read is a yes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fleetwarden.app import views
from fleetwarden.app.asking import check_asking, key_of, other_body
from fleetwarden.app.identity import Caller, Role, require, require_somewhere
from fleetwarden.app.parts import Parts
from fleetwarden.controllers.gate import Admission, Answer, rule_on
from fleetwarden.controllers.loop import Subscription
from fleetwarden.controllers.outside import OutsideAction, OutsideDesk, read_outside
from fleetwarden.domain import structure
from fleetwarden.domain.actions import ActionDecision, ActionRequest, Evidence, Outcome, Source, Verdict
from fleetwarden.domain.errors import Conflict, Misconfigured, Refused
from fleetwarden.domain.fleet import Mode, Service
from fleetwarden.domain.identifiers import SECOND, JsonValue, parse_id, rfc3339
from fleetwarden.domain.outside import LASTING, OutsideLimits, OutsideState, kind_problem
from fleetwarden.ports.stores import Tx

__all__ = ["DETAIL_MAX", "OutsideActions", "limits_of", "request_of"]

DETAIL_MAX = 2000  # characters
CODE_MAX = 64
SWEEP_S = 10.0


def limits_of(parts: Parts) -> OutsideLimits:
    """How long a claim may wait and take, by the settings."""
    settings = parts.settings
    return OutsideLimits(
        start_us=int(settings.fleet_outside_start_s * SECOND), run_us=int(settings.fleet_outside_run_s * SECOND)
    )


def request_of(
    parts: Parts,
    caller: Caller,
    *,
    kind: str,
    target: str,
    params: Mapping[str, JsonValue],
    reason: str,
    key: str,
    facts: Mapping[str, JsonValue] | None = None,
    break_glass: bool = False,
) -> ActionRequest:
    """A request for an action of an outside system, in its target's group if that is a service of ours.

    Raises Misconfigured (kind, target, params), Forbidden, Refused (the service is not live: a yes would be carried out
    for real, whatever simulates here).
    """
    if problem := kind_problem(kind):
        raise Misconfigured(problem, hint="nothing was decided")
    service = parts.configuration.current().last_good_fleet.services.get(target)
    group = None if service is None else service.group
    require(caller, Role.ADMIN if break_glass else Role.OPERATOR, group)
    _refuse_unless_live(service)
    request = ActionRequest(
        kind=kind,
        target=target,
        params=dict(params),
        source=Source.API,
        requested_by=caller.person,
        reason=reason,
        key=key,
        group=group or "",
        substrate="" if service is None else service.substrate,
        evidence=Evidence(reason=reason, facts=facts or {}),
        break_glass=break_glass,
    )
    if problem := structure.check(request):
        raise Misconfigured(f"the request is malformed: {problem}", hint="nothing was decided")
    return request


def _refuse_unless_live(service: Service | None) -> None:
    """Nothing here can simulate what another system does: a service that is not live is left alone by it, too."""
    if service is not None and service.mode is not Mode.LIVE:
        raise Refused(
            f"the mode of {service.name} is {service.mode.value}: what another system does to it would be real",
            code="not_live",
            hint="nothing was decided; declare mode: live for it first",
        )


class OutsideActions:
    """The outside actions of one plane."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.desk = OutsideDesk(parts.store, parts.configuration, parts.gate.texts, limits=limits_of(parts))

    def subscriptions(self) -> Sequence[Subscription]:
        """What runs: claims without a result become unknown outcomes."""
        return [Subscription(name="outside_claims", interval_s=SWEEP_S, run=self.desk.sweep, vital=False)]

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
        """Ask for an action that the caller will carry out.  Returns what `Proposing.propose` does, with `state`.

        `action_id` names it from now on, unless it is denied.  Raises Forbidden, Misconfigured, Conflict (the key came
        with another body), StoreUnavailable.
        """
        require_somewhere(caller, Role.OPERATOR)
        check_asking(reason, key)
        inner = key_of(caller.person, key or self._parts.ids.new())
        request = request_of(
            self._parts,
            caller,
            kind=kind,
            target=target,
            params=params,
            reason=reason,
            key=inner,
            break_glass=break_glass,
        )
        before = self._parts.store.read(lambda tx: tx.decisions.by_key(inner))
        if before is None:
            [admission] = self._parts.gate.admit([request], fence=None)
            return self._proposed(self._shown(_decided(admission)))
        then, now = before.request, request
        if (then.digest(), then.reason, then.break_glass) != (now.digest(), now.reason, now.break_glass):
            raise other_body(then)
        newest, key = self._newest(caller, before)
        if newest.verdict is Verdict.DENY and newest.code in LASTING and not self._held_still(request):
            again = msgspec.structs.replace(request, key=key)
            [admission] = self._parts.gate.admit([again], fence=None)
            return self._proposed(self._shown(_decided(admission)))
        return self._proposed(self._shown(newest.seq))

    def _newest(self, caller: Caller, decision: ActionDecision) -> tuple[ActionDecision, str]:
        """The last answer to a key that was asked again after a freeze or a storm, and the key of a further one."""

        def read(tx: Tx) -> tuple[ActionDecision, str]:
            newest = decision
            while True:
                key = key_of(caller.person, f"again after {newest.id}")
                found = tx.decisions.by_key(key)
                if found is None:
                    return newest, key
                newest = found

        return self._parts.store.read(read)

    def _held_still(self, request: ActionRequest) -> bool:
        """Whether a freeze or a storm would deny it now as well: then it is not asked again, and writes nothing."""
        configuration = self._parts.configuration
        files, file = configuration.current(), configuration.freeze_file()
        ruling = self._parts.store.read(lambda tx: rule_on(tx, files, file, request))
        return ruling.verdict is Verdict.DENY and ruling.code in LASTING

    def show(self, caller: Caller, action_id: str) -> dict[str, JsonValue]:
        """One outside action by its id, its approval's (`A-…`) or its record's (`X-…`).  Raises Forbidden, NotFound."""
        require(caller, Role.VIEWER)
        return outside_view(self._shown(self._found(action_id).decision.seq))

    def claim(self, caller: Caller, action_id: str) -> dict[str, JsonValue]:
        """Take the authorisation up, right before acting: whoever gets an answer is the only one who does.

        Raises Forbidden, NotFound, Conflict, Refused as `OutsideDesk.claim` does; then nothing was claimed.
        """
        decision_seq = self._operable(caller, action_id)
        target = self._found(action_id).request.target
        _refuse_unless_live(self._parts.configuration.current().last_good_fleet.services.get(target))
        return outside_view(self.desk.claim(decision_seq, by=caller.person))

    def report(
        self, caller: Caller, action_id: str, *, ok: bool, detail: str = "", code: str | None = None
    ) -> dict[str, JsonValue]:
        """Say how it ended, once.  `code`: a machine word for a failure.

        Raises Forbidden, Misconfigured, NotFound, Conflict, Refused as `OutsideDesk.report` does.
        """
        decision_seq = self._operable(caller, action_id)
        if ok and code:
            raise Misconfigured(f"a success has no code, {code[:CODE_MAX]!r} was given", hint="nothing was written")
        if len(detail) > DETAIL_MAX or len(code or "") > CODE_MAX:
            raise Misconfigured(f"detail has at most {DETAIL_MAX} characters, code {CODE_MAX}")
        outcome = Outcome(ok=ok, detail=detail, code="" if ok else code or "failed")
        return outside_view(self.desk.report(decision_seq, by=caller.person, outcome=outcome))

    def _operable(self, caller: Caller, action_id: str) -> int:
        require_somewhere(caller, Role.OPERATOR)
        found = self._found(action_id)
        service = self._parts.configuration.current().last_good_fleet.services.get(found.request.target)
        require(caller, Role.OPERATOR, None if service is None else service.group)
        return found.decision.seq

    def _found(self, action_id: str) -> OutsideAction:
        return self._parts.store.read(lambda tx: read_outside(tx, _decision_of(tx, action_id), self.desk.limits))

    def _shown(self, decision_seq: int) -> OutsideAction:
        return self.desk.show(decision_seq)

    @staticmethod
    def _proposed(action: OutsideAction) -> dict[str, JsonValue]:
        told = outside_view(action)
        decision, approval = action.decision, action.approval
        denied = told["decision"] == "deny"
        fresh = told["state"] in ("waiting", "authorised", "denied")  # else what stands before it, or what became of it
        return {
            "decision": told["decision"],
            "decision_id": decision.id,
            "approval_id": told["approval_id"],
            "action_id": None if denied else decision.id,
            "state": OutsideState.HELD.value if denied and decision.code in LASTING else told["state"],
            "reason": decision.reason if fresh else told["reason"],
            "requested_by": decision.request.requested_by,
            "dry_run": False,
            "break_glass": decision.request.break_glass,
            "held": None,
            "approval": None if approval is None else views.approval(approval),
        }


def _decided(admission: Admission) -> int:
    """The number of the decision that stands for an admission."""
    if admission.decision is not None:
        return admission.decision.seq
    if admission.answer is not Answer.WAITING or admission.approval is None:
        raise Conflict(f"nothing was decided: {admission.reason}", code="target_busy", hint="try again later")
    return admission.approval.decision_seq  # somebody was asked about this very request before


def _decision_of(tx: Tx, action_id: str) -> int:
    text = action_id.strip()
    if text[:2].upper() == "X-":
        return tx.outbox.get(parse_id("X", text)).decision_seq
    if text[:2].upper() == "A-" or text.startswith("action_approval:"):
        return tx.approvals.get(parse_id("A", text)).decision_seq
    return parse_id("D", text)


def outside_view(action: OutsideAction) -> dict[str, JsonValue]:
    """As JSON: `{id, at, kind, target, state, may_proceed, …}`; `execution_id` is of its record, once claimed."""
    decision, record, stage = action.decision, action.record, action.stage
    holder = "" if record is None or record.fence is None else record.fence.holder
    return {
        "id": decision.id,
        "action_id": decision.id,
        "at": rfc3339(decision.at),
        "kind": decision.request.kind,
        "target": decision.request.target,
        "params": dict(decision.request.params),
        "state": stage.state.value,
        "may_proceed": stage.state.value == "authorised",
        "until": rfc3339(stage.until),
        "decision": decision.verdict.value,
        "decision_id": decision.id,
        "approval_id": None if action.approval is None else action.approval.id,
        "execution_id": None if record is None else record.id,
        "reason": stage.reason,
        "requested_by": decision.request.requested_by,
        "request_reason": decision.request.reason,
        "digest": decision.request_digest,
        "claimed_by": holder or None,
        "claimed_at": None if record is None else rfc3339(record.started_at),
        "finished_at": None if record is None else rfc3339(record.finished_at),
        "ok": None if record is None or record.outcome is None or record.outcome.unknown_outcome else record.outcome.ok,
        "code": None if record is None or record.outcome is None else record.outcome.code or None,
        "detail": "" if record is None or record.outcome is None else record.outcome.detail,
    }
