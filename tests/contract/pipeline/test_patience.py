"""What only a person can settle is looked at less and less often, and never lost sight of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from fleetwarden.controllers.patience import WAIT_MAX_S, Patience
from fleetwarden.domain.fleet import ObservedService, Service
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.testing import Answer, Delivery, a_fleet, a_service
from tests.contract.pipeline.conftest import Bench
from tests.contract.store.conftest import Database, sqlite

__all__ = ["sqlite"]  # the fixture


@pytest.fixture
def lost(sqlite: Database) -> Bench:
    """A restart of `web` that got lost on its way, through an adapter that knows no bound: a person settles it."""
    bench = Bench(sqlite.open(), sqlite.clock)
    bench.substrate.lateness_s = None
    bench.substrate.boot("web", 2)
    bench.substrate.crash("web", 0)
    bench.substrate._deliver = lambda _: Delivery(answer=Answer.LOST, lands=False)
    bench.look()
    bench.act()
    bench.act()
    [record] = bench.records()
    assert record.state is OutboxState.RECOVERY_PENDING
    return bench


def looks(bench: Bench, seconds: int) -> int:
    """How often the executor's passes look in so many seconds, at one pass a second."""
    counted = 0
    observe = bench.substrate.observe

    def count(services: Sequence[Service], at: Micros) -> Mapping[str, ObservedService]:
        nonlocal counted
        counted += 1
        return observe(services, at)

    bench.substrate.observe = count  # type: ignore[method-assign]
    for _ in range(seconds):
        bench.act()
        bench.clock.advance(1)
    bench.substrate.observe = observe  # type: ignore[method-assign]
    return counted


@pytest.mark.req("PRO-6", "PRO-7")
def test_it_is_looked_at_less_and_less_often(lost: Bench) -> None:
    assert 4 <= looks(lost, 60) <= 7
    looks(lost, 120)
    assert 9 <= looks(lost, 600) <= 11


@pytest.mark.req("PRO-6", "PRO-7")
def test_a_late_effect_still_settles_it_within_the_longest_wait(lost: Bench) -> None:
    looks(lost, 300)
    [record] = lost.records()
    state = lost.substrate._state("web")
    lost.substrate._start(state, 0, record.key)
    looks(lost, int(WAIT_MAX_S) + 1)
    assert lost.records()[0].state is OutboxState.SUCCEEDED


@pytest.mark.req("PRO-6", "PRO-7")
def test_a_changed_registry_is_looked_at_at_once(lost: Bench) -> None:
    looks(lost, 300)
    lost.files.declare(fleet=a_fleet(a_service("web", replicas=2), a_service("other")))
    assert looks(lost, 1) == 1


@pytest.mark.req("PRO-6")
def test_waits_double_up_to_a_bound_and_what_ended_is_forgotten() -> None:
    patience = Patience()
    waits = []
    now = 0
    for _ in range(8):
        waits.append(patience.wait(7, now, "a"))
        assert not patience.is_due(7, now, "a")
        now += int(waits[-1] * SECOND)
        assert patience.is_due(7, now, "a")
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]
    assert patience.is_due(7, now - SECOND, "b")
    patience.forget_others([8])
    assert patience.wait(7, now, "a") == 2
