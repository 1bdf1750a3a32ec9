"""The versions that services ran: append-only facts, one row for each action that chose a version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from fleetwarden.ports.versions import RanVersion
from fleetwarden.store import columns, schema_evidence
from fleetwarden.store.columns import text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Row, Statement, param, write

__all__ = ["StoredVersions"]

_V = schema_evidence.ran_versions
_INSERT = Statement(write(_V).on_conflict_do_nothing().returning(_V.c.seq))
_OF_ACTION = Statement(sa.select(*_V.c).where(_V.c.action_seq == param("action_seq")))
_OF_SERVICE = Statement(
    sa.select(*_V.c).where(_V.c.service == param("service", str)).order_by(_V.c.seq.desc()).limit(param("limit"))
)
_LATEST = Statement(sa.select(*_V.c).where(_V.c.seq.in_(sa.select(sa.func.max(_V.c.seq)).group_by(_V.c.service))))


@columns.reading("version row")
def _ran(row: Row) -> RanVersion:
    seq, service, version, before, kind, complete, action_seq, at = row
    return RanVersion(
        seq=seq,
        service=service,
        version=version,
        before=before,
        kind=kind,
        complete=bool(complete),
        action_seq=action_seq,
        at=at,
    )


class StoredVersions:
    """Implements `ports.versions.VersionHistory`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def append(
        self, *, service: str, version: str, before: str, kind: str, complete: bool, action_seq: int
    ) -> RanVersion:
        self._session.change(
            _INSERT,
            service=text("ran_version.service", service),
            version=text("ran_version.version", version),
            before=text("ran_version.before", before),
            kind=text("ran_version.kind", kind),
            complete=int(complete),
            action_seq=action_seq,
            at=self._session.now(),
        )
        row = self._session.row(_OF_ACTION, action_seq=action_seq)
        assert row is not None
        return _ran(row)

    def of_service(self, service: str, limit: int) -> Sequence[RanVersion]:
        return [_ran(row) for row in self._session.rows(_OF_SERVICE, service=service, limit=limit)]

    def latest(self) -> Mapping[str, RanVersion]:
        return {one.service: one for one in map(_ran, self._session.rows(_LATEST))}
