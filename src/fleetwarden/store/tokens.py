"""Credentials: names, roles and the digest of the secret, never the secret.

A token is live until it is revoked or expires.  Among live ones a name is unique; an expired token gives its name up
when a new one asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from fleetwarden.domain.errors import Conflict, NotFound
from fleetwarden.domain.identifiers import Micros
from fleetwarden.ports.stores import StoredToken
from fleetwarden.store import columns, schema
from fleetwarden.store.columns import document, text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Row, Statement, param, write

__all__ = ["StoredTokens"]

_T = schema.tokens
_COLUMNS = [column for column in _T.c if column.name != "live_name"]

_INSERT = Statement(write(_T).on_conflict_do_nothing().returning(*_COLUMNS))
_GIVE_UP_NAME = Statement(
    sa.update(_T)
    .values(live_name=sa.null())
    .where(_T.c.live_name == param("of_name", str), _T.c.expires_at <= param("now"))
    .returning(_T.c.seq)
)
_BY_DIGEST = Statement(
    sa.select(*_COLUMNS).where(
        _T.c.secret_digest == param("secret_digest", str),
        _T.c.revoked_at.is_(None),
        sa.or_(_T.c.expires_at.is_(None), _T.c.expires_at > param("now")),
    )
)
_REVOKE = Statement(
    sa.update(_T)
    .values(live_name=sa.null(), revoked_at=param("now"))
    .where(_T.c.live_name == param("of_name", str))
    .returning(*_COLUMNS)
)
_RETIRE = Statement(
    sa.update(_T)
    .values(
        name=param("as_name", str),
        live_name=param("as_name", str),
        expires_at=sa.case((_T.c.expires_at < param("until"), _T.c.expires_at), else_=param("until")),
    )
    .where(_T.c.live_name == param("of_name", str))
    .returning(*_COLUMNS)
)
_READ_ALL = Statement(sa.select(*_COLUMNS).order_by(_T.c.seq))
_NAMES = msgspec.json.Decoder(tuple[str, ...])


@columns.reading("token")
def _token(row: Row) -> StoredToken:
    seq, name, secret_digest, roles, person, created_at, expires_at, revoked_at, teams = row
    return StoredToken(
        seq=seq,
        name=name,
        secret_digest=secret_digest,
        roles=_NAMES.decode(roles),
        person=person,
        created_at=created_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
        teams=_NAMES.decode(teams),
    )


class StoredTokens:
    """Implements `ports.stores.Tokens`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(
        self,
        *,
        name: str,
        secret_digest: str,
        roles: tuple[str, ...],
        person: str,
        expires_at: Micros | None = None,
        teams: tuple[str, ...] = (),
    ) -> StoredToken:
        now = self._session.now()
        self._session.change(_GIVE_UP_NAME, of_name=name, now=now)
        rows = self._session.change(
            _INSERT,
            name=text("token.name", name),
            live_name=name,
            secret_digest=text("token.secret_digest", secret_digest),
            roles=document("token.roles", roles),
            person=text("token.person", person),
            created_at=now,
            expires_at=expires_at,
            revoked_at=None,
            teams=document("token.teams", teams),
        )
        if not rows:
            raise Conflict(
                f"a live token is named {name!r}, or has the same secret",
                code="token_exists",
                hint="revoke that one first, or take another name",
            )
        return _token(rows[0])

    def by_digest(self, secret_digest: str) -> StoredToken | None:
        row = self._session.row(_BY_DIGEST, secret_digest=secret_digest, now=self._session.now())
        return None if row is None else _token(row)

    def revoke(self, name: str) -> StoredToken:
        """As the port says; an expired token that still has its name can be revoked too."""
        rows = self._session.change(_REVOKE, of_name=name, now=self._session.now())
        if not rows:
            raise NotFound(f"no token that could be revoked is named {name!r}")
        return _token(rows[0])

    def retire(self, name: str, *, as_name: str, until: Micros) -> StoredToken:
        self._session.change(_GIVE_UP_NAME, of_name=as_name, now=self._session.now())
        rows = self._session.change(_RETIRE, of_name=name, as_name=text("token.name", as_name), until=until)
        if not rows:
            raise NotFound(f"no token that could be retired is named {name!r}")
        return _token(rows[0])

    def all(self) -> Sequence[StoredToken]:
        """Every token that ever was, oldest first."""
        return [_token(row) for row in self._session.rows(_READ_ALL)]
