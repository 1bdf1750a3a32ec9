"""The outbox: one row per side effect, and only its state says whether it may be called."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetwarden.domain.actions import Outcome
from fleetwarden.domain.errors import Conflict, IllegalMove, NotFound, OutboxConflict, Refused, TargetBusy
from fleetwarden.domain.lifecycles import OPEN_RECORDS, OUTBOX, ApprovalState, OutboxState
from fleetwarden.ports.stores import Page
from tests.contract.store.records import (
    DONE,
    FENCE,
    HOUR,
    carried_out,
    decide,
    file_approval,
    finish,
    grant,
    prepare,
    prepare_granted,
    request,
    start,
)

UNKNOWN = Outcome(ok=False, unknown_outcome=True, code="timeout")


@pytest.mark.req("AUT-7")
def test_a_prepared_record_carries_key_digest_request_decision_and_expiry(store):
    asked = request(params={"replicas": 2}, identity={"host": "h1"})
    written = store.transact("prepare", lambda tx: prepare(tx, asked, host="h1", policy_digest="sha256:9"))
    record = store.read(lambda tx: tx.outbox.get(written.seq))
    assert record == written
    assert (record.key, record.request, record.request_digest) == (asked.key, asked, asked.digest())
    assert (record.state, record.host, record.policy_digest) == (OutboxState.PREPARED, "h1", "sha256:9")
    assert record.expires_at == record.prepared_at + HOUR
    assert (record.fence, record.started_at, record.finished_at, record.outcome) == (None, None, None, None)


@pytest.mark.req("AUT-14")
@pytest.mark.parametrize("state", ["prepared", "running", "succeeded"])
def test_the_same_key_and_request_again_returns_the_row_that_is_there(store, state):
    asked = request()
    moves = {"prepared": prepare, "running": lambda tx, asked: start(tx, prepare(tx, asked)), "succeeded": carried_out}
    record = store.transact("first", lambda tx: moves[state](tx, asked))
    again = store.transact("again", lambda tx: prepare(tx, msgspec.structs.replace(asked, reason="other words")))
    assert again == record
    assert again.state.value == state


@pytest.mark.req("AUT-14")
def test_the_same_key_with_another_request_is_a_conflict(store):
    asked = request(params={"replicas": 3})
    store.transact("first", lambda tx: prepare(tx, asked))
    with pytest.raises(OutboxConflict, match="X-"):
        store.transact("other", lambda tx: prepare(tx, msgspec.structs.replace(asked, params={"replicas": 9})))


@pytest.mark.req("AUT-14")
def test_an_abandoned_key_may_be_prepared_again_as_a_new_row(store):
    asked = request()

    def run(tx):
        decision = decide(tx, asked)
        return decision, tx.outbox.abandon(prepare(tx, asked, decision).seq, "expired")

    decision, abandoned = store.transact("abandon", run)
    assert store.read(lambda tx: tx.outbox.by_key(asked.key)) == abandoned
    fresh = store.transact("again", lambda tx: prepare(tx, asked, decision))
    assert fresh.seq != abandoned.seq
    assert store.read(lambda tx: tx.outbox.by_key(asked.key)) == fresh


@pytest.mark.req("PRO-3")
@pytest.mark.parametrize("state", OPEN_RECORDS)
def test_a_second_open_record_of_a_target_is_refused_whatever_its_kind(store, state):
    def run(tx):
        record = prepare(tx)
        if state is not OutboxState.PREPARED:
            record = start(tx, record)
        return finish(tx, record, state, outcome=UNKNOWN) if state is OutboxState.RECOVERY_PENDING else record

    record = store.transact("first", run)
    with pytest.raises(TargetBusy, match=record.id):
        store.transact("second", lambda tx: prepare(tx, request(kind="scale_service", source="operator")))
    assert store.read(lambda tx: tx.outbox.open_of("web")) == record


@pytest.mark.req("PRO-3")
def test_after_the_end_of_a_record_its_target_is_free(store):
    store.transact("first", carried_out)
    assert store.read(lambda tx: tx.outbox.open_of("web")) is None
    store.transact("second", prepare)


@pytest.mark.req("PRO-3")
def test_a_busy_target_does_not_spoil_the_rest_of_its_transaction(store):
    store.transact("first", prepare)

    def run(tx):
        with pytest.raises(TargetBusy):
            prepare(tx, request("web"))
        return prepare(tx, request("db"))

    assert store.transact("list", run).request.target == "db"
    assert store.read(lambda tx: tx.outbox.open_of("db")) is not None


def test_a_decision_leads_to_one_record(store):
    def run(tx):
        decision = decide(tx)
        prepare(tx, request("web"), decision)
        prepare(tx, request("db"), decision)

    with pytest.raises(Conflict, match="has led to"):
        store.transact("twice", run)


def test_a_record_needs_a_decision_that_exists(store):
    decision = store.transact("decide", decide)
    with pytest.raises(NotFound):
        store.transact("prepare", lambda tx: prepare(tx, decision=msgspec.structs.replace(decision, seq=99)))
    assert store.read(lambda tx: tx.outbox.list(Page())) == []


@pytest.mark.req("AUT-7")
def test_commit_1_writes_fence_time_and_horizon(store, database):
    record = store.transact("prepare", prepare)
    database.lapse()
    now, running = store.transact(
        "start",
        lambda tx: (
            tx.now(),
            start(tx, record, horizon_at=tx.now() + 5, final_if_acknowledged=False, negatives_by_person=True),
        ),
    )
    assert running == store.read(lambda tx: tx.outbox.get(record.seq))
    assert (running.state, running.fence, running.started_at) == (OutboxState.RUNNING, FENCE, now)
    assert running.horizon_at == now + 5
    assert (running.final_if_acknowledged, running.negatives_by_person) == (False, True)


@pytest.mark.req("AUT-20")
@pytest.mark.parametrize("state", ["running", "succeeded", "abandoned"])
def test_a_record_is_fenced_once(store, state):
    def run(tx):
        record = prepare(tx)
        if state == "abandoned":
            return tx.outbox.abandon(record.seq, "expired")
        return start(tx, record) if state == "running" else finish(tx, start(tx, record))

    record = store.transact("first", run)
    with pytest.raises(IllegalMove, match=state):
        store.transact("start", lambda tx: start(tx, record))
    assert store.read(lambda tx: tx.outbox.get(record.seq)) == record


@pytest.mark.req("AUT-7")
@pytest.mark.parametrize(
    "changed", [{"params": {"replicas": 9}}, {"target": "db"}, {"identity": {"uid": "b"}}, {"key": "k"}]
)
def test_what_is_fenced_is_what_was_decided(store, changed):
    record = store.transact("prepare", lambda tx: prepare(tx, request(params={"replicas": 2}, identity={"uid": "a"})))
    other = msgspec.structs.replace(record.request, **changed)
    with pytest.raises(OutboxConflict, match="authorised for another request"):
        store.transact("start", lambda tx: start(tx, record, request=other))
    assert store.read(lambda tx: tx.outbox.get(record.seq)) == record


def test_fresher_evidence_is_still_the_same_request(store):
    record = store.transact("prepare", prepare)
    evidence = msgspec.structs.replace(record.request.evidence, observed_at=5, reason="down")
    fresh = msgspec.structs.replace(record.request, evidence=evidence)
    assert store.transact("start", lambda tx: start(tx, record, request=fresh)).request == fresh


@pytest.mark.req("PRO-1")
@pytest.mark.parametrize("end", [ApprovalState.REJECTED, ApprovalState.EXPIRED, ApprovalState.VOIDED])
def test_a_record_is_not_fenced_on_an_approval_that_has_ended(store, end):
    approval = store.transact("file", file_approval)
    store.transact("grant", lambda tx: grant(tx, approval))
    record = store.transact("prepare", lambda tx: prepare_granted(tx, approval))
    store.transact("end", lambda tx: tx.approvals.move(approval.seq, came_from=ApprovalState.GRANTED, to=end))

    def run(tx):
        with pytest.raises(Conflict, match=end.value):
            start(tx, record)
        return tx.outbox.get(record.seq)

    assert store.transact("start", run).state is OutboxState.PREPARED


@pytest.mark.req("AUT-10", "AUT-14")
def test_an_unknown_outcome_is_kept_open_until_it_is_settled(store, database):
    record = store.transact("start", lambda tx: start(tx, prepare(tx)))
    pending = store.transact("lost", lambda tx: finish(tx, record, OutboxState.RECOVERY_PENDING, outcome=UNKNOWN))
    assert (pending.finished_at, pending.outcome) == (None, UNKNOWN)
    assert store.read(lambda tx: tx.outbox.open_of("web")) == pending
    database.lapse()
    now, settled = store.transact(
        "settle", lambda tx: (tx.now(), finish(tx, pending, settled_by="evidence", note="new pid 12"))
    )
    assert (settled.state, settled.finished_at, settled.settled_by) == (OutboxState.SUCCEEDED, now, "evidence")
    assert (settled.note, settled.outcome) == ("new pid 12", DONE)


@pytest.mark.req("AUT-20")
def test_an_outcome_is_written_once(store):
    record = store.transact("start", lambda tx: start(tx, prepare(tx)))
    ended = store.transact("first", lambda tx: finish(tx, record, OutboxState.FAILED, outcome=Outcome(ok=False)))
    with pytest.raises(IllegalMove, match="failed"):
        store.transact("second", lambda tx: finish(tx, record))
    assert store.read(lambda tx: tx.outbox.get(record.seq)) == ended


numbers = itertools.count()


@given(came_from=st.sampled_from(OutboxState), to=st.sampled_from(OutboxState), really=st.sampled_from(OPEN_RECORDS))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_record_finishes_by_a_move_that_its_lifecycle_does_not_hold(store, came_from, to, really):
    def run(tx):
        record = prepare(tx, request(f"web-{next(numbers)}"))
        if really is not OutboxState.PREPARED:
            record = start(tx, record)
        if really is OutboxState.RECOVERY_PENDING:
            record = finish(tx, record, really, outcome=UNKNOWN)
        legal = came_from is really and to in OUTBOX.moves.get(came_from, ()) and to not in ("running", "abandoned")
        if legal:
            assert finish(tx, record, to).state is to
        else:
            with pytest.raises(IllegalMove):
                finish(tx, record, to, came_from=came_from)
            assert tx.outbox.get(record.seq) == record
            if not OUTBOX.is_end(record.state) and record.state is not OutboxState.PREPARED:
                finish(tx, record, OutboxState.FAILED)

    store.transact("finish", run)


def test_only_a_prepared_record_is_abandoned(store):
    record = store.transact("start", lambda tx: start(tx, prepare(tx)))
    with pytest.raises(IllegalMove, match="running"):
        store.transact("abandon", lambda tx: tx.outbox.abandon(record.seq, "too late"))


def test_abandoning_says_when_and_why(store):
    record = store.transact("abandon", lambda tx: tx.outbox.abandon(prepare(tx).seq, "its authorisation lapsed"))
    assert (record.state, record.note, record.finished_at) == (
        OutboxState.ABANDONED,
        "its authorisation lapsed",
        record.prepared_at,
    )


def test_a_record_that_does_not_exist_is_not_found(store):
    for act in (
        lambda tx: tx.outbox.get(99),
        lambda tx: tx.outbox.abandon(99, ""),
        lambda tx: tx.outbox.finish(99, came_from=OutboxState.RUNNING, to=OutboxState.FAILED, outcome=DONE),
    ):
        with pytest.raises(NotFound, match="X-99"):
            store.transact("nowhere", act)
    assert store.read(lambda tx: tx.outbox.by_key("nowhere")) is None


@pytest.mark.req("PRO-14", "PRO-15")
def test_open_records_are_found_by_state_oldest_first_with_the_fence_that_began_them(store):
    def run(tx):
        waiting = prepare(tx, request("a"))
        begun = start(tx, prepare(tx, request("b")))
        lost = finish(tx, start(tx, prepare(tx, request("c"))), OutboxState.RECOVERY_PENDING, outcome=UNKNOWN)
        carried_out(tx, request("d"))
        return waiting, begun, lost

    waiting, begun, lost = store.transact("act", run)

    def found(*states):
        return store.read(lambda tx: tx.outbox.in_state(*states))

    assert found(OutboxState.PREPARED) == [waiting]
    assert found(OutboxState.RECOVERY_PENDING, OutboxState.RUNNING) == [begun, lost]
    assert found(*OPEN_RECORDS) == [waiting, begun, lost]
    assert {record.fence for record in found(OutboxState.RUNNING)} == {FENCE}
    assert found() == []
    with pytest.raises(Refused, match="succeeded"):
        found(OutboxState.SUCCEEDED)


def test_the_last_call_of_a_target_is_the_one_with_the_newest_commit_1(store, database):
    assert store.read(lambda tx: tx.outbox.last_called("web")) is None
    called = store.transact("act", carried_out)
    database.lapse()
    store.transact("never called", lambda tx: tx.outbox.abandon(prepare(tx).seq, "expired"))
    store.transact("not called yet", prepare)
    assert store.read(lambda tx: tx.outbox.last_called("web")) == called


def test_the_record_of_an_approval_is_the_newest_that_was_not_abandoned(store):
    approval = store.transact("file", file_approval)
    store.transact("grant", lambda tx: grant(tx, approval))
    assert store.read(lambda tx: tx.outbox.by_approval(approval.seq)) is None
    first = store.transact("prepare", lambda tx: prepare_granted(tx, approval))
    assert store.read(lambda tx: tx.outbox.by_approval(approval.seq)) == first
    store.transact("abandon", lambda tx: tx.outbox.abandon(first.seq, "frozen"))
    assert store.read(lambda tx: tx.outbox.by_approval(approval.seq)) is None


def test_records_are_listed_by_target_kind_and_state(store):
    def run(tx):
        carried_out(tx, request("web"))
        return prepare(tx, request("web", "scale_service")), carried_out(tx, request("db"))

    open_, other = store.transact("act", run)

    def listed(**filters):
        return store.read(lambda tx: tx.outbox.list(Page(**filters)))

    assert listed(target="web", state="prepared") == [open_]
    assert listed(kind="scale_service") == [open_]
    assert listed(state="succeeded", limit=1) == [other]
    assert len(listed()) == 3
