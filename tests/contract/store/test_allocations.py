"""What elastic units take of their pools, on both databases."""

from __future__ import annotations

import pytest

from fleetwarden.domain.errors import Refused
from fleetwarden.ports.stores import Store


@pytest.mark.req("CON-16")
def test_a_units_row_is_replaced_and_never_negative(store: Store) -> None:
    assert store.read(lambda tx: tx.allocations.all()) == {}
    store.transact("put", lambda tx: tx.allocations.put("web", 3))
    store.transact("put", lambda tx: tx.allocations.put("api", 1))
    store.transact("put", lambda tx: tx.allocations.put("web", 5))
    assert store.read(lambda tx: tx.allocations.all()) == {"web": 5, "api": 1}
    with pytest.raises(Refused, match="less than none"):
        store.transact("put", lambda tx: tx.allocations.put("web", -1))
    assert store.read(lambda tx: tx.allocations.all())["web"] == 5
