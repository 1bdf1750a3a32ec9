"""Scale intents: revisions put by compare-and-swap, and moved by compare-and-swap.

The next revision of a service can be written once, by whoever comes first: the unique index decides, whatever was read
before.  A row is never rewritten but for its state and what it led to, and every move is entered into the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from fleetwarden.domain.contract.lifecycle import ScaleIntent
from fleetwarden.domain.errors import Conflict, IllegalMove, NotFound, Refused, StaleRevision
from fleetwarden.domain.identifiers import JsonValue, Micros, show_id
from fleetwarden.domain.lifecycles import INTENT, IntentState
from fleetwarden.ports.intents import UNREAD, Convergence, IntentRow, NextRevision, Unread
from fleetwarden.ports.pages import Page
from fleetwarden.store import columns, ledger, schema, schema_intents
from fleetwarden.store.columns import document, prose, text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Listing, Row, Statement, each_of, one_of, param, write

__all__ = ["StoredIntents"]

_I, _O = schema_intents.intents, schema.outbox
_ALL = sa.select(*_I.c)
_PUT_STATES = frozenset({IntentState.PROPOSED, IntentState.INTENT_ACCEPTED, IntentState.SUPERSEDED})
_MOVING = (
    IntentState.PROPOSED,
    IntentState.INTENT_ACCEPTED,
    IntentState.RECOVERY_PENDING,
    IntentState.EXECUTED,
    IntentState.OBSERVED,
)

_INSERT = Statement(write(_I).on_conflict_do_nothing().returning(_I.c.seq))
_INSERT_NUMBERED = Statement(write(_I, given=_I.c.keys()).on_conflict_do_nothing())
_GET = Statement(_ALL.where(_I.c.seq == param("seq")))
_GET_LOCKED = Statement(_ALL.where(_I.c.seq == param("seq")).with_for_update())
_LATEST = Statement(_ALL.where(_I.c.service == param("service", str)).order_by(_I.c.revision.desc()).limit(1))
_BY_IDENTITY = Statement(_ALL.where(_I.c.intent_id == param("intent_id", str)))
_BY_APPROVAL = Statement(_ALL.where(_I.c.approval_seq == param("approval_seq")).order_by(_I.c.seq.desc()).limit(1))
_BY_ACTION = Statement(_ALL.where(_I.c.action_seq == param("action_seq")).order_by(_I.c.seq.desc()).limit(1))
_IN_STATE = Statement(
    _ALL.where(one_of(_I.c.state, *_MOVING), _I.c.state.in_(sa.select(each_of("states").c.value))).order_by(_I.c.seq)
)
_UNDER_WAY = Statement(
    sa.select(_O.c.state).where(_O.c.seq == param("action_seq"), one_of(_O.c.state, "running", "recovery_pending"))
)
_LISTING = Listing(_I, at="created_at", target="service", kind="operation", state="state")
_INTENT = msgspec.json.Decoder(ScaleIntent)
_CONVERGENCE = msgspec.json.Decoder(Convergence)


def _latest_of() -> Statement:
    service, newest = each_of("services"), _I.alias("newest")
    seq = sa.select(newest.c.seq).where(newest.c.service == service.c.value).order_by(newest.c.revision.desc()).limit(1)
    return Statement(sa.select(*_I.c).select_from(service.join(_I, _I.c.seq == seq.scalar_subquery())))


def _change(**values: sa.BindParameter[object]) -> Statement:
    """An update of one row that is still in the state in which it was read."""
    return Statement(
        sa.update(_I)
        .values(**values)
        .where(
            _I.c.seq == param("of"),
            _I.c.intent_id == param("identity", str),
            _I.c.revision == param("at_revision"),
            _I.c.state == param("came_from", str),
        )
        .returning(*_I.c)
    )


_LATEST_OF = _latest_of()
_MOVE = _change(
    state=param("to", str),
    note=param("new_note", str),
    moved_at=param("now"),
    accepted_at=param("accepted"),
    convergence=param("seen", str),
)
_LINK = _change(approval_seq=param("approval"), action_seq=param("action"))
_NOTE = _change(convergence=param("seen", str))


@columns.reading("scale intent")
def _row(row: Row) -> IntentRow:
    (seq, _service, _revision, _identity, state, _operation, _desired, intent, decision_seq, *rest) = row
    approval_seq, action_seq, _created_at, accepted_at, moved_at, note, convergence = rest
    return IntentRow(
        seq=seq,
        intent=_INTENT.decode(intent),
        state=IntentState(state),
        decision_seq=decision_seq,
        approval_seq=approval_seq,
        action_seq=action_seq,
        accepted_at=accepted_at,
        moved_at=moved_at,
        note=note,
        convergence=_CONVERGENCE.decode(convergence),
    )


def _values(
    intent: ScaleIntent, state: IntentState, now: Micros, decision_seq: int | None, approval_seq: int | None
) -> dict[str, Any]:
    """The columns of a new row but for its number."""
    return {
        "service": text("intent.service", intent.service),
        "revision": intent.revision,
        "intent_id": text("intent.intent_id", intent.intent_id),
        "state": state.value,
        "operation": intent.operation.value,
        "desired": intent.desired_replicas,
        "intent": document("intent", intent),
        "decision_seq": decision_seq,
        "approval_seq": approval_seq,
        "action_seq": None,
        "created_at": now,
        "accepted_at": now if state is IntentState.INTENT_ACCEPTED else None,
        "moved_at": now,
        "note": "",
        "convergence": "{}",
    }


def _made(
    seq: int, intent: ScaleIntent, state: IntentState, now: Micros, decision_seq: int | None, approval_seq: int | None
) -> IntentRow:
    return IntentRow(
        seq=seq,
        intent=intent,
        state=state,
        decision_seq=decision_seq,
        approval_seq=approval_seq,
        accepted_at=now if state is IntentState.INTENT_ACCEPTED else None,
        moved_at=now,
    )


def _event(made: IntentRow) -> dict[str, JsonValue]:
    return {
        "state": made.state.value,
        "intent": msgspec.to_builtins(made.intent),
        "decision_seq": made.decision_seq,
    }


class StoredIntents:
    """Implements `ports.intents.Intents`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(
        self,
        intent: ScaleIntent,
        *,
        state: IntentState,
        decision_seq: int | None,
        approval_seq: int | None = None,
        latest: IntentRow | Unread | None = UNREAD,
    ) -> IntentRow:
        if state not in _PUT_STATES:
            raise Refused(f"an intent cannot be put as {state.value}")
        if isinstance(latest, Unread):
            latest = self.latest(intent.service)
        if latest is not None and latest.intent.intent_id == intent.intent_id:
            return self._again(latest, intent)
        self._refuse_unless_next(intent, latest, state)
        now = self._session.now()
        written = self._session.change(_INSERT, **_values(intent, state, now, decision_seq, approval_seq))
        if not written:  # somebody else's revision became visible in between; it may be this very one
            now_latest = self.latest(intent.service)
            if now_latest is not None and now_latest.intent.intent_id == intent.intent_id:
                return self._again(now_latest, intent)
            raise self._stale(intent, intent.revision)
        made = _made(written[0][0], intent, state, now, decision_seq, approval_seq)
        ledger.enter_event(self._session, "intent", made.seq, _event(made))
        return made

    def accept_many(self, revisions: Sequence[NextRevision]) -> Sequence[IntentRow]:
        session, now, state = self._session, self._session.now(), IntentState.INTENT_ACCEPTED
        for one in revisions:
            self._refuse_unless_next(one.intent, one.latest, state)
        numbers = session.take_numbers(_I.name, len(revisions))
        rows = [
            {"seq": seq, **_values(one.intent, state, now, one.decision_seq, None)}
            for seq, one in zip(numbers, revisions, strict=True)
        ]
        if session.change_many(_INSERT_NUMBERED, rows) != len(rows):
            raise self._overtaken([one.intent for one in revisions], numbers)
        made = [
            _made(seq, one.intent, state, now, one.decision_seq, None)
            for seq, one in zip(numbers, revisions, strict=True)
        ]
        ledger.enter_events(session, "intent", [(one.seq, _event(one)) for one in made])
        return made

    def latest(self, service: str) -> IntentRow | None:
        row = self._session.row(_LATEST, service=service)
        return None if row is None else _row(row)

    def latest_of(self, services: Sequence[str]) -> Mapping[str, IntentRow]:
        found = map(_row, self._session.rows(_LATEST_OF, services=self._session.array(services)))
        return {one.intent.service: one for one in found}

    def get(self, seq: int) -> IntentRow:
        row = self._session.row(_GET_LOCKED if self._session.writable else _GET, seq=seq)
        if row is None:
            raise NotFound(f"there is no scale intent {show_id('I', seq)}")
        return _row(row)

    def by_intent_id(self, intent_id: str) -> IntentRow | None:
        row = self._session.row(_BY_IDENTITY, intent_id=intent_id)
        return None if row is None else _row(row)

    def by_approval(self, approval_seq: int) -> IntentRow | None:
        row = self._session.row(_BY_APPROVAL, approval_seq=approval_seq)
        return None if row is None else _row(row)

    def by_action(self, action_seq: int) -> IntentRow | None:
        row = self._session.row(_BY_ACTION, action_seq=action_seq)
        return None if row is None else _row(row)

    def in_state(self, *states: IntentState) -> Sequence[IntentRow]:
        ended = [state.value for state in states if INTENT.is_end(state)]
        if ended:
            raise Refused(f"in_state is for intents on their way, not {', '.join(ended)}", hint="page through list")
        return [_row(row) for row in self._session.rows(_IN_STATE, states=self._session.array(states))]

    def move(
        self, row: IntentRow, to: IntentState, *, note: str = "", convergence: Convergence | None = None
    ) -> IntentRow:
        INTENT.advance(row.state, to)
        now = self._session.now()
        moved = self._changed(
            _MOVE,
            row,
            to=to.value,
            new_note=prose("intent.note", note),
            now=now,
            accepted=now if to is IntentState.INTENT_ACCEPTED else row.accepted_at,
            seen=document("intent.convergence", convergence or row.convergence),
        )
        ledger.enter_event(self._session, "intent", row.seq, {"state": to.value, "note": note, "moved_at": now})
        return moved

    def link(self, row: IntentRow, *, approval_seq: int | None = None, action_seq: int | None = None) -> IntentRow:
        return self._changed(
            _LINK,
            row,
            approval=row.approval_seq if approval_seq is None else approval_seq,
            action=row.action_seq if action_seq is None else action_seq,
        )

    def note_convergence(self, row: IntentRow, convergence: Convergence) -> IntentRow:
        return self._changed(_NOTE, row, seen=document("intent.convergence", convergence))

    def list(self, page: Page) -> Sequence[IntentRow]:
        statement, values = _LISTING.ask(page)
        return [_row(row) for row in self._session.rows(statement, **values)]

    def _changed(self, statement: Statement, row: IntentRow, **values: object) -> IntentRow:
        rows = self._session.change(
            statement,
            of=row.seq,
            identity=row.intent.intent_id,
            at_revision=row.intent.revision,
            came_from=row.state.value,
            **values,
        )
        if not rows:
            raise IllegalMove(f"{row.id} of {row.intent.service} is not {row.state.value} any more")
        return _row(rows[0])

    def _refuse_unless_next(self, intent: ScaleIntent, latest: IntentRow | None, state: IntentState) -> None:
        newest = 0 if latest is None else latest.intent.revision
        if intent.expected_revision != newest:
            raise self._stale(intent, newest)
        if latest is not None and state is not IntentState.SUPERSEDED:
            self._refuse_if_under_way(latest)

    def _overtaken(self, wanted: Sequence[ScaleIntent], numbers: Sequence[int]) -> StaleRevision:
        """The unique index refused one of these: somebody else's revision became visible in between."""
        latest = self.latest_of([one.service for one in wanted])
        for seq, one in zip(numbers, wanted, strict=True):
            found = latest.get(one.service)
            if found is None or found.seq != seq:
                return self._stale(one, one.revision if found is None else found.intent.revision)
        raise AssertionError("every revision was written, and yet fewer rows were")

    def _refuse_if_under_way(self, latest: IntentRow) -> None:
        under_way = latest.state is IntentState.RECOVERY_PENDING
        if latest.action_seq is not None and not under_way:
            under_way = self._session.row(_UNDER_WAY, action_seq=latest.action_seq) is not None
        if under_way:
            raise Conflict(
                f"{latest.id} of {latest.intent.service} is being carried out, or its outcome is unknown",
                code="intent_under_way",
                hint="put the next revision when that has ended",
            )

    @staticmethod
    def _again(known: IntentRow, intent: ScaleIntent) -> IntentRow:
        if known.intent.idempotency_key != intent.idempotency_key:
            raise Conflict(f"{known.id} of {intent.service} was put under another key")
        return known

    @staticmethod
    def _stale(intent: ScaleIntent, newest: int) -> StaleRevision:
        return StaleRevision(
            f"{intent.service}: revision {intent.expected_revision} is no longer the latest, {newest} is",
            hint="read again and decide again",
        )
