"""Watches and quarantines over HTTP, and a watch of one's own through the public names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetwarden import watch
from fleetwarden.app.identity import Role
from fleetwarden.domain import versions
from fleetwarden.domain.actions import Tier
from fleetwarden.domain.errors import Misconfigured, NotFound
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.watch_block import WatchBlock
from fleetwarden.testing import a_service
from tests.acceptance.http.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, a_service("shop", version="1.1"), tier=Tier.AUTO)
    made.substrate.boot("shop", version="1.1")
    made.look()
    made.clock.advance(1)
    yield made
    made.close()


def over(world: World, times: int = 3, seconds: float = 16.0) -> None:
    for _ in range(times):
        world.clock.advance(seconds)
        watch.run_deploy_watch(world.plane)


@pytest.mark.req("RUN-16", "DWH-1", "DWH-6")
def test_a_watch_of_ones_own_ends_as_it_saw(world: World) -> None:
    begun = watch.watch_deploy(world.plane, "shop", "1.1", 30, poll_s=5, source="pipeline")
    assert begun.status is watch.WatchStatus.RUNNING
    over(world, 8, 5.5)
    shown = world.client(Role.VIEWER).get(f"/watches/{begun.id}").json()
    assert (shown["status"], shown["service"], shown["source"]) == ("success", "shop", "pipeline")
    assert shown["probes"]
    assert shown["proven"]
    [listed] = world.client(Role.VIEWER).get("/watches?target=shop&state=success").json()["items"]
    assert listed["id"] == begun.id


@pytest.mark.req("RUN-16", "DWH-4", "DWH-5")
def test_a_watch_of_ones_own_takes_the_services_terms_and_what_its_version_is_made_from(tmp_path: Path) -> None:
    block = WatchBlock(window_s=600, poll_s=20, grace_s=60)
    shop = a_service("shop", process=True, version="1.1", watch=block)
    world = World(tmp_path, shop, tier=Tier.AUTO)
    try:
        begun = watch.watch_deploy(world.plane, "shop", "1.1")
        assert (begun.deadline - begun.settled, begun.poll) == (600 * SECOND, 20 * SECOND)
        assert begun.grace_until - begun.settled == 60 * SECOND
        assert begun.definition == versions.definition(shop, "1.1") != ""
        told = watch.watch_deploy(world.plane, "shop", "1.1", 80, poll_s=4)
        assert (told.deadline - told.settled, told.poll) == (80 * SECOND, 4 * SECOND)
        assert told.grace_until - told.settled == 40 * SECOND  # half of a short window at most
    finally:
        world.close()


@pytest.mark.req("DWH-7", "RUN-5")
def test_a_version_that_failed_is_in_quarantine_until_a_person_clears_it(world: World) -> None:
    watch.watch_deploy(world.plane, "shop", "1.1", 60, poll_s=5, on_fail="escalate")
    over(world, 1, 20.0)
    world.substrate.sicken("shop", 0)
    over(world, 1, 6.0)
    viewer, operator = world.client(Role.VIEWER), world.client(Role.OPERATOR)
    [held] = viewer.get("/quarantines").json()["items"]
    assert (held["service"], held["version"], held["stands"]) == ("shop", "1.1", True)
    assert operator.post("/services/shop/quarantine/clear", json={}).status_code == 400
    cleared = operator.post("/services/shop/quarantine/clear", json={"reason": "mended"})
    assert cleared.status_code == 200, cleared.text
    assert viewer.get(f"/quarantines/{held['id']}").json()["cleared_by"]
    assert operator.post("/services/shop/quarantine/clear", json={"reason": "again"}).status_code == 404


@pytest.mark.req("DWH-4")
def test_a_later_watch_takes_the_place_of_a_running_one_visibly(world: World) -> None:
    first = watch.watch_deploy(world.plane, "shop", window_s=60)
    second = watch.watch_deploy(world.plane, "shop", window_s=60)
    shown = world.client(Role.VIEWER).get(f"/watches/{first.id}").json()
    assert (shown["status"], shown["replaced_by"]) == ("replaced", second.id)


def test_what_is_no_watch_is_refused(world: World) -> None:
    with pytest.raises(NotFound, match="no service 'nobody'"):
        watch.watch_deploy(world.plane, "nobody")
    with pytest.raises(Misconfigured, match="neither rollback nor escalate"):
        watch.watch_deploy(world.plane, "shop", on_fail="pray")
    for wrong in (0.5, 90_000):
        with pytest.raises(Misconfigured, match="a watch of"):
            watch.watch_deploy(world.plane, "shop", window_s=wrong)
