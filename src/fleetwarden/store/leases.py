"""Leases with fencing tokens: who may run a cadence, and whose writes still count.

A token only grows.  Whoever writes under a lease checks its fence in the same transaction with the row locked, so
that a takeover waits for that transaction or is seen by it; reading alone would let both commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.errors import Fenced, Refused
from fleetwarden.domain.identifiers import Micros
from fleetwarden.ports.stores import Lease
from fleetwarden.store import columns, schema
from fleetwarden.store.columns import text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Row, Statement, param, write

__all__ = ["StoredLeases"]

_L = schema.leases
_NOBODY: sa.ColumnElement[str] = sa.literal_column("''")
_OF_FENCE = (
    _L.c.cadence == param("of_cadence", str),
    _L.c.shard == param("of_shard", str),
    _L.c.holder == param("of_holder", str),
    _L.c.token == param("of_token"),
)


def _acquire() -> Statement:
    """Insert, or take over what is free or lapsed under a new token, or extend what is ours under the same one."""
    wanted = write(_L)
    new = wanted.excluded
    lapsed = sa.or_(_L.c.expires_at <= new.acquired_at, _L.c.holder == _NOBODY)
    later = _L.c.expires_at  # an extension never shortens: a longer one may cover a call that is in flight
    kept: dict[str, Any] = {
        "token": sa.case((lapsed, _L.c.token + sa.literal_column("1")), else_=_L.c.token),
        "acquired_at": sa.case((lapsed, new.acquired_at), else_=_L.c.acquired_at),
        "holder": new.holder,
        "expires_at": sa.case((lapsed, new.expires_at), (new.expires_at > later, new.expires_at), else_=later),
    }
    upsert = wanted.on_conflict_do_update(
        index_elements=["cadence", "shard"], set_=kept, where=sa.or_(lapsed, _L.c.holder == new.holder)
    )
    return Statement(upsert.returning(_L.c.token))


_ACQUIRE = _acquire()
_RELEASE = Statement(
    sa.update(_L).values(holder=_NOBODY, expires_at=param("now")).where(*_OF_FENCE).returning(_L.c.token)
)
_CHECK = Statement(sa.select(_L.c.expires_at).where(*_OF_FENCE).with_for_update(read=True))
_CHECK_UNLOCKED = Statement(sa.select(_L.c.expires_at).where(*_OF_FENCE))
_VOID_ALL = Statement(
    sa.update(_L).values(holder=_NOBODY, expires_at=param("now")).where(_L.c.holder != _NOBODY).returning(_L.c.token)
)
_LIST = Statement(sa.select(*_L.c).where(_L.c.holder != _NOBODY))


@columns.reading("lease")
def _lease(row: Row) -> Lease:
    cadence, shard, holder, token, acquired_at, expires_at = row
    fence = LeaseFence(cadence=cadence, shard=shard, holder=holder, token=token)
    return Lease(fence=fence, expires_at=expires_at, acquired_at=acquired_at)


def _named(fence: LeaseFence) -> dict[str, str | int]:
    return {
        "of_cadence": fence.cadence,
        "of_shard": fence.shard,
        "of_holder": fence.holder,
        "of_token": fence.token,
    }


class StoredLeases:
    """Implements `ports.stores.Leases`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def acquire(self, cadence: str, shard: str, holder: str, ttl_us: Micros) -> LeaseFence | None:
        if not holder:
            raise Refused("a lease needs a holder with a name")
        now = self._session.now()
        rows = self._session.change(
            _ACQUIRE,
            cadence=text("lease.cadence", cadence),
            shard=text("lease.shard", shard),
            holder=text("lease.holder", holder),
            token=1,
            acquired_at=now,
            expires_at=now + ttl_us,
        )
        return LeaseFence(cadence=cadence, shard=shard, holder=holder, token=rows[0][0]) if rows else None

    def release(self, fence: LeaseFence) -> None:
        self._session.change(_RELEASE, now=self._session.now(), **_named(fence))

    def check(self, fence: LeaseFence) -> Micros:
        """As the port says.  A lease past its end that nobody has taken is still ours; its end is for the caller."""
        row = self._session.row(_CHECK if self._session.writable else _CHECK_UNLOCKED, **_named(fence))
        if row is None:
            raise Fenced(
                f"the lease of {fence.cadence}/{fence.shard} is no longer held by {fence.holder} "
                f"under token {fence.token}",
                hint="stop writing and acquire it anew",
            )
        return int(row[0])

    def void_all(self) -> int:
        return len(self._session.change(_VOID_ALL, now=self._session.now()))

    def list(self) -> Sequence[Lease]:
        """Those that have a holder, lapsed ones included, by cadence and shard."""
        leases = (_lease(row) for row in self._session.rows(_LIST))
        return sorted(leases, key=lambda lease: (lease.fence.cadence, lease.fence.shard))
