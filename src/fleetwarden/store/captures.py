"""Evidence from before an action, by action: a row of its own, so that the ledger's rows stay small and can be sealed.

The row is written with the fence of its action, and deleted when its time has passed; its digest outlives it in the
execution record.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from fleetwarden.domain.identifiers import JsonValue, Micros, digest
from fleetwarden.ports.evidence import StoredCapture
from fleetwarden.store import columns, schema_evidence
from fleetwarden.store.columns import document
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Row, Statement, param, write

__all__ = ["StoredCaptures"]

_C = schema_evidence.captures
_INSERT = Statement(write(_C).on_conflict_do_nothing().returning(_C.c.action_seq))
_GET = Statement(sa.select(*_C.c).where(_C.c.action_seq == param("action_seq")))
_DIGEST = Statement(sa.select(_C.c.digest).where(_C.c.action_seq == param("action_seq")))
_OLDEST = Statement(sa.select(_C.c.at).order_by(_C.c.at).limit(1))
_PRUNE = Statement(sa.delete(_C).where(_C.c.at < param("before")).returning(_C.c.action_seq))


@columns.reading("captured evidence of action")
def _capture(row: Row) -> StoredCapture:
    action_seq, at, found, body = row
    return StoredCapture(action_seq=action_seq, at=at, digest=found, body=columns.plain_json(body))


class StoredCaptures:
    """Implements `ports.evidence.Captures`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, action_seq: int, body: Mapping[str, JsonValue]) -> StoredCapture:
        self._session.change(
            _INSERT,
            action_seq=action_seq,
            at=self._session.now(),
            digest=digest(body),
            body=document("captured evidence", body),
        )
        found = self.of_action(action_seq)
        assert found is not None
        return found

    def of_action(self, action_seq: int) -> StoredCapture | None:
        row = self._session.row(_GET, action_seq=action_seq)
        return None if row is None else _capture(row)

    def digest_of(self, action_seq: int) -> str | None:
        row = self._session.row(_DIGEST, action_seq=action_seq)
        return None if row is None else str(row[0])

    def oldest(self) -> Micros | None:
        row = self._session.row(_OLDEST)
        return None if row is None else int(row[0])

    def prune(self, before: Micros) -> int:
        return len(self._session.change(_PRUNE, before=before))
