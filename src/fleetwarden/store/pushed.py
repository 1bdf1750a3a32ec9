"""Pushed samples: the newest of each, and a high-water mark for every source that numbers its samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from fleetwarden.domain.signal_authority import SentSample
from fleetwarden.store import columns, schema_signals
from fleetwarden.store.columns import document, text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Row, Statement, each_of, param, write

__all__ = ["StoredPushed"]

_P, _M = schema_signals.pushed_samples, schema_signals.signal_marks


def _put() -> Statement:
    wanted = write(_P)
    new = {name: wanted.excluded[name] for name in ("sampled_at", "body")}
    newer = _P.c.sampled_at < wanted.excluded.sampled_at
    made = wanted.on_conflict_do_update(
        index_elements=["source", "service", "scale_unit", "kind"], set_=new, where=newer
    )
    return Statement(made.returning(_P.c.service))


def _advance() -> Statement:
    wanted = write(_M)
    new = {name: wanted.excluded[name] for name in ("sequence", "at")}
    newer = _M.c.sequence < wanted.excluded.sequence
    made = wanted.on_conflict_do_update(index_elements=["source"], set_=new, where=newer)
    return Statement(made.returning(_M.c.source))


_PUT, _ADVANCE = _put(), _advance()
_KEY = (_P.c.service, _P.c.source, _P.c.scale_unit, _P.c.kind)


def _page(*, after: bool) -> Statement:
    wanted = sa.select(_P.c.service, _P.c.body).where(_P.c.service.in_(sa.select(each_of("services").c.value)))
    if after:
        names = ("service", "source", "scale_unit", "kind")
        wanted = wanted.where(sa.tuple_(*_KEY) > sa.tuple_(*[param(f"after_{name}", str) for name in names]))
    return Statement(wanted.order_by(*_KEY).limit(param("limit")))


_FIRST, _AFTER = _page(after=False), _page(after=True)
_MARKS = Statement(sa.select(_M.c.source, _M.c.sequence).where(_M.c.source.in_(sa.select(each_of("sources").c.value))))
_SOURCES = Statement(sa.select(sa.func.count()).select_from(_M))
_SAMPLE = msgspec.json.Decoder(SentSample)


@columns.reading("pushed sample")
def _sample(row: Row) -> SentSample:
    return _SAMPLE.decode(row[1])


class StoredPushed:
    """Implements `ports.pushed.PushedSamples`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def marks(self, sources: Sequence[str]) -> Mapping[str, int]:
        return {str(one): int(at) for one, at in self._session.rows(_MARKS, sources=self._session.array(sources))}

    def sources(self) -> int:
        [(number,)] = self._session.rows(_SOURCES)
        return int(number)

    def advance(self, source: str, sequence: int) -> None:
        name = text("signal_mark.source", source)
        self._session.change(_ADVANCE, source=name, sequence=sequence, at=self._session.now())

    def put(self, sample: SentSample) -> None:
        assert sample.sampled_at is not None
        self._session.change(
            _PUT,
            source=text("pushed_sample.source", sample.source),
            service=text("pushed_sample.service", sample.service),
            scale_unit=text("pushed_sample.scale_unit", sample.scale_unit),
            kind=sample.kind.value,
            sampled_at=sample.sampled_at,
            body=document("pushed_sample.body", sample),
        )

    def page(
        self, services: Sequence[str], after: tuple[str, str, str, str] | None, limit: int
    ) -> Sequence[SentSample]:
        names = self._session.array(services)
        if after is None:
            rows = self._session.rows(_FIRST, services=names, limit=limit)
        else:
            service, source, scale_unit, kind = after
            rows = self._session.rows(
                _AFTER,
                services=names,
                after_service=service,
                after_source=source,
                after_scale_unit=scale_unit,
                after_kind=kind,
                limit=limit,
            )
        return [_sample(row) for row in rows]
