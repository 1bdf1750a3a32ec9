"""A store that cannot do what everything rests on is refused at start."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.domain.errors import Misconfigured, OutboxConflict, StoreUnavailable
from fleetwarden.ports.stores import Page
from fleetwarden.store.opening import require_capabilities


class Wrapped:
    """A store with one weakness."""

    def __init__(self, store):
        self._store = store

    def transact(self, name, fn):
        return self._store.transact(name, fn)

    def read(self, fn):
        return self._store.read(fn)

    def health(self):
        return self._store.health()

    def close(self):
        self._store.close()


@pytest.mark.req("AUT-17")
def test_our_own_stores_keep_their_promises_and_the_rehearsal_leaves_nothing(store):
    assert require_capabilities(store) is store
    for rows in (
        store.read(lambda tx: tx.decisions.list(Page())),
        store.read(lambda tx: tx.outbox.list(Page())),
        store.read(lambda tx: tx.leases.list()),
    ):
        assert rows == []


@pytest.mark.req("AUT-17")
@pytest.mark.parametrize("impostor", [object(), {}, None])
def test_what_is_no_store_is_refused_naming_what_it_lacks(impostor):
    with pytest.raises(Misconfigured, match="lacks transact, read, health, close"):
        require_capabilities(impostor)


@pytest.mark.req("AUT-17")
def test_a_store_without_an_outbox_is_refused(store):
    class WithoutOutbox(Wrapped):
        def transact(self, name, fn):
            return super().transact(name, lambda tx: fn(Bare(tx)))

    class Bare:
        def __init__(self, tx):
            self.decisions = tx.decisions
            self.now = tx.now

    with pytest.raises(Misconfigured, match=r"outbox\.prepare"):
        require_capabilities(WithoutOutbox(store))


@pytest.mark.req("AUT-17")
def test_a_store_without_compare_and_swap_is_refused(store):
    """It reads the state, finds it was right, and writes: twice."""

    class ReadThenWrite(Wrapped):
        def transact(self, name, fn):
            def run(tx):
                tx.outbox.start = lambda seq, **call: tx.outbox.get(seq)
                return fn(tx)

            return super().transact(name, run)

    with pytest.raises(Misconfigured, match="no compare-and-swap"):
        require_capabilities(ReadThenWrite(store))


@pytest.mark.req("AUT-17")
def test_a_store_that_opens_two_records_of_a_target_is_refused(store):
    class TwoOpen(Wrapped):
        def transact(self, name, fn):
            def run(tx):
                real = tx.outbox.prepare
                first: list[Any] = []

                def prepare(draft):
                    if first:
                        return first[0]
                    first.append(real(draft))
                    return first[0]

                tx.outbox.prepare = prepare
                return fn(tx)

            return super().transact(name, run)

    with pytest.raises(Misconfigured, match="two records of one target"):
        require_capabilities(TwoOpen(store))


@pytest.mark.req("AUT-17")
def test_a_store_that_does_not_roll_back_is_refused(sqlite):
    store = sqlite.open()

    class Keeps(Wrapped):
        def transact(self, name, fn):
            raised = []

            def run(tx):
                try:
                    fn(tx)
                except Exception as error:  # noqa: BLE001 -- this is the weakness
                    raised.append(error)

            super().transact(name, run)
            raise raised[0]

    with pytest.raises(Misconfigured, match="keeps what a transaction that failed has written"):
        require_capabilities(Keeps(store))


@pytest.mark.req("AUT-17")
def test_a_store_that_swallows_errors_is_refused(store):
    class Swallows(Wrapped):
        def transact(self, name, fn):
            try:
                return super().transact(name, fn)
            except Exception:  # noqa: BLE001 -- this is the weakness
                return None

    with pytest.raises(Misconfigured, match="swallows"):
        require_capabilities(Swallows(store))


@pytest.mark.req("AUT-17")
def test_a_store_that_breaks_is_refused_and_one_that_is_away_is_only_away(store):
    class Breaks(Wrapped):
        def __init__(self, store, error):
            super().__init__(store)
            self._error = error

        def transact(self, name, fn):
            raise self._error

    with pytest.raises(Misconfigured, match="AttributeError"):
        require_capabilities(Breaks(store, AttributeError("begin")))
    for passing in (StoreUnavailable("away"), OutboxConflict("theirs")):
        with pytest.raises(type(passing)):
            require_capabilities(Breaks(store, passing))
