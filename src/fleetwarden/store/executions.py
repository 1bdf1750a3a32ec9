"""The ledger of executions: what came of each action, derived from the outbox.

One row per action and state.  The outbox is the authority: a row that was never written is rebuilt from it, and is
never a reason to call anything again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from fleetwarden.domain.actions import ActionExecution, ActionRequest, ExecutionState, Outcome
from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.domain.repeated_failures import Streak
from fleetwarden.ports.stores import ExecutionDraft, Page
from fleetwarden.store import columns, ledger, schema, streaks
from fleetwarden.store.columns import document, prose, text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Listing, Row, Statement, each_of, one_of, param, write

__all__ = ["StoredExecutions"]

_E, _O = schema.executions, schema.outbox
_ALL = sa.select(*_E.c)
_NEWEST_FIRST = _E.c.at.desc(), _E.c.seq.desc()
_ENDED = _E.c.state != sa.literal_column("'recovery_pending'")

_INSERT = Statement(write(_E).on_conflict_do_nothing().returning(_E.c.seq))
_OF_ACTION = Statement(_ALL.where(_E.c.action_seq == param("action_seq")).order_by(_E.c.seq))
_LATEST = Statement(_ALL.where(_E.c.target == param("target", str), _ENDED).order_by(*_NEWEST_FIRST).limit(1))
_LISTING = Listing(_E, at="at", target="target", kind="kind", state="state")

_ENDS = {
    OutboxState.SUCCEEDED: ExecutionState.EXECUTED,
    OutboxState.FAILED: ExecutionState.FAILED,
    OutboxState.SIMULATED: ExecutionState.SIMULATED,
}


def _latest_by_target() -> Statement:
    target, newest = each_of("targets"), _E.alias("newest")
    seq = (
        sa.select(newest.c.seq)
        .where(newest.c.target == target.c.value, newest.c.state != sa.literal_column("'recovery_pending'"))
        .order_by(newest.c.at.desc(), newest.c.seq.desc())
        .limit(1)
    )
    return Statement(sa.select(*_E.c).select_from(target.join(_E, _E.c.seq == seq.scalar_subquery())))


def _missing() -> Statement:
    state = sa.case(
        *((_O.c.state == sa.literal_column(f"'{end}'"), sa.literal_column(f"'{row}'")) for end, row in _ENDS.items())
    )
    there = sa.exists().where(_E.c.action_seq == _O.c.seq, _E.c.state == state)
    # Keeps to the index of times: by that of states it would look at all that was ever done, at every admission.
    ended = sa.func.coalesce(_O.c.state, sa.literal_column("''"))
    return Statement(
        sa.select(
            _O.c.seq, _O.c.decision_seq, _O.c.state, _O.c.request, _O.c.started_at, _O.c.finished_at, _O.c.outcome
        )
        .where(_O.c.finished_at > param("since"), one_of(ended, *_ENDS), sa.not_(there))
        .order_by(_O.c.finished_at, _O.c.seq)
    )


_LATEST_BY_TARGET = _latest_by_target()
_MISSING = _missing()
_REQUEST = msgspec.json.Decoder(ActionRequest)
_OUTCOME = msgspec.json.Decoder(Outcome)


@columns.reading("execution")
def _execution(row: Row) -> ActionExecution:
    (seq, action_seq, decision_seq, at, kind, target, source, state, ok, dry_run, code, detail, *rest) = row
    started_at, finished_at, evidence = rest
    return ActionExecution(
        seq=seq,
        action_seq=action_seq,
        decision_seq=decision_seq,
        at=at,
        kind=kind,
        target=target,
        source=source,
        state=ExecutionState(state),
        ok=bool(ok),
        dry_run=bool(dry_run),
        code=code,
        detail=detail,
        started_at=started_at,
        finished_at=finished_at,
        evidence=columns.plain_json(evidence),
    )


@columns.reading("outbox record")
def _from_record(row: Row) -> ExecutionDraft:
    """What commit 2 would have written.  It is dated by commit 2, which is no earlier than its evidence."""
    seq, decision_seq, state, request, started_at, finished_at, outcome = row
    asked, told = _REQUEST.decode(request), _OUTCOME.decode(outcome)
    end = OutboxState(state)
    return ExecutionDraft(
        action_seq=seq,
        decision_seq=decision_seq,
        at=finished_at,
        kind=asked.kind,
        target=asked.target,
        source=asked.source,
        state=_ENDS[end],
        ok=end is not OutboxState.FAILED,
        dry_run=end is OutboxState.SIMULATED or asked.dry_run,
        code=told.code,
        detail=told.detail,
        started_at=started_at,
        finished_at=finished_at,
        evidence=told.evidence,
    )


class StoredExecutions:
    """Implements `ports.stores.Executions`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def append(self, draft: ExecutionDraft) -> ActionExecution:
        values = {
            "action_seq": draft.action_seq,
            "decision_seq": draft.decision_seq,
            "at": draft.at,
            "kind": text("execution.kind", draft.kind),
            "target": text("execution.target", draft.target),
            "source": text("execution.source", draft.source),
            "state": draft.state.value,
            "ok": int(draft.ok),
            "dry_run": int(draft.dry_run),
            "code": text("execution.code", draft.code),
            "detail": prose("execution.detail", draft.detail),
            "started_at": draft.started_at,
            "finished_at": draft.finished_at,
            "evidence": document("execution.evidence", draft.evidence),
        }
        for (seq,) in self._session.change(_INSERT, **values):  # none if the row is there already
            ledger.enter(self._session, "executions", {"seq": seq, **values})
        return next(row for row in self.of_action(draft.action_seq) if row.state is draft.state)

    def rebuild(self, since: Micros) -> int:
        missing = [_from_record(row) for row in self._session.rows(_MISSING, since=since)]
        for draft in missing:
            self.append(draft)
        return len(missing)

    def of_action(self, action_seq: int) -> Sequence[ActionExecution]:
        return [_execution(row) for row in self._session.rows(_OF_ACTION, action_seq=action_seq)]

    def latest_of_target(self, target: str) -> ActionExecution | None:
        row = self._session.row(_LATEST, target=target)
        return None if row is None else _execution(row)

    def latest_by_target(self, targets: Sequence[str]) -> Mapping[str, ActionExecution]:
        rows = self._session.rows(_LATEST_BY_TARGET, targets=self._session.array(targets))
        found = map(_execution, rows)
        return {execution.target: execution for execution in found}

    def failing(self, targets: Sequence[str], since: Micros) -> Sequence[Streak]:
        return streaks.failing(self._session, targets, since)

    def list(self, page: Page) -> Sequence[ActionExecution]:
        statement, values = _LISTING.ask(page)
        return [_execution(row) for row in self._session.rows(statement, **values)]
