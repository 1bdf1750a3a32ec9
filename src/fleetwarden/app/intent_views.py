"""Scale intents in words and values for people and programs, and the whole chain behind one.

Reads only.  The chain is told as it stands in the store: what a step has not led to yet is null, never left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from fleetwarden.app import views
from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.domain.contract.lifecycle import (
    ExecutionPhase,
    IntentOperation,
    ObservedOutcome,
    OutcomeEvidence,
    OutcomeStatus,
    RollbackEvidence,
    ScaleDecision,
    ScaleExecution,
)
from fleetwarden.domain.errors import NotFound
from fleetwarden.domain.identifiers import JsonValue, parse_id, plain, rfc3339, show_id
from fleetwarden.domain.lifecycles import IntentState, OutboxState
from fleetwarden.ports.intents import IntentRow
from fleetwarden.ports.stores import JournalEntry, Page, Store, Tx, WorkItem

__all__ = ["Lineages", "intent_view"]

T = TypeVar("T", WorkItem, JournalEntry)

LIMIT = 500
_DIGEST_PREFIX = "sha256:"
_PHASES = {
    OutboxState.PREPARED: ExecutionPhase.PREPARED,
    OutboxState.RUNNING: ExecutionPhase.STARTED,
    OutboxState.SUCCEEDED: ExecutionPhase.SUCCEEDED,
    OutboxState.FAILED: ExecutionPhase.FAILED,
    OutboxState.SIMULATED: ExecutionPhase.SIMULATED,
    OutboxState.RECOVERY_PENDING: ExecutionPhase.RECOVERY_PENDING,
}
_OUTCOMES = {
    IntentState.EXECUTED: OutcomeStatus.PENDING,
    IntentState.OBSERVED: OutcomeStatus.PENDING,
    IntentState.VERIFIED: OutcomeStatus.CONVERGED,
    IntentState.FAILED: OutcomeStatus.FAILED,
}
_FAILURES = {"not_called": "not_called", "exception": "exception", "timed_out": "timed_out", "conflict": "conflict"}


def intent_view(row: IntentRow) -> views.Item:
    """One revision."""
    one = row.intent
    return {
        "id": row.id,
        "at": rfc3339(one.created_at),
        "target": one.service,
        "kind": one.operation.value,
        "service": one.service,
        "unit": one.unit,
        "revision": one.revision,
        "expected_revision": one.expected_revision,
        "state": row.state.value,
        "controller_mode": one.controller_mode,
        "desired": one.desired_replicas,
        "observed": one.observed_replicas,
        "operation": one.operation.value,
        "intent_id": one.intent_id,
        "decision_id": one.decision_id or None,
        "approval_id": None if row.approval_seq is None else show_id("A", row.approval_seq),
        "action_id": None if row.action_seq is None else show_id("X", row.action_seq),
        "fence": plain(one.fence),
        "signal": {
            "digest": one.signal.digest,
            "signals": one.signal.signals,
            "window_start": rfc3339(one.signal.window_start),
            "window_end": rfc3339(one.signal.window_end),
        },
        "accepted_at": rfc3339(row.accepted_at),
        "moved_at": rfc3339(row.moved_at),
        "overtaken_by": _overtaken_by(row),
        "note": row.note,
    }


class Lineages:
    """Reads the lifecycle of one intent back as a whole."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def lineage(self, caller: Caller, name: str) -> dict[str, JsonValue]:
        """Intent, decision, approval, outbox record, executions, observations, outcome, watch, notices.

        `name`: `I-12`, or the intent's own digest.  Raises Forbidden, Misconfigured, NotFound.
        """
        require(caller, Role.VIEWER)
        return self._store.read(lambda tx: self._read(tx, name))

    def _read(self, tx: Tx, name: str) -> dict[str, JsonValue]:
        row = tx.intents.by_intent_id(name) if name.startswith(_DIGEST_PREFIX) else tx.intents.get(parse_id("I", name))
        if row is None:
            raise NotFound(f"there is no scale intent {name}")
        decision = None if row.decision_seq is None else tx.decisions.get(row.decision_seq)
        approval = None if row.approval_seq is None else tx.approvals.get(row.approval_seq)
        record = None if row.action_seq is None else tx.outbox.get(row.action_seq)
        executions = [] if record is None else tx.executions.of_action(record.seq)
        watch = None if record is None else _watch(tx, record.id, row.intent.service)
        notices = _notices(tx, row, "" if record is None else record.id)
        return {
            "id": row.id,
            "at": rfc3339(row.moved_at),
            "intent": intent_view(row),
            "decision": None if decision is None else views.decision(decision),
            "approval": None if approval is None else views.approval(approval),
            "outbox": None if record is None else views.record(record),
            "executions": [views.execution(one) for one in executions],
            "observations": _observations(row),
            "outcome": _outcome(row),
            "watch": watch,
            "notifications": notices,
            "contract": _contract(tx, row),
        }


def _observations(row: IntentRow) -> dict[str, JsonValue]:
    """What observers, and before them ticks, have said of it, with times as people read them."""
    told = {name: _time(value) for name, value in plain(row.convergence).items()}
    if row.convergence.want is not None:
        told["want"] = {name: _time(value) for name, value in plain(row.convergence.want).items()}
    return told | {"overtaken_by": _overtaken_by(row)}


def _time(value: JsonValue) -> JsonValue:
    return rfc3339(value) if type(value) is int and value > 10**12 else value


def _overtaken_by(row: IntentRow) -> str | None:
    """The revision that was carried out before this one was seen to hold: then it has ended, and nothing has failed."""
    newer = row.convergence.overtaken_by
    return None if newer is None else show_id("I", newer)


def _status(row: IntentRow) -> OutcomeStatus | None:
    """What observers say, in the contract's words.  Of what was overtaken they can say nothing any more: `pending`."""
    return OutcomeStatus.PENDING if row.convergence.overtaken_by is not None else _OUTCOMES.get(row.state)


def _outcome(row: IntentRow) -> JsonValue:
    status = _status(row)
    if status is None or row.action_seq is None:
        return None
    if (newer := _overtaken_by(row)) is not None:
        return {"status": "overtaken", "by": newer, "deadline": None, "note": row.note}
    return {"status": status.value, "deadline": rfc3339(row.convergence.deadline), "note": row.note}


def _watch(tx: Tx, action: str, service: str) -> JsonValue:
    key = f"deploy_watch:{action}"
    page = Page(target=service, kind="deploy_watch", limit=LIMIT)
    return next((views.work(one) for one in _all(tx.work.list, page) if one.key == key), None)


def _notices(tx: Tx, row: IntentRow, action: str) -> list[JsonValue]:
    """Those that name it, its decision or its action, newest first."""
    page = Page(target=row.intent.service, kind="notice", since=row.intent.created_at, limit=LIMIT)
    named = {row.id, action, row.intent.decision_id} - {""}
    return [
        views.journal(one)
        for one in _all(tx.journal.list, page)
        if named & {str(value) for value in one.detail.values() if isinstance(value, str)}
    ]


def _all(ask: Callable[[Page], Sequence[T]], page: Page) -> Iterator[T]:
    """Page after page, so that a long history hides nothing."""
    while found := ask(page):
        yield from found
        if len(found) < page.limit:
            return
        page = msgspec.structs.replace(page, before=found[-1].seq)


def _contract(tx: Tx, row: IntentRow) -> dict[str, JsonValue]:
    """The same chain as records of the scaling contract, under the fence of the put."""
    one = row.intent
    told: dict[str, JsonValue] = {"intent": plain(one), "decision": None, "execution": None, "outcome": None}
    if row.decision_seq is not None:
        decision = tx.decisions.get(row.decision_seq)
        told["decision"] = plain(
            ScaleDecision(
                intent_id=one.intent_id,
                revision=one.revision,
                verdict=decision.verdict,
                decision_id=decision.id,
                fence=one.fence,
            )
        )
    record = None if row.action_seq is None else tx.outbox.get(row.action_seq)
    if record is None or record.state not in _PHASES:
        return told
    phase = _PHASES[record.state]
    ended = phase in (ExecutionPhase.SUCCEEDED, ExecutionPhase.FAILED)
    code = "" if record.outcome is None else record.outcome.code
    rolls_back = one.operation is IntentOperation.ROLLBACK
    failed = phase in (ExecutionPhase.FAILED, ExecutionPhase.RECOVERY_PENDING)
    told["execution"] = plain(
        ScaleExecution(
            intent_id=one.intent_id,
            revision=one.revision,
            phase=phase,
            outbox_key=record.key,
            fence=one.fence,
            operation=one.operation,
            target_replicas=one.desired_replicas if rolls_back else None,
            completed_at=record.finished_at if ended else None,
            failure_code=_failure(phase, code) if failed else "",
        )
    )
    if (status := _status(row)) is not None:
        told["outcome"] = plain(
            ObservedOutcome(
                intent_id=one.intent_id,
                revision=one.revision,
                status=status,
                fence=one.fence,
                evidence=_looks(row),
                rollback=RollbackEvidence(from_replicas=one.observed_replicas, to_replicas=one.desired_replicas)
                if rolls_back
                else None,
            )
        )
    return told


def _failure(phase: ExecutionPhase, code: str) -> str:
    if phase is ExecutionPhase.RECOVERY_PENDING:
        return "unknown"
    return _FAILURES.get(code, "refused")


def _looks(row: IntentRow) -> tuple[OutcomeEvidence, ...]:
    known = row.convergence
    count, source = row.intent.desired_replicas, str(known.evidence.get("seen_by", ""))
    times = [at for at in (known.observed_at, known.verified_at) if at is not None]
    return tuple(OutcomeEvidence(observed_at=at, ready=count, total=count, source=source) for at in times)
