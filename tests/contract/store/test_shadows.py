"""Runs of shadow evaluations, on both databases: numbered in their service, one open, the oldest ones gone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fleetwarden.domain.errors import Conflict
from fleetwarden.domain.shadow import ShadowRun
from fleetwarden.ports.shadows import Shadows
from fleetwarden.ports.stores import Store, Tx
from fleetwarden.store import shadows as stored


def a_run(at: int, service: str = "web", **over: Any) -> ShadowRun:
    fields = {"current": 2, "desired": 3, "raw": 4, "reason": "scale_up", **over}
    return ShadowRun(service=service, at=at, **fields)


def begin(store: Store, run: ShadowRun, *, ending: bool = False) -> ShadowRun:
    def act(tx: Tx) -> ShadowRun:
        if ending:
            tx.shadows.end(run.service, run.at)
        return tx.shadows.begin(run)

    return store.transact("begin", act)


@pytest.mark.req("ASC-19")
def test_a_run_lasts_until_it_is_ended_and_one_service_has_one_that_lasts(store: Store) -> None:
    first, other = begin(store, a_run(10)), begin(store, a_run(11, "api"))
    assert (first.number, other.number) == (1, 1)
    with pytest.raises(Conflict, match="lasts already"):
        begin(store, a_run(12))
    assert store.read(lambda tx: tx.shadows.open()) == {"web": first, "api": other}
    second = begin(store, a_run(20, desired=2, reason="deadband"), ending=True)
    ended = msgspec.structs.replace(first, until=20)
    assert store.read(lambda tx: tx.shadows.of("web")) == [ended, second]
    assert store.read(lambda tx: tx.shadows.of("web", since=21)) == [second]
    assert store.read(lambda tx: tx.shadows.of("web", after=1)) == [second]
    assert store.read(lambda tx: tx.shadows.of("web", limit=1)) == [ended]
    assert store.read(lambda tx: tx.shadows.of("none")) == []


@pytest.mark.req("ASC-19")
def test_a_run_never_ends_before_it_began(store: Store) -> None:
    begin(store, a_run(10))
    store.transact("end", lambda tx: tx.shadows.end("web", 3))
    assert [one.until for one in store.read(lambda tx: tx.shadows.of("web"))] == [10]
    assert store.read(lambda tx: tx.shadows.open()) == {}


@pytest.mark.req("ASC-19")
def test_only_what_ended_before_is_pruned_and_so_much_at_a_time(store: Store) -> None:
    for at in (10, 20, 30, 40):
        begin(store, a_run(at), ending=True)
    assert store.read(lambda tx: tx.shadows.oldest()) == 20

    def prune(shadows: Shadows, before: int, limit: int) -> int:
        return shadows.prune(before, limit=limit)

    assert store.transact("prune", lambda tx: prune(tx.shadows, 20, 9)) == 0
    assert store.transact("prune", lambda tx: prune(tx.shadows, 31, 1)) == 1
    assert [one.at for one in store.read(lambda tx: tx.shadows.of("web"))] == [20, 30, 40]
    assert store.transact("prune", lambda tx: prune(tx.shadows, 10**15, 9)) == 2
    assert [one.at for one in store.read(lambda tx: tx.shadows.of("web"))] == [40]  # it lasts, however old it is
    assert store.read(lambda tx: tx.shadows.oldest()) is None
    assert begin(store, a_run(50), ending=True).number == 5


@pytest.mark.req("ASC-19")
def test_a_service_keeps_a_bounded_number_of_runs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "RUNS_MAX", 10)
    monkeypatch.setattr(stored, "_TRIM_EVERY", 4)

    def many(tx: Tx) -> None:
        tx.shadows.begin(a_run(1, "api"))
        for at in range(1, 25):
            tx.shadows.end("web", at)
            tx.shadows.begin(a_run(at))

    store.transact("many", many)
    assert [one.number for one in store.read(lambda tx: tx.shadows.of("web"))] == list(range(15, 25))
    assert len(store.read(lambda tx: tx.shadows.of("api"))) == 1
