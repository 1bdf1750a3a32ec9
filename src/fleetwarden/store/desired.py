"""Overrides of services, changes by others, and what we left: the rows behind what is asked for besides the files.

What is past its end does not stand, by the store's time, whether or not its end was written down.  A row that cannot
be read makes the read fail; it is never left out, since a wish that is overlooked is one that is undone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from fleetwarden.domain.desired import Baseline, ForeignChange, ForeignField, ForeignState, Override
from fleetwarden.domain.errors import Conflict, IllegalMove, NotFound
from fleetwarden.domain.fleet import DesiredState
from fleetwarden.domain.identifiers import show_id
from fleetwarden.ports.desired import ForeignDraft, OverrideDraft
from fleetwarden.ports.stores import Page
from fleetwarden.store import columns, schema_desired
from fleetwarden.store.columns import text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Listing, Row, Statement, one_of, param, write

__all__ = ["StoredBaselines", "StoredForeignChanges", "StoredServiceOverrides"]

_O = schema_desired.service_overrides
_C = schema_desired.foreign_changes
_B = schema_desired.baselines

_OPEN = _O.c.ended_at.is_(None)
_END = {"ended_at": param("now"), "ended_by": param("by", str), "ended_how": param("how", str)}
_O_INSERT = Statement(write(_O).returning(*_O.c))
_O_GET = Statement(sa.select(*_O.c).where(_O.c.seq == param("seq")))
_O_END = Statement(sa.update(_O).values(_END).where(_O.c.seq == param("of"), _OPEN).returning(*_O.c))
_O_REPLACE = Statement(sa.update(_O).values(_END).where(_O.c.service == param("of", str), _OPEN).returning(_O.c.seq))
_O_STANDING = Statement(
    sa.select(*_O.c).where(_OPEN, sa.or_(_O.c.until.is_(None), _O.c.until > param("now"))).order_by(_O.c.service)
)
_O_DUE = Statement(sa.select(*_O.c).where(_OPEN, _O.c.until <= param("now")).order_by(_O.c.service))
_O_LISTING = Listing(_O, at="at", target="service")

_STANDING = one_of(_C.c.status, "held", "adopted")
_C_INSERT = Statement(write(_C).returning(*_C.c))
_C_GET = Statement(sa.select(*_C.c).where(_C.c.seq == param("seq")))
_C_MOVE = Statement(
    sa.update(_C)
    .values(
        status=param("to", str),
        ended_at=param("ended_at"),
        ended_by=param("by", str),
        note=param("note", str),
        hold_until=param("hold_until"),
        pauses=param("pauses"),
    )
    .where(_C.c.seq == param("of"), _C.c.status == param("came_from", str))
    .returning(*_C.c)
)
_C_STANDING = Statement(
    sa.select(*_C.c)
    .where(_STANDING, sa.or_(_C.c.hold_until.is_(None), _C.c.hold_until > param("now")))
    .order_by(_C.c.seq)
)
_C_DUE = Statement(sa.select(*_C.c).where(_STANDING, _C.c.hold_until <= param("now")).order_by(_C.c.seq))
_C_LISTING = Listing(_C, at="at", target="service", kind="field", state="status")

_B_ALL = Statement(sa.select(*_B.c))
_B_GET = Statement(sa.select(*_B.c).where(_B.c.service == param("service", str)))


def _b_put() -> Statement:
    wanted = write(_B)
    new = {name: wanted.excluded[name] for name in ("replicas", "version", "stopped", "at")}
    return Statement(wanted.on_conflict_do_update(index_elements=["service"], set_=new).returning(_B.c.service))


_B_PUT = _b_put()


@columns.reading("service override")
def _override(row: Row) -> Override:
    seq, service, replicas, state, reason, by, at, until, ended_at, ended_by, ended_how = row
    return Override(
        seq=seq,
        service=service,
        replicas=replicas,
        state=None if state is None else DesiredState(state),
        reason=reason,
        by=by,
        at=at,
        until=until,
        ended_at=ended_at,
        ended_by=ended_by,
        ended_how=ended_how,
    )


@columns.reading("foreign change")
def _change(row: Row) -> ForeignChange:
    seq, service, field, before, after, writer, at, hold_until, pauses, status, ended_at, ended_by, note = row
    return ForeignChange(
        seq=seq,
        service=service,
        field=ForeignField(field),
        before=before,
        after=after,
        writer=writer,
        at=at,
        hold_until=hold_until,
        pauses=bool(pauses),
        status=ForeignState(status),
        ended_at=ended_at,
        ended_by=ended_by,
        note=note,
    )


@columns.reading("baseline")
def _baseline(row: Row) -> Baseline:
    service, replicas, version, stopped, at = row
    known = None if stopped is None else bool(stopped)
    return Baseline(service=service, replicas=replicas, version=version, stopped=known, at=at)


class StoredServiceOverrides:
    """Implements `ports.desired.ServiceOverrides`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, draft: OverrideDraft) -> Override:
        by, now = text("override.by", draft.by), self._session.now()
        self._session.change(_O_REPLACE, of=draft.service, now=now, by=by, how="replaced")
        [row] = self._session.change(
            _O_INSERT,
            service=text("override.service", draft.service),
            replicas=draft.replicas,
            state=None if draft.state is None else draft.state.value,
            reason=text("override.reason", draft.reason),
            written_by=by,
            at=now,
            until=draft.until,
            ended_at=None,
            ended_by="",
            ended_how="",
        )
        return _override(row)

    def end(self, seq: int, *, how: str, by: str) -> Override:
        rows = self._session.change(_O_END, of=seq, now=self._session.now(), by=text("override.ended_by", by), how=how)
        if rows:
            return _override(rows[0])
        there = self._session.row(_O_GET, seq=seq)
        if there is None:
            raise NotFound(f"there is no override {show_id('O', seq)}")
        raise Conflict(f"override {show_id('O', seq)} has ended already: {_override(there).ended_how}")

    def standing(self) -> Sequence[Override]:
        return [_override(row) for row in self._session.rows(_O_STANDING, now=self._session.now())]

    def due(self) -> Sequence[Override]:
        return [_override(row) for row in self._session.rows(_O_DUE, now=self._session.now())]

    def list(self, page: Page) -> Sequence[Override]:
        statement, values = _O_LISTING.ask(page)
        return [_override(row) for row in self._session.rows(statement, **values)]


class StoredForeignChanges:
    """Implements `ports.desired.ForeignChanges`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, draft: ForeignDraft) -> ForeignChange:
        now = self._session.now()
        [row] = self._session.change(
            _C_INSERT,
            service=text("foreign_change.service", draft.service),
            field=draft.field.value,
            before=text("foreign_change.before", draft.before),
            after=text("foreign_change.after", draft.after),
            writer=text("foreign_change.writer", draft.writer),
            at=now,
            hold_until=draft.hold_until,
            pauses=int(draft.pauses),
            status=draft.status.value,
            ended_at=None if draft.status is ForeignState.HELD else now,
            ended_by="",
            note="",
        )
        return _change(row)

    def move(self, seq: int, *, came_from: ForeignState, to: ForeignState, by: str, note: str = "") -> ForeignChange:
        row = self._session.row(_C_GET, seq=seq)
        if row is None:
            raise NotFound(f"there is no foreign change {show_id('C', seq)}")
        old = _change(row)
        adopted = to is ForeignState.ADOPTED
        rows = self._session.change(
            _C_MOVE,
            of=seq,
            came_from=came_from.value,
            to=to.value,
            ended_at=None if adopted else self._session.now(),
            by=text("foreign_change.ended_by", by),
            note=text("foreign_change.note", note),
            hold_until=None if adopted else old.hold_until,
            pauses=0 if adopted else int(old.pauses),
        )
        if not rows:
            raise IllegalMove(f"foreign change {old.id} is {old.status.value}, not {came_from.value}")
        return _change(rows[0])

    def standing(self) -> Sequence[ForeignChange]:
        return [_change(row) for row in self._session.rows(_C_STANDING, now=self._session.now())]

    def due(self) -> Sequence[ForeignChange]:
        return [_change(row) for row in self._session.rows(_C_DUE, now=self._session.now())]

    def list(self, page: Page) -> Sequence[ForeignChange]:
        statement, values = _C_LISTING.ask(page)
        return [_change(row) for row in self._session.rows(statement, **values)]


class StoredBaselines:
    """Implements `ports.desired.Baselines`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def all(self) -> Mapping[str, Baseline]:
        return {one.service: one for one in map(_baseline, self._session.rows(_B_ALL))}

    def of(self, service: str) -> Baseline | None:
        row = self._session.row(_B_GET, service=service)
        return None if row is None else _baseline(row)

    def put(self, baseline: Baseline) -> None:
        self._session.change(
            _B_PUT,
            service=text("baseline.service", baseline.service),
            replicas=baseline.replicas,
            version=None if baseline.version is None else text("baseline.version", baseline.version),
            stopped=None if baseline.stopped is None else int(baseline.stopped),
            at=baseline.at,
        )
