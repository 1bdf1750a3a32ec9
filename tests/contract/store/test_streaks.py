"""Rows of failures, as the ledger tells them on both databases."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.domain.actions import ExecutionState
from fleetwarden.domain.lifecycles import OutboxState
from tests.contract.store.records import carried_out, request
from tests.contract.store.test_executions import draft, written

FAILED, DONE, SIMULATED = ExecutionState.FAILED, ExecutionState.EXECUTED, ExecutionState.SIMULATED
UNKNOWN = ExecutionState.RECOVERY_PENDING
_ENDS = {FAILED: OutboxState.FAILED, DONE: OutboxState.SUCCEEDED, SIMULATED: OutboxState.SIMULATED}


@pytest.fixture
def ledger(store):
    """`ledger((state, at, fields of the request), …)` writes whole actions; each is dated by hand."""

    def write(*rows):
        for state, at, fields in rows:
            asked = request(**fields)
            record = store.transact("act", lambda tx, asked=asked, state=state: carried_out(tx, asked, _ENDS[state]))
            written(store, draft(record, state, at=at, dry_run=state is SIMULATED))

    return write


def failing(store, *targets, since=0):
    return store.read(lambda tx: tx.executions.failing(targets, since))


@pytest.mark.req("REC-6")
def test_failures_in_a_row_are_counted_for_each_request(store, ledger):
    web: dict[str, Any] = {}
    other: dict[str, Any] = {"params": {"replica": 1}}
    ledger((FAILED, 10, web), (FAILED, 20, web), (FAILED, 30, other), (FAILED, 40, {"target": "db"}))
    found = {(one.target, one.digest): one for one in failing(store, "web", "db", "none")}
    row = found["web", request().digest()]
    assert (row.kind, row.count, row.first_at, row.last_at) == ("restart_service", 2, 10, 20)
    assert found["web", request(**other).digest()].count == 1
    assert found["db", request("db").digest()].count == 1
    assert len(found) == 3


@pytest.mark.req("REC-6")
def test_a_success_ends_the_row_of_its_request_and_of_every_other_kind(store, ledger):
    first: dict[str, Any] = {"params": {"replica": 0}}
    second: dict[str, Any] = {"params": {"replica": 1}}
    start = {"kind": "start_service"}
    ledger((FAILED, 10, first), (FAILED, 11, second), (FAILED, 12, start), (DONE, 20, second))
    assert [(one.digest, one.count) for one in failing(store, "web")] == [(request(**first).digest(), 1)]
    ledger((FAILED, 30, second), (FAILED, 40, first), (DONE, 50, start), (FAILED, 60, first))
    assert [(one.digest, one.count) for one in failing(store, "web")] == [(request(**first).digest(), 1)]


@pytest.mark.req("REC-6")
def test_dry_runs_unknown_outcomes_and_what_is_long_ago_count_for_nothing(store, ledger):
    ledger((FAILED, 10, {}), (FAILED, 20, {}), (SIMULATED, 30, {}))
    record = store.transact("act", carried_out)
    written(store, draft(record, UNKNOWN, at=40))
    assert [one.count for one in failing(store, "web")] == [2]
    assert [one.count for one in failing(store, "web", since=10)] == [1]
    assert failing(store) == []
