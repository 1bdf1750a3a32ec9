"""Plan: what would happen now, said by the very code that would do it, without a side effect.

A pass of the reconciler is rehearsed and taken back.  What its answers would have written does not exist, so no id of
it is shown.
"""

from __future__ import annotations

from typing import Any

from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.controllers.gate import Admission, Answer
from fleetwarden.controllers.reconciler import Plan, Reconciler
from fleetwarden.domain.identifiers import JsonValue, rfc3339

__all__ = ["Planning"]

_WOULD = {
    Answer.PREPARED: "act",
    Answer.ALLOWED: "act",
    Answer.QUEUED: "ask",
    Answer.WAITING: "wait",
    Answer.DENIED: "deny",
    Answer.REPEATED: "deny",
    Answer.BUSY: "wait",
    Answer.STALE: "wait",
    Answer.DEFERRED: "later",
}


class Planning:
    """`on`: whether this plane's reconciler runs by itself."""

    def __init__(self, reconciler: Reconciler, *, on: bool) -> None:
        self._reconciler = reconciler
        self._on = on

    def plan(self, caller: Caller) -> dict[str, JsonValue]:
        """`{"at", "reconciler", "note", "steps", "grants", "at_rest"}`.

        A step: `{service, would: act|ask|wait|deny|later|hold, kind, params, reason, why, dry_run}`; `why` is what the
        service needs it for, `reason` what policy says.  Raises Forbidden, StoreUnavailable.
        """
        require(caller, Role.VIEWER)
        plan = self._reconciler.plan()
        asked = {one.request.target for one in plan.answers}
        held = {name: one for name, one in plan.standings.items() if one.kind and name not in asked}
        steps: list[JsonValue] = [_step(one) for one in plan.answers]
        steps += [
            {
                "service": name,
                "would": "hold",
                "kind": one.kind,
                "params": {},
                "reason": one.reason,
                "why": "",
                "dry_run": False,
            }
            for name, one in sorted(held.items())
        ]
        return {
            "at": rfc3339(plan.at),
            "reconciler": "on" if self._on else "off",
            "note": self._note(plan),
            "steps": steps,
            "grants": [
                {"approval_id": one.job_id, "service": one.request.target, "kind": one.request.kind}
                for one in plan.granted
            ],
            "at_rest": {
                name: {"code": one.code, "reason": one.reason}
                for name, one in sorted(plan.standings.items())
                if name not in asked and name not in held
            },
        }

    def _note(self, plan: Plan) -> str:
        if plan.error:
            return f"the registry cannot be read, so nothing would happen: {plan.error}"
        if plan.paused:
            return "services are being stopped: nothing is proposed meanwhile"
        return "" if self._on else "the reconciler is off: this is what a pass would do if it ran"


def _step(one: Admission) -> dict[str, Any]:
    request = one.request
    return {
        "service": request.target,
        "would": _WOULD[one.answer],
        "kind": request.kind,
        "params": dict(request.params),
        "reason": one.reason,
        "why": request.reason,
        "dry_run": request.dry_run,
    }
