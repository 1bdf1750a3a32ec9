"""Work items: lease, token, attempts, backoff, dead letter."""

from __future__ import annotations

import pytest

from fleetwarden.domain.errors import Fenced, IllegalMove, NotFound
from fleetwarden.domain.lifecycles import WorkState
from fleetwarden.ports.stores import Page, WorkDraft

LONG, SHORT = 3_600_000_000, 1_000  # a lease that outlives the test, and one that does not outlive `database.lapse()`


def draft(key="w1", kind="watch", **changed):
    return WorkDraft(**{"kind": kind, "key": key, "payload": {"service": "web"}, **changed})


def enqueue(store, *drafts):
    return store.transact("enqueue", lambda tx: [tx.work.enqueue(one) for one in drafts])


def claim(store, kinds=("watch",), lease=LONG, limit=10, holder="plane-1"):
    return store.transact("claim", lambda tx: tx.work.claim(holder, kinds, lease, limit))


def act(store, call, *args, **options):
    return store.transact(call, lambda tx: getattr(tx.work, call)(*args, **options))


@pytest.mark.req("RUN-2")
def test_an_item_is_read_back_as_it_was_enqueued(store):
    [item] = enqueue(store, draft(target="web", host="h1", not_before=5, deadline=9, max_attempts=3))
    assert store.read(lambda tx: tx.work.get(item.seq)) == item
    assert (item.state, item.attempts, item.max_attempts, item.token) == (WorkState.READY, 0, 3, 0)
    assert (item.target, item.host, item.not_before, item.deadline) == ("web", "h1", 5, 9)
    assert (item.payload, item.result, item.error, item.holder) == ({"service": "web"}, {}, "", "")
    assert item.created_at == item.updated_at


@pytest.mark.req("RUN-2")
def test_a_key_is_open_once_while_ready_or_leased(store):
    [first] = enqueue(store, draft(not_before=500))
    [again] = enqueue(store, draft(not_before=900, payload={"other": 1}))
    assert again == first
    [sooner] = enqueue(store, draft(not_before=100))
    assert (sooner.seq, sooner.not_before, sooner.payload) == (first.seq, 100, first.payload)
    [leased] = claim(store)
    [still] = enqueue(store, draft())
    assert (still.seq, still.state, still.lease_until) == (first.seq, WorkState.LEASED, leased.lease_until)
    assert claim(store) == []
    act(store, "complete", leased.seq, leased.token, {})
    [fresh] = enqueue(store, draft())
    assert fresh.seq != first.seq


@pytest.mark.req("RUN-2")
def test_what_is_due_is_claimed_once_longest_due_first(store):
    late = store.read(lambda tx: tx.now()) + LONG
    third, first, second, _, _ = enqueue(
        store,
        draft("c", not_before=30),
        draft("a", not_before=10),
        draft("b", not_before=20),
        draft("later", not_before=late),
        draft("other", kind="drain"),
    )
    claimed = claim(store, limit=2)
    assert [item.seq for item in claimed] == [first.seq, second.seq]
    assert {(item.state, item.attempts, item.token, item.holder) for item in claimed} == {
        (WorkState.LEASED, 1, 1, "plane-1")
    }
    assert [item.seq for item in claim(store)] == [third.seq]
    assert claim(store) == []
    assert claim(store, kinds=()) == []
    assert len(claim(store, kinds=("watch", "drain"))) == 1


@pytest.mark.req("RUN-2")
def test_a_lapsed_lease_is_taken_over_under_a_new_token(store, database):
    enqueue(store, draft())
    [old] = claim(store, lease=SHORT)
    database.lapse()
    [new] = claim(store, holder="plane-2")
    assert (new.seq, new.token, new.attempts, new.holder) == (old.seq, old.token + 1, 2, "plane-2")
    for call, extra in (
        ("complete", ({},)),
        ("bury", ("gave up",)),
        ("extend", (LONG,)),
    ):
        with pytest.raises(Fenced, match="plane-2"):
            act(store, call, old.seq, old.token, *extra)
    with pytest.raises(Fenced):
        act(store, "again", old.seq, old.token, not_before=0)
    assert store.read(lambda tx: tx.work.get(old.seq)) == new


@pytest.mark.req("RUN-2")
def test_an_extended_lease_is_not_taken_over(store, database):
    enqueue(store, draft())
    [item] = claim(store, lease=SHORT)
    extended = act(store, "extend", item.seq, item.token, LONG)
    assert extended.lease_until > item.lease_until
    database.lapse()
    assert claim(store, holder="plane-2") == []


@pytest.mark.req("RUN-2")
def test_a_lapsed_lease_that_nobody_took_can_still_be_completed(store, database):
    enqueue(store, draft())
    [item] = claim(store, lease=SHORT)
    database.lapse()
    done = act(store, "complete", item.seq, item.token, {"did": 1})
    assert (done.state, done.result, done.lease_until) == (WorkState.DONE, {"did": 1}, None)


@pytest.mark.req("RUN-2")
def test_a_failure_keeps_its_attempts_and_waits(store, database):
    [due] = enqueue(store, draft())
    [item] = claim(store)
    later = store.read(lambda tx: tx.now()) + 1_500
    back = act(store, "again", item.seq, item.token, not_before=later, error="timeout")
    assert (back.state, back.attempts, back.not_before, back.error) == (WorkState.READY, 1, later, "timeout")
    assert (back.holder, back.lease_until) == ("", None)
    database.lapse()
    [retried] = claim(store)
    assert (retried.seq, retried.attempts, retried.token) == (due.seq, 2, 2)


@pytest.mark.req("RUN-2")
def test_a_planned_next_step_is_no_failure(store):
    enqueue(store, draft())
    [item] = claim(store)
    back = act(store, "again", item.seq, item.token, not_before=0, count=False)
    assert (back.attempts, back.error) == (0, "")
    assert claim(store)[0].attempts == 1


@pytest.mark.req("RUN-2")
def test_a_buried_item_stays_visible_and_is_never_claimed(store):
    enqueue(store, draft())
    [item] = claim(store)
    dead = act(store, "bury", item.seq, item.token, "8 attempts")
    assert (dead.state, dead.error) == (WorkState.DEAD, "8 attempts")
    assert claim(store) == []
    assert store.read(lambda tx: tx.work.list(Page(state="dead"))) == [dead]


@pytest.mark.req("RUN-2")
def test_an_ended_item_does_not_move_again(store):
    enqueue(store, draft())
    [item] = claim(store)
    act(store, "complete", item.seq, item.token, {})
    with pytest.raises(IllegalMove, match="done"):
        act(store, "complete", item.seq, item.token, {})
    with pytest.raises(IllegalMove, match="done"):
        act(store, "again", item.seq, item.token, not_before=0)


def test_an_item_that_does_not_exist_is_not_found(store):
    with pytest.raises(NotFound, match="W-99"):
        act(store, "complete", 99, 1, {})
    with pytest.raises(NotFound, match="W-99"):
        store.read(lambda tx: tx.work.get(99))


@pytest.mark.req("RUN-2")
def test_the_next_due_moment_is_the_earliest_at_which_something_can_be_claimed(store):
    def next_due():
        return store.read(lambda tx: tx.work.next_due())

    assert next_due() is None
    assert store.read(lambda tx: tx.work.next_due(["no such kind"])) is None
    soon = store.read(lambda tx: tx.now()) + LONG
    enqueue(store, draft("a", not_before=soon), draft("b", not_before=1))
    assert next_due() == 1
    [item] = claim(store, lease=SHORT)
    assert next_due() == item.lease_until
    act(store, "complete", item.seq, item.token, {})
    assert next_due() == soon


@pytest.mark.req("SGP-5")
def test_the_depth_counts_what_is_due_and_what_is_not_finished(store):
    def depth():
        return store.read(lambda tx: tx.work.depth())

    assert depth() == (0, 0)
    soon = store.read(lambda tx: tx.now()) + LONG
    enqueue(store, draft("a"), draft("b"), draft("c"), draft("later", not_before=soon))
    assert depth() == (3, 3)
    done, _ = claim(store, limit=2)
    assert depth() == (1, 3)
    act(store, "complete", done.seq, done.token, {})
    assert depth() == (1, 2)


def test_items_are_listed_by_kind_target_and_state(store):
    a, b = enqueue(store, draft("a", target="web"), draft("b", kind="drain", target="db"))

    def listed(**filters):
        return store.read(lambda tx: tx.work.list(Page(**filters)))

    assert listed() == [b, a]
    assert listed(kind="drain") == [b]
    assert listed(target="web", state="ready") == [a]
