"""Votes that were cast before there was a table of votes count on after the migration."""

from __future__ import annotations

import json
import sqlite3

import psycopg
import pytest

from fleetwarden.domain.errors import Conflict
from fleetwarden.domain.lifecycles import ApprovalState
from fleetwarden.store.opening import open_store
from fleetwarden.testing.system import FakeClock
from tests.contract.store.records import file_approval, vote
from tests.migration.test_schema import migrated_postgresql, migrated_sqlite

VOTES = json.dumps([{"at": 5, "by": "ann", "decision": "approved", "reason": "fine"}])
DECISION = """INSERT INTO decisions (at, kind, target, source, key, dry_run, request, request_digest, verdict, code,
 reason, rule, rule_source, policy_digest, numbers, waives)
 VALUES (1, 'restart_service', 'web', 'reconciler', 'k', 0, '{request}', 'd', 'queue_approval', 'tier',
 '', '', '', '', '{{}}', '[]')"""
APPROVAL = """INSERT INTO approvals (status, kind, target, request, digest, decision_seq, reason, waives, created_at,
 expires_at, needed, votes, note)
 VALUES ('pending', 'restart_service', 'web', '{request}', 'd', 1, '', '[]', 1, 9000000000000000,
 '{{"count":2,"teams":[]}}', '{votes}', '')"""
REQUEST = json.dumps(
    {"kind": "restart_service", "target": "web", "source": "reconciler", "requested_by": "reconciler", "key": "k"}
)


def older(run):
    """A pending approval that needs two, with one vote, as release 0001 wrote it."""
    run(DECISION.format(request=REQUEST))
    run(APPROVAL.format(request=REQUEST, votes=VOTES))


def counts_on(store):
    with pytest.raises(Conflict, match="ann has voted"):
        store.transact("again", lambda tx: tx.approvals.vote(1, vote("ann")))
    store.transact("second", lambda tx: tx.approvals.vote(1, vote("bob")))
    granted = store.transact(
        "grant", lambda tx: tx.approvals.move(1, came_from=ApprovalState.PENDING, to=ApprovalState.GRANTED)
    )
    assert [one.by for one in granted.votes] == ["ann", "bob"]
    assert store.transact("new", file_approval).votes == ()


@pytest.mark.req("POL-18", "RUN-13")
def test_on_sqlite_old_votes_count_on(tmp_path):
    path = tmp_path / "fleet.db"
    migrated_sqlite(path, "0005")
    connection = sqlite3.connect(path)
    older(connection.execute)
    connection.commit()
    connection.close()
    migrated_sqlite(path)
    store = open_store(str(path), FakeClock())
    counts_on(store)
    store.close()


@pytest.mark.req("POL-18", "RUN-13")
@pytest.mark.needs("postgresql")
def test_on_postgresql_old_votes_count_on(postgresql):
    url = postgresql.url(postgresql.empty_database())
    migrated_postgresql(url, "0005")
    with psycopg.connect(url) as connection:
        older(lambda statement: connection.execute(statement.encode()))
    migrated_postgresql(url)
    store = open_store(url, FakeClock())
    counts_on(store)
    store.close()
