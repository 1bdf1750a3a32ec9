"""A small ledger with something of every kind in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fleetwarden.adapters.files.checkpoints import CheckpointFile
from fleetwarden.app.identity import local_admin
from fleetwarden.app.ledger_export import LedgerExport
from fleetwarden.controllers.sealer import Sealer
from fleetwarden.domain.actions import ExecutionState, Verdict
from fleetwarden.domain.lifecycles import ApprovalState
from fleetwarden.ports.stores import ExecutionDraft, Store, Tx
from tests.contract.store import records

SEALED_IN_RANGES_OF = 6


def execution(tx: Tx, target: str) -> None:
    record = records.carried_out(tx, records.request(target))
    tx.executions.append(
        ExecutionDraft(
            action_seq=record.seq,
            decision_seq=record.decision_seq,
            at=tx.now(),
            kind=record.request.kind,
            target=target,
            source="reconciler",
            state=ExecutionState.EXECUTED,
            ok=True,
            dry_run=False,
            detail="restarted",
            started_at=record.started_at,
            finished_at=record.finished_at,
            evidence={"pid": 7, "said": 'naïve \u2028 \x7f \\ " \x1f ☃ 𝄞'},
        )
    )


def happenings(tx: Tx) -> None:
    """Something of every kind."""
    execution(tx, "web")
    granted = records.file_approval(tx, records.request("db"), needed=2)
    tx.approvals.vote(granted.seq, records.vote("bea"))
    records.grant(tx, granted)
    refused = records.file_approval(tx, records.request("cache"))
    tx.approvals.vote(refused.seq, records.vote("ann", "denied"))
    tx.approvals.move(refused.seq, came_from=ApprovalState.PENDING, to=ApprovalState.REJECTED, note="no")
    records.file_approval(tx, records.request("mail"))
    tx.outbox.abandon(records.prepare(tx, records.request("shop")).seq, "nobody came")
    records.decide(tx, records.request("db"), Verdict.DENY, reason="not now")
    tx.journal.write(topic="notice", actor="gate", subject="web", summary="web was restarted", detail={"n": 1})
    tx.journal.write(topic="freeze", actor="ann", summary="ann froze everything")
    tx.texts.keep(kind="policy", name="policy.yml", body="version: 1\n# ☃\n")


def fill(store: Store, folder: Path) -> None:
    """A ledger sealed in several ranges, a checkpoint of the newest seal, and a tail."""
    store.transact("fill", happenings)
    while store.transact("seal", lambda tx: tx.ledger.seal(SEALED_IN_RANGES_OF)):
        pass
    Sealer(store, CheckpointFile(folder)).run(None)
    store.transact("tail", lambda tx: (records.decide(tx), tx.journal.write(topic="notice", actor="x", summary="y")))


def export(store: Store, folder: Path) -> list[dict[str, Any]]:
    """All items of an export, page by page."""
    exporter, items, cursor = LedgerExport(store, CheckpointFile(folder)), [], None
    while True:
        page = exporter.page(local_admin(), cursor)
        items += page["items"]
        cursor = page["next"]
        if cursor is None:
            return items
