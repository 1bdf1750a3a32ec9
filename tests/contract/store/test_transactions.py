"""What a transaction promises, on both databases."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from fleetwarden.domain.errors import Fenced, Refused, StoreUnavailable
from fleetwarden.ports.stores import Page
from tests.contract.store.records import FENCE


def write(tx, summary="x"):
    return tx.journal.write(topic="notice", actor="test", summary=summary)


def summaries(store):
    return [one.summary for one in store.read(lambda tx: tx.journal.list(Page(limit=500)))]


def test_the_value_of_the_function_is_returned_after_the_commit(store):
    entry = store.transact("write", write)
    assert store.read(lambda tx: tx.journal.list(Page())) == [entry]


@pytest.mark.parametrize("error", [RuntimeError("a bug"), Fenced("overtaken"), KeyboardInterrupt()])
def test_if_the_function_raises_nothing_is_kept_and_the_error_passes_on(store, error):
    def run(tx):
        write(tx)
        raise error

    with pytest.raises(type(error)) as caught:
        store.transact("fails", run)
    assert caught.value is error
    assert summaries(store) == []
    store.transact("goes on", write)
    assert summaries(store) == ["x"]


def test_a_transaction_inside_a_transaction_is_refused(store):
    def nested(tx):
        with pytest.raises(Refused, match="inside a transaction"):
            store.transact("inner", write)
        with pytest.raises(Refused, match="inside a transaction"):
            store.read(lambda inner: inner.now())
        return "done"

    assert store.transact("outer", nested) == "done"
    assert store.read(nested) == "done"
    assert summaries(store) == []


def test_a_transaction_that_is_over_cannot_be_used(store):
    kept: list[Any] = []
    store.transact("keep", kept.append)
    store.read(kept.append)
    for tx in kept:
        for use in (write, lambda tx: tx.journal.list(Page()), lambda tx: tx.now(), lambda tx: tx.after_commit(print)):
            with pytest.raises(Refused, match="over"):
                use(tx)


def test_a_read_transaction_writes_nothing(store):
    def run(tx):
        for attempt in (
            write,
            lambda tx: tx.facts.put("a", 1),
            lambda tx: tx.leases.acquire("tick", "0", "p", 1),
            lambda tx: tx.leases.release(FENCE),
            lambda tx: tx.work.claim("p", ["watch"], 1, 1),
            lambda tx: tx.lock_admission(exclusive=False),
            lambda tx: tx.after_commit(print),
        ):
            with pytest.raises(Refused, match="read transaction"):
                attempt(tx)
        return tx.journal.list(Page())

    assert store.read(run) == []


def test_a_read_transaction_sees_one_state_throughout(store):
    store.transact("before", write)

    def run(tx):
        before = tx.journal.list(Page())
        other = threading.Thread(target=store.transact, args=("meanwhile", write))
        other.start()
        other.join()
        return before, tx.journal.list(Page())

    before, after = store.read(run)
    assert before == after
    assert len(summaries(store)) == 2


def test_what_was_registered_runs_after_the_commit_in_its_order(store):
    heard: list[Any] = []

    def run(tx):
        write(tx)
        tx.after_commit(lambda: heard.append(len(summaries(store))))
        tx.after_commit(lambda: heard.append("second"))
        assert heard == []

    store.transact("write", run)
    assert heard == [1, "second"]


def test_what_was_registered_may_transact(store):
    store.transact("write", lambda tx: tx.after_commit(lambda: store.transact("after", write)))
    assert summaries(store) == ["x"]


def test_what_was_registered_does_not_run_without_a_commit(store):
    heard = []

    def run(tx):
        tx.after_commit(lambda: heard.append(1))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.transact("fails", run)
    assert heard == []


def test_a_failure_after_the_commit_is_logged_and_neither_undoes_nor_hides_it(store, caplog):
    heard = []

    def run(tx):
        tx.after_commit(lambda: 1 / 0)
        tx.after_commit(lambda: heard.append("still runs"))
        return write(tx)

    entry = store.transact("write", run)
    assert store.read(lambda tx: tx.journal.list(Page())) == [entry]
    assert heard == ["still runs"]
    [record] = [one for one in caplog.records if one.name == "fleetwarden.store"]
    assert (record.getMessage(), record.transaction) == ("an after-commit call failed", "write")


@pytest.mark.req("PRO-1")
def test_time_is_one_value_for_the_whole_transaction(store, database):
    def run(tx):
        first = tx.now()
        database.lapse()
        return first, tx.now(), write(tx).at

    first, second, written = store.transact("time", run)
    assert first == second == written
    later = store.transact("time", lambda tx: tx.now())
    assert later > first
    assert store.read(run_twice) is True


def run_twice(tx):
    return tx.now() == tx.now()


@pytest.mark.req("POL-6")
def test_the_admission_lock_comes_before_the_time(store):
    def late(tx):
        tx.now()
        tx.lock_admission(exclusive=True)

    with pytest.raises(Refused, match="before the transaction reads its time"):
        store.transact("late", late)


def test_the_admission_lock_may_be_asked_for_again_but_not_raised(store):
    def run(tx):
        tx.lock_admission(exclusive=True)
        tx.lock_admission(exclusive=True)
        tx.lock_admission(exclusive=False)

    store.transact("again", run)

    def raised(tx):
        tx.lock_admission(exclusive=False)
        tx.lock_admission(exclusive=False)
        tx.lock_admission(exclusive=True)

    with pytest.raises(Refused, match="cannot become exclusive"):
        store.transact("raise", raised)


@pytest.mark.req("PRO-1")
def test_an_exclusive_admission_waits_for_a_shared_one(store):
    """On SQLite because there is one writer, on PostgreSQL because of the lock."""
    order, inside, go = [], threading.Event(), threading.Event()

    def shared(tx):
        tx.lock_admission(exclusive=False)
        inside.set()
        go.wait(10)
        order.append("shared")

    def exclusive(tx):
        tx.lock_admission(exclusive=True)
        order.append("exclusive")

    first = threading.Thread(target=store.transact, args=("commit 1", shared))
    second = threading.Thread(target=store.transact, args=("freeze", exclusive))
    first.start()
    inside.wait(10)
    second.start()
    second.join(0.2)
    assert second.is_alive()
    go.set()
    first.join()
    second.join()
    assert order == ["shared", "exclusive"]


@pytest.mark.req("POL-7")
def test_a_closed_store_is_unavailable_and_never_empty(store):
    store.transact("write", write)
    store.close()
    for ask in (
        lambda: store.read(lambda tx: tx.journal.list(Page())),
        lambda: store.read(lambda tx: tx.approvals.list(Page())),
        lambda: store.transact("write", write),
    ):
        with pytest.raises(StoreUnavailable, match="closed"):
            ask()
    health = store.health()
    assert not health.reachable
    assert "closed" in health.detail
    store.close()


def test_health_says_that_it_answers(store, database):
    health = store.health()
    assert (health.dialect, health.reachable, health.detail) == (database.dialect, True, "")
    assert (health.wal_bytes is not None) == (database.dialect == "sqlite")


def test_a_slow_transaction_is_counted_and_logged_with_its_name(store, database, caplog):
    caplog.set_level(logging.WARNING, "fleetwarden.store")
    store.transact("quick", lambda tx: database.clock.advance(0.04))
    assert store.health().slow_transactions == 0
    store.transact("long", lambda tx: database.clock.advance(0.06))
    assert store.health().slow_transactions == 1
    [record] = caplog.records
    assert (record.getMessage(), record.transaction, record.held_ms) == ("slow transaction", "long", 60.0)
