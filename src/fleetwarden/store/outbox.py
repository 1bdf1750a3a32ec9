"""The outbox: one row per side effect, whose state alone says whether it may be called.

Every move is a compare-and-swap on (row, from-state) along `lifecycles.OUTBOX`.  All checks of a move come before its
write, so that a refusal that a caller catches has changed nothing.  Commit 1 fences exactly the request that was
decided: another digest under the same row is a conflict, and a record that cites an approval is started only while
that approval is granted, with the approval's row locked.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from fleetwarden.domain.actions import ActionRequest, LeaseFence, OutboxRecord, Outcome
from fleetwarden.domain.errors import Conflict, IllegalMove, NotFound, OutboxConflict, Refused, TargetBusy
from fleetwarden.domain.identifiers import Micros, plain, show_id
from fleetwarden.domain.lifecycles import OPEN_RECORDS, OUTBOX, ApprovalState, OutboxState
from fleetwarden.ports.stores import OutboxDraft, Page
from fleetwarden.store import columns, ledger, schema
from fleetwarden.store.columns import document, prose, text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Listing, Row, Statement, each_of, one_of, param, write

__all__ = ["StoredOutbox"]

_PREPARE_ATTEMPTS_MAX = 4  # a row in our way may vanish between our insert and our look at it, but hardly for ever
_FINISHES = (OutboxState.SUCCEEDED, OutboxState.FAILED, OutboxState.SIMULATED, OutboxState.RECOVERY_PENDING)

_O, _A = schema.outbox, schema.approvals
_ALL = sa.select(*_O.c)
_NEWEST_FIRST = _O.c.seq.desc()
_LIVE = _O.c.state != sa.literal_column("'abandoned'")
_ABANDONED = _O.c.state == sa.literal_column("'abandoned'")
_OPEN = one_of(_O.c.state, *OPEN_RECORDS)

_INSERT = Statement(write(_O).on_conflict_do_nothing().returning(*_O.c))
_GET = Statement(_ALL.where(_O.c.seq == param("seq")))
_GET_LOCKED = Statement(_ALL.where(_O.c.seq == param("seq")).with_for_update())
_LIVE_BY_KEY = Statement(_ALL.where(_O.c.key == param("key", str), _LIVE))
_ABANDONED_BY_KEY = Statement(_ALL.where(_O.c.key == param("key", str), _ABANDONED).order_by(_NEWEST_FIRST).limit(1))
_BY_DECISION = Statement(_ALL.where(_O.c.decision_seq == param("decision_seq"), _LIVE))
_BY_APPROVAL = Statement(_ALL.where(_O.c.approval_seq == param("approval_seq"), _LIVE).order_by(_NEWEST_FIRST).limit(1))
_OPEN_OF = Statement(_ALL.where(_O.c.target == param("target", str), _OPEN))
_IN_STATE = Statement(_ALL.where(_O.c.state.in_(sa.select(each_of("states").c.value))).order_by(_O.c.seq))
_LAST_CALLED = Statement(
    _ALL.where(_O.c.target == param("target", str), _O.c.started_at.is_not(None))
    .order_by(_O.c.started_at.desc(), _NEWEST_FIRST)
    .limit(1)
)
_APPROVAL_STATUS = Statement(sa.select(_A.c.status).where(_A.c.seq == param("approval_seq")).with_for_update(read=True))


def _swap(*assigned: str, came_from: sa.ColumnElement[bool], **fixed: str) -> Statement:
    """The compare-and-swap that sets these columns, from parameters of their names or to literals."""
    values = {name: sa.bindparam(name, type_=_O.c[name].type) for name in assigned}
    literals: dict[str, sa.ColumnElement[str]] = {
        name: sa.literal_column(f"'{value}'") for name, value in fixed.items()
    }
    where = _O.c.seq == param("of"), came_from
    return Statement(sa.update(_O).values({**values, **literals}).where(*where).returning(*_O.c))


_START = _swap(
    "request",
    "fence",
    "started_at",
    "horizon_at",
    "final_if_acknowledged",
    "negatives_by_person",
    came_from=_O.c.state == sa.literal_column("'prepared'"),
    state="running",
)
_FINISH = _swap(
    "state", "outcome", "finished_at", "settled_by", "note", came_from=_O.c.state == param("came_from", str)
)
_ABANDON = _swap("finished_at", "note", came_from=_O.c.state == sa.literal_column("'prepared'"), state="abandoned")
_LISTING = Listing(_O, at="prepared_at", target="target", kind="kind", state="state")

_REQUEST = msgspec.json.Decoder(ActionRequest)
_FENCE = msgspec.json.Decoder(LeaseFence)
_OUTCOME = msgspec.json.Decoder(Outcome)


@columns.reading("outbox record")
def _record(row: Row) -> OutboxRecord:
    (seq, key, state, _kind, _target, _dry_run, request, request_digest, decision_seq, approval_seq, *rest) = row
    policy_digest, host, prepared_at, expires_at, fence, started_at, horizon_at, final, by_person, *end = rest
    finished_at, outcome, settled_by, note = end
    return OutboxRecord(
        seq=seq,
        key=key,
        state=OutboxState(state),
        request=_REQUEST.decode(request),
        request_digest=request_digest,
        decision_seq=decision_seq,
        approval_seq=approval_seq,
        policy_digest=policy_digest,
        host=host,
        prepared_at=prepared_at,
        expires_at=expires_at,
        fence=None if fence is None else _FENCE.decode(fence),
        started_at=started_at,
        horizon_at=horizon_at,
        final_if_acknowledged=bool(final),
        negatives_by_person=bool(by_person),
        finished_at=finished_at,
        outcome=None if outcome is None else _OUTCOME.decode(outcome),
        settled_by=settled_by,
        note=note,
    )


class StoredOutbox:
    """Implements `ports.stores.Outbox`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def prepare(self, draft: OutboxDraft) -> OutboxRecord:
        request, digest = draft.request, draft.request.digest()
        values = {
            "key": text("action.key", request.key),
            "state": OutboxState.PREPARED.value,
            "kind": text("action.kind", request.kind),
            "target": text("action.target", request.target),
            "dry_run": int(request.dry_run),
            "request": document("action.request", request),
            "request_digest": digest,
            "decision_seq": draft.decision_seq,
            "approval_seq": draft.approval_seq,
            "policy_digest": text("action.policy_digest", draft.policy_digest),
            "host": text("action.host", draft.host),
            "prepared_at": self._session.now(),
            "expires_at": draft.expires_at,
            "fence": None,
            "started_at": None,
            "horizon_at": None,
            "final_if_acknowledged": 1,
            "negatives_by_person": 0,
            "finished_at": None,
            "outcome": None,
            "settled_by": "",
            "note": "",
        }
        for _ in range(_PREPARE_ATTEMPTS_MAX):
            written = self._session.change(_INSERT, **values)
            if written:
                return _record(written[0])
            standing = self._in_the_way(draft, digest)
            if standing is not None:
                return standing
        raise Conflict(f"{request.kind} {request.target} could not be prepared: its neighbours keep changing")

    def _in_the_way(self, draft: OutboxDraft, digest: str) -> OutboxRecord | None:
        """The row that the same request made before; raises if another stands in the way; None: it is gone again."""
        request = draft.request
        same_key = self._first(_LIVE_BY_KEY, key=request.key)
        if same_key is not None:
            if same_key.request_digest == digest:
                return same_key
            raise OutboxConflict(
                f"key {request.key!r} belongs to {same_key.id}, which asks for something else",
                hint="one key stands for one request: use a new key for a new one",
            )
        busy = self.open_of(request.target)
        if busy is not None:
            raise TargetBusy(
                f"{request.target} is busy: {busy.id} ({busy.request.kind}) is {busy.state.value}",
                hint="propose again when it has ended",
            )
        cited = self._first(_BY_DECISION, decision_seq=draft.decision_seq)
        if cited is not None:
            raise Conflict(f"decision {show_id('D', draft.decision_seq)} has led to {cited.id} already")
        return None

    def get(self, seq: int) -> OutboxRecord:
        record = self._first(_GET_LOCKED if self._session.writable else _GET, seq=seq)
        if record is None:
            raise NotFound(f"there is no action {show_id('X', seq)}")
        return record

    def by_key(self, key: str) -> OutboxRecord | None:
        return self._first(_LIVE_BY_KEY, key=key) or self._first(_ABANDONED_BY_KEY, key=key)

    def by_approval(self, approval_seq: int) -> OutboxRecord | None:
        return self._first(_BY_APPROVAL, approval_seq=approval_seq)

    def open_of(self, target: str) -> OutboxRecord | None:
        return self._first(_OPEN_OF, target=target)

    def in_state(self, *states: OutboxState) -> Sequence[OutboxRecord]:
        ended = [state.value for state in states if state not in OPEN_RECORDS]
        if ended:
            raise Refused(f"in_state is for open records, not {', '.join(ended)}", hint="page through list")
        return [_record(row) for row in self._session.rows(_IN_STATE, states=self._session.array(states))]

    def last_called(self, target: str) -> OutboxRecord | None:
        return self._first(_LAST_CALLED, target=target)

    def start(
        self,
        seq: int,
        *,
        fence: LeaseFence,
        horizon_at: Micros,
        final_if_acknowledged: bool,
        negatives_by_person: bool,
        request: ActionRequest,
    ) -> OutboxRecord:
        record = self.get(seq)
        self._refuse_move(record, OutboxState.PREPARED, OutboxState.RUNNING)
        if request.key != record.key or request.digest() != record.request_digest:
            raise OutboxConflict(
                f"{record.id} was authorised for another request than the one to be carried out",
                hint="propose the new one, and let it be decided",
            )
        if record.approval_seq is not None:
            self._refuse_unless_granted(record, record.approval_seq)
        swapped = self._session.change(
            _START,
            of=seq,
            request=document("action.request", request),
            fence=document("action.fence", fence),
            started_at=self._session.now(),
            horizon_at=horizon_at,
            final_if_acknowledged=int(final_if_acknowledged),
            negatives_by_person=int(negatives_by_person),
        )
        return self._entered(self._swapped(swapped, seq, OutboxState.PREPARED, OutboxState.RUNNING), fence)

    def finish(
        self,
        seq: int,
        *,
        came_from: OutboxState,
        to: OutboxState,
        outcome: Outcome,
        settled_by: str = "",
        note: str = "",
    ) -> OutboxRecord:
        if to not in _FINISHES:
            raise IllegalMove(f"an action does not finish as {to.value}")
        OUTBOX.advance(came_from, to)
        swapped = self._session.change(
            _FINISH,
            of=seq,
            came_from=came_from.value,
            state=to.value,
            outcome=document("action.outcome", outcome),
            finished_at=None if to is OutboxState.RECOVERY_PENDING else self._session.now(),
            settled_by=text("action.settled_by", settled_by),
            note=prose("action.note", note),
        )
        return self._swapped(swapped, seq, came_from, to)

    def abandon(self, seq: int, note: str) -> OutboxRecord:
        swapped = self._session.change(
            _ABANDON, of=seq, finished_at=self._session.now(), note=prose("action.note", note)
        )
        return self._entered(self._swapped(swapped, seq, OutboxState.PREPARED, OutboxState.ABANDONED), None)

    def _entered(self, record: OutboxRecord, fence: LeaseFence | None) -> OutboxRecord:
        """Enter a start or an abandonment into the ledger; how an action ends stands in its executions."""
        event = {
            "state": record.state.value,
            "key": record.key,
            "request_digest": record.request_digest,
            "decision_seq": record.decision_seq,
            "approval_seq": record.approval_seq,
            "fence": None if fence is None else plain(fence),
            "note": record.note,
        }
        ledger.enter_event(self._session, "action", record.seq, event)
        return record

    def list(self, page: Page) -> Sequence[OutboxRecord]:
        statement, values = _LISTING.ask(page)
        return [_record(row) for row in self._session.rows(statement, **values)]

    def _first(self, statement: Statement, **values: int | str) -> OutboxRecord | None:
        row = self._session.row(statement, **values)
        return None if row is None else _record(row)

    def _swapped(self, rows: Sequence[Row], seq: int, came_from: OutboxState, to: OutboxState) -> OutboxRecord:
        """The record after its move; if none was moved, why not."""
        if rows:
            return _record(rows[0])
        self._refuse_move(self.get(seq), came_from, to)
        raise IllegalMove(f"{show_id('X', seq)} moved while it was being moved")

    @staticmethod
    def _refuse_move(record: OutboxRecord, came_from: OutboxState, to: OutboxState) -> None:
        if record.state is not came_from:
            raise IllegalMove(
                f"{record.id} is {record.state.value}, not {came_from.value}: it cannot become {to.value}"
            )
        OUTBOX.advance(came_from, to)

    def _refuse_unless_granted(self, record: OutboxRecord, approval_seq: int) -> None:
        row = self._session.row(_APPROVAL_STATUS, approval_seq=approval_seq)
        status = "missing" if row is None else row[0]
        if status != ApprovalState.GRANTED.value:
            raise Conflict(
                f"{record.id} rests on {show_id('A', approval_seq)}, which is {status}",
                code="approval_not_granted",
                hint="abandon it and propose again",
            )
