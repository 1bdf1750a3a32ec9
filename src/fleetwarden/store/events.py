"""Events and where their alerts stand: many at a time, in a handful of statements.

One statement reads where all alerts of a batch stand, one writes the events, one the steps of work, one where the
alerts stand then.  What each event means is decided by `domain.correlation`, in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from fleetwarden.domain.correlation import Placed, place
from fleetwarden.domain.errors import NotFound, Refused
from fleetwarden.domain.events import AlertState, EventClass, FleetEvent, Severity, StoredEvent
from fleetwarden.domain.identifiers import JsonValue, Micros, rfc3339, show_id
from fleetwarden.ports.events import LOG_ENTRIES_MAX, TRIAGE, Receipt
from fleetwarden.ports.pages import Page
from fleetwarden.store import columns, schema_events
from fleetwarden.store.columns import document, text
from fleetwarden.store.many_rows import insert_rows, packed
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Listing, Row, Statement, each_of, param
from fleetwarden.store.work import enqueue_many

__all__ = ["StoredEvents"]

TRIAGE_ATTEMPTS_MAX: Final = 8
BEGINNINGS_READ: Final = 200
_E, _A = schema_events.events, schema_events.alerts
_ALERTS_OF = Statement(sa.select(*_A.c).where(_A.c.alert.in_(sa.select(each_of("alerts").c.value))).with_for_update())
_OUTAGE = sa.and_(_E.c["class"] == sa.literal_column("'down'"), _E.c.phase == sa.literal_column("'firing'"))
_BEGAN = sa.and_(_OUTAGE, _E.c.repeat_of.is_(None), _E.c.late == sa.literal_column("0"))


def _insert() -> Statement:
    """Deliveries of what is there are counted.  `repeats` tells the two apart."""
    wanted = insert_rows(_E)
    again = {"seen_at": wanted.excluded.seen_at, "repeats": _E.c.repeats + sa.literal_column("1")}
    made = wanted.on_conflict_do_update(index_elements=["key"], set_=again)
    return Statement(made.returning(_E.c.key, _E.c.seq, _E.c.repeats))


def _stand() -> Statement:
    wanted = insert_rows(_A)
    new = {column.name: wanted.excluded[column.name] for column in _A.c if column.name != "alert"}
    return Statement(wanted.on_conflict_do_update(index_elements=["alert"], set_=new))


_INSERT, _STAND = _insert(), _stand()
_AGAIN = Statement(
    sa.update(_E)
    .values(seen_at=param("now"), repeats=_E.c.repeats + sa.literal_column("1"))
    .where(_E.c.seq == param("of"))
)
_CLOSE = Statement(
    sa.update(_E)
    .values(ended_at=param("at_end"), ended_by=param("by"))
    .where(sa.or_(_E.c.seq == param("of"), _E.c.repeat_of == param("of")), _E.c.ended_at.is_(None))
)
_BY_NUMBER = sa.select(*_E.c).where(_E.c.seq == param("seq"))
_GET, _GET_LOCKED = Statement(_BY_NUMBER), Statement(_BY_NUMBER.with_for_update())
_LOG = Statement(
    sa.update(_E)
    .values(remediation_log=param("log", str), remediation_status=param("status", str))
    .where(_E.c.seq == param("of"))
    .returning(*_E.c)
)
_OUTAGES = Statement(
    sa.select(*_E.c)
    .where(_E.c.service == param("service", str), _E.c.at > param("since"), _BEGAN)
    .order_by(_E.c.at.desc(), _E.c.seq.desc())
    .limit(param("limit"))
)
_BEGINNINGS = (
    sa.select(_E.c.at)
    .where(_E.c.service == param("service", str), _E.c.at > param("since"), _BEGAN)
    .order_by(_E.c.at.desc())
    .limit(sa.literal_column(str(BEGINNINGS_READ)))
    .subquery()
)
_OUTAGE_COUNT = Statement(sa.select(sa.func.count(sa.distinct(_BEGINNINGS.c.at))))
_ALERTS_OF_SERVICES = Statement(
    sa.select(*_A.c).where(
        _A.c.service.in_(sa.select(each_of("services").c.value)), _A.c["class"] == sa.literal_column("'down'")
    )
)
_STANDING = Statement(sa.select(*_A.c).where(_A.c.alert.in_(sa.select(each_of("alerts").c.value))))
_FIRING = Statement(sa.select(*_A.c).where(_A.c.origin == param("origin", str), _A.c.firing == sa.literal_column("1")))
_FLAPS = Statement(
    sa.select(_E.c.service, sa.func.count())
    .where(
        _E.c.service.in_(sa.select(each_of("services").c.value)),
        _E.c.at > param("since"),
        _BEGAN,
        _E.c.flap == sa.literal_column("1"),
    )
    .group_by(_E.c.service)
)
_COUNTS = Statement(sa.select(_E.c.source, _E.c.severity, sa.func.count()).group_by(_E.c.source, _E.c.severity))
_NUMBER = Statement(sa.select(sa.func.count()).select_from(_E))
_OLDEST = Statement(sa.select(sa.func.min(_E.c.seen_at)))


def _prune(table: sa.Table, key: str) -> Statement:
    old = sa.select(table.c[key]).where(table.c.seen_at < param("before")).order_by(table.c.seen_at)
    due = old.limit(param("limit")).cte("due")
    return Statement(sa.delete(table).where(table.c[key].in_(sa.select(due.c[key]))).returning(table.c[key]))


_PRUNE, _PRUNE_ALERTS = _prune(_E, "seq"), _prune(_A, "alert")
_LISTING = Listing(_E, at="at", target="service", kind="source", state="phase")
_EVENT = msgspec.json.Decoder(FleetEvent)
_ENTRIES = msgspec.json.Decoder(tuple[Mapping[str, Any], ...])


@columns.reading("event")
def _stored(row: Row) -> StoredEvent:
    seq, at, _key, _source, _severity, _phase, _class, _service, body, seen_at, repeats, repeat_of, *rest = row
    flap, late, closes, ended_at, ended_by, status, log = rest
    return StoredEvent(
        seq=seq,
        at=at,
        event=_EVENT.decode(body),
        seen_at=seen_at,
        repeats=repeats,
        repeat_of=repeat_of,
        flap=bool(flap),
        late=bool(late),
        closes=closes,
        ended_at=ended_at,
        ended_by=ended_by,
        remediation_status=status,
        remediation_log=_ENTRIES.decode(log),
    )


@columns.reading("alert")
def _alert(row: Row) -> AlertState:
    alert, service, firing, class_, severity, starts_at, changed_at, seen_at, event_seq, origin = row
    return AlertState(
        alert=alert,
        service=service,
        firing=bool(firing),
        class_=EventClass(class_),
        severity=Severity(severity),
        starts_at=starts_at,
        changed_at=changed_at,
        seen_at=seen_at,
        event_seq=event_seq,
        origin=origin,
    )


class StoredEvents:
    """Implements `ports.events.Events`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, events: Sequence[FleetEvent]) -> Sequence[Receipt]:
        """As the port says.  An event without a number yet is named by minus its place, counted from 1."""
        if not events:
            return []
        session, now = self._session, self._session.now()
        session.flush()
        wanted = sorted({one.alert for one in events})
        known = {row[0]: _alert(row) for row in session.rows(_ALERTS_OF, alerts=session.array(wanted))}
        placed: list[Placed] = []
        first: dict[str, int] = {}  # of the keys of this batch: the place of the first event with it
        for at, event in enumerate(events):
            one = place(event, known.get(event.alert), now, -1 - at)
            if one.same_as is None and one.key in first:
                one = msgspec.structs.replace(one, same_as=-1 - first[one.key], state=None)
            if one.same_as is None:
                first[one.key] = at
            if one.state is not None:
                known[event.alert] = one.state
            placed.append(one)
        numbers, again = self._write(events, placed, now)
        self._stand({alert: state for alert, state in known.items() if state.seen_at == now}, numbers)
        work = self._enqueue(events, sorted(set(numbers) - again), numbers)
        receipts = []
        for at, (event, one) in enumerate(zip(events, placed, strict=True)):
            seq = _number(one.same_as, numbers) if one.same_as is not None else numbers[at]
            receipts.append(Receipt(seq=seq, duplicate=at not in work, work_seq=work.get(at), event=event))
        return receipts

    def _write(
        self, events: Sequence[FleetEvent], placed: Sequence[Placed], now: Micros
    ) -> tuple[dict[int, int], set[int]]:
        """Store what is new; the numbers by place, and the places of those that were there already."""
        session = self._session
        places = [at for at, one in enumerate(placed) if one.same_as is None]
        rows = [self._row(events[at], placed[at], now) for at in places]
        found = {}
        if rows:
            found = {row[0]: (row[1], row[2]) for row in session.change(_INSERT, rows=packed(rows))}
        numbers = {at: int(found[placed[at].key][0]) for at in places}
        again = {at for at in places if found[placed[at].key][1] > 0}
        for at, one in enumerate(placed):
            if one.same_as is not None:
                session.later(_AGAIN, now=now, of=_number(one.same_as, numbers))
            elif at not in again:
                if one.closes is not None:
                    ended = min(now, events[at].ends_at or now)
                    session.later(_CLOSE, at_end=ended, by=numbers[at], of=_number(one.closes, numbers))
                if one.repeat_of is not None and one.repeat_of < 0:
                    self._relink(numbers[at], "repeat_of", one.repeat_of, numbers)
                if one.closes is not None and one.closes < 0:
                    self._relink(numbers[at], "closes", one.closes, numbers)
        return numbers, again

    def _relink(self, seq: int, name: str, to: int, numbers: Mapping[int, int]) -> None:
        """Name by its number what was named by its place in the batch."""
        self._session.later(_LINKS[name], link=_number(to, numbers), of=seq)

    @staticmethod
    def _row(event: FleetEvent, one: Placed, now: Micros) -> tuple[int | str | None, ...]:
        return (
            now,
            text("event.key", one.key),
            text("event.source", event.source),
            event.severity,
            event.phase,
            event.class_,
            text("event.service", event.service or ""),
            document("event.body", event),
            now,
            0,
            one.repeat_of,
            int(one.flap),
            int(one.late),
            one.closes,
            None,
            None,
            "",
            "[]",
        )

    def _stand(self, states: Mapping[str, AlertState], numbers: Mapping[int, int]) -> None:
        rows = [
            (
                text("alert.name", one.alert),
                text("alert.service", one.service),
                int(one.firing),
                one.class_,
                one.severity,
                one.starts_at,
                one.changed_at,
                one.seen_at,
                _number(one.event_seq, numbers),
                one.origin,
            )
            for _, one in sorted(states.items())
        ]
        if rows:
            self._session.change(_STAND, rows=packed(rows))

    def _enqueue(
        self, events: Sequence[FleetEvent], fresh: Sequence[int], numbers: Mapping[int, int]
    ) -> dict[int, int]:
        """A step for each new event; the steps' numbers by the events' places."""
        keys = {at: f"event:{show_id('E', numbers[at])}" for at in fresh}
        wanted = [(keys[at], {"event": numbers[at]}, events[at].service or "") for at in fresh]
        made = enqueue_many(self._session, TRIAGE, wanted, max_attempts=TRIAGE_ATTEMPTS_MAX)
        return {at: made[keys[at]] for at in fresh}

    def get(self, seq: int) -> StoredEvent:
        self._session.flush()
        row = self._session.row(_GET_LOCKED if self._session.writable else _GET, seq=seq)
        if row is None:
            raise NotFound(
                f"there is no event {show_id('E', seq)}", hint="fleetwarden events list shows those there are"
            )
        return _stored(row)

    def list(self, page: Page) -> Sequence[StoredEvent]:
        self._session.flush()
        statement, values = _LISTING.ask(page)
        return [_stored(row) for row in self._session.rows(statement, **values)]

    def append_log(self, seq: int, entry: Mapping[str, JsonValue], *, status: str | None = None) -> StoredEvent:
        known = self.get(seq)
        if len(known.remediation_log) >= LOG_ENTRIES_MAX:
            raise Refused(
                f"the remediation log of {known.id} has {LOG_ENTRIES_MAX} entries, which is its limit", code="too_large"
            )
        log = [*known.remediation_log, {"at": rfc3339(self._session.now()), **entry}]
        return self._logged(known, log, known.remediation_status if status is None else status)

    def set_status(self, seq: int, status: str) -> StoredEvent:
        known = self.get(seq)
        return self._logged(known, known.remediation_log, status)

    def _logged(self, known: StoredEvent, log: Sequence[Mapping[str, JsonValue]], status: str) -> StoredEvent:
        [row] = self._session.change(
            _LOG, log=document("event.log", log), status=text("event.remediation_status", status), of=known.seq
        )
        return _stored(row)

    def down_events(self, service: str, since: Micros, *, limit: int = 100) -> Sequence[StoredEvent]:
        self._session.flush()
        return [_stored(row) for row in self._session.rows(_OUTAGES, service=service, since=since, limit=limit)]

    def outages(self, service: str, since: Micros) -> int:
        self._session.flush()
        [(number,)] = self._session.rows(_OUTAGE_COUNT, service=service, since=since)
        return int(number)

    def alerts(self, services: Sequence[str]) -> Sequence[AlertState]:
        rows = self._session.rows(_ALERTS_OF_SERVICES, services=self._session.array(services))
        return [_alert(row) for row in rows]

    def standing(self, alerts: Sequence[str]) -> Mapping[str, AlertState]:
        found = map(_alert, self._session.rows(_STANDING, alerts=self._session.array(alerts)))
        return {one.alert: one for one in found}

    def firing(self, origin: str) -> Sequence[AlertState]:
        return [_alert(row) for row in self._session.rows(_FIRING, origin=origin)]

    def flaps(self, services: Sequence[str], since: Micros) -> Mapping[str, int]:
        rows = self._session.rows(_FLAPS, services=self._session.array(services), since=since)
        return {str(service): int(number) for service, number in rows}

    def counts(self) -> Mapping[tuple[str, str], int]:
        return {(str(one), str(severity)): int(number) for one, severity, number in self._session.rows(_COUNTS)}

    def number(self) -> int:
        [(number,)] = self._session.rows(_NUMBER)
        return int(number)

    def prune(self, before: Micros, *, limit: int = 1_000) -> int:
        self._session.change(_PRUNE_ALERTS, before=before, limit=limit)
        return len(self._session.change(_PRUNE, before=before, limit=limit))

    def oldest(self) -> Micros | None:
        [(at,)] = self._session.rows(_OLDEST)
        return None if at is None else int(at)


_LINKS = {
    name: Statement(sa.update(_E).values({name: param("link")}).where(_E.c.seq == param("of")))
    for name in ("repeat_of", "closes")
}


def _number(seq: int, numbers: Mapping[int, int]) -> int:
    """The number of what is named by its place in the batch, or by its number."""
    return numbers[-1 - seq] if seq < 0 else seq
