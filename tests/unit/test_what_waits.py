"""What people are told of a need that waits, and of passes that are slow or overdue, by a plane run by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleetwarden.app.bootstrap import Plane
from fleetwarden.app.identity import local_admin
from fleetwarden.app.settings import load_settings
from fleetwarden.controllers.sightings import SLOW_MIN_S
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.health import FleetHealthEvidence, HealthStatus
from fleetwarden.testing import Answer, Delivery, FakeClock, FakeSubstrate

REGISTRY = "version: 1\nservices:\n  - {name: db}\n  - {name: web, depends_on: [db]}\n"
POLICY = "version: 1\nrules:\n  - {kind: '*_service', target: '*', tier: auto, rate_limit: {max: 99, window_s: 60}}\n"


class World:
    """A plane over one fake substrate in which `db` and `web` run."""

    def __init__(self, folder: Path, health: Callable[[], FleetHealthEvidence] | None = None) -> None:
        (folder / "fleet.yml").write_text(REGISTRY)
        (folder / "policy.yml").write_text(POLICY)
        (folder / "data").mkdir()
        self.clock = FakeClock()
        self.fake = FakeSubstrate(self.clock)
        for name in ("db", "web"):
            self.fake.boot(name)
        settings = load_settings(
            folder, {"FLEET_DATA_DIR": str(folder / "data"), "FLEET_RECONCILER": "1", "FLEET_RECONCILER_INTERVAL": "10"}
        )
        self.plane = Plane(settings, actuators={"": self.fake}, observers=[self.fake], clock=self.clock, health=health)

    def round(self) -> None:
        for name in ("fleet_reconciler", "action_executor"):
            self.plane.tick(name)
        self.clock.advance(0.1)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.plane.stop()


@pytest.mark.req("REC-6", "ORC-3")
def test_status_and_explain_tell_of_a_row_of_failures_until_when_and_what_ends_it(world: World) -> None:
    world.fake._deliver = lambda _: Delivery(answer=Answer.REFUSED)
    world.fake.crash("db", 0)
    for _ in range(4):
        world.round()
    item = world.plane.fleet.service(local_admin(), "db")
    assert (item["reason_code"], item["retry_at"] is not None) == ("backing_off", True)
    assert "failed 3 times in a row" in item["reason"]
    told = world.plane.explaining.explain(local_admin(), "db")
    assert (told["verdict"], told["reason"]) == ("nothing", item["reason"])
    assert told["would_change_if"] == [
        f"the time is after {item['retry_at']}",
        "db is declared differently (now: fleet.yml:3)",
        "a person proposes it (fleetwarden action propose restart_service db --reason …)",
    ]


@pytest.mark.req("REC-11", "ORC-3")
def test_status_and_explain_name_what_a_service_waits_for(world: World) -> None:
    world.fake._deliver = lambda _: Delivery(answer=Answer.REFUSED)
    for name in ("db", "web"):
        world.fake.crash(name, 0)
    world.round()
    item = world.plane.fleet.service(local_admin(), "web")
    assert (item["reason_code"], item["depends_on"]) == ("waits_for", ["db"])
    told = world.plane.explaining.explain(local_admin(), "web")
    assert told["verdict"] == "nothing"
    assert "it depends on db, which is down" in str(told["reason"])
    assert told["would_change_if"] == ["what it depends on is ready (fleetwarden explain db)"]
    assert world.plane.explaining.explain(local_admin(), "db")["verdict"] == "allow"


@pytest.mark.req("HLT-2", "HLT-1")
def test_a_deployments_own_judgement_of_health_holds_everything(tmp_path: Path) -> None:
    told = [HealthStatus.DEGRADED]

    def health() -> FleetHealthEvidence:
        well = told[0] is HealthStatus.HEALTHY
        return FleetHealthEvidence(
            status=told[0],
            ready=True,
            convergence_ready=well,
            autoscaling_ready=well,
            generated_at=made.clock.now(),
            dependencies={},
        )

    made = World(tmp_path, health)
    made.fake.crash("db", 0)
    made.round()
    assert made.fake.instances("db") == {0: False}
    assert "health is degraded" in made.plane.fleet.service(local_admin(), "db")["reason"]
    told[0] = HealthStatus.HEALTHY
    made.round()
    made.plane.stop()
    assert made.fake.instances("db") == {0: True}


@pytest.mark.req("HLT-1")
def test_an_observer_that_is_slow_makes_the_plane_degraded_until_it_is_not(world: World) -> None:
    world.fake._at = lambda point: world.clock.advance(SLOW_MIN_S + 2) if point == "observe" else None
    world.plane.tick("fleet_reconciler")
    world.plane.tick("supervision")
    envelope, ready = world.plane.fleet.health()
    assert (envelope["status"], ready) == ("degraded", False)
    slow = envelope["dependencies"]["observer:fake-injected"]
    assert slow["error_class"] == "slow"
    world.fake._at = lambda _: None
    world.plane.tick("fleet_reconciler")
    world.plane.tick("supervision")
    assert world.plane.fleet.health()[1]


@pytest.mark.req("HLT-1", "REC-4")
def test_a_slow_pass_whose_observers_were_quick_is_named_and_holds_nothing(world: World) -> None:
    """It has ended, and what it rests on has ages and deadlines of its own: the next repair does not wait for it."""
    run = world.plane.reconciler.run

    def slowly(fence: LeaseFence) -> object:
        world.clock.advance(SLOW_MIN_S + 2)
        return run(fence)

    world.plane.reconciler.run = slowly  # type: ignore[method-assign, assignment]
    world.plane.tick("fleet_reconciler")
    world.plane.tick("supervision")
    assert world.plane.fleet.health()[1]
    [told] = [one for one in world.plane.diagnosis.examine(local_admin())["findings"] if "is slow" in one["told"]]
    assert (told["level"], told["told"].split(" took")[0]) == ("warning", "fleet_reconciler is slow: its last pass")
    world.fake.crash("db", 0)
    world.round()
    assert world.fake.instances("db") == {0: True}


@pytest.mark.req("HLT-1")
def test_an_overdue_pass_makes_the_plane_degraded(world: World) -> None:
    world.round()
    world.clock.advance(31)
    world.plane.tick("supervision")
    dependencies = world.plane.supervision.evidence().dependencies
    assert dependencies["controller:fleet_reconciler"].error_class == "overdue"
    assert world.plane.supervision.evidence().status is not HealthStatus.HEALTHY
