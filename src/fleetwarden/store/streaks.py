"""Rows of failures, counted where the ledger is.

One statement for all targets of a pass.  It reads the executions of those targets within the span and nothing else.  A
success ends the row of its own request, and every row of other kinds on its target: a start that worked says that the
restarts before it are over, a restart of one replica says nothing about another.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.repeated_failures import Streak
from fleetwarden.store import schema
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Statement, each_of, param

__all__ = ["failing"]


def _rows() -> Statement:
    target = each_of("targets")
    bad, asked = schema.executions.alias("bad"), schema.outbox.alias("asked")
    good, done = schema.executions.alias("good"), schema.outbox.alias("done")
    pending: sa.ColumnElement[str] = sa.literal_column("'recovery_pending'")
    since_then = (
        sa.exists()
        .where(
            good.c.target == bad.c.target,
            good.c.state != pending,
            good.c.state == sa.literal_column("'executed'"),
            good.c.at > bad.c.at,
            done.c.seq == good.c.action_seq,
            sa.or_(good.c.kind != bad.c.kind, done.c.request_digest == asked.c.request_digest),
        )
        .select_from(good, done)
    )
    return Statement(
        sa.select(
            bad.c.target,
            bad.c.kind,
            asked.c.request_digest,
            sa.func.count(),
            sa.func.min(bad.c.at),
            sa.func.max(bad.c.at),
        )
        .select_from(target.join(bad, bad.c.target == target.c.value).join(asked, asked.c.seq == bad.c.action_seq))
        .where(
            bad.c.state != pending,
            bad.c.state == sa.literal_column("'failed'"),
            bad.c.dry_run == sa.literal_column("0"),
            bad.c.at > param("since"),
            sa.not_(since_then),
        )
        .group_by(bad.c.target, bad.c.kind, asked.c.request_digest)
        .order_by(bad.c.target, bad.c.kind, asked.c.request_digest)
    )


_ROWS = _rows()


def failing(session: Session, targets: Sequence[str], since: Micros) -> list[Streak]:
    """See `ports.stores.Executions.failing`."""
    if not targets:
        return []
    rows = session.rows(_ROWS, targets=session.array(targets), since=since)
    return [
        Streak(target=target, kind=kind, digest=digest, count=int(count), first_at=first_at, last_at=last_at)
        for target, kind, digest, count, first_at, last_at in rows
    ]
