"""Putting something before a person: an approval that waits, and one notice.

A person is asked once about a kind of action on a target, however many events say so.  What policy forbids or what is
malformed is never asked about, since a grant could not be carried out: people are told, and that is all.  Nothing here
acts, and nothing here answers yes.
"""

from __future__ import annotations

import msgspec

from fleetwarden.controllers.gate import draft_of, file_approval, rule_on
from fleetwarden.controllers.texts import KeptTexts
from fleetwarden.domain.actions import ActionRequest, Record, Verdict
from fleetwarden.domain.lifecycles import ApprovalState
from fleetwarden.ports.configuration import Configuration
from fleetwarden.ports.stores import Tx

__all__ = ["Escalated", "escalate_to_people"]

CODE = "escalated"


class Escalated(Record):
    """`approval`: the one that waits, "" if nobody can be asked.  `fresh`: it was filed now."""

    approval: str
    reason: str
    fresh: bool = False


def escalate_to_people(
    tx: Tx,
    configuration: Configuration,
    texts: KeptTexts,
    freeze_file: str,
    request: ActionRequest,
    reason: str,
) -> Escalated:
    """Ask a person about this request, whatever tier policy gives it.  Part of the caller's transaction, under the
    exclusive admission lock.

    One that waits or was granted already stands for this one too.
    """
    for known in tx.approvals.open_of(request.target, request.kind):
        if known.status in (ApprovalState.PENDING, ApprovalState.GRANTED):
            return Escalated(approval=known.id, reason=f"{known.id} stands for it already")
    ruling = rule_on(tx, configuration, freeze_file, request)
    if ruling.verdict is Verdict.DENY and ruling.code in ("structure", "tier"):
        _tell(tx, request, f"{reason}; nobody can be asked: {ruling.reason}")
        return Escalated(approval="", reason=ruling.reason)
    texts.keep(tx, configuration)
    queued = tuple(sorted({*ruling.queued_by, "tier"}))
    asked = msgspec.structs.replace(
        ruling, verdict=Verdict.QUEUE_APPROVAL, code=CODE, reason=f"escalated: {reason}", queued_by=queued
    )
    decision = tx.decisions.append(draft_of(request, asked))
    approval = file_approval(tx, configuration, decision, asked.reason, queued, ruling.approvers)
    return Escalated(approval=approval.id, reason=reason, fresh=True)


def _tell(tx: Tx, request: ActionRequest, said: str) -> None:
    tx.journal.write(
        topic="notice",
        actor=request.requested_by,
        subject=request.target,
        severity="error",
        summary=f"{request.kind} {request.target}: {said}",
        detail={"kind": request.kind, "params": dict(request.params)},
    )
