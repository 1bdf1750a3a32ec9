"""Threads against each other: whatever the order, exactly one wins."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from fleetwarden.domain.actions import Verdict
from fleetwarden.domain.errors import Conflict, Fenced, FleetError, IllegalMove, TargetBusy
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.ports.stores import Page, WorkDraft
from tests.contract.store.records import (
    decide,
    file_approval,
    finish,
    grant,
    prepare,
    prepare_granted,
    request,
    start,
    vote,
)

LONG = 3_600_000_000


def race(store, *functions):
    """Run each in a transaction of its own, all at once; what each returned or raised."""
    ready = threading.Barrier(len(functions))
    ends: list[Any] = [None] * len(functions)

    def run(number, function):
        ready.wait(10)
        try:
            ends[number] = store.transact(f"racer {number}", function)
        except FleetError as error:
            ends[number] = error

    threads = [threading.Thread(target=run, args=each) for each in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return ends


def errors(ends):
    return [end for end in ends if isinstance(end, FleetError)]


@pytest.mark.req("POL-6")
def test_two_admissions_never_both_take_the_last_slot(store):
    def admit(tx):
        tx.lock_admission(exclusive=True)
        used = tx.decisions.uses("restart_service", "web", tx.now() - LONG, dry_run=False, limit=10)
        return decide(tx, request(), Verdict.ALLOW if len(used) < 3 else Verdict.DENY).verdict

    verdicts = Counter(race(store, *[admit] * 8))
    assert verdicts == {Verdict.ALLOW: 3, Verdict.DENY: 5}


@pytest.mark.req("PRO-3")
def test_one_of_many_prepares_a_target(store):
    ends = race(store, *[prepare] * 6)
    assert [type(end) for end in errors(ends)] == [TargetBusy] * 5
    assert len(store.read(lambda tx: tx.outbox.in_state(OutboxState.PREPARED))) == 1


@pytest.mark.req("AUT-14", "AUT-20")
def test_a_redelivered_request_becomes_one_record(store):
    asked = request()
    decision = store.transact("decide", lambda tx: decide(tx, asked))
    ends = race(store, *[lambda tx: prepare(tx, asked, decision)] * 6)
    assert len({end.seq for end in ends}) == 1


@pytest.mark.req("AUT-20")
def test_one_of_many_executors_fences_a_record(store):
    record = store.transact("prepare", prepare)
    ends = race(store, *[lambda tx: start(tx, record)] * 6)
    assert [type(end) for end in errors(ends)] == [IllegalMove] * 5


@pytest.mark.req("AUT-20")
def test_an_outcome_and_a_settlement_never_both_count(store):
    running = store.transact("start", lambda tx: start(tx, prepare(tx)))
    ends = race(
        store,
        lambda tx: finish(tx, running, OutboxState.SUCCEEDED),
        lambda tx: finish(tx, running, OutboxState.FAILED),
    )
    assert [type(end) for end in errors(ends)] == [IllegalMove]


@pytest.mark.req("RUN-2")
def test_every_due_item_goes_to_exactly_one_claimant(store):
    drafts = [WorkDraft(kind="watch", key=f"w{number}", payload={}) for number in range(40)]
    store.transact("enqueue", lambda tx: [tx.work.enqueue(one) for one in drafts])
    claimants = [lambda tx, name=name: tx.work.claim(name, ["watch"], LONG, 10) for name in "abcdef"]
    claimed = Counter(item.seq for items in race(store, *claimants) for item in items)
    rest = store.transact("claim", lambda tx: tx.work.claim("g", ["watch"], LONG, 100))
    claimed.update(item.seq for item in rest)
    assert len(claimed) == 40
    assert set(claimed.values()) == {1}


@pytest.mark.req("RUN-2")
def test_many_who_enqueue_one_key_make_one_item(store):
    ends = race(store, *[lambda tx: tx.work.enqueue(WorkDraft(kind="drain", key="a", payload={}))] * 6)
    assert len({item.seq for item in ends}) == 1


@pytest.mark.req("RUN-1")
def test_one_of_many_takes_a_lapsed_lease(store, database):
    store.transact("acquire", lambda tx: tx.leases.acquire("tick", "0", "gone", 1_000))
    database.lapse()
    takers = [lambda tx, name=name: tx.leases.acquire("tick", "0", name, LONG) for name in "abcdef"]
    fences = [fence for fence in race(store, *takers) if fence is not None]
    assert [fence.token for fence in fences] == [2]


@pytest.mark.req("POL-7")
def test_one_approval_is_filed_by_many(store):
    ends = race(store, *[file_approval] * 6)
    assert [type(end) for end in errors(ends)] == [Conflict] * 5
    assert len(store.read(lambda tx: tx.approvals.list(Page()))) == 1


@pytest.mark.req("POL-7")
def test_of_a_grant_a_rejection_and_an_expiry_one_wins(store):
    approval = store.transact("file", file_approval)

    def end(to):
        return lambda tx: tx.approvals.move(approval.seq, came_from=ApprovalState.PENDING, to=to)

    ends = race(store, lambda tx: grant(tx, approval), end(ApprovalState.REJECTED), end(ApprovalState.EXPIRED))
    assert len(errors(ends)) == 2
    assert all(isinstance(error, Conflict) for error in errors(ends))


@pytest.mark.req("POL-7")
def test_no_vote_is_lost_among_voters(store):
    approval = store.transact("file", lambda tx: file_approval(tx, needed=5))
    race(store, *[lambda tx, name=name: tx.approvals.vote(approval.seq, vote(name)) for name in "abcde"])
    votes = store.read(lambda tx: tx.approvals.get(approval.seq)).votes
    assert sorted(one.by for one in votes) == list("abcde")


@pytest.mark.req("PRO-12", "PRO-1")
@pytest.mark.parametrize("attempt", range(5))
def test_a_fence_and_the_expiry_of_its_approval_never_both_succeed(store, attempt):
    approval = store.transact("file", file_approval)
    store.transact("grant", lambda tx: grant(tx, approval))
    record = store.transact("prepare", lambda tx: prepare_granted(tx, approval))

    def expire(tx):
        return tx.approvals.move(approval.seq, came_from=ApprovalState.GRANTED, to=ApprovalState.EXPIRED)

    ends = race(store, lambda tx: start(tx, record), expire)
    assert len(errors(ends)) == 1
    state = store.read(lambda tx: (tx.outbox.get(record.seq).state, tx.approvals.get(approval.seq).status))
    assert state in {
        (OutboxState.RUNNING, ApprovalState.GRANTED),
        (OutboxState.PREPARED, ApprovalState.EXPIRED),
    }


@pytest.mark.req("AUT-20", "RUN-1")
def test_a_takeover_waits_for_a_write_under_the_fence_or_the_write_is_refused(store, database):
    """At READ COMMITTED a fence that is only read lets the writer commit beside the takeover."""
    fence = store.transact("acquire", lambda tx: tx.leases.acquire("tick", "0", "old", 1_000))
    database.lapse()
    checked, taken = threading.Event(), threading.Event()
    order = []

    def old_writer(tx):
        tx.leases.check(fence)
        checked.set()
        taken.wait(0.2)  # gives the takeover every chance
        tx.journal.write(topic="notice", actor="old", summary="under the old fence")
        order.append("write")

    def takeover(tx):
        new = tx.leases.acquire("tick", "0", "new", LONG)
        order.append("takeover")
        taken.set()
        return new

    writer = threading.Thread(target=store.transact, args=("write", old_writer))
    writer.start()
    checked.wait(10)
    new = store.transact("takeover", takeover)
    writer.join()
    assert order == ["write", "takeover"]
    assert new.token == fence.token + 1
    with pytest.raises(Fenced):
        store.transact("late", lambda tx: tx.leases.check(fence))


def test_many_writers_and_readers_agree_in_the_end(store):
    stop = threading.Event()
    seen = []

    def reader():
        while not stop.is_set():
            seen.append(len(store.read(lambda tx: tx.journal.list(Page(limit=500)))))

    watching = threading.Thread(target=reader)
    watching.start()

    def write(tx):
        tx.journal.write(topic="notice", actor="test", summary="x")

    def writer():
        for _ in range(25):
            store.transact("write", write)

    writers = [threading.Thread(target=writer) for _ in range(8)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    watching.join()
    assert seen == sorted(seen)
    assert len(store.read(lambda tx: tx.journal.list(Page(limit=500)))) == 200


def interleaved(store, first, second):
    """Run `first` and hold its transaction open while `second` tries; what became of each, and in which order."""
    inside, tried, order = threading.Event(), threading.Event(), []

    def holding(tx):
        first(tx)
        inside.set()
        tried.wait(0.2)  # gives the second every chance
        order.append("first")

    def trying(tx):
        value = second(tx)
        order.append("second")
        return value

    holder = threading.Thread(target=store.transact, args=("first", holding))
    holder.start()
    inside.wait(10)
    try:
        end = store.transact("second", trying)
    except FleetError as error:
        end = error
    tried.set()
    holder.join()
    return order, end


@pytest.mark.req("AUT-20")
def test_a_record_that_a_write_transaction_has_read_stays_as_it_is_until_its_end(store):
    record = store.transact("prepare", prepare)
    order, _ = interleaved(store, lambda tx: tx.outbox.get(record.seq), lambda tx: start(tx, record))
    assert order == ["first", "second"]


@pytest.mark.req("PRO-12")
def test_while_a_fence_is_being_committed_its_approval_cannot_end(store):
    approval = store.transact("file", file_approval)
    store.transact("grant", lambda tx: grant(tx, approval))
    record = store.transact("prepare", lambda tx: prepare_granted(tx, approval))
    order, end = interleaved(
        store,
        lambda tx: start(tx, record),
        lambda tx: tx.approvals.move(approval.seq, came_from=ApprovalState.GRANTED, to=ApprovalState.EXPIRED),
    )
    assert order == ["first"]
    assert isinstance(end, Conflict)


@pytest.mark.req("PRO-1")
def test_while_the_end_of_an_approval_is_being_committed_its_action_cannot_be_fenced(store):
    approval = store.transact("file", file_approval)
    store.transact("grant", lambda tx: grant(tx, approval))
    record = store.transact("prepare", lambda tx: prepare_granted(tx, approval))
    order, end = interleaved(
        store,
        lambda tx: tx.approvals.move(approval.seq, came_from=ApprovalState.GRANTED, to=ApprovalState.REJECTED),
        lambda tx: start(tx, record),
    )
    assert order == ["first"]
    assert isinstance(end, Conflict)
    assert "rejected" in str(end)
