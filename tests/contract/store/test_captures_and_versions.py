"""Evidence by action and the versions that ran, on both databases."""

from __future__ import annotations

import pytest

from fleetwarden.domain.errors import Refused
from fleetwarden.domain.identifiers import digest


@pytest.mark.req("ACT-6")
def test_evidence_is_kept_once_for_each_action(store):
    body = {"instances": [{"id": "0", "lines": ["ünïcode"]}]}
    made = store.transact("put", lambda tx: tx.captures.put(7, body))
    assert (made.action_seq, made.body, made.digest) == (7, body, digest(body))
    assert store.transact("put", lambda tx: tx.captures.put(7, {"instances": []})) == made
    assert store.read(lambda tx: tx.captures.digest_of(7)) == made.digest
    assert store.read(lambda tx: (tx.captures.of_action(8), tx.captures.digest_of(8))) == (None, None)
    assert store.read(lambda tx: tx.captures.oldest()) == made.at


@pytest.mark.req("ACT-6")
def test_evidence_that_is_too_large_is_refused_and_nothing_is_cut(store):
    with pytest.raises(Refused, match="its limit is"):
        store.transact("put", lambda tx: tx.captures.put(7, {"lines": ["x" * 300_000]}))
    assert store.read(lambda tx: tx.captures.oldest()) is None


@pytest.mark.req("ACT-6")
def test_only_what_is_older_is_pruned(store, database):
    old = store.transact("put", lambda tx: tx.captures.put(1, {}))
    database.lapse()
    new = store.transact("put", lambda tx: tx.captures.put(2, {}))
    assert store.transact("prune", lambda tx: tx.captures.prune(old.at)) == 0
    assert store.transact("prune", lambda tx: tx.captures.prune(new.at)) == 1
    assert store.read(lambda tx: tx.captures.oldest()) == new.at


@pytest.mark.req("ACT-1")
def test_versions_are_facts_in_their_order_one_for_each_action(store, database):
    def ran(service, version, action, **more):
        row = {"before": "", "kind": "deploy_service", "complete": True, **more}
        return store.transact(
            "ran", lambda tx: tx.versions.append(service=service, version=version, action_seq=action, **row)
        )

    first = ran("web", "1.0", 1)
    assert ran("web", "9.9", 1) == first
    other = ran("api", "5", 2)
    second = ran("web", "1.1", 3, before="1.0", complete=False)
    store.close()
    again = database.open()
    assert again.read(lambda tx: tx.versions.of_service("web", 10)) == [second, first]
    assert again.read(lambda tx: tx.versions.of_service("web", 1)) == [second]
    assert again.read(lambda tx: tx.versions.of_service("none", 1)) == []
    assert again.read(lambda tx: tx.versions.latest()) == {"web": second, "api": other}
