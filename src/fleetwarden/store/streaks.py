"""Rows of failures, counted where the ledger is.

One statement for all targets of a pass.  It reads the executions of those targets within the span, with their watches,
and nothing else.  A repair whose watch failed is a failure, of the moment when that was seen.  A success ends the row
of its own request, and every row of other kinds on its target: a start that worked says that the restarts before it are
over, a restart of one replica says nothing about another.  A restart that is watched has worked once its watch says so.
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


def _is(column: sa.ColumnElement[str], value: str) -> sa.ColumnElement[bool]:
    return column == sa.literal_column(f"'{value}'")


def _rows() -> Statement:
    target = each_of("targets")
    bad, asked = schema.executions.alias("bad"), schema.outbox.alias("asked")
    good, done = schema.executions.alias("good"), schema.outbox.alias("done")
    seen, shown = schema.deploy_watches.alias("seen"), schema.deploy_watches.alias("shown")
    pending: sa.ColumnElement[str] = sa.literal_column("'recovery_pending'")
    fell = sa.and_(_is(bad.c.state, "executed"), _is(bad.c.kind, "restart_service"), _is(seen.c.status, "failed"))
    bad_at = sa.case((fell, seen.c.ended_at), else_=bad.c.at)
    restarted = _is(good.c.kind, "restart_service")
    good_at = sa.case((restarted, sa.func.coalesce(shown.c.ended_at, good.c.at)), else_=good.c.at)
    worked = sa.or_(
        shown.c.seq.is_(None),
        sa.not_(restarted),
        _is(shown.c.status, "success"),
        _is(shown.c.status, "unobserved"),  # nobody saw it fall
    )
    since_then = (
        sa.exists()
        .where(
            good.c.target == bad.c.target,
            good.c.state != pending,
            _is(good.c.state, "executed"),
            worked,
            good_at > bad_at,
            done.c.seq == good.c.action_seq,
            sa.or_(good.c.kind != bad.c.kind, done.c.request_digest == asked.c.request_digest),
        )
        .select_from(good.outerjoin(shown, shown.c.action_seq == good.c.action_seq), done)
    )
    return Statement(
        sa.select(
            bad.c.target,
            bad.c.kind,
            asked.c.request_digest,
            sa.func.count(),
            sa.func.min(bad_at),
            sa.func.max(bad_at),
        )
        .select_from(
            target.join(bad, bad.c.target == target.c.value)
            .join(asked, asked.c.seq == bad.c.action_seq)
            .outerjoin(seen, seen.c.action_seq == bad.c.action_seq)
        )
        .where(
            bad.c.state != pending,
            sa.or_(_is(bad.c.state, "failed"), fell),
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
