"""Texts of configuration by the digest of their bytes: a rule can be read as it was when it decided.

A text is written once and never changed or removed.  Its digest is computed here, never handed in, so that no text can
stand under another one's name.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from fleetwarden.domain.errors import Refused
from fleetwarden.domain.identifiers import digest
from fleetwarden.ports.ledger import KeptText
from fleetwarden.store import columns, schema
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Row, Statement, param, write

__all__ = ["TEXT_BYTES_MAX", "StoredTexts"]

TEXT_BYTES_MAX = 64 * 1024 * 1024  # what a file of the configuration may have at most, and more

_T = schema.texts
_KEEP = Statement(write(_T).on_conflict_do_nothing().returning(_T.c.digest))
_GET = Statement(sa.select(*_T.c).where(_T.c.digest == param("digest", str)))
_AFTER = Statement(
    sa.select(*_T.c).where(_T.c.digest > param("after", str)).order_by(_T.c.digest).limit(param("limit"))
)


@columns.reading("text")
def _text(row: Row) -> KeptText:
    return KeptText(**dict(zip(_T.c.keys(), row, strict=True)))


class StoredTexts:
    """Implements `ports.ledger.Texts`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def keep(self, *, kind: str, name: str, body: str) -> str:
        if "\0" in body:
            raise Refused(f"the {kind} {name} contains a NUL character, which cannot be stored", code="unstorable")
        found = digest(body.encode())
        self._session.change(
            _KEEP,
            digest=found,
            kind=columns.text("text.kind", kind),
            name=columns.text("text.name", name),
            body=columns.text("text.body", body, TEXT_BYTES_MAX),
            at=self._session.now(),
        )
        return found

    def get(self, digest: str) -> KeptText | None:
        row = self._session.row(_GET, digest=digest)
        return None if row is None else _text(row)

    def after(self, digest: str, limit: int) -> Sequence[KeptText]:
        return [_text(row) for row in self._session.rows(_AFTER, after=digest, limit=limit)]
