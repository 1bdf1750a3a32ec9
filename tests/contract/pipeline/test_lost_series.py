"""A total that falls because some of its series are gone shrinks nothing, and says so; also after a restart."""

from __future__ import annotations

import pytest

from tests.contract.pipeline.conftest import Bench
from tests.contract.pipeline.scaling import Scaling, scaled


@pytest.mark.req("SGP-4", "SGP-1", "ASC-12")
@pytest.mark.parametrize("restarted", [False, True])
def test_a_total_of_fewer_series_shrinks_nothing_and_says_so(bench: Bench, restarted: bool) -> None:
    world = Scaling(bench, scaled(scale_down_stabilization_samples=1, cooldown_s=0))
    bench.substrate.boot("web", 5)
    world.signals.set("web", "q", 50, series=5)
    world.tick()
    if restarted:
        world.restart()
    world.signals.set("web", "q", 20, series=2)
    for _ in range(4):
        world.tick()
        assert (world.code(), world.count()) == ("blocked_down", 5)
    standing = world.autoscaler.standing("web")
    assert standing is not None
    assert "2 series where there were 5" in standing.reason
    world.signals.set("web", "q", 20, series=5)
    world.tick()
    assert world.code() == "intent_accepted"
