"""Open questions about counts: each tick tells them what load says by now, and withdraws what nobody wants any more.

What a tick says is kept with the intent, so that a grant on any plane, and the check before the call, read the same.
Nothing is asked here, nothing is accepted, and a side effect that may have begun is left alone.
"""

from __future__ import annotations

from typing import Final

from fleetwarden.controllers.intent_moves import supersede, under_way
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.contract.lifecycle import IntentOperation
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.domain.lifecycles import IntentState
from fleetwarden.domain.question_evidence import Patience, Says, Want, heard, unfit
from fleetwarden.domain.tracking_columns import BlockTable, Reason, Seen, Verdicts
from fleetwarden.ports.intents import IntentRow
from fleetwarden.ports.pages import Page
from fleetwarden.ports.stores import Store, Tx

__all__ = ["OpenQuestions", "asks_too_soon", "evidence_gone", "want_of", "withdraw"]

_OPEN = (IntentState.PROPOSED, IntentState.INTENT_ACCEPTED)
_RECENT: Final = 20  # revisions in which the questions before this one are looked for
_SILENT = frozenset(
    {
        Reason.SKIP_METRICS,
        Reason.SKIP_UNOBSERVED,
        Reason.SKIP_UNKNOWN,
        Reason.SKIP_DOWN,
        Reason.SKIP_ROLLOUT,
        Reason.SKIP_INVALID,
        Reason.NOT_ASKED,
        Reason.NOT_PLACED,
        Reason.WARMING,
        Reason.BLOCKED_DOWN,
        Reason.PREVENTED,
        Reason.NO_NEWS,
    }
)


class OpenQuestions:
    """Looks at every open question of the services that a tick evaluated."""

    def __init__(self, store: Store, patience: Patience) -> None:
        self._store = store
        self._patience = patience

    def look(self, table: BlockTable, columns: Seen, verdicts: Verdicts, at: Micros, fence: LeaseFence) -> int:
        """Judge one tick's verdicts, before any cooldown changes them; returns how many questions were withdrawn.

        A tick that says what the last one said writes nothing.  Raises Fenced, StoreUnavailable.
        """
        rows = self._store.read(lambda tx: [one for one in tx.intents.in_state(*_OPEN) if _is_question(one)])
        news: list[tuple[int, Want, str | None]] = []
        for row in rows:
            before = want_of(row)
            says, why = _says(row, table, columns, verdicts)
            told, ended = heard(before, says, why, at, self._patience)
            if ended is not None or told != before:
                news.append((row.seq, told, ended))
        if not news:
            return 0

        def run(tx: Tx) -> int:
            tx.lock_admission(exclusive=True)
            tx.leases.check(fence)
            return sum(_keep(tx, seq, told, ended) for seq, told, ended in news)

        return self._store.transact("open_questions", run)


def withdraw(tx: Tx, row: IntentRow, why: str) -> bool:
    """End an open question for good: its intent and its approval are superseded, and one entry says why.

    False, and nothing is written, while its side effect may have begun.
    """
    if under_way(tx, row):
        return False
    intent, approval = row.intent, "" if row.approval_seq is None else tx.approvals.get(row.approval_seq).id
    supersede(tx, row, f"withdrawn: {why}")
    asked = f" (approval {approval})" if approval else ""
    tx.journal.write(
        topic="approval",
        actor="autoscaler",
        subject=intent.service,
        summary=f"withdrew {row.id}{asked}, {intent.observed_replicas} → {intent.desired_replicas} replicas of "
        f"{intent.service}: {why}",
        detail={"intent": row.id, "approval": approval, "reason": why},
    )
    return True


def evidence_gone(tx: Tx, row: IntentRow | None, patience: Patience) -> str | None:
    """Why a question's evidence does not carry a yes now, or None; None for what no person was asked about."""
    if row is None or row.approval_seq is None or not _is_question(row):
        return None
    return unfit(want_of(row), tx.now(), patience)


def asks_too_soon(tx: Tx, service: str, patience: Patience) -> Micros | None:
    """Until when nobody is asked anew about this service, because the last question was a replacement itself; or None.

    A question whose place was taken, or that was withdrawn or refused, may be followed by another at once; that one by
    the next only when the floor has passed, however a signal swings.
    """
    recent = tx.intents.list(Page(target=service, limit=_RECENT))
    asked = [one for one in recent if one.approval_seq is not None]  # newest first
    if not asked:
        return None
    floor = int(patience.floor_s * SECOND)
    newest, earlier = asked[0], asked[1:]
    until = newest.intent.created_at + floor
    if tx.now() >= until:
        return None
    begun = newest.intent.created_at
    ended = (IntentState.SUPERSEDED, IntentState.REJECTED)
    replaced = any(one.state in ended and begun - one.moved_at < floor for one in earlier)
    return until if replaced else None


def want_of(row: IntentRow) -> Want:
    """What ticks said of it; one that no tick has judged since is wanted as of when it was put."""
    return row.convergence.want or Want(wanted_at=row.intent.created_at)


def _is_question(row: IntentRow) -> bool:
    """What waits, or a person was asked about and nobody has carried out; an override is a person's own."""
    asked = row.state is IntentState.PROPOSED or row.approval_seq is not None
    return asked and row.intent.operation is IntentOperation.SCALE


def _keep(tx: Tx, seq: int, told: Want, ended: str | None) -> int:
    row = tx.intents.get(seq)
    if row.state not in _OPEN:
        return 0
    if ended is not None:
        return int(withdraw(tx, row, ended))
    tx.intents.note_convergence(row, row.convergence.with_want(told))
    return 0


def _says(row: IntentRow, table: BlockTable, columns: Seen, verdicts: Verdicts) -> tuple[Says, str]:
    """What this tick says of the question, and in which words."""
    number = table.index.get(row.intent.service)
    if number is None:
        return Says.SILENT, "its service is not evaluated"
    asked = row.intent.desired_replicas
    sign = 1 if asked > row.intent.observed_replicas else -1
    current, desired = int(columns.current[number]), int(verdicts.desired[number])
    reason = Reason(int(verdicts.reason[number]))
    if reason in _SILENT:
        return Says.SILENT, f"there is no evidence ({reason.code})"
    if (asked - current) * sign <= 0:
        return Says.AGAINST, f"it has {current} replicas by now"
    if desired != current:
        way = "more" if desired > current else "fewer"
        if (desired - current) * sign > 0:
            far = sign < 0 and asked < desired
            return (Says.TOO_FAR, f"load asks for {desired}, not for {asked}") if far else (Says.WANTED, "")
        return Says.AGAINST, f"load asks for {way} replicas by now ({reason.code})"
    if reason is Reason.STABILIZING and int(verdicts.streak[number]) * sign > 0:
        return Says.SILENT, f"not enough samples in a row yet ({reason.code})"
    return Says.AGAINST, f"load does not ask for it ({reason.code})"
