"""What people, monitoring and other systems do to the plane of a plan, each written so that doing it again is harmless.

Whoever got no answer because the plane died asks again, with the same key, as a careful client does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from fleetwarden.app.bootstrap import Plane
from fleetwarden.app.event_views import Delivery
from fleetwarden.app.identity import Caller, Role
from fleetwarden.domain.errors import Conflict
from fleetwarden.domain.lifecycles import ApprovalState
from fleetwarden.domain.signal_authority import SentSample
from fleetwarden.domain.signals import Aggregation, SignalKind

__all__ = ["PERSON", "People"]

PERSON = Caller(person="alice", token="of a test", roles=(Role.ADMIN.value,))
PIPELINE = Caller(person="pipeline", token="of another test", roles=(Role.OPERATOR.value,))
OUTSIDE = "merge_promotion"


class People:
    """Verbs of a plan.  `deeds` in the folder is what other systems note when they really act: one line for each."""

    plane: Plane
    folder: Path

    def do_ask(self, kind: str, target: str, **params: Any) -> None:
        """A person asks for an action of ours."""
        key = f"{kind} {target}"
        self.plane.proposing.propose(PERSON, kind=kind, target=target, params=params, reason="go on", key=key)

    def do_take_over(self) -> None:
        """A person who is asked asks for it instead, which a plane without a reconciler carries out at once."""
        for approval in self.plane.store.read(lambda tx: tx.approvals.in_state(ApprovalState.PENDING)):
            self.plane.approving.answer(PERSON, approval.id, decision="denied", reason="I do it myself")
            request = approval.request
            self.do_ask(request.kind, request.target, **request.params)

    def do_alert(self, service: str, starts_at: str) -> None:
        """Monitoring says that a service is down, and says it again until it is answered."""
        body = {
            "service": service,
            "status": "down",
            "severity": "critical",
            "summary": "it does not answer",
            "fingerprint": f"{service} is down",
            "starts_at": starts_at,
        }
        self.plane.events.take(PERSON, Delivery(body=json.dumps(body).encode(), name="generic"))

    def do_load(self, service: str, value: float) -> None:
        """From now on the service says what it has to carry, and goes on saying it as time passes."""
        (self.folder / "load").write_text(json.dumps([service, value]), encoding="utf-8")
        self.report_load()

    def report_load(self) -> None:
        """One fresh sample, where a load is said."""
        file = self.folder / "load"
        if not file.exists():
            return
        service, value = json.loads(file.read_text(encoding="utf-8"))
        sample = SentSample(
            source=f"{service}-1",
            service=service,
            kind=SignalKind.QUEUE,
            value=value,
            aggregation=Aggregation.FLEET_TOTAL,
            unit="messages",
            sampled_at=self.plane.store.read(lambda tx: tx.now()),
        )
        rejected = self.plane.signals.push(PERSON, [sample])
        assert not rejected, [msgspec.to_builtins(one) for one in rejected]

    # --- another system's own action, from asking to its result

    def do_outside_ask(self, target: str) -> None:
        self._outside(target)

    def do_outside_claim(self, target: str) -> None:
        """Claim it; who finds that it was claimed in its own name has got the claim whose answer was lost."""
        told = self._outside(target)
        if told["state"] == "authorised":
            self.plane.remedies.outside.claim(PIPELINE, told["action_id"])

    def do_outside_deed(self, target: str) -> None:
        """Act, but only under a claim that is ours."""
        told = self.plane.remedies.outside.show(PIPELINE, self._outside(target)["action_id"])
        assert (told["state"], told["claimed_by"]) == ("running", PIPELINE.person), told
        with (self.folder / "deeds").open("a", encoding="utf-8") as deeds:
            deeds.write(f"{OUTSIDE} {target}\n")

    def do_outside_result(self, target: str) -> None:
        """Say how it ended; who is told that it was said already has said it before."""
        told = self._outside(target)
        try:
            self.plane.remedies.outside.report(PIPELINE, told["action_id"], ok=True, detail="merged")
        except Conflict as error:
            if error.code != "already_reported":
                raise

    def _outside(self, target: str) -> dict[str, Any]:
        told: dict[str, Any] = self.plane.remedies.outside.propose(
            PIPELINE, kind=OUTSIDE, target=target, params={}, reason="tests are green", key=target
        )
        return told
