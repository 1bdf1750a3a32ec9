"""Versions that do not come up, or fall again after their repair: set aside, and gone back from, through policy."""

from __future__ import annotations

import msgspec
import pytest

from fleetwarden.controllers.gate import Admission, Answer
from fleetwarden.domain.actions import Evidence, Kind
from fleetwarden.domain.convergence import facts
from fleetwarden.domain.deploy_watch import WatchStatus
from fleetwarden.domain.fleet import DesiredState
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.domain.watch_block import WatchBlock
from fleetwarden.testing import a_request
from fleetwarden.testing.substrate import Delivery
from tests.contract.pipeline.conftest import Bench
from tests.contract.pipeline.watching import Watched
from tests.contract.store.conftest import Database, sqlite

__all__ = ["sqlite"]  # the fixture


@pytest.fixture
def world(sqlite: Database) -> Watched:
    """Nothing runs yet, on SQLite, whose time is ours to move."""
    return Watched(Bench(sqlite.open(), sqlite.clock))


@pytest.mark.req("DWH-2", "DWH-5", "DWH-7")
def test_a_version_that_does_not_come_up_goes_back_and_touches_no_further_replica(world: Watched) -> None:
    world.verified("1.0")
    world.bench.substrate.broken = {"1.1"}
    world.declare("1.1")
    world.pass_by(1)
    assert world.bench.substrate.versions("app") == {0: "1.1", 1: "1.0"}
    failed = world.newest()
    assert (failed.kind, failed.status, failed.version) == (Kind.DEPLOY, WatchStatus.FAILED, "1.1")
    assert "did not come up" in failed.reason
    assert [one.version for one in world.quarantines()] == ["1.1"]
    world.bench.watch()
    world.pass_by(1)
    assert (world.rollbacks(), world.versions()) == (1, {"1.0"})
    world.run_out()
    world.pass_by()
    deploys = [one for one in world.bench.decisions() if one.request.kind == Kind.DEPLOY]
    assert [one.request.params["version"] for one in deploys] == ["1.1"]
    assert world.standing() == "version_quarantined"


@pytest.mark.req("DWH-5")
def test_a_rollback_whose_version_does_not_come_up_sets_it_aside_and_goes_nowhere_else(world: Watched) -> None:
    world.verified("1.0")
    world.verified("1.1")
    world.declare("2.0")
    world.pass_by()
    world.bench.watch()
    world.bench.substrate.broken = {"1.1"}
    world.bench.clock.advance(20)
    world.breaks()
    world.poll()
    world.pass_by(1)
    assert world.newest().kind == Kind.ROLLBACK
    assert world.newest().follow_up == "people were told"
    assert {one.version for one in world.quarantines()} == {"1.1", "2.0"}
    world.run_out()
    assert world.rollbacks() == 1


@pytest.mark.req("DWH-2", "DWH-3", "DWH-7")
def test_a_deploy_that_is_cut_off_puts_its_version_on_trial(world: Watched) -> None:
    world.verified("1.0")
    answers = [Delivery(instances=1)]
    world.bench.substrate._deliver = lambda _: answers.pop() if answers else Delivery()
    world.declare("1.1")
    world.bench.look()
    world.bench.act()
    [deploy] = [one for one in world.bench.records() if one.request.kind == Kind.DEPLOY]
    assert (deploy.state, world.versions()) == (OutboxState.FAILED, {"1.0", "1.1"})
    trial = world.newest()
    assert (trial.kind, trial.version, trial.changes_version) == (Kind.DEPLOY, "1.1", True)
    [new] = [index for index, version in world.bench.substrate.versions("app").items() if version == "1.1"]
    world.bench.substrate.sicken("app", new)
    world.bench.watch()
    world.poll()
    [held] = world.quarantines()
    assert (held.version, held.watch_seq, world.rollbacks()) == ("1.1", trial.seq, 1)
    world.bench.act()
    world.pass_by()
    assert (world.versions(), world.standing()) == ({"1.0"}, "version_quarantined")


@pytest.mark.req("DWH-4", "REC-6")
def test_a_version_that_falls_again_after_its_repair_fails_at_once(world: Watched) -> None:
    world.verified("1.0")
    world.declare("1.1")
    world.pass_by()
    world.bench.watch()
    for _ in range(2):  # twice within the grace period: what was repaired has no grace left
        world.bench.clock.advance(2)
        for index in (0, 1):
            world.bench.substrate.crash("app", index)
        world.pass_by(1)
    failed = next(one for one in world.watches() if one.status is WatchStatus.FAILED)
    assert (failed.kind, failed.changes_version, failed.version) == (Kind.RESTART, True, "1.1")
    world.bench.watch()
    assert world.rollbacks() == 1


@pytest.mark.req("DWH-4")
def test_the_grace_period_of_a_service_holds_for_a_trial_that_a_repair_took_over(world: Watched) -> None:
    world.verified("1.0")
    world.declare("1.1", watch=WatchBlock(window_s=100, poll_s=5, grace_s=4))
    world.pass_by()
    for index in (0, 1):
        world.bench.substrate.crash("app", index)
    world.pass_by(1)  # before the first step of the deploy's own watch
    world.bench.watch()
    taken = world.newest()
    assert (taken.kind, taken.changes_version) == (Kind.RESTART, True)
    assert taken.grace_until == taken.settled + 4 * SECOND


@pytest.mark.req("DWH-2", "DWH-5")
def test_a_replica_that_does_not_tell_its_version_yet_is_no_sign_that_the_bad_one_is_gone(world: Watched) -> None:
    world.verified("1.0")
    substrate = world.bench.substrate
    substrate.broken = {"1.1"}
    world.declare("1.1")
    world.pass_by(1)
    substrate._states["app"].slots[0].version = ""  # being started again, seen in between
    world.bench.watch()
    assert (world.newest().follow_up, world.rollbacks()) == ("pending", 0)
    substrate._states["app"].slots[0].version = "1.1"
    world.poll(1.1)
    assert world.rollbacks() == 1
    substrate._states["app"].slots[0].version = ""
    world.bench.act()
    assert world.bench.records()[0].state is OutboxState.PREPARED, "nobody can tell now whether it is needed"
    substrate._states["app"].slots[0].version = "1.1"
    world.bench.clock.advance(5)
    world.bench.act()
    assert world.versions() == {"1.0"}


def asked_to_start(world: Watched) -> Admission:
    """A person's own request to start it, at the gate."""
    bench = world.bench
    service = bench.files.current().fleet.services["app"]
    seen = bench.sightings.look_at(service)
    assert seen is not None
    request = a_request(
        service, kind=Kind.START, params={"replicas": 2}, source="operator", observed_at=seen.observed_at
    )
    request = msgspec.structs.replace(request, evidence=Evidence(observed_at=seen.observed_at, facts=facts(seen)))
    [answer] = bench.gate.admit([request], fence=None)
    return answer


def stopped(world: Watched, version: str) -> None:
    world.declare(version, desired=DesiredState.STOPPED)
    world.pass_by()
    assert world.versions() == set()


@pytest.mark.req("DWH-7")
def test_a_start_does_not_bring_back_a_version_in_quarantine_that_ran_before_the_stop(world: Watched) -> None:
    world.pass_by()
    world.declare("1.1")
    world.pass_by()
    world.bench.watch()
    world.bench.clock.advance(20)
    world.breaks()
    world.poll()
    assert ([one.version for one in world.quarantines()], world.rollbacks()) == (["1.1"], 0)  # none was ever verified
    stopped(world, "1.1")
    world.declare("1.2", desired=DesiredState.RUNNING)
    world.pass_by()
    assert (world.versions(), world.standing()) == (set(), "version_quarantined")
    reason = world.bench.reconciler.standings()["app"].reason
    assert "version 1.1 of app ran last and would be brought back" in reason
    denied = asked_to_start(world)
    assert (denied.answer, denied.reason) == (Answer.DENIED, reason)
    [held] = world.quarantines()
    world.bench.store.transact("clear", lambda tx: tx.quarantines.clear(held.seq, by="ada", note="mended"))
    world.pass_by(1)
    assert world.versions() == {"1.1"}


@pytest.mark.req("DWH-7")
def test_a_start_brings_back_the_good_version_that_ran_though_the_declared_one_is_in_quarantine(world: Watched) -> None:
    world.verified("1.0")
    world.declare("1.1")
    world.pass_by()
    world.bench.watch()
    world.bench.clock.advance(20)
    world.breaks()
    world.poll()
    world.pass_by()
    assert (world.versions(), world.standing()) == ({"1.0"}, "version_quarantined")
    stopped(world, "1.1")
    world.declare("1.1", desired=DesiredState.RUNNING)
    world.pass_by()
    assert (world.versions(), world.standing()) == ({"1.0"}, "version_quarantined")
