"""Shadow reports over HTTP: what would have been asked for, next to what the other controller did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetwarden.controllers.shadowing import SEEN_FACT
from fleetwarden.domain.fleet import Mode, Service
from fleetwarden.domain.identifiers import SECOND, rfc3339
from fleetwarden.domain.located import located
from fleetwarden.domain.scaling import read_block
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.domain.shadow import ShadowRun
from fleetwarden.ports.stores import Tx
from fleetwarden.testing import a_service
from tests.acceptance.http.world import World

HOUR = 3600 * SECOND


def watched(name: str) -> Service:
    block = read_block(located({"max": 6, "signal": "q", "target": 10}, "fleet.yml", 3), on_kubernetes=False)
    assert isinstance(block, ScalingBlock)
    return a_service(name, replicas=2, scaling=block, mode=Mode.OBSERVE)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, watched("web"), watched("api"), a_service("db"))
    yield made
    made.close()


def kept(world: World) -> int:
    """Three hours of `web`, the last of which lasts; returns when they began."""

    def write(tx: Tx) -> int:
        begun = tx.now() - 3 * HOUR
        rows: list[dict[str, Any]] = [
            {"current": 2, "desired": 2, "raw": 2, "reason": "deadband"},
            {"current": 2, "desired": 3, "raw": 3, "reason": "scale_up"},
            {"current": 3, "desired": 3, "raw": 3, "reason": "at_target"},
        ]
        for number, row in enumerate(rows):
            at = begun + number * HOUR
            tx.shadows.end("web", at)
            tx.shadows.begin(ShadowRun(service="web", at=at, **row))
        tx.facts.put(SEEN_FACT, tx.now())
        return begun

    return world.store.transact("kept", write)


@pytest.mark.req("ASC-19")
def test_a_report_compares_both_over_what_is_kept_or_since_a_time(world: World) -> None:
    begun = kept(world)
    client = world.client()
    told = client.get("/services/web/shadow").json()
    assert (told["service"], told["writer"], told["runs"], told["judged_s"]) == ("web", "observe", 3, 3 * 3600)
    assert told["agreement"] == pytest.approx(2 / 3, abs=1e-6)
    assert told["ours"] == {"replica_hours": 8.0, "actions": 1, "reversals": 0, "under_provisioned_s": 0.0}
    assert told["theirs"] == {"replica_hours": 7.0, "actions": 1, "reversals": 0, "under_provisioned_s": 3600.0}
    assert (told["latest"]["current"], told["latest"]["until"]) == (3, None)
    since = rfc3339(begun + 2 * HOUR)
    later = client.get("/services/web/shadow", params={"since": since}).json()
    assert (later["judged_s"], later["agreement"], later["since"]) == (3600, 1.0, since)


@pytest.mark.req("ASC-19")
def test_all_in_shadow_are_listed_by_name_page_by_page(world: World) -> None:
    kept(world)
    client = world.client()
    first = client.get("/shadow", params={"limit": 1}).json()
    assert ([one["service"] for one in first["items"]], first["next"]) == (["api"], 1)
    rest = client.get("/shadow", params={"limit": 1, "cursor": first["next"]}).json()
    assert ([one["service"] for one in rest["items"]], rest["next"]) == (["web"], None)
    assert rest["items"][0] == client.get("/services/web/shadow").json()


@pytest.mark.req("ASC-19")
def test_a_service_that_is_not_in_shadow_says_so_and_one_that_never_was_is_not_found(world: World) -> None:
    told = world.client().get("/services/db/shadow").json()
    assert (told["writer"], told["runs"], told["agreement"], told["latest"]) == (None, 0, None, None)
    assert world.client().get("/services/nobody/shadow").status_code == 404
    assert world.client().get("/services/web/shadow?sincee=1").status_code == 400
