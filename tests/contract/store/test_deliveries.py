"""Messages and services whose repair is held up, on both databases."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from fleetwarden.domain.errors import Conflict, NotFound
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.messages import Delivery, DeliveryState, Line
from fleetwarden.ports.notices import BlockedRow
from fleetwarden.ports.stores import Page, Store, Tx
from tests.contract.store.conftest import Database

WAITING, DELIVERED, DEAD = DeliveryState.WAITING, DeliveryState.DELIVERED, DeliveryState.DEAD


def a_message(now: int, *, target: str = "oncall", subject: str = "web", due: int = 0) -> Delivery:
    return Delivery(
        at=now,
        target=target,
        kind="gate",
        subject=subject,
        severity="error",
        lines=(Line(at=now, summary="told"),),
        count=1,
        first_entry=1,
        last_entry=1,
        not_before=due or now,
    )


def put(store: Store, *rows: Delivery) -> list[Delivery]:
    store.transact("put", lambda tx: tx.deliveries.put(rows))
    every = store.read(lambda tx: [one for name in tx.deliveries.open_targets() for one in tx.deliveries.open(name)])
    return sorted(every, key=lambda one: one.seq)


def now_of(store: Store) -> int:
    return store.read(lambda tx: tx.now())


def claim(store: Store, row: Delivery, seconds: float) -> Delivery:
    def run(tx: Tx) -> Delivery:
        return tx.deliveries.claim(row.seq, until=tx.now() + int(seconds * SECOND))

    return store.transact("claim", run)


@pytest.mark.req("PLB-5")
def test_a_message_is_put_joined_claimed_and_finished(store: Store) -> None:
    now = now_of(store)
    [row] = put(store, a_message(now))
    assert row == msgspec.structs.replace(a_message(now), seq=row.seq)
    joined = msgspec.structs.replace(row, count=2, last_entry=7, lines=(*row.lines, Line(at=now, summary="more")))
    assert put(store, joined) == [joined]
    claimed = claim(store, row, 60)
    assert (claimed.state, claimed.attempts, claimed.count) == ("sending", 1, 2)
    with pytest.raises(Conflict, match="not due, or another plane"):
        claim(store, row, 60)
    with pytest.raises(Conflict, match="on its way"):
        put(store, joined)
    finish = {"not_before": claimed.not_before, "error": ""}
    store.transact("end", lambda tx: tx.deliveries.finish(claimed, state=DELIVERED, **finish))  # type: ignore[arg-type]
    ended = store.read(lambda tx: tx.deliveries.get(row.seq))
    assert (ended.state, ended.claimed_until, ended.ended_at is not None) == ("delivered", None, True)
    assert store.read(lambda tx: (tx.deliveries.open("oncall"), tx.deliveries.open_targets())) == ([], [])
    with pytest.raises(Conflict, match="taken over"):
        store.transact("end", lambda tx: tx.deliveries.finish(claimed, state=DEAD, **finish))  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        store.read(lambda tx: tx.deliveries.get(row.seq + 100))


@pytest.mark.req("PLB-5")
def test_a_claim_that_was_never_finished_lapses_and_its_owner_can_no_longer_end_it(database: Database) -> None:
    store = database.open()
    [row] = put(store, a_message(now_of(store)))
    lost = claim(store, row, 0.001)
    database.lapse()
    taken = claim(store, row, 60)
    assert taken.attempts == 2
    with pytest.raises(Conflict, match="taken over"):
        store.transact(
            "end",
            lambda tx: tx.deliveries.finish(lost, state=DELIVERED, not_before=lost.not_before, error=""),
        )


@pytest.mark.req("PLB-5")
def test_what_is_not_due_waits_and_can_be_hastened_once_it_has_failed(store: Store) -> None:
    now = now_of(store)
    later = now + 3600 * SECOND
    rows = put(store, a_message(now), a_message(now, subject="api", due=later), a_message(now, target="chat"))
    assert [one.subject for one in rows] == ["web", "api", "web"]
    assert store.read(lambda tx: tx.deliveries.open_targets()) == ["chat", "oncall"]
    with pytest.raises(Conflict):
        claim(store, rows[1], 60)
    failed = claim(store, rows[0], 60)
    store.transact("end", lambda tx: tx.deliveries.finish(failed, state=WAITING, not_before=later, error="no"))
    store.transact("hasten", lambda tx: tx.deliveries.hasten("oncall", tx.now()))
    assert claim(store, rows[0], 60).attempts == 2
    with pytest.raises(Conflict):
        claim(store, rows[1], 60)  # it was not tried: it waits for more of its kind


@pytest.mark.req("PLB-5")
def test_recent_holds_what_waits_untried_and_what_was_made_lately(store: Store) -> None:
    now = now_of(store)
    old, tried, fresh = put(store, a_message(now - 100), a_message(now - 100, subject="x"), a_message(now))
    claim(store, tried, 60)
    claim(store, fresh, 60)
    recent = store.read(lambda tx: tx.deliveries.recent("oncall", now - 50))
    assert [one.seq for one in recent] == [old.seq, fresh.seq]
    assert store.read(lambda tx: tx.deliveries.recent("chat", 0)) == []


@pytest.mark.req("PLB-5")
def test_messages_are_listed_counted_and_pruned(store: Store) -> None:
    now = now_of(store)
    first, second = put(store, a_message(now), a_message(now, target="chat"))
    claimed = claim(store, first, 60)
    store.transact("end", lambda tx: tx.deliveries.finish(claimed, state=DEAD, not_before=now, error="gone"))
    listed = store.read(lambda tx: tx.deliveries.list(Page(limit=10)))
    assert [one.seq for one in listed] == [second.seq, first.seq]
    assert [one.seq for one in store.read(lambda tx: tx.deliveries.list(Page(state="dead")))] == [first.seq]
    assert [one.seq for one in store.read(lambda tx: tx.deliveries.list(Page(target="chat")))] == [second.seq]
    counted = {(one.target, one.state): one.count for one in store.read(lambda tx: tx.deliveries.counts())}
    assert counted == {("oncall", "dead"): 1, ("chat", "waiting"): 1}
    prune = partial(store.transact, "prune")
    assert prune(lambda tx: tx.deliveries.prune(now)) == 0
    assert prune(lambda tx: tx.deliveries.prune(tx.now() + SECOND)) == 1
    assert [one.seq for one in store.read(lambda tx: tx.deliveries.list(Page()))] == [second.seq]


@pytest.mark.req("REC-12")
def test_a_blocked_service_is_one_row_replaced_and_removed(store: Store) -> None:
    row = BlockedRow(service="web", since=5, code="denied", reason="because")
    store.transact("put", lambda tx: tx.blocked.put(row))
    told = msgspec.structs.replace(row, told_at=9, times=1)
    store.transact("put", lambda tx: tx.blocked.put(told))
    assert store.read(lambda tx: tx.blocked.all()) == {"web": told}
    store.transact("forget", lambda tx: tx.blocked.forget([]))
    store.transact("forget", lambda tx: tx.blocked.forget(["web", "nobody"]))
    assert store.read(lambda tx: tx.blocked.all()) == {}
