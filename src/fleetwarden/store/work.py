"""Durable steps of work: claimed under a lease with a fencing token, retried, buried when they cannot be done.

A claim raises the row's token, and every later change must name it; who was overtaken is told so by Fenced and has to
drop what it holds.  `due_at` is the one moment at which a row can next be claimed, so that claiming is one walk along
one index.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from fleetwarden.domain.errors import Conflict, Fenced, NotFound
from fleetwarden.domain.identifiers import JsonValue, Micros, show_id
from fleetwarden.domain.lifecycles import WORK, WorkState
from fleetwarden.ports.stores import Page, WorkDraft, WorkItem
from fleetwarden.store import columns, schema
from fleetwarden.store.columns import document, prose, text
from fleetwarden.store.many_rows import insert_rows, packed
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Listing, Row, Statement, each_of, one_of, param, write

__all__ = ["StoredWork", "enqueue_many"]

_ENQUEUE_ATTEMPTS_MAX = 4  # the open row may end between our insert and our look at it, but hardly for ever

_W = schema.work_items
_OPEN = one_of(_W.c.state, WorkState.READY, WorkState.LEASED)
_LEASED = _W.c.state == sa.literal_column("'leased'")

_INSERT = Statement(write(_W).on_conflict_do_nothing().returning(*_W.c))
_INSERT_MANY = Statement(insert_rows(_W).returning(_W.c.key, _W.c.seq))
_GET = Statement(sa.select(*_W.c).where(_W.c.seq == param("seq")))
_OPEN_BY_KEY = Statement(sa.select(*_W.c).where(_W.c.key == param("key", str), _OPEN).with_for_update())
_SOONER = Statement(
    sa.update(_W)
    .values(
        not_before=param("sooner"),
        due_at=sa.case((_LEASED, _W.c.due_at), else_=param("sooner")),
        updated_at=param("now"),
    )
    .where(_W.c.seq == param("of"), _W.c.not_before > param("sooner"))
    .returning(*_W.c)
)
_DUE = (
    sa.select(_W.c.seq)
    .where(
        _W.c.due_at.is_not(None),
        _W.c.due_at <= param("now"),
        _W.c.kind.in_(sa.select(each_of("kinds").c.value)),
    )
    .order_by(_W.c.due_at, _W.c.seq)
    .limit(param("limit"))
    .with_for_update(skip_locked=True)
    .cte("due")  # PostgreSQL runs it once; as a plain subquery it may run it again, and lease more than was asked for
)
_CLAIM = Statement(
    sa.update(_W)
    .values(
        state=sa.literal_column("'leased'"),
        attempts=_W.c.attempts + sa.literal_column("1"),
        token=_W.c.token + sa.literal_column("1"),
        holder=param("by", str),
        lease_until=param("until"),
        due_at=param("until"),
        updated_at=param("now"),
    )
    .where(_W.c.seq.in_(sa.select(_DUE.c.seq)))
    .returning(*_W.c)
)
_NEXT_DUE = Statement(sa.select(sa.func.min(_W.c.due_at)).where(_W.c.due_at.is_not(None)))
_NEXT_DUE_OF = Statement(
    sa.select(sa.func.min(_W.c.due_at)).where(
        _W.c.due_at.is_not(None), _W.c.kind.in_(sa.select(each_of("kinds").c.value))
    )
)
_DEPTH = Statement(
    sa.select(_W.c.state, sa.func.count())
    .where(_OPEN, sa.or_(_W.c.state == sa.literal_column("'leased'"), _W.c.due_at <= param("now")))
    .group_by(_W.c.state)
)
_MARK = Statement(sa.select(sa.func.max(_W.c.seq), sa.func.max(_W.c.updated_at)))
_VOID_ALL = Statement(
    sa.update(_W)
    .values(
        state=sa.literal_column("'ready'"),
        holder=sa.literal_column("''"),
        lease_until=sa.null(),
        due_at=_W.c.not_before,
        updated_at=param("now"),
    )
    .where(_LEASED)
    .returning(_W.c.seq)
)
_LISTING = Listing(_W, at="created_at", target="target", kind="kind", state="state")


def _under_token(**assigned: sa.ColumnElement[Any]) -> Statement:
    """A change of a leased row by the holder of its newest token."""
    where = _W.c.seq == param("of"), _W.c.token == param("held"), _LEASED
    return Statement(sa.update(_W).values({**assigned, "updated_at": param("now")}).where(*where).returning(*_W.c))


def _literal(value: str) -> sa.ColumnElement[Any]:
    return sa.literal_column(value)


_EXTEND = _under_token(lease_until=param("until"), due_at=param("until"))
_COMPLETE = _under_token(
    state=_literal("'done'"),
    result=param("to_result", str),
    error=_literal("''"),  # why it waited is over
    lease_until=sa.null(),
    due_at=sa.null(),
)
_AGAIN = _under_token(
    state=_literal("'ready'"),
    not_before=param("later"),
    due_at=param("later"),
    error=param("to_error", str),
    attempts=sa.case((param("counted") == _literal("1"), _W.c.attempts), else_=_literal("0")),
    holder=_literal("''"),
    lease_until=sa.null(),
)
_HELD = each_of("held").c.value
_AGAIN_EACH = Statement(
    sa.update(_W)
    .values(
        state=_literal("'ready'"),
        not_before=param("later"),
        due_at=param("later"),
        error=param("to_error", str),
        attempts=_literal("0"),
        holder=_literal("''"),
        lease_until=sa.null(),
        updated_at=param("now"),
    )
    .where(
        _W.c.seq.in_(sa.select(sa.cast(each_of("seqs").c.value, sa.BigInteger()))),
        (_W.c.seq.cast(sa.Text()) + _literal("':'") + _W.c.token.cast(sa.Text())).in_(sa.select(_HELD)),
        _LEASED,
    )
    .returning(_W.c.seq)
)
_BURY = _under_token(state=_literal("'dead'"), error=param("to_error", str), lease_until=sa.null(), due_at=sa.null())


@columns.reading("work item")
def _item(row: Row) -> WorkItem:
    (seq, kind, key, payload, state, attempts, max_attempts, not_before, deadline, target, host, token, *rest) = row
    holder, lease_until, _due_at, created_at, updated_at, error, result = rest
    return WorkItem(
        seq=seq,
        kind=kind,
        key=key,
        payload=columns.plain_json(payload),
        state=WorkState(state),
        attempts=attempts,
        max_attempts=max_attempts,
        not_before=not_before,
        deadline=deadline,
        target=target,
        host=host,
        token=token,
        holder=holder,
        lease_until=lease_until,
        created_at=created_at,
        updated_at=updated_at,
        error=error,
        result=columns.plain_json(result),
    )


class StoredWork:
    """Implements `ports.stores.WorkItems`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def enqueue(self, draft: WorkDraft) -> WorkItem:
        now = self._session.now()
        values = {
            "kind": text("work.kind", draft.kind),
            "key": text("work.key", draft.key),
            "payload": document("work.payload", draft.payload),
            "state": WorkState.READY.value,
            "attempts": 0,
            "max_attempts": draft.max_attempts,
            "not_before": draft.not_before,
            "deadline": draft.deadline,
            "target": text("work.target", draft.target),
            "host": text("work.host", draft.host),
            "token": 0,
            "holder": "",
            "lease_until": None,
            "due_at": draft.not_before,
            "created_at": now,
            "updated_at": now,
            "error": "",
            "result": "{}",
        }
        for _ in range(_ENQUEUE_ATTEMPTS_MAX):
            written = self._session.change(_INSERT, **values)
            if written:
                return _item(written[0])
            there = self._session.row(_OPEN_BY_KEY, key=draft.key)
            if there is not None:
                sooner = self._session.change(_SOONER, of=there[0], sooner=draft.not_before, now=now)
                return _item(sooner[0] if sooner else there)
        raise Conflict(f"work {draft.key!r} could not be enqueued: the row with that key keeps changing")

    def claim(self, holder: str, kinds: Sequence[str], lease_us: Micros, limit: int) -> Sequence[WorkItem]:
        """As the port says, the longest due first.  `attempts` passes `max_attempts` where holders died: look at it."""
        now = self._session.now()
        rows = self._session.change(
            _CLAIM,
            by=text("work.holder", holder),
            kinds=self._session.array(kinds),
            now=now,
            until=now + lease_us,
            limit=limit,
        )
        return sorted(map(_item, rows), key=lambda item: (item.not_before, item.seq))

    def extend(self, seq: int, token: int, lease_us: Micros) -> WorkItem:
        until = self._session.now() + lease_us
        return self._changed(_EXTEND, seq, token, WorkState.LEASED, until=until)

    def complete(self, seq: int, token: int, result: Mapping[str, JsonValue]) -> WorkItem:
        return self._changed(_COMPLETE, seq, token, WorkState.DONE, to_result=document("work.result", result))

    def again(self, seq: int, token: int, *, not_before: Micros, error: str = "", count: bool = True) -> WorkItem:
        """As the port says.  With `count` false the next claim is a first attempt again."""
        told = prose("work.error", error)
        return self._changed(_AGAIN, seq, token, WorkState.READY, later=not_before, to_error=told, counted=int(count))

    def again_each(self, held: Mapping[int, int], *, not_before: Micros, note: str = "") -> Collection[int]:
        if not held:
            return set()
        rows = self._session.change(
            _AGAIN_EACH,
            seqs=self._session.array([str(seq) for seq in held]),
            held=self._session.array([f"{seq}:{token}" for seq, token in held.items()]),
            later=not_before,
            to_error=prose("work.error", note),
            now=self._session.now(),
        )
        return {int(row[0]) for row in rows}

    def bury(self, seq: int, token: int, error: str) -> WorkItem:
        return self._changed(_BURY, seq, token, WorkState.DEAD, to_error=prose("work.error", error))

    def get(self, seq: int) -> WorkItem:
        row = self._session.row(_GET, seq=seq)
        if row is None:
            raise NotFound(f"there is no work item {show_id('W', seq)}")
        return _item(row)

    def list(self, page: Page) -> Sequence[WorkItem]:
        statement, values = _LISTING.ask(page)
        return [_item(row) for row in self._session.rows(statement, **values)]

    def mark(self) -> tuple[int, Micros]:
        [(seq, at)] = self._session.rows(_MARK)
        return int(seq or 0), int(at or 0)

    def next_due(self, kinds: Sequence[str] = ()) -> Micros | None:
        if kinds:
            [(due,)] = self._session.rows(_NEXT_DUE_OF, kinds=self._session.array(sorted(kinds)))
        else:
            [(due,)] = self._session.rows(_NEXT_DUE)
        return None if due is None else int(due)

    def depth(self) -> tuple[int, int]:
        found = {str(state): int(number) for state, number in self._session.rows(_DEPTH, now=self._session.now())}
        return found.get(WorkState.READY, 0), sum(found.values())

    def void_all(self) -> int:
        return len(self._session.change(_VOID_ALL, now=self._session.now()))

    def _changed(self, statement: Statement, seq: int, token: int, to: WorkState, **values: Any) -> WorkItem:
        """Make the change; if the token does not hold the row, say why not."""
        rows = self._session.change(statement, of=seq, held=token, now=self._session.now(), **values)
        if rows:
            return _item(rows[0])
        item = self.get(seq)
        if item.token != token:
            raise Fenced(
                f"work item {show_id('W', seq)} was claimed again (token {item.token}, by {item.holder or 'nobody'}) "
                f"after token {token}",
                hint="drop it: another holder has it",
            )
        WORK.advance(item.state, to)
        raise Conflict(f"work item {show_id('W', seq)} changed while it was being changed")


def enqueue_many(
    session: Session, kind: str, wanted: Sequence[tuple[str, Mapping[str, JsonValue], str]], *, max_attempts: int
) -> dict[str, int]:
    """Steps that are due at once, each `(key, payload, target)` with a key that no open row has; numbers by key.

    Raises Conflict if an open row has one of the keys.
    """
    if not wanted:
        return {}
    now = session.now()
    rows = [
        (
            kind,
            text("work.key", key),
            document("work.payload", payload),
            WorkState.READY.value,
            0,
            max_attempts,
            0,
            None,
            text("work.target", target),
            "",
            0,
            "",
            None,
            0,
            now,
            now,
            "",
            "{}",
        )
        for key, payload, target in wanted
    ]
    return {str(key): int(seq) for key, seq in session.change(_INSERT_MANY, rows=packed(rows))}
