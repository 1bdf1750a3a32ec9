"""Opening a SQLite file that a dead plane left: its leases are void at once, its tokens are not given out again."""

from __future__ import annotations

import pytest

from fleetwarden.domain.errors import Fenced
from fleetwarden.domain.lifecycles import WorkState
from fleetwarden.ports.stores import WorkDraft

LONG = 3_600_000_000


def held(store):
    """A lease and a leased step, as a plane holds them in the middle of its work."""
    fence = store.transact("lease", lambda tx: tx.leases.acquire("tick", "0", "dead plane", LONG))
    store.transact("enqueue", lambda tx: tx.work.enqueue(WorkDraft(kind="step", key="s", payload={})))
    [item] = store.transact("claim", lambda tx: tx.work.claim("dead plane", ["step"], LONG, 1))
    return fence, item


@pytest.mark.req("RUN-2", "RUN-5")
def test_what_an_earlier_owner_held_is_free_when_the_file_is_opened(sqlite):
    fence, item = held(sqlite.open())
    sqlite.close()
    store = sqlite.open()
    fresh = store.transact("lease", lambda tx: tx.leases.acquire("tick", "0", "next plane", LONG))
    assert fresh.token > fence.token
    assert store.read(lambda tx: tx.work.get(item.seq)).state is WorkState.READY
    [claimed] = store.transact("claim", lambda tx: tx.work.claim("next plane", ["step"], LONG, 1))
    assert (claimed.seq, claimed.attempts, claimed.token) == (item.seq, 2, item.token + 1)
    for late in (
        lambda tx: tx.leases.check(fence),
        lambda tx: tx.work.complete(item.seq, item.token, {}),
    ):
        with pytest.raises(Fenced):
            store.transact("late", late)


@pytest.mark.req("RUN-2")
@pytest.mark.needs("postgresql")
def test_on_a_server_another_plane_may_live_so_nothing_is_voided(server):
    fence, item = held(server.open())
    store = server.open()
    assert store.transact("lease", lambda tx: tx.leases.acquire("tick", "0", "next plane", LONG)) is None
    assert store.read(lambda tx: tx.work.get(item.seq)).state is WorkState.LEASED
    store.transact("check", lambda tx: tx.leases.check(fence))
