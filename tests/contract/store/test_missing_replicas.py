"""Whose replicas are not all there, and since when, on both databases."""

from __future__ import annotations

import pytest

from fleetwarden.ports.missing_replicas import MissingRow
from fleetwarden.ports.stores import Store


@pytest.mark.req("ASC-18")
def test_a_services_row_is_replaced_and_removed(store: Store) -> None:
    web, api = MissingRow(service="web", since=10), MissingRow(service="api", since=20, told_at=30)
    assert store.read(lambda tx: tx.missing_replicas.all()) == {}
    for one in (web, api):
        store.transact("put", lambda tx, one=one: tx.missing_replicas.put(one))  # type: ignore[misc]
    assert store.read(lambda tx: tx.missing_replicas.all()) == {"web": web, "api": api}
    told = MissingRow(service="web", since=10, told_at=610)
    store.transact("put", lambda tx: tx.missing_replicas.put(told))
    store.transact("forget", lambda tx: tx.missing_replicas.forget(["api", "nobody"]))
    store.transact("forget", lambda tx: tx.missing_replicas.forget([]))
    assert store.read(lambda tx: tx.missing_replicas.all()) == {"web": told}
