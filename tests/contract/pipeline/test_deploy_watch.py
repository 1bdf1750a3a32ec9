"""Watches through the whole protocol: what begins one, what it sees, how it ends, and what follows."""

from __future__ import annotations

import pytest

from fleetwarden.controllers.gate import Answer
from fleetwarden.controllers.watch_again import follow_again
from fleetwarden.domain.actions import Kind, Source, Tier, Verdict
from fleetwarden.domain.deploy_watch import DeployWatch, Sight, WatchStatus
from fleetwarden.domain.fleet import Mode
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.domain.watch_block import SignalCheck, WatchBlock
from fleetwarden.ports.stores import Tx
from fleetwarden.testing import a_policy, a_request
from fleetwarden.testing.substrate import Answer as Heard
from fleetwarden.testing.substrate import Delivery
from tests.contract.pipeline.conftest import Bench
from tests.contract.pipeline.watching import Watched
from tests.contract.store.conftest import Database, sqlite

__all__ = ["sqlite"]  # the fixture


@pytest.fixture
def world(sqlite: Database) -> Watched:
    """Nothing runs yet, on SQLite, whose time is ours to move."""
    return Watched(Bench(sqlite.open(), sqlite.clock))


def on_trial(world: Watched) -> None:
    """A version that is known to be good runs, and the next one, which is down: its watch has not looked yet."""
    world.verified("1.0")
    sick(world, "1.1")


def sick(world: Watched, version: str) -> None:
    world.declare(version)
    world.pass_by()
    world.bench.watch()
    world.breaks()


def broken(world: Watched, version: str = "1.1") -> None:
    """That version is deployed, and goes down after a while."""
    sick(world, version)
    world.poll()


@pytest.mark.req("DWH-1", "REC-5")
def test_a_watch_looks_every_poll_until_its_deadline_and_only_then_says_success(world: Watched) -> None:
    world.pass_by()
    world.bench.watch()
    begun = world.newest()
    assert (begun.status, begun.kind, begun.version) == (WatchStatus.RUNNING, Kind.START, "1.0")
    assert begun.deadline - begun.started == 300 * SECOND
    for looks in range(1, 20):
        assert world.poll() == 1
        now = world.newest()
        assert (now.status, now.made, now.healthy) == (WatchStatus.RUNNING, looks, looks)
    world.poll()
    ended = world.newest()
    assert (ended.status, ended.made, ended.proven) == (WatchStatus.SUCCESS, 20, True)
    assert len(ended.probes) == 1  # equal looks are told once
    assert world.poll() == 0


@pytest.mark.req("DWH-3", "DWH-5")
def test_a_start_that_evidence_settled_proves_the_version_that_is_seen_to_run(world: Watched) -> None:
    answers = [Delivery(answer=Heard.LOST)]
    world.bench.substrate._deliver = lambda _: answers.pop() if answers else Delivery()
    world.pass_by(1)
    world.bench.clock.advance(60)
    world.pass_by(1)
    world.bench.watch()
    begun = world.newest()
    assert (begun.kind, begun.version) == (Kind.START, "")  # nobody was told what was started
    world.run_out()
    ended = world.newest()
    assert (ended.status, ended.version, ended.proven) == (WatchStatus.SUCCESS, "1.0", True)


@pytest.mark.req("DWH-2", "DWH-3", "DWH-5", "DWH-7", "POL-13")
def test_a_broken_version_is_rolled_back_to_the_verified_one_and_not_deployed_again(world: Watched) -> None:
    world.verified("1.0")
    broken(world)
    failed = world.newest()
    assert (failed.status, failed.version, failed.from_version) == (WatchStatus.FAILED, "1.1", "1.0")
    [held] = world.quarantines()
    assert (held.version, held.watch_seq) == ("1.1", failed.seq)
    [decision] = [one for one in world.bench.decisions() if one.request.kind == Kind.ROLLBACK]
    assert (decision.verdict, decision.request.source) == (Verdict.ALLOW, Source.DEPLOY_WATCH)
    assert decision.request.params == {"version": "1.0"}
    world.bench.act()
    assert world.versions() == {"1.0"}
    for _ in range(4):
        world.pass_by()
        world.poll(60)
    assert world.standing() == "version_quarantined"
    assert (world.versions(), world.rollbacks()) == ({"1.0"}, 1)
    assert sum(one.request.kind == Kind.DEPLOY for one in world.bench.records()) == 1


def freeze(world: Watched, *, on: bool) -> None:
    def run(tx: Tx) -> None:
        if on:
            tx.freezes.add(owner="ada", reason="lunch")
        else:
            tx.freezes.lift(tx.freezes.active()[0].seq, "ada")

    world.bench.store.transact("freeze", run)


@pytest.mark.req("DWH-2", "POL-12")
def test_a_rollback_that_a_freeze_holds_is_asked_for_once_it_is_lifted(world: Watched) -> None:
    world.verified("1.0")
    world.declare("1.1")
    world.pass_by()
    world.bench.watch()
    freeze(world, on=True)
    world.breaks()
    for _ in range(3):
        world.poll(3_000)  # longer than anything else is waited for
    failed = next(one for one in world.watches() if one.version == "1.1")
    assert (failed.status, failed.follow_up, world.rollbacks()) == (WatchStatus.FAILED, "pending", 0)
    freeze(world, on=False)
    world.poll()
    world.bench.act()
    assert (world.rollbacks(), world.versions()) == (1, {"1.0"})


@pytest.mark.req("DWH-2", "POL-12")
def test_a_freeze_of_more_than_a_day_leaves_a_rollback_to_people(world: Watched) -> None:
    world.verified("1.0")
    world.declare("1.1")
    world.pass_by()
    world.bench.watch()
    freeze(world, on=True)
    world.breaks()
    world.poll()
    world.poll(86_401)
    assert any("nothing is done about it: given up after" in one for one in world.bench.notices())
    freeze(world, on=False)
    world.poll()
    assert world.rollbacks() == 0


@pytest.mark.req("DWH-2", "DWH-7")
def test_under_a_policy_that_asks_the_rollback_waits_and_people_are_told(world: Watched) -> None:
    world.verified("1.0")
    world.declare("1.1")
    world.pass_by()
    world.bench.watch()
    world.bench.policy(a_policy(Tier.APPROVAL_REQUIRED))
    world.breaks()
    world.poll()
    [approval] = world.bench.approvals()
    assert (approval.status, approval.request.kind) == (ApprovalState.PENDING, Kind.ROLLBACK)
    assert world.versions() == {"1.1"}
    assert any("waits for approval" in one and "rollback of app to 1.0" in one for one in world.bench.notices())


@pytest.mark.req("DWH-5", "DWH-2")
def test_without_a_verified_version_people_are_told_and_nothing_is_done(world: Watched) -> None:
    world.bench.substrate.boot("app", 2, version="1.0")  # nobody ever watched it
    broken(world)
    assert world.newest().status is WatchStatus.FAILED
    assert (world.rollbacks(), world.versions()) == (0, {"1.1"})
    assert "no other version of app was verified healthy here" in world.newest().follow_up
    assert any("nothing is done about it" in one for one in world.bench.notices())


@pytest.mark.req("DWH-5")
def test_a_rollback_is_never_rolled_back(world: Watched) -> None:
    world.verified("1.0")
    world.verified("1.1")
    broken(world, "1.2")
    world.bench.act()
    assert world.versions() == {"1.1"}
    world.bench.watch()
    world.breaks()
    world.poll()
    assert (world.newest().kind, world.newest().status) == (Kind.ROLLBACK, WatchStatus.FAILED)
    assert world.rollbacks() == 1
    assert world.newest().follow_up == "people were told"


@pytest.mark.req("DWH-3", "DWH-5")
def test_it_goes_back_to_the_last_version_that_was_good_and_past_the_ones_that_were_not(world: Watched) -> None:
    world.verified("1.0")
    broken(world, "1.1")
    world.bench.act()
    world.pass_by()
    world.run_out()
    broken(world, "1.2")
    asked = [one.request.params for one in world.bench.decisions() if one.request.kind == Kind.ROLLBACK]
    assert asked == [{"version": "1.0"}, {"version": "1.0"}]


@pytest.mark.req("DWH-6")
def test_a_failed_watch_of_a_restart_never_touches_the_version(world: Watched) -> None:
    world.verified("1.0")
    for index in (0, 1):
        world.bench.substrate.crash("app", index)
    world.pass_by(1)
    world.bench.watch()
    world.poll()
    world.breaks()
    world.poll()
    restart = next(one for one in world.watches() if one.kind == Kind.RESTART)
    assert restart.status is WatchStatus.FAILED
    assert (world.rollbacks(), world.quarantines()) == (0, [])


@pytest.mark.req("DWH-2", "DWH-4")
def test_no_observation_is_no_verdict_and_never_a_rollback(world: Watched) -> None:
    world.verified("1.0")
    world.declare("1.1")
    world.pass_by()
    world.bench.watch()
    world.bench.substrate.hidden.add("app")
    world.run_out()
    assert world.newest().status is WatchStatus.UNOBSERVED
    assert (world.rollbacks(), world.quarantines(), world.newest().usable) == (0, [], 0)
    assert any("saw nothing" in one for one in world.bench.notices())


@pytest.mark.req("DWH-4", "DWH-8")
def test_what_is_down_within_the_grace_period_is_given_time(world: Watched) -> None:
    world.declare("1.0", watch=WatchBlock(window_s=100, poll_s=5, grace_s=30))
    world.pass_by()
    world.bench.watch()
    world.breaks()
    world.poll(5.001)
    assert (world.newest().status, world.newest().last) == (WatchStatus.RUNNING, Sight.EARLY)
    for index in (0, 1):
        world.bench.substrate.heal("app", index)
    for _ in range(20):
        world.poll(5.001)
    assert world.newest().status is WatchStatus.SUCCESS
    ended = world.newest()
    assert ended.ended_at is not None
    assert ended.ended_at >= ended.deadline


@pytest.mark.req("DWH-4")
def test_a_later_watch_takes_the_place_of_the_one_that_runs_and_says_so(world: Watched) -> None:
    world.pass_by()
    world.bench.watch()
    world.poll(60)
    world.declare("1.1")
    world.pass_by()
    newer, older = world.watches()
    assert (older.status, older.replaced_by) == (WatchStatus.REPLACED, newer.seq)
    assert (newer.status, newer.kind) == (WatchStatus.RUNNING, Kind.DEPLOY)
    world.bench.watch()
    world.bench.watch()
    work = world.bench.store.read(lambda tx: tx.work.depth())
    assert work[1] == 0


@pytest.mark.req("DWH-4", "DWH-2")
def test_a_repair_while_a_version_is_on_trial_does_not_hide_that_it_fell(world: Watched) -> None:
    world.verified("1.0")
    world.declare("1.1")
    world.pass_by()
    world.bench.watch()
    world.bench.clock.advance(20)
    for index in (0, 1):
        world.bench.substrate.crash("app", index)
    world.pass_by(1)  # restarted before the watch has looked again
    assert set(world.bench.substrate.instances("app").values()) == {True}
    deploy = next(one for one in world.watches() if one.kind == Kind.DEPLOY)
    assert (deploy.status, deploy.follow_up) == (WatchStatus.FAILED, "pending")
    world.bench.watch()
    assert world.rollbacks() == 1


@pytest.mark.req("DWH-4", "DWH-6")
def test_a_repair_within_the_grace_period_takes_the_trial_over(world: Watched) -> None:
    world.verified("1.0")
    world.declare("1.1")
    world.pass_by()
    world.bench.watch()
    world.bench.clock.advance(5)
    for index in (0, 1):
        world.bench.substrate.crash("app", index)
    world.pass_by(1)
    taken = world.newest()
    assert (taken.kind, taken.changes_version, taken.version) == (Kind.RESTART, True, "1.1")
    world.bench.watch()
    world.bench.clock.advance(20)
    world.breaks()
    world.poll()
    assert (world.newest().status, world.rollbacks()) == (WatchStatus.FAILED, 1)


def falls(world: Watched, index: int, after_s: float) -> None:
    """One replica goes down while the other one runs, and is repaired."""
    world.poll(after_s)
    world.bench.substrate.crash("app", index)
    world.pass_by(1)
    world.bench.watch()


@pytest.mark.req("DWH-2", "DWH-4", "DWH-7")
def test_a_version_whose_replicas_fall_in_turns_fails_its_watch_at_the_first_that_falls_again(world: Watched) -> None:
    world.verified("1.0")
    world.declare("1.1")
    world.pass_by()
    world.bench.watch()
    falls(world, 0, 20)
    falls(world, 1, 10)
    on_trial = world.newest()
    assert (on_trial.status, on_trial.changes_version) == (WatchStatus.RUNNING, True), (
        "each fell once, and was repaired"
    )
    falls(world, 0, 10)
    failed = next(one for one in world.watches() if one.status is WatchStatus.FAILED)
    assert (failed.version, failed.changes_version) == ("1.1", True)
    assert [one.version for one in world.quarantines()] == ["1.1"]
    world.poll()
    assert world.rollbacks() == 1


@pytest.mark.req("REC-6")
def test_replicas_that_fall_in_turns_do_not_hide_each_others_falls(world: Watched) -> None:
    world.pass_by()
    world.bench.watch()
    world.run_out()
    for _ in range(4):
        falls(world, 0, 10)
        falls(world, 1, 10)
    told = [one for one in world.bench.notices() if "failed 3 times in a row" in one]
    assert len(told) >= 1


@pytest.mark.req("REC-6")
def test_a_replica_that_falls_once_is_no_failure_of_another_ones_repair(world: Watched) -> None:
    world.pass_by()
    world.bench.watch()
    world.run_out()
    falls(world, 0, 10)
    falls(world, 1, 10)
    falls(world, 0, 301)
    assert [one.status for one in world.watches() if one.status is WatchStatus.FAILED] == []


@pytest.mark.req("DWH-1")
@pytest.mark.parametrize("late", [False, True])
def test_after_a_crash_the_original_window_goes_on(world: Watched, late: bool) -> None:
    world.pass_by()
    world.bench.watch()
    world.poll()
    deadline = world.newest().deadline
    again = Bench(world.bench.store, world.bench.clock, holder="p2")
    again.files, again.substrate = world.bench.files, world.bench.substrate
    again.build()
    world.bench.clock.advance(600 if late else 60)  # the lease of the one that died lapses
    world.bench = again
    again.watch()
    now = world.newest()
    assert now.deadline == deadline
    assert now.status is (WatchStatus.SUCCESS if late else WatchStatus.RUNNING)
    assert now.made == 2


@pytest.mark.req("DWH-1", "DWH-2")
def test_whoever_dies_between_verdict_and_proposal_proposes_once(world: Watched) -> None:
    on_trial(world)
    real = world.bench.watches._follow_up
    died: list[int] = []

    def dies(watch, fence):
        if len(died) < 2:
            died.append(watch.seq)
            if len(died) == 2:
                real(watch, fence)  # it was proposed, and that was not written down
            raise KeyboardInterrupt
        return real(watch, fence)

    world.bench.watches._follow_up = dies
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            world.poll(90)
    world.poll(90)
    assert world.newest().status is WatchStatus.FAILED
    assert (world.rollbacks(), world.newest().follow_up != "pending") == (1, True)


@pytest.mark.req("DWH-1", "DWH-2", "RUN-1")
def test_whoever_dies_before_a_follow_up_is_written_down_tells_people_once(world: Watched) -> None:
    on_trial(world)
    whole = world.bench.store.transact
    died: list[str] = []

    def dies(name, fn):
        if name == "watch_followed" and not died:
            died.append(name)
            raise KeyboardInterrupt
        return whole(name, fn)

    world.bench.store.transact = dies  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        world.poll(90)
    world.poll(90)
    assert died == ["watch_followed"]
    assert sum("rollback of app to 1.0 goes ahead" in one for one in world.bench.notices()) == 1


def lost_on_the_way(world: Watched, times: int) -> None:
    """The next rollbacks never arrive, and nobody hears so: evidence says later that they were not done."""
    world.bench.substrate._deliver = lambda _: Delivery(answer=Heard.LOST, lands=False)
    for _ in range(times):
        world.bench.act()
        world.bench.clock.advance(120)
        world.bench.look()
        world.bench.act()
        world.bench.watch()
    world.bench.substrate._deliver = lambda _: Delivery()


@pytest.mark.req("DWH-2", "DWH-5", "RUN-1")
def test_a_rollback_that_was_lost_on_the_way_is_asked_for_anew_and_done_once(world: Watched) -> None:
    world.verified("1.0")
    broken(world)
    lost_on_the_way(world, 1)
    states = [one.state for one in world.bench.records() if one.request.kind == Kind.ROLLBACK]
    assert states == [OutboxState.PREPARED, OutboxState.FAILED]
    assert len({one.key for one in world.bench.records()}) == len(world.bench.records())
    world.bench.act()
    assert world.versions() == {"1.0"}
    for _ in range(4):
        world.pass_by()
        world.poll(60)
    assert (world.versions(), world.rollbacks()) == ({"1.0"}, 2)


@pytest.mark.req("DWH-2", "DWH-5", "RUN-1")
def test_a_rollback_whose_authorisation_lapsed_while_no_plane_ran_is_asked_for_anew(world: Watched) -> None:
    world.verified("1.0")
    broken(world)
    world.bench.clock.advance(3000)
    world.bench.act()
    world.bench.watch()
    states = [one.state for one in world.bench.records() if one.request.kind == Kind.ROLLBACK]
    assert states == [OutboxState.PREPARED, OutboxState.ABANDONED]
    world.bench.act()
    assert world.versions() == {"1.0"}


@pytest.mark.req("DWH-2", "DWH-5", "RUN-1")
def test_a_rollback_that_ends_before_its_follow_up_is_written_down_is_asked_for_anew(world: Watched) -> None:
    on_trial(world)
    whole = world.bench.store.transact
    ended: list[int] = []

    def another_thread_ends_it(name, fn):
        if name == "watch_followed" and not ended:
            ended.append(world.bench.records()[0].seq)
            whole("last check", lambda tx: follow_again(tx, tx.outbox.abandon(ended[0], "refused at the last check")))
        return whole(name, fn)

    world.bench.store.transact = another_thread_ends_it  # type: ignore[method-assign]
    world.poll(90)
    world.poll(1)
    states = [one.state for one in world.bench.records() if one.request.kind == Kind.ROLLBACK]
    assert states == [OutboxState.PREPARED, OutboxState.ABANDONED]
    world.bench.act()
    assert world.versions() == {"1.0"}


@pytest.mark.req("DWH-2", "DWH-5", "POL-8")
def test_a_granted_rollback_that_was_lost_on_the_way_is_put_before_a_person_anew(world: Watched) -> None:
    on_trial(world)
    world.bench.policy(a_policy(Tier.APPROVAL_REQUIRED))
    world.poll(90)
    [first] = [one for one in world.bench.approvals() if one.request.kind == Kind.ROLLBACK]
    world.bench.desk.grant(first.seq, by="ada", reason="yes")
    world.bench.look()
    world.bench.worker.run()
    lost_on_the_way(world, 1)
    asked = [one for one in world.bench.approvals() if one.request.kind == Kind.ROLLBACK]
    assert sorted(one.status for one in asked) == [ApprovalState.CLOSED, ApprovalState.PENDING]
    assert world.versions() == {"1.1"}


@pytest.mark.req("DWH-2", "DWH-5")
def test_a_rollback_of_which_nothing_comes_again_and_again_is_left_to_people(world: Watched) -> None:
    world.verified("1.0")
    broken(world)
    lost_on_the_way(world, 4)
    assert world.rollbacks() == 3
    assert any("nothing came of 3 rollbacks to 1.0" in one for one in world.bench.notices())
    world.bench.act()
    assert world.versions() == {"1.1"}


@pytest.mark.req("DWH-3")
def test_a_signal_that_breaks_its_bound_fails_the_version(world: Watched) -> None:
    world.verified("1.0")
    checks = (SignalCheck(signal="error_rate", max=0.01),)
    world.bench.signals.set("app", "error_rate", 0.5)
    world.declare("1.1", watch=WatchBlock(checks=checks))
    world.pass_by()
    world.bench.watch()
    world.poll(16)
    assert (world.newest().status, world.rollbacks()) == (WatchStatus.FAILED, 1)
    assert "error_rate is 0.5, at most 0.01 is allowed" in world.newest().reason


@pytest.mark.req("DWH-3")
@pytest.mark.parametrize(("said", "status"), [(False, WatchStatus.UNOBSERVED), (True, WatchStatus.SUCCESS)])
def test_a_silent_signal_is_neither_success_nor_failure(world: Watched, said: bool, status: WatchStatus) -> None:
    world.declare("1.0", watch=WatchBlock(checks=(SignalCheck(signal="error_rate", max=0.01),)))
    if said:
        world.bench.signals.set("app", "error_rate", 0.001)
    world.pass_by()
    world.bench.watch()
    world.run_out()
    assert world.newest().status is status
    assert world.newest().proven is said


@pytest.mark.req("DWH-3", "DWH-4")
def test_a_sample_from_before_the_action_is_not_judged(world: Watched) -> None:
    world.declare("1.0", watch=WatchBlock(checks=(SignalCheck(signal="error_rate", max=0.01),)))
    world.bench.signals.set("app", "error_rate", 0.5, observed_at=world.bench.clock.now())
    world.bench.clock.advance(1)
    world.pass_by()
    world.bench.watch()
    world.run_out()
    assert (world.newest().status, world.newest().judged) == (WatchStatus.UNOBSERVED, ())


@pytest.mark.req("DWH-7")
def test_nobody_deploys_or_starts_a_version_in_quarantine(world: Watched) -> None:
    world.verified("1.0")
    broken(world)
    world.bench.act()
    service = world.bench.files.current().fleet.services["app"]
    for kind, source in ((Kind.DEPLOY, Source.RECONCILER), (Kind.DEPLOY, Source.OPERATOR), (Kind.START, "operator")):
        params = {"version": "1.1"} if kind == Kind.DEPLOY else {"replicas": 2}
        world.bench.clock.advance(1)
        request = a_request(
            service,
            kind=kind,
            params=params,
            source=source,
            key=f"{kind}-{source}",
            observed_at=world.bench.store.read(lambda tx: tx.now()),
        )
        [answer] = world.bench.gate.admit([request], fence=None)
        assert answer.answer is Answer.DENIED
        assert "quarantine clear app" in answer.reason


@pytest.mark.req("DWH-7")
def test_a_cleared_version_is_deployed_again_though_it_was_rolled_back(world: Watched) -> None:
    world.verified("1.0")
    broken(world)
    world.bench.act()
    world.bench.clock.advance(1)
    [held] = world.quarantines()
    world.bench.store.transact("clear", lambda tx: tx.quarantines.clear(held.seq, by="ada", note="mended"))
    world.pass_by()
    assert world.versions() == {"1.1"}


@pytest.mark.req("DWH-7")
def test_a_repair_goes_on_in_the_version_that_runs(world: Watched) -> None:
    world.verified("1.0")
    broken(world)
    world.bench.act()
    world.bench.substrate.crash("app", 0)
    world.pass_by()
    assert set(world.bench.substrate.instances("app").values()) == {True}
    assert world.versions() == {"1.0"}


@pytest.mark.req("REC-6")
def test_repairs_after_which_it_fell_again_make_a_row_and_escalate_at_the_third(world: Watched) -> None:
    world.pass_by()
    world.bench.watch()
    world.run_out()
    for _ in range(3):
        world.bench.substrate.crash("app", 0)
        world.pass_by(1)
        world.bench.watch()
        world.poll(20)
    world.bench.substrate.crash("app", 0)
    world.poll(20)
    told = [one for one in world.bench.notices() if "failed 3 times in a row" in one]
    assert len(told) == 1
    calls = world.bench.calls()
    world.pass_by(1)
    assert (world.standing(), world.bench.calls()) == ("backing_off", calls)
    again = Bench(world.bench.store, world.bench.clock)
    again.files, again.substrate = world.bench.files, world.bench.substrate
    again.build()
    again.look()
    assert again.reconciler.standings()["app"].code == "backing_off"


@pytest.mark.req("REC-6")
def test_a_repair_that_lasted_ends_the_row(world: Watched) -> None:
    world.pass_by()
    world.bench.watch()
    world.run_out()
    for _ in range(2):
        world.bench.substrate.crash("app", 0)
        world.pass_by(1)
        world.bench.watch()
        world.poll(20)
    world.run_out()
    assert world.newest().status is WatchStatus.SUCCESS
    world.bench.substrate.crash("app", 0)
    world.pass_by(1)
    world.bench.watch()
    world.bench.substrate.crash("app", 0)
    world.poll(20)
    failing = world.bench.store.read(lambda tx: tx.executions.failing(["app"], 0))
    assert [one.count for one in failing] == [1]


@pytest.mark.req("DWH-6", "REC-13", "AUT-8")
def test_what_is_simulated_is_not_watched_and_an_observed_service_is_left_alone(world: Watched) -> None:
    world.declare("1.0", mode=Mode.DRY_RUN)
    world.pass_by()
    assert world.watches() == []
    world.declare("1.0", mode=Mode.LIVE)
    world.verified("1.0")
    world.declare("1.1")
    world.pass_by()
    world.bench.watch()
    world.declare("1.1", mode=Mode.OBSERVE)
    world.breaks()
    world.poll()
    assert world.newest().status is WatchStatus.FAILED
    assert (world.rollbacks(), "observe" in world.newest().follow_up) == (0, True)


@pytest.mark.req("REC-13")
def test_a_declared_count_is_not_watched(world: Watched) -> None:
    world.pass_by()
    world.declare("1.0", replicas=3)
    world.pass_by()
    assert [one.kind for one in world.watches()] == [Kind.START]
    assert any(one.request.kind == Kind.SCALE and one.state is OutboxState.SUCCEEDED for one in world.bench.records())


@pytest.mark.req("DWH-1", "DWH-2", "DWH-7", "REC-5")
def test_the_same_on_both_databases(bench: Bench, database: Database) -> None:
    bench.build(window_s=0.02)
    world = Watched(bench)

    def ended() -> DeployWatch:
        """The newest watch, once its window is over by the store's time, of which a server's is its own."""
        for _ in range(200):
            bench.watch()
            if world.newest().status is not WatchStatus.RUNNING:
                break
            database.lapse()
        return world.newest()

    world.pass_by()
    first = ended()
    assert (first.status, first.proven) == (WatchStatus.SUCCESS, True)
    world.declare("1.1")
    world.pass_by(1)
    world.breaks()
    assert ended().status is WatchStatus.FAILED
    bench.act()
    assert world.versions() == {"1.0"}
    assert [one.version for one in world.quarantines()] == ["1.1"]
    seq = world.bench.store.read(lambda tx: tx.quarantines.of_service("app", 5))[0].seq
    bench.store.transact("clear", lambda tx: tx.quarantines.clear(seq, by="ada", note="mended"))
    with pytest.raises(Exception, match="cleared already"):
        bench.store.transact("clear", lambda tx: tx.quarantines.clear(seq, by="ada", note="mended"))
    assert world.quarantines() == []
