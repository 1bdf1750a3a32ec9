"""Telling people that an action fails again and again.

Part of the transaction that writes the failure, so that the notice is written exactly when the row in the ledger
becomes long enough: never twice for one row, never lost, whichever plane wrote the last failure.  It holds nothing
back by itself; that is read from the same ledger when the action is next wanted.
"""

from __future__ import annotations

from fleetwarden.controllers.storm_watch import severity_in
from fleetwarden.domain.actions import OutboxRecord, Outcome
from fleetwarden.domain.identifiers import rfc3339
from fleetwarden.domain.repeated_failures import ESCALATE_AT, SPAN, escalation, streak_of
from fleetwarden.ports.stores import Tx

__all__ = ["escalate"]


def escalate(tx: Tx, record: OutboxRecord, outcome: Outcome) -> bool:
    """Write the notice if this failure, in the ledger already, is the one that counts; returns whether it was."""
    request = record.request
    row = streak_of(request, tx.executions.failing([request.target], tx.now() - SPAN))
    if row is None or row.count != ESCALATE_AT:
        return False
    tx.journal.write(
        topic="notice",
        actor=request.asked_by,
        subject=request.target,
        severity=severity_in(tx, "critical", request.group),
        summary=escalation(row, outcome.detail or outcome.code),
        detail={
            "incident": "repeated_failure",
            "action": record.id,
            "failures": row.count,
            "first_at": rfc3339(row.first_at),
            "code": outcome.code,
        },
    )
    return True
