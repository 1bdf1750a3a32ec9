"""The watch of a count that follows load: what its failure asks for, and when."""

from __future__ import annotations

import pytest

from fleetwarden.domain.actions import Kind, Source
from fleetwarden.domain.contract.lifecycle import IntentOperation
from fleetwarden.domain.deploy_watch import WatchStatus
from fleetwarden.ports.stores import Page
from tests.contract.pipeline.conftest import Bench
from tests.contract.pipeline.scaling import Scaling
from tests.contract.store.conftest import Database, sqlite

__all__ = ["sqlite"]  # the fixture


@pytest.mark.req("DWH-8", "DWH-6", "POL-13", "REC-13")
def test_a_failed_growth_goes_back_after_the_cooldown_and_never_touches_the_version(sqlite: Database) -> None:
    bench = Bench(sqlite.open(), sqlite.clock)
    bench.substrate.boot("web", 2)
    world = Scaling(bench)
    world.load(40)
    world.round()
    assert world.count() == 4
    bench.watch()
    for index in range(4):
        bench.substrate.sicken("web", index)
    bench.clock.advance(20)
    bench.watch()
    [watch] = bench.store.read(lambda tx: tx.watches.list(Page()))
    assert (watch.status, watch.from_replicas, watch.follow_up) == (WatchStatus.FAILED, 2, "pending")
    assert len(world.intents()) == 1  # cooling down
    bench.clock.advance(101)
    bench.watch()
    back = world.intents()[0]
    assert (back.intent.operation, back.intent.desired_replicas) == (IntentOperation.ROLLBACK, 2)
    [decision] = [one for one in bench.decisions() if one.request.source == Source.DEPLOY_WATCH]
    assert (decision.request.kind, decision.request.params) == (Kind.SCALE, {"replicas": 2})
    for index in range(4):
        bench.substrate.heal("web", index)
    bench.look()
    bench.act()
    assert world.count() == 2
    assert all(one.request.kind != Kind.ROLLBACK for one in bench.decisions())
    assert bench.store.read(lambda tx: tx.quarantines.standing()) == []
