"""Shadow evaluations: runs of equal verdicts, numbered within their service, the oldest ones dropped.

A service's number is the next one in its own rows, so that what is too many is one walk along the primary key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from fleetwarden.domain.errors import Conflict
from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.shadow import ShadowRun
from fleetwarden.ports.shadows import RUNS_MAX
from fleetwarden.store import columns, schema_shadow
from fleetwarden.store.columns import text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Row, Statement, param, write

__all__ = ["StoredShadows"]

_TRIM_EVERY = 64  # runs: how often the oldest are looked for

_S = schema_shadow.shadow_runs
_LASTS = _S.c.until.is_(None)
_NEXT = Statement(sa.select(sa.func.max(_S.c.number)).where(_S.c.service == param("service", str)))
_INSERT = Statement(write(_S).on_conflict_do_nothing().returning(*_S.c))
_END = Statement(
    sa.update(_S)
    .values(until=sa.case((_S.c.at > param("until"), _S.c.at), else_=param("until")))
    .where(_S.c.service == param("of", str), _LASTS)
    .returning(_S.c.number)
)
_TRIM = Statement(
    sa.delete(_S).where(_S.c.service == param("of", str), _S.c.number <= param("last")).returning(_S.c.number)
)
_OPEN = Statement(sa.select(*_S.c).where(_LASTS))
_OF = Statement(
    sa.select(*_S.c)
    .where(
        _S.c.service == param("service", str),
        _S.c.number > param("after"),
        sa.or_(_LASTS, _S.c.until >= param("since")),
    )
    .order_by(_S.c.number)
    .limit(param("limit"))
)
_DUE = (
    sa.select(_S.c.service, _S.c.number)
    .where(_S.c.until.is_not(None), _S.c.until < param("before"))
    .order_by(_S.c.until)
    .limit(param("limit"))
    .cte("due")
)
_PRUNE = Statement(
    sa.delete(_S)
    .where(sa.tuple_(_S.c.service, _S.c.number).in_(sa.select(_DUE.c.service, _DUE.c.number)))
    .returning(_S.c.number)
)
_OLDEST = Statement(sa.select(_S.c.until).where(_S.c.until.is_not(None)).order_by(_S.c.until).limit(1))


@columns.reading("shadow run of")
def _run(row: Row) -> ShadowRun:
    service, number, at, until, current, desired, raw, reason = row
    return ShadowRun(
        service=service, number=number, at=at, until=until, current=current, desired=desired, raw=raw, reason=reason
    )


class StoredShadows:
    """Implements `ports.shadows.Shadows`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def begin(self, run: ShadowRun) -> ShadowRun:
        [(last,)] = self._session.rows(_NEXT, service=run.service)
        number = int(last or 0) + 1
        found = self._session.change(
            _INSERT,
            service=text("shadow_run.service", run.service),
            number=number,
            at=run.at,
            until=run.until,
            current=run.current,
            desired=run.desired,
            raw=run.raw,
            reason=text("shadow_run.reason", run.reason),
        )
        if not found:
            raise Conflict(f"a shadow run of {run.service} lasts already", hint="end it first")
        if number > RUNS_MAX and number % _TRIM_EVERY == 0:
            self._session.change(_TRIM, of=run.service, last=number - RUNS_MAX)
        return msgspec.structs.replace(run, number=number)

    def end(self, service: str, until: Micros) -> None:
        self._session.change(_END, of=service, until=until)

    def open(self) -> Mapping[str, ShadowRun]:
        found = map(_run, self._session.rows(_OPEN))
        return {one.service: one for one in found}

    def of(self, service: str, *, since: Micros = 0, after: int = 0, limit: int = 5_000) -> Sequence[ShadowRun]:
        rows = self._session.rows(_OF, service=service, since=since, after=after, limit=limit)
        return [_run(row) for row in rows]

    def prune(self, before: Micros, *, limit: int = 5_000) -> int:
        return len(self._session.change(_PRUNE, before=before, limit=limit))

    def oldest(self) -> Micros | None:
        row = self._session.row(_OLDEST)
        return None if row is None else int(row[0])
