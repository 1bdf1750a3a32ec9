"""Watches: what follows a failure is pending until it is said, and again where nothing came of it."""

from __future__ import annotations

import msgspec
import pytest

from fleetwarden.domain.deploy_watch import WatchStatus
from fleetwarden.domain.errors import Conflict
from fleetwarden.ports.watches import WatchDraft


@pytest.mark.req("DWH-2", "DWH-5")
def test_what_follows_a_failure_is_said_once_and_pending_again_only_where_the_watch_has_failed(store):
    draft = WatchDraft(service="web", action_seq=None, kind="watch_deploy", source="api", grace_until=0, deadline=9)
    watch = store.transact("begin", lambda tx: tx.watches.begin(draft))
    with pytest.raises(Conflict, match=f"{watch.id} has not failed"):
        store.transact("again", lambda tx: tx.watches.follow_again(watch.seq))
    failed = msgspec.structs.replace(watch, status=WatchStatus.FAILED, follow_up="pending")
    store.transact("fails", lambda tx: tx.watches.change(failed))
    for said in ("rollback X-1", "rollback X-2"):
        store.transact("followed", lambda tx, said=said: tx.watches.followed(watch.seq, said))
        with pytest.raises(Conflict, match="nothing is to follow"):
            store.transact("twice", lambda tx: tx.watches.followed(watch.seq, "another"))
        assert store.read(lambda tx: tx.watches.get(watch.seq)).follow_up == said
        store.transact("again", lambda tx: tx.watches.follow_again(watch.seq))
        assert store.read(lambda tx: tx.watches.get(watch.seq)).follow_up == "pending"
    with pytest.raises(Conflict, match="has not failed"):
        store.transact("nowhere", lambda tx: tx.watches.follow_again(99))
