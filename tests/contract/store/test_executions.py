"""The ledger of executions: derived from the outbox, and rebuilt from it where a row is missing."""

from __future__ import annotations

import msgspec
import pytest

from fleetwarden.domain.actions import ExecutionState, Outcome
from fleetwarden.domain.errors import NotFound
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.ports.stores import ExecutionDraft, Page
from tests.contract.store.records import carried_out, finish, prepare, request, start

UNKNOWN = Outcome(ok=False, unknown_outcome=True, code="timeout")


def draft(record, state=ExecutionState.EXECUTED, at=1_000, **changed):
    values = {
        "action_seq": record.seq,
        "decision_seq": record.decision_seq,
        "at": at,
        "kind": record.request.kind,
        "target": record.request.target,
        "source": record.request.source,
        "state": state,
        "ok": state is not ExecutionState.FAILED,
        "dry_run": False,
        "code": "",
        "detail": "restarted",
        "started_at": 5,
        "finished_at": 9,
        "evidence": {"pid": 12},
    }
    return ExecutionDraft(**{**values, **changed})


def written(store, *drafts):
    return store.transact("write", lambda tx: [tx.executions.append(one) for one in drafts])


def test_an_execution_is_read_back_as_it_was_written(store):
    record = store.transact("act", carried_out)
    [execution] = written(store, draft(record))
    assert store.read(lambda tx: tx.executions.of_action(record.seq)) == [execution]
    fields = msgspec.structs.asdict(draft(record))
    assert {name: getattr(execution, name) for name in fields} == fields


@pytest.mark.req("AUT-16")
def test_one_row_per_action_and_state(store):
    record = store.transact("act", carried_out)
    pending, first = written(store, draft(record, ExecutionState.RECOVERY_PENDING), draft(record))
    [again] = written(store, draft(record, at=2_000, detail="other words"))
    assert again == first
    assert store.read(lambda tx: tx.executions.of_action(record.seq)) == [pending, first]


def test_an_execution_needs_an_action_that_exists(store):
    record = store.transact("act", carried_out)
    with pytest.raises(NotFound):
        written(store, draft(record, action_seq=99))


@pytest.mark.req("AUT-16")
@pytest.mark.parametrize(
    ("end", "state", "ok"),
    [
        (OutboxState.SUCCEEDED, ExecutionState.EXECUTED, True),
        (OutboxState.FAILED, ExecutionState.FAILED, False),
        (OutboxState.SIMULATED, ExecutionState.SIMULATED, True),
    ],
)
def test_a_missing_row_is_rebuilt_from_the_outbox(store, end, state, ok):
    outcome = Outcome(ok=ok, dry_run=end is OutboxState.SIMULATED, code="" if ok else "exit", evidence={"pid": 7})
    record = store.transact("act", lambda tx: finish(tx, start(tx, prepare(tx)), end, outcome=outcome))
    assert store.transact("rebuild", lambda tx: tx.executions.rebuild(record.finished_at - 1)) == 1
    [row] = store.read(lambda tx: tx.executions.of_action(record.seq))
    assert (row.state, row.ok, row.dry_run) == (state, ok, end is OutboxState.SIMULATED)
    assert (row.decision_seq, row.kind, row.target, row.source) == (
        record.decision_seq,
        "restart_service",
        "web",
        "reconciler",
    )
    assert (row.at, row.started_at, row.finished_at) == (record.finished_at, record.started_at, record.finished_at)
    assert (row.code, row.evidence) == (outcome.code, {"pid": 7})
    assert store.transact("again", lambda tx: tx.executions.rebuild(0)) == 0


@pytest.mark.req("AUT-16")
def test_nothing_is_rebuilt_that_is_there_or_has_not_ended_or_ended_earlier(store, database):
    old = store.transact("old", carried_out)
    database.lapse()
    there = store.transact("there", carried_out)
    written(store, draft(there))
    store.transact("running", lambda tx: start(tx, prepare(tx, request("a"))))
    lost = store.transact("lost", lambda tx: start(tx, prepare(tx, request("b"))))
    store.transact("unknown", lambda tx: finish(tx, lost, OutboxState.RECOVERY_PENDING, outcome=UNKNOWN))
    store.transact("abandoned", lambda tx: tx.outbox.abandon(prepare(tx, request("c")).seq, "expired"))
    assert store.transact("rebuild", lambda tx: tx.executions.rebuild(old.finished_at)) == 0


@pytest.mark.req("AUT-16")
def test_a_settled_unknown_outcome_gets_its_final_row_too(store):
    lost = store.transact("lost", lambda tx: start(tx, prepare(tx)))
    pending = store.transact("unknown", lambda tx: finish(tx, lost, OutboxState.RECOVERY_PENDING, outcome=UNKNOWN))
    written(store, draft(pending, ExecutionState.RECOVERY_PENDING))
    store.transact("settle", lambda tx: finish(tx, pending, settled_by="ann"))
    assert store.transact("rebuild", lambda tx: tx.executions.rebuild(0)) == 1
    states = [row.state for row in store.read(lambda tx: tx.executions.of_action(lost.seq))]
    assert states == [ExecutionState.RECOVERY_PENDING, ExecutionState.EXECUTED]


@pytest.mark.req("AUT-10")
def test_the_latest_execution_is_the_newest_by_time_and_never_an_unknown_one(store):
    first, second, third = (store.transact("act", carried_out) for _ in range(3))
    other = store.transact("act", lambda tx: carried_out(tx, request("db")))
    newest, _, _, of_other = written(
        store,
        draft(first, at=3_000),
        draft(second, ExecutionState.FAILED, at=2_000),
        draft(third, ExecutionState.RECOVERY_PENDING, at=9_000),
        draft(other, at=1),
    )
    assert store.read(lambda tx: tx.executions.latest_of_target("web")) == newest
    assert store.read(lambda tx: tx.executions.latest_of_target("unheard-of")) is None
    by_target = store.read(lambda tx: tx.executions.latest_by_target(["web", "db", "unheard-of"]))
    assert by_target == {"web": newest, "db": of_other}


def test_executions_are_listed_by_target_kind_state_and_time(store):
    first, second = (store.transact("act", lambda tx, name=name: carried_out(tx, request(name))) for name in "ab")
    one, two = written(store, draft(first, at=10), draft(second, ExecutionState.FAILED, at=20))

    def listed(**filters):
        return store.read(lambda tx: tx.executions.list(Page(**filters)))

    assert listed() == [two, one]
    assert listed(target="a") == [one]
    assert listed(state="failed", kind="restart_service") == [two]
    assert listed(since=11) == [two]
    assert listed(before=two.seq) == [one]
