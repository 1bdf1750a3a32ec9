"""Messages to people: one row each, claimed before it is sent, and what became of it.

A claim is a compare-and-swap on the row's state and attempts, so that of two planes that both think they lead only one
sends; a claim that was never finished lapses, and the message is sent again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from fleetwarden.domain.errors import Conflict, NotFound
from fleetwarden.domain.identifiers import Micros, show_id
from fleetwarden.domain.messages import OPEN_MESSAGES, Delivery, DeliveryState, Line
from fleetwarden.ports.notices import BlockedRow, TargetCount
from fleetwarden.ports.stores import Page
from fleetwarden.store import columns, schema_notices
from fleetwarden.store.columns import document, prose, text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Listing, Row, Statement, each_of, one_of, param, write

__all__ = ["StoredBlockedServices", "StoredDeliveries"]

_D, _B = schema_notices.deliveries, schema_notices.blocked_services
_ALL = sa.select(*_D.c)
_OPEN = one_of(_D.c.state, *OPEN_MESSAGES)
_UNTRIED = sa.and_(_D.c.state == sa.literal_column("'waiting'"), _D.c.attempts == sa.literal_column("0"))
_MERGED = ("lines", "count", "last_entry", "severity", "not_before")

_INSERT = Statement(write(_D).returning(_D.c.seq))
_MERGE = Statement(
    sa.update(_D)
    .values({name: sa.bindparam(name, type_=_D.c[name].type) for name in _MERGED})
    .where(_D.c.seq == param("of"), _UNTRIED)
    .returning(_D.c.seq)
)
_RECENT = Statement(
    _ALL.where(_D.c.target == param("target", str), _OPEN, _UNTRIED)
    .union(_ALL.where(_D.c.target == param("target", str), _D.c.at >= param("since")))
    .order_by("seq")
)
_OPEN_OF = Statement(_ALL.where(_D.c.target == param("target", str), _OPEN).order_by(_D.c.seq).limit(param("limit")))
_TARGETS = Statement(sa.select(_D.c.target).where(_OPEN).group_by(_D.c.target).order_by(_D.c.target))
_GET = Statement(_ALL.where(_D.c.seq == param("seq")))
_CLAIM = Statement(
    sa.update(_D)
    .values(
        state=sa.literal_column("'sending'"),
        attempts=_D.c.attempts + sa.literal_column("1"),
        claimed_until=param("until"),
    )
    .where(
        _D.c.seq == param("of"),
        _OPEN,
        _D.c.not_before <= param("now"),
        sa.or_(_D.c.claimed_until.is_(None), _D.c.claimed_until <= param("now")),
    )
    .returning(*_D.c)
)
_FINISH = Statement(
    sa.update(_D)
    .values(
        state=param("state", str),
        not_before=param("not_before"),
        error=param("error", str),
        ended_at=param("ended_at"),
        claimed_until=sa.null(),
    )
    .where(_D.c.seq == param("of"), _OPEN, _D.c.attempts == param("attempts"))
    .returning(_D.c.seq)
)
_HASTEN = Statement(
    sa.update(_D)
    .values(not_before=param("now"))
    .where(
        _D.c.target == param("of", str),
        _OPEN,
        _D.c.attempts > sa.literal_column("0"),
        _D.c.not_before > param("now"),
    )
    .returning(_D.c.seq)
)
_COUNTS = Statement(
    sa.select(_D.c.target, _D.c.state, sa.func.count(), sa.func.min(_D.c.at)).group_by(_D.c.target, _D.c.state)
)
_DUE = (
    sa.select(_D.c.seq)
    .where(_D.c.ended_at.is_not(None), _D.c.ended_at < param("before"))
    .order_by(_D.c.ended_at)
    .limit(param("limit"))
)
_PRUNE = Statement(sa.delete(_D).where(_D.c.seq.in_(_DUE)).returning(_D.c.seq))
_LISTING = Listing(_D, at="at", target="target", kind="kind", state="state")
_LINES = msgspec.json.Decoder(tuple[Line, ...])


@columns.reading("message")
def _delivery(row: Row) -> Delivery:
    values = dict(zip(_D.c.keys(), row, strict=True))
    lines, state = _LINES.decode(values["lines"]), DeliveryState(values["state"])
    return Delivery(**{**values, "lines": lines, "state": state})


class StoredDeliveries:
    """Implements `ports.notices.Deliveries`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, rows: Sequence[Delivery]) -> None:
        for one in rows:
            words = {
                "lines": document("message.lines", one.lines),
                "count": one.count,
                "last_entry": one.last_entry,
                "severity": text("message.severity", one.severity),
                "not_before": one.not_before,
            }
            if one.seq:
                if not self._session.change(_MERGE, of=one.seq, **words):
                    raise Conflict(f"message {one.id} is on its way: nothing more can join it")
                continue
            self._session.change(
                _INSERT,
                **words,
                at=one.at,
                target=text("message.target", one.target),
                kind=text("message.kind", one.kind),
                subject=text("message.subject", one.subject),
                first_entry=one.first_entry,
                state=one.state.value,
                attempts=one.attempts,
                claimed_until=one.claimed_until,
                error=prose("message.error", one.error),
                ended_at=one.ended_at,
            )

    def recent(self, target: str, since: Micros) -> Sequence[Delivery]:
        return [_delivery(row) for row in self._session.rows(_RECENT, target=target, since=since)]

    def open(self, target: str, *, limit: int = 500) -> Sequence[Delivery]:
        return [_delivery(row) for row in self._session.rows(_OPEN_OF, target=target, limit=limit)]

    def open_targets(self) -> Sequence[str]:
        return [str(name) for (name,) in self._session.rows(_TARGETS)]

    def claim(self, seq: int, *, until: Micros) -> Delivery:
        taken = self._session.change(_CLAIM, of=seq, until=until, now=self._session.now())
        if not taken:
            raise Conflict(f"message {show_id('M', seq)} is not due, or another plane sends it")
        return _delivery(taken[0])

    def finish(self, claimed: Delivery, *, state: DeliveryState, not_before: Micros, error: str) -> None:
        ended = self._session.now() if state not in OPEN_MESSAGES else None
        done = self._session.change(
            _FINISH,
            of=claimed.seq,
            attempts=claimed.attempts,
            state=state.value,
            not_before=not_before,
            error=prose("message.error", error),
            ended_at=ended,
        )
        if not done:
            raise Conflict(f"message {claimed.id} was taken over by another plane")

    def hasten(self, target: str, now: Micros) -> None:
        self._session.change(_HASTEN, of=target, now=now)

    def counts(self) -> Sequence[TargetCount]:
        rows = self._session.rows(_COUNTS)
        return [TargetCount(target=name, state=state, count=n, oldest_at=at) for name, state, n, at in rows]

    def list(self, page: Page) -> Sequence[Delivery]:
        statement, values = _LISTING.ask(page)
        return [_delivery(row) for row in self._session.rows(statement, **values)]

    def get(self, seq: int) -> Delivery:
        row = self._session.row(_GET, seq=seq)
        if row is None:
            raise NotFound(f"there is no message {show_id('M', seq)}")
        return _delivery(row)

    def prune(self, before: Micros, *, limit: int = 500) -> int:
        return len(self._session.change(_PRUNE, before=before, limit=limit))


def _put() -> Statement:
    wanted = write(_B)
    new = {name: wanted.excluded[name] for name in ("since", "code", "reason", "told_at", "times")}
    return Statement(wanted.on_conflict_do_update(index_elements=["service"], set_=new).returning(_B.c.service))


_PUT_BLOCKED = _put()
_FORGET = Statement(
    sa.delete(_B).where(_B.c.service.in_(sa.select(each_of("services").c.value))).returning(_B.c.service)
)
_BLOCKED = Statement(sa.select(*_B.c))


@columns.reading("blocked service")
def _blocked(row: Row) -> BlockedRow:
    return BlockedRow(**dict(zip(_B.c.keys(), row, strict=True)))


class StoredBlockedServices:
    """Implements `ports.notices.BlockedServices`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, row: BlockedRow) -> None:
        self._session.change(
            _PUT_BLOCKED,
            service=text("blocked.service", row.service),
            since=row.since,
            code=text("blocked.code", row.code),
            reason=prose("blocked.reason", row.reason),
            told_at=row.told_at,
            times=row.times,
        )

    def forget(self, services: Sequence[str]) -> None:
        if services:
            self._session.change(_FORGET, services=self._session.array(services))

    def all(self) -> Mapping[str, BlockedRow]:
        found = map(_blocked, self._session.rows(_BLOCKED))
        return {one.service: one for one in found}
