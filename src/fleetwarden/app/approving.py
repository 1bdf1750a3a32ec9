"""A person's answer to an approval, with role and attribution.

The person is always the one behind the token, never a name in a body.  An answer without a decision is refused: it is
no yes.
"""

from __future__ import annotations

from fleetwarden.app import views
from fleetwarden.app.identity import Caller, Role, require, require_somewhere
from fleetwarden.controllers.approvals import ApprovalDesk, Voiced
from fleetwarden.domain.errors import Conflict, Misconfigured
from fleetwarden.domain.identifiers import JsonValue, parse_id

__all__ = ["Approving", "NotCarriedOut"]

REASON_MAX = 2000


class NotCarriedOut(Conflict):
    """The grant was taken and refused at once: forbidden by now, or not needed any more."""

    code = "voided"


class Approving:
    def __init__(self, desk: ApprovalDesk) -> None:
        self._desk = desk

    def answer(self, caller: Caller, job_id: str, *, decision: object, reason: object) -> dict[str, JsonValue]:
        """Grant (`approved`) or reject (`denied`).

        Raises Forbidden, Misconfigured (no or another decision), NotFound, Conflict (already decided, expired,
        voided at once), Refused (one's own request).
        """
        require_somewhere(caller, Role.APPROVER)
        if decision not in ("approved", "denied"):
            raise Misconfigured(f"decision {decision!r} is neither 'approved' nor 'denied'", hint="nothing was decided")
        if reason is not None and (not isinstance(reason, str) or len(reason) > REASON_MAX):
            raise Misconfigured(f"a reason is text of at most {REASON_MAX} characters")
        seq, why = parse_id("A", job_id), str(reason or "")
        require(caller, Role.APPROVER, self._desk.show(seq).request.group)
        if decision == "denied":
            rejected = self._desk.reject(seq, by=caller.person, reason=why, teams=caller.teams)
            return {
                "outcome": Voiced.REJECTED.value,
                "message": f"{rejected.id} is rejected",
                **views.approval(rejected),
            }
        voiced, approval, message = self._desk.grant(seq, by=caller.person, reason=why, teams=caller.teams)
        if voiced is Voiced.VOIDED:
            raise NotCarriedOut(f"{approval.id} is not carried out: {message}")
        return {"outcome": voiced.value, "message": message, **views.approval(approval)}
