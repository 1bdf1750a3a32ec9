"""Admission on both databases: whole bodies, told after the commit, sources in turn, a bounded queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
import pytest

from fleetwarden.controllers.admission import Admission
from fleetwarden.domain.errors import Refused, Retryable, StoreUnavailable
from fleetwarden.domain.events import FleetEvent
from fleetwarden.ports.events import Receipt
from fleetwarden.ports.stores import Page, Store, Tx
from tests.contract.store.conftest import store as store  # noqa: PLC0414
from tests.unit.events.test_correlation import an_event

T = TypeVar("T")


class Noted:
    """The store, with the number of events of each transaction noted; broken at will."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.broken = False
        self.batches: list[list[str]] = []

    def transact(self, name: str, fn: Callable[[Tx], T]) -> T:
        if self.broken:
            raise StoreUnavailable("the disk is full")
        return self._store.transact(name, fn)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Gate:
    def __init__(self, store: Store, waiting_max: int = 1000) -> None:
        self.store = Noted(store)
        self.taken: list[int] = []
        self.admission = Admission(self.store, self.placed, self.noted, waiting_max=waiting_max)

    def placed(self, events: Sequence[FleetEvent]) -> list[FleetEvent]:
        self.store.batches.append([one.fingerprint for one in events])
        return [msgspec.structs.replace(one, service=one.subject) for one in events]

    def noted(self, tx: Tx, receipts: Sequence[Receipt]) -> None:
        self.taken += [one.seq for one in receipts]

    def kept(self) -> int:
        return len(self.store.read(lambda tx: tx.events.list(Page(limit=500))))


def body(name: str, count: int = 1, **over: Any) -> list[FleetEvent]:
    return [an_event(starts_at=5, fingerprint=f"{name}{number}", service=None, **over) for number in range(count)]


@pytest.mark.req("EVT-1", "EVT-2")
def test_a_body_is_kept_with_its_services_when_it_is_answered(store: Store) -> None:
    gate = Gate(store)
    made = gate.admission.take("a", body("a", 3))
    assert [one.event.service for one in made] == ["web"] * 3
    assert gate.kept() == 3
    again = gate.admission.take("a", body("a", 3))
    assert [one.seq for one in again] == [one.seq for one in made]
    assert (gate.taken, gate.admission.duplicates) == ([one.seq for one in made], 3)
    assert gate.admission.accepted == {("alertmanager", "critical"): 3}


@pytest.mark.req("EVT-3")
def test_bodies_that_wait_are_committed_together_and_sources_take_turns(store: Store) -> None:
    gate = Gate(store)
    tickets = [gate.admission.submit("flood", body(f"flood{number}-", 200))[0] for number in range(2)]
    ticket, leads = gate.admission.submit("quiet", body("quiet"))
    assert not leads  # the first one was told to
    assert gate.kept() == 0
    gate.admission.lead()
    assert [len(one) for one in gate.store.batches] == [401]
    assert gate.store.batches[0][200] == "quiet0"  # after one body of the other, not after all of them
    assert all(len(one.done.result(0)) == 200 for one in tickets)
    assert len(ticket.done.result(0)) == 1
    assert gate.admission.waiting == 0


@pytest.mark.req("EVT-3")
def test_a_full_queue_says_come_again_and_keeps_room_for_others(store: Store) -> None:
    gate = Gate(store, waiting_max=100)
    gate.admission.submit("flood", body("a", 50))
    with pytest.raises(Retryable, match="50 of them of this source") as told:
        gate.admission.submit("flood", body("b"))
    assert told.value.code == "busy"
    gate.admission.submit("quiet", body("c", 50))
    with pytest.raises(Retryable):
        gate.admission.submit("third", body("d"))
    gate.admission.lead()
    assert gate.kept() == 100
    gate.admission.take("flood", body("b"))
    assert gate.admission.refused == {"busy": 2}


@pytest.mark.req("EVT-3")
def test_an_empty_queue_takes_a_body_that_is_larger_than_itself(store: Store) -> None:
    assert len(Gate(store, waiting_max=100).admission.take("a", body("a", 300))) == 300


@pytest.mark.req("EVT-3")
def test_what_cannot_be_committed_is_told_to_everybody_who_waits_and_can_come_again(store: Store) -> None:
    gate = Gate(store)
    gate.store.broken = True
    tickets = [gate.admission.submit(name, body(name))[0] for name in ("a", "b")]
    gate.admission.lead()
    for one in tickets:
        with pytest.raises(StoreUnavailable):
            one.done.result(0)
    gate.store.broken = False
    assert len(gate.admission.take("a", body("a"))) == 1
    assert gate.admission.refused == {"store_unavailable": 2}


@pytest.mark.req("EVT-1")
def test_a_body_that_cannot_be_kept_answers_for_itself_alone(store: Store) -> None:
    gate = Gate(store)
    good, _ = gate.admission.submit("a", body("a"))
    bad, _ = gate.admission.submit("b", [*body("b"), *body("x" * 5000)])
    gate.admission.lead()
    assert len(good.done.result(0)) == 1
    with pytest.raises(Refused):
        bad.done.result(0)
    assert gate.kept() == 1
