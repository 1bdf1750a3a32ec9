"""Leases: one holder at a time, and tokens that only grow."""

from __future__ import annotations

import msgspec
import pytest

from fleetwarden.domain.errors import Fenced, Refused

LONG, SHORT = 3_600_000_000, 1_000


def acquire(store, holder="plane-1", ttl=LONG, cadence="tick", shard="0"):
    return store.transact("acquire", lambda tx: tx.leases.acquire(cadence, shard, holder, ttl))


def check(store, fence):
    return store.transact("check", lambda tx: tx.leases.check(fence))


@pytest.mark.req("RUN-1")
def test_a_lease_has_one_holder(store):
    mine = acquire(store)
    assert (mine.cadence, mine.shard, mine.holder, mine.token) == ("tick", "0", "plane-1", 1)
    assert acquire(store, "plane-2") is None
    assert acquire(store, "plane-2", shard="1").token == 1
    assert acquire(store, "plane-2", cadence="other").token == 1


@pytest.mark.req("RUN-1")
def test_extending_ones_own_lease_keeps_the_token_and_moves_its_end(store, database):
    mine = acquire(store)
    before = check(store, mine)
    database.lapse()
    assert acquire(store) == mine
    assert check(store, mine) > before


@pytest.mark.req("RUN-1")
def test_a_lapsed_lease_is_taken_under_a_new_token_and_the_old_one_is_fenced(store, database):
    old = acquire(store, ttl=SHORT)
    database.lapse()
    new = acquire(store, "plane-2")
    assert new.token == old.token + 1
    with pytest.raises(Fenced, match="plane-1"):
        check(store, old)
    assert acquire(store) is None
    assert check(store, new) > 0


@pytest.mark.req("RUN-1")
def test_coming_back_to_ones_own_lapsed_lease_takes_a_new_token(store, database):
    old = acquire(store, ttl=SHORT)
    database.lapse()
    assert acquire(store).token == old.token + 1
    with pytest.raises(Fenced):
        check(store, old)


def test_a_lapsed_lease_that_nobody_took_is_still_ours_and_says_when_it_ended(store, database):
    mine = acquire(store, ttl=SHORT)
    database.lapse()
    ended, now = store.transact("check", lambda tx: (tx.leases.check(mine), tx.now()))
    assert ended < now


def test_a_released_lease_is_free_at_once(store):
    mine = acquire(store)
    store.transact("release", lambda tx: tx.leases.release(mine))
    with pytest.raises(Fenced):
        check(store, mine)
    assert acquire(store, "plane-2").token == mine.token + 1


def test_releasing_what_is_no_longer_ours_changes_nothing(store, database):
    old = acquire(store, ttl=SHORT)
    database.lapse()
    new = acquire(store, "plane-2")
    store.transact("release", lambda tx: tx.leases.release(old))
    assert check(store, new) > 0


@pytest.mark.req("AUT-20")
def test_a_fence_with_another_token_holder_or_name_is_refused(store):
    mine = acquire(store)
    for changed in ({"token": 2}, {"holder": "plane-2"}, {"shard": "1"}, {"cadence": "other"}):
        other = msgspec.structs.replace(mine, **changed)
        for run in (store.read, lambda fn: store.transact("check", fn)):
            with pytest.raises(Fenced):
                run(lambda tx, other=other: tx.leases.check(other))


@pytest.mark.req("RUN-1")
def test_voiding_ends_every_lease_and_tokens_keep_growing(store):
    first, second = acquire(store), acquire(store, shard="1")
    assert store.transact("void", lambda tx: tx.leases.void_all()) == 2
    assert store.read(lambda tx: tx.leases.list()) == []
    with pytest.raises(Fenced):
        check(store, first)
    assert acquire(store, "plane-2", shard="1").token == second.token + 1
    assert acquire(store).token == first.token + 1


def test_leases_are_listed_with_their_times(store, database):
    acquire(store, "plane-2", cadence="zeta")
    now, mine = store.transact("acquire", lambda tx: (tx.now(), tx.leases.acquire("tick", "0", "plane-1", 500)))
    first, second = store.read(lambda tx: tx.leases.list())
    assert (first.fence, first.acquired_at, first.expires_at) == (mine, now, now + 500)
    assert second.fence.cadence == "zeta"


def test_a_lease_needs_a_holder(store):
    with pytest.raises(Refused, match="holder"):
        acquire(store, "")
