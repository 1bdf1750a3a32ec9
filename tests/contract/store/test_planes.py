"""Several planes over one store: where services belong, what hosts publish, and a feed that skips nothing."""

from __future__ import annotations

import threading

import pytest

from fleetwarden.domain.errors import NotFound
from fleetwarden.domain.fleet import ObservedService, ServiceStatus
from fleetwarden.ports.stores import FeedMark


def sight(name, at, status=ServiceStatus.UP, **more):
    return ObservedService(name=name, observed_at=at, source="processes", status=status, **more)


def publish(store, host, at, *sights, holder="p1"):
    seen = {one.name: one for one in sights}
    return store.transact("publish", lambda tx: tx.hosts.publish(host, holder, at, seen))


@pytest.mark.req("RUN-1")
def test_a_service_belongs_to_whoever_claimed_it_first(store):
    assert store.transact("claim", lambda tx: tx.placements.claim("web", "h1")) == "h1"
    assert store.transact("claim", lambda tx: tx.placements.claim("web", "h2")) == "h1"
    assert store.transact("claim", lambda tx: tx.placements.claim("db", "h2")) == "h2"
    assert store.read(lambda tx: tx.placements.all()) == {"web": "h1", "db": "h2"}


@pytest.mark.req("RUN-1")
def test_a_host_keeps_the_data_folder_that_it_was_first_seen_with(store):
    first = store.transact("register", lambda tx: tx.hosts.register("h1", "folder-1", "p1"))
    again = store.transact("register", lambda tx: tx.hosts.register("h1", "folder-2", "p2"))
    assert first == again
    assert (again.folder, again.looked_at) == ("folder-1", None)
    with pytest.raises(NotFound, match="h9"):
        publish(store, "h9", 5)


@pytest.mark.req("OBS-2", "RUN-1")
def test_what_a_host_published_is_as_old_as_its_look_and_what_it_left_out_is_unobserved(store):
    for host in ("h1", "h2"):
        store.transact("register", lambda tx, host=host: tx.hosts.register(host, f"of {host}", "p"))
    assert publish(store, "h1", 1_000, sight("web", 1_000, ready=2), sight("db", 700)) is True
    elsewhere = store.read(lambda tx: tx.hosts.seen(besides="h2"))
    assert elsewhere == {("h1", "web"): sight("web", 1_000, ready=2), ("h1", "db"): sight("db", 700)}
    assert store.read(lambda tx: tx.hosts.seen(besides="h1")) == {}

    assert publish(store, "h1", 2_000, sight("web", 2_000, ready=2), sight("db", 700)) is False
    elsewhere = store.read(lambda tx: tx.hosts.seen(besides="h2"))
    assert {name: one.observed_at for (_, name), one in elsewhere.items()} == {"web": 2_000, "db": 700}

    assert publish(store, "h1", 3_000, sight("web", 3_000, ServiceStatus.DOWN)) is True
    assert store.read(lambda tx: tx.hosts.seen(besides="h2")) == {
        ("h1", "web"): sight("web", 3_000, ServiceStatus.DOWN)
    }


@pytest.mark.req("OBS-2", "RUN-1")
def test_a_look_that_began_earlier_never_takes_the_place_of_a_later_one(store):
    store.transact("register", lambda tx: tx.hosts.register("h1", "f", "p1"))
    publish(store, "h1", 2_000, sight("web", 2_000), holder="p2")
    assert publish(store, "h1", 1_000, sight("web", 1_000, ServiceStatus.DOWN)) is None
    assert publish(store, "h1", 2_000, sight("web", 2_000, ServiceStatus.DOWN)) is None
    assert store.read(lambda tx: tx.hosts.seen(besides="")) == {("h1", "web"): sight("web", 2_000)}
    assert [one.holder for one in store.read(lambda tx: tx.hosts.all())] == ["p2"]


def feed(store, mark):
    return store.read(lambda tx: tx.journal.after(mark, topic="notice", limit=100))


@pytest.mark.req("RUN-1")
@pytest.mark.needs("postgresql")
def test_a_reader_of_the_journal_skips_nothing_that_is_committed_late(server):
    """The older transaction takes the lower number and commits last; in between the younger one's entry is there."""
    store, other = server.open(), server.open()
    written, may_commit = threading.Event(), threading.Event()

    def slow(tx):
        tx.journal.write(topic="notice", actor="p1", summary="early number, late commit")
        written.set()
        assert may_commit.wait(30)

    thread = threading.Thread(target=lambda: store.transact("slow", slow))
    thread.start()
    try:
        assert written.wait(30)
        other.transact("fast", lambda tx: tx.journal.write(topic="notice", actor="p2", summary="late number"))
        told = list(feed(other, FeedMark()))
        assert told == []  # not even the visible one: what lies below it is not known yet
    finally:
        may_commit.set()
        thread.join(30)
    told = feed(other, FeedMark())
    assert {one.summary for one in told} == {"early number, late commit", "late number"}
    assert feed(other, told[-1].mark) == []


@pytest.mark.req("RUN-1")
@pytest.mark.needs("postgresql")
def test_a_number_that_was_taken_before_its_transaction_began_to_count_is_not_skipped_either(server):
    """Numbers and transactions in opposite order: the entry with the lower number belongs to the younger transaction,
    so that a reader that went by numbers, even below the oldest running transaction, would pass over it."""
    store, other = server.open(), server.open()
    began, numbered, may_commit = threading.Event(), threading.Event(), threading.Event()

    def older(tx):
        tx.facts.put("older", 1)  # now it has its transaction id
        began.set()
        assert numbered.wait(30)
        tx.journal.write(topic="notice", actor="p1", summary="older transaction, higher number")

    def younger(tx):
        tx.journal.write(topic="notice", actor="p2", summary="younger transaction, lower number")
        numbered.set()
        assert may_commit.wait(30)

    threads = [threading.Thread(target=lambda: store.transact("older", older))]
    threads[0].start()
    assert began.wait(30)
    threads.append(threading.Thread(target=lambda: other.transact("younger", younger)))
    threads[1].start()
    try:
        threads[0].join(30)
        first = list(feed(store, FeedMark()))
        assert [one.summary for one in first] == ["older transaction, higher number"]
    finally:
        may_commit.set()
        threads[1].join(30)
    [second] = feed(store, first[-1].mark)
    assert second.summary == "younger transaction, lower number"
    assert second.seq < first[-1].seq
