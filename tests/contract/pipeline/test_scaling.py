"""Load becomes replicas through intents, on both databases: one writer, one side effect, a reason for every refusal."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import fleetwarden.controllers.autoscaler as autoscaler_module
from fleetwarden.adapters.files.yaml_tree import parse
from fleetwarden.app.scaling_views import evaluation_view
from fleetwarden.controllers.autoscaler import CADENCE
from fleetwarden.controllers.autoscaler_wishes import Mover, Movers
from fleetwarden.controllers.gate import Answer as GateAnswer
from fleetwarden.controllers.intent_desk import PutAnswer
from fleetwarden.controllers.override_revisions import note_override
from fleetwarden.controllers.wishes import as_asked
from fleetwarden.domain.actions import Kind, Source, Tier, Verdict
from fleetwarden.domain.fleet import DesiredState, Mode
from fleetwarden.domain.identifiers import SECOND, canonical_json
from fleetwarden.domain.lifecycles import ApprovalState, IntentState, OutboxState
from fleetwarden.domain.located import located
from fleetwarden.domain.policy import Policy
from fleetwarden.domain.registry import read_fleet
from fleetwarden.domain.scaling import read_block
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.domain.signals import Aggregation, SampleFault
from fleetwarden.ports.desired import OverrideDraft
from fleetwarden.ports.intents import IntentRow
from fleetwarden.ports.stores import Page, WorkDraft
from fleetwarden.store.opening import open_store
from fleetwarden.testing import Answer, Delivery, FakeClock, FakeSignals, a_policy, a_request, a_service
from tests.contract.pipeline.conftest import Bench
from tests.contract.pipeline.scaling import Scaling, scaled
from tests.contract.store.conftest import Database, sqlite

__all__ = ["sqlite"]  # the fixture


@pytest.fixture
def timed(sqlite: Database) -> Bench:
    """Where the store goes by the clock that a test moves."""
    made = Bench(sqlite.open(), sqlite.clock)
    made.substrate.boot("web", 2)
    return made


ASKING = a_policy(Tier.APPROVAL_REQUIRED)
FORBIDDING = a_policy(Tier.FORBIDDEN)


@pytest.mark.req("AUT-2", "AUT-6", "AUT-9", "AUT-21", "ORC-7")
def test_load_becomes_replicas_and_is_watched_until_it_holds(bench: Bench) -> None:
    world = Scaling(bench)
    world.load(45)
    report = world.tick()
    assert [one.answer for one in report.verdicts] == ["accepted"]
    assert (world.count(), world.states()) == (2, ["intent_accepted"])  # a tick alone changes nothing
    bench.look()
    bench.act()
    assert (world.count(), world.states()) == (5, ["executed"])
    bench.clock.advance(1)
    bench.look()
    assert world.states() == ["observed"]
    bench.clock.advance(1)
    bench.look()
    assert world.states() == ["verified"]
    [row] = world.intents()
    assert row.action_seq is not None
    action = row.action_seq
    record = bench.store.read(lambda tx: tx.outbox.get(action))
    assert record.decision_seq == row.decision_seq
    assert len(bench.decisions()) == 1  # one decision for the whole of it


@pytest.mark.req("ASC-12")
def test_a_count_that_load_has_set_is_not_said_to_be_the_files(bench: Bench) -> None:
    world = Scaling(bench)

    def wanted() -> tuple[int, str]:
        one = bench.store.read(lambda tx: as_asked(tx, bench.files.current())).fleet.services["web"]
        return one.replicas, one.source

    declared = bench.files.current().fleet.services["web"].source
    assert wanted() == (2, declared)
    world.load(45)
    world.round()
    count, source = wanted()
    assert count == 5
    assert source.startswith(declared)
    assert source.endswith("count from its last scaling")


@pytest.mark.req("AUT-11", "AUT-21")
def test_without_an_accepted_intent_the_reconciler_leaves_the_count_alone(timed: Bench) -> None:
    world = Scaling(timed)  # declared with 2 replicas
    timed.substrate.boot("web", 4)
    timed.settle_down()
    assert (world.count(), timed.records()) == (4, [])
    for state in (IntentState.REJECTED, IntentState.FAILED, IntentState.SUPERSEDED):
        world.load(world.count() * 10 + 11)
        world.tick(200)
        row = world.intents()[0]
        assert row.state is IntentState.INTENT_ACCEPTED
        _move(timed, row, state)
        timed.settle_down()
        assert (world.count(), timed.records()) == (4, [])


@pytest.mark.req("AUT-13", "ASC-6", "ASC-20", "ORC-5")
def test_the_cooldown_is_the_ledgers_and_survives_a_restart_to_its_very_end(timed: Bench) -> None:
    world = Scaling(timed)
    world.load(45)
    world.round()
    done = timed.executions()[0].at
    world.load(60)
    world.restart()
    while timed.clock.now() + 15_000_000 < done + 100_000_000:
        world.tick()
        assert world.code() == "skip_cooldown"
    left = (done + 100_000_000 - timed.clock.now()) / 1e6
    world.tick(left)
    assert world.intents()[0].state is IntentState.INTENT_ACCEPTED


@pytest.mark.req("PRO-4", "AUT-13")
def test_the_cooldown_is_asked_again_right_before_the_call(timed: Bench) -> None:
    """It was over when the count was wanted; by the pause that is declared when it is to be set, it is not."""
    world = Scaling(timed, scaled(cooldown_s=0))
    world.load(30)
    world.round()
    world.load(45)
    world.tick()
    assert (world.count(), world.states()[-1]) == (3, "intent_accepted")
    world.declare(scaled(cooldown_s=200))
    timed.settle_down()
    assert (world.count(), world.states()[-1]) == (3, "intent_accepted")
    timed.clock.advance(200)
    timed.settle_down()
    assert world.count() == 5


@pytest.mark.req("AUT-8", "AUT-10", "ASC-20")
def test_dry_runs_and_failures_consume_no_cooldown(bench: Bench) -> None:
    world = Scaling(bench, scaled(mode=Mode.DRY_RUN))
    world.load(45)
    world.round()
    assert (world.states(), world.count()) == (["simulated"], 2)
    world.round()
    assert world.states() == ["simulated"]  # the same again would only be noise
    world.declare(scaled())
    bench.substrate._deliver = lambda _: Delivery(answer=Answer.REFUSED)
    world.round()
    assert world.states() == ["simulated", "failed"]
    bench.substrate._deliver = lambda _: Delivery()
    world.round()
    assert world.states()[-1] == "executed"


@pytest.mark.req("AUT-22", "POL-2")
def test_the_same_wish_makes_no_new_revision_and_another_one_takes_its_place(bench: Bench) -> None:
    world = Scaling(bench)
    world.load(45)
    world.tick()
    world.tick()
    assert (world.states(), world.code()) == (["intent_accepted"], "intent_stands")
    assert len(bench.decisions()) == 1
    world.load(31)
    world.tick()
    assert world.states() == ["superseded", "intent_accepted"]
    bench.look()
    bench.act()
    assert (world.count(), bench.calls()) == (4, 1)


@pytest.mark.req("AUT-3", "AUT-23", "ASC-17", "PRO-16")
def test_a_person_is_asked_once_and_the_grant_carries_the_intent_out(bench: Bench) -> None:
    world = Scaling(bench, policy=ASKING)
    world.load(45)
    for _ in range(4):
        world.round()
    [approval] = bench.approvals()
    assert (world.states(), world.code(), len(bench.decisions())) == (["proposed"], "intent_stands", 1)
    bench.desk.grant(approval.seq, by="ann", reason="fine")
    bench.settle_down(3)
    assert (world.count(), world.states()[0] in ("executed", "observed", "verified")) == (5, True)
    assert [one.status for one in bench.approvals()] == [ApprovalState.CLOSED]
    assert bench.calls() == 1


@pytest.mark.req("AUT-5", "AUT-22")
def test_a_no_ends_the_intent_and_it_is_not_asked_again_before_the_cooldown(timed: Bench) -> None:
    world = Scaling(timed, policy=ASKING)
    world.load(45)
    world.round()
    timed.desk.reject(timed.approvals()[0].seq, by="ann", reason="no")
    assert world.states() == ["rejected"]
    world.round()
    assert (world.states(), world.code()) == (["rejected"], "skip_cooldown")
    world.round(100)
    assert world.states() == ["rejected", "proposed"]


@pytest.mark.req("AUT-5", "PRO-11")
def test_an_approval_that_expires_ends_its_intent(timed: Bench) -> None:
    world = Scaling(timed, policy=a_policy(Tier.APPROVAL_REQUIRED, approval_expires_s=30))
    world.load(45)
    world.round()
    timed.clock.advance(31)
    timed.look()
    assert world.states() == ["rejected"]
    assert [one.status for one in timed.approvals()] == [ApprovalState.EXPIRED]


@pytest.mark.req("AUT-22", "POL-12")
def test_while_a_person_is_asked_another_count_waits_and_the_other_way_does_not(bench: Bench) -> None:
    world = Scaling(bench, scaled(scale_down_stabilization_samples=1), policy=ASKING)
    world.load(45)
    world.round()
    world.load(55)
    world.round()
    assert (world.states(), world.code(), len(bench.approvals())) == (["proposed"], "waiting_for_approval", 1)
    world.load(3)
    world.round()
    assert world.states() == ["superseded", "proposed"]
    assert [one.status for one in reversed(bench.approvals())] == [ApprovalState.SUPERSEDED, ApprovalState.PENDING]


@pytest.mark.req("AUT-23", "PRO-13")
def test_what_policy_forbids_by_now_is_rejected_and_its_grant_voided(bench: Bench) -> None:
    world = Scaling(bench, policy=ASKING)
    world.load(45)
    world.round()
    bench.desk.grant(bench.approvals()[0].seq, by="ann", reason="fine")
    world.declare(scaled(), policy=FORBIDDING)
    bench.settle_down()
    assert (world.count(), world.states()) == (2, ["rejected"])
    assert [one.status for one in bench.approvals()] == [ApprovalState.VOIDED]


@pytest.mark.req("AUT-23", "PRO-1")
def test_a_freeze_lets_an_accepted_intent_wait_and_its_age_ends_it(timed: Bench) -> None:
    world = Scaling(timed)
    world.load(45)
    world.tick()
    timed.store.transact("freeze", lambda tx: tx.freezes.add(owner="ann", reason="lunch"))
    timed.settle_down()
    assert (world.count(), world.states()) == (2, ["intent_accepted"])
    timed.clock.advance(301)
    timed.look()
    assert (world.count(), world.states()) == (2, ["rejected"])


@pytest.mark.req("AUT-6")
@pytest.mark.parametrize("state", [IntentState.SUPERSEDED, IntentState.REJECTED])
def test_an_intent_that_moved_right_before_the_call_is_not_carried_out(bench: Bench, state: IntentState) -> None:
    world = Scaling(bench)
    world.load(45)
    world.tick()
    bench.look()
    [record] = bench.records()
    assert record.state is OutboxState.PREPARED
    row = world.intents()[0]
    bench.store.transact("late", lambda tx: tx.intents.move(row, state))
    bench.act()
    assert (bench.calls(), world.count()) == (0, 2)
    assert [one.state for one in bench.records()] == [OutboxState.ABANDONED]


@pytest.mark.req("AUT-6", "AUT-20")
def test_a_world_that_moved_on_supersedes_the_intent(bench: Bench) -> None:
    world = Scaling(bench)
    world.load(45)
    world.tick()
    bench.look()
    bench.substrate.boot("web", 5)  # somebody was quicker
    bench.act()
    assert (bench.calls(), world.states()) == (0, ["superseded"])


@pytest.mark.req("AUT-10", "PRO-2", "AUT-13")
def test_an_unknown_outcome_is_settled_by_evidence_and_nothing_is_put_until_then(bench: Bench) -> None:
    world = Scaling(bench)
    bench.substrate._deliver = lambda _: Delivery(answer=Answer.LOST)
    world.load(45)
    world.round()
    assert world.states() == ["recovery_pending"]
    world.load(60)
    world.tick()
    assert world.code() in ("busy", "skip_unknown_cooldown")
    assert len(world.intents()) == 1
    bench.substrate._deliver = lambda _: Delivery()
    bench.clock.advance(5)
    bench.act()
    assert world.states()[0] == "executed"
    assert bench.calls() == 1


@pytest.mark.req("AUT-9")
def test_what_is_never_seen_to_hold_fails_once_and_people_are_told(timed: Bench) -> None:
    world = Scaling(timed)
    world.load(45)
    world.round()
    timed.substrate.blurred.add("web")
    for _ in range(5):
        timed.clock.advance(150)
        timed.look()
    assert world.states() == ["failed"]
    assert sum("did not get there" in one for one in timed.notices()) == 1


@pytest.mark.req("AUT-9")
def test_a_look_that_contradicts_makes_the_next_that_agrees_the_first(bench: Bench) -> None:
    world = Scaling(bench)
    world.load(45)
    world.round()
    bench.clock.advance(1)
    bench.look()
    bench.substrate.crash("web", 0)
    bench.clock.advance(1)
    bench.look()
    assert world.states() == ["observed"]
    assert world.intents()[0].convergence.against_at is not None
    bench.act()  # the replica is restarted
    bench.clock.advance(30)
    bench.look()
    assert world.states() == ["observed"]  # the first look that agrees again
    bench.clock.advance(1)
    bench.look()
    assert world.states() == ["verified"]


def _move(bench: Bench, row: IntentRow, state: IntentState) -> None:
    bench.store.transact("end", lambda tx: tx.intents.move(row, state))


def override(bench: Bench, replicas: int) -> None:
    def run(tx):
        made = tx.service_overrides.put(
            OverrideDraft(service="web", replicas=replicas, state=None, reason="sale", by="ann")
        )
        return note_override(tx, bench.files.current().fleet.services["web"], made)

    bench.store.transact("override", run)


@pytest.mark.req("AUT-12", "PRO-16")
def test_an_override_takes_a_revision_supersedes_what_waits_and_holds(bench: Bench) -> None:
    world = Scaling(bench)
    world.load(45)
    world.tick()
    override(bench, 3)
    assert world.states() == ["superseded", "superseded"]
    bench.settle_down()
    world.tick()
    assert (world.count(), world.code()) == (3, "skip_override")
    [newest, _] = world.intents()
    assert (newest.intent.operation.value, newest.intent.revision, newest.intent.desired_replicas) == ("override", 2, 3)


@pytest.mark.req("AUT-12")
def test_what_is_to_be_stopped_is_not_evaluated(bench: Bench) -> None:
    world = Scaling(bench, scaled(desired=DesiredState.STOPPED))
    world.load(99)
    world.tick()
    told = world.autoscaler.standing("web")
    assert told is not None
    assert (told.code, told.reason, world.intents()) == ("skip_override", "it is to be stopped", [])
    assert world.autoscaler.counts["skip_override"] == 1
    world.declare(scaled())
    override(bench, 3)
    world.tick()
    told = world.autoscaler.standing("web")
    assert told is not None
    assert evaluation_view(told)["observe_only"] is False
    row = bench.store.read(lambda tx: tx.autoscale_rows.all())["web"]  # what every other plane tells
    assert (row.reason, "is held by" in row.words) == ("skip_override", True)


@pytest.mark.req("AUT-18", "AUT-1", "CON-14")
@pytest.mark.parametrize("mode", ["external_hpa", "external_keda"])
def test_where_another_controller_writes_the_count_it_is_only_evaluated(bench: Bench, mode: str) -> None:
    world = Scaling(bench, scaled(controller_mode=mode))
    world.load(99)
    for _ in range(3):
        world.round()
    told = world.autoscaler.standing("web")
    assert told is not None
    assert (told.code, told.raw, world.intents(), bench.records()) == ("external", 10, [], [])
    assert evaluation_view(told)["observe_only"] is True
    bench.substrate.crash("web", 0)
    bench.settle_down()
    assert [one.request.kind for one in bench.records()] == ["restart_service"]


@pytest.mark.req("AUT-18", "AUT-12")
@pytest.mark.parametrize("desired", list(DesiredState))
def test_what_another_controller_writes_is_never_scaled_stopped_or_started(bench: Bench, desired: DesiredState) -> None:
    service = scaled(controller_mode="external_hpa", desired=desired)
    Scaling(bench, service)
    if desired is DesiredState.RUNNING:
        bench.substrate.stopped("web", by="kubectl")
    bench.settle_down()
    asked = [
        a_request(service, kind=kind, params=params, key=kind, source=Source.OPERATOR, requested_by="olga")
        for kind, params in ((Kind.SCALE, {"replicas": 3}), (Kind.STOP, {}), (Kind.START, {"replicas": 1}))
    ]
    told = bench.gate.admit(asked, fence=None)
    assert [(one.answer, one.decision.code) for one in told if one.decision] == [(GateAnswer.DENIED, "structure")] * 3
    assert all("external_hpa" in one.reason for one in told)
    assert bench.records() == []


@pytest.mark.req("ASC-13", "AUT-6")
def test_scaling_that_is_paused_meanwhile_is_not_carried_out(bench: Bench) -> None:
    world = Scaling(bench)
    world.load(45)
    world.tick()
    assert world.states() == ["intent_accepted"]
    world.declare(scaled(paused=True))
    bench.settle_down()
    assert (world.states(), world.count(), bench.records()) == (["superseded"], 2, [])
    assert "paused" in world.intents()[0].note


@pytest.mark.req("AUT-20", "PRO-12")
@pytest.mark.parametrize("tier", [Tier.AUTO, Tier.APPROVAL_REQUIRED])
def test_a_persons_own_request_takes_the_place_of_the_question_and_of_its_intent(bench: Bench, tier: Tier) -> None:
    world = Scaling(bench, policy=ASKING)
    world.load(45)
    world.tick()
    assert world.states() == ["proposed"]
    bench.policy(a_policy(tier))
    seen = bench.sightings.look([scaled()]).seen["web"]
    wish = a_request(
        scaled(), kind=Kind.SCALE, params={"replicas": 3}, source=Source.OPERATOR, requested_by="olga",
        observed_at=seen.observed_at,
    )  # fmt: skip
    bench.gate.admit([wish], fence=None)
    assert world.states() == ["superseded"]
    assert [one.status for one in bench.approvals() if one.request.source == Source.AUTOSCALER] == [
        ApprovalState.SUPERSEDED
    ]


@pytest.mark.req("AUT-19")
def test_a_service_without_a_block_is_not_evaluated(bench: Bench) -> None:
    world = Scaling(bench, a_service("web", replicas=3))
    world.tick()
    assert world.autoscaler.standing("web") is None
    bench.settle_down()
    assert world.count() == 3


@pytest.mark.req("ASC-5", "ASC-16", "SGP-1")
def test_shrinking_takes_three_fresh_samples_and_a_bad_one_begins_anew(bench: Bench) -> None:
    world = Scaling(bench)
    bench.substrate.boot("web", 5)
    world.load(10)
    codes = []
    for step in range(7):
        if step == 2:
            world.signals.set_error("web", "q", SampleFault.STALE)
        elif step == 3:
            world.load(10)
        world.tick()
        codes.append(world.code())
    assert codes == ["stabilizing"] * 2 + ["skip_metrics"] + ["stabilizing"] * 2 + ["intent_accepted", "intent_stands"]


@pytest.mark.req("ASC-16")
def test_samples_in_a_row_survive_a_restart_between_any_two_ticks(bench: Bench) -> None:
    world = Scaling(bench)
    bench.substrate.boot("web", 5)
    world.load(10)
    for _ in range(3):
        world.tick()
        world.restart()
    assert world.states() == ["intent_accepted"]


@pytest.mark.req("ASC-6", "SGP-4")
def test_one_sample_counts_once_however_often_the_autoscaler_is_restarted(timed: Bench) -> None:
    world = Scaling(timed)
    timed.substrate.boot("web", 5)
    for tick in range(5):
        world.load(10, age_s=15.0 * tick)  # the source repeats what it measured before the first tick
        world.tick()
        world.restart()
    assert world.intents() == []
    for _ in range(3):
        world.load(10)
        world.tick()
        world.restart()
    assert world.states() == ["intent_accepted"]


@pytest.mark.req("ASC-5", "SGP-4")
@pytest.mark.parametrize("reads", [2, 3])
def test_a_source_that_measures_less_often_than_ticks_ask_still_lets_shrink(timed: Bench, reads: int) -> None:
    """Three samples are three measurements, however often each of them is read; no reading writes a row."""
    world = Scaling(timed)
    timed.substrate.boot("web", 5)
    written: list[int] = []
    for _ in range(3):
        assert world.intents() == []
        world.signals.set("web", "q", 10, observed_at=timed.clock.now())
        for _ in range(reads):
            before = _rows(timed)
            world.tick()
            written.append(_rows(timed) != before)
    assert world.states() == ["intent_accepted"]
    assert sum(written[: 2 * reads]) == 2


@pytest.mark.req("ASC-3", "ASC-5")
def test_an_average_from_before_a_change_says_nothing_of_the_count_after_it(timed: Bench) -> None:
    """It was measured before, and is read for the first time afterwards: another count carried what it says."""
    world = Scaling(timed, scaled(cooldown_s=0))
    world.signals = FakeSignals(aggregation=Aggregation.PER_REPLICA)
    world.restart()
    world.signals.set("web", "q", 20, observed_at=timed.clock.now() - 5_000_000)
    world.tick()
    late = timed.clock.now()  # measured while two replicas ran, and readable later
    timed.look()
    timed.act()
    assert world.count() == 4
    world.signals.set("web", "q", 20, observed_at=late)
    for restarted in (False, True):
        if restarted:
            world.restart()
        world.round()
        assert (world.code(), world.count()) == ("no_news", 4)
    world.load(10)
    world.round()
    assert (world.code(), world.count()) == ("deadband", 4)


@pytest.mark.req("ASC-5", "SGP-1")
def test_another_value_with_the_time_of_a_used_sample_is_a_replay(timed: Bench) -> None:
    world = Scaling(timed)
    timed.substrate.boot("web", 5)
    codes, measured = [], 0
    for value, newer in ((10, True), (10, True), (9, False), (10, True), (10, True), (10, True)):
        measured = timed.clock.now() if newer else measured
        world.signals.set("web", "q", value, observed_at=measured)
        world.tick()
        codes.append(world.code())
    assert codes == ["stabilizing"] * 2 + ["skip_metrics"] + ["stabilizing"] * 2 + ["intent_accepted"]


@pytest.mark.req("ASC-5", "AUT-13")
def test_no_sample_scales_twice(timed: Bench) -> None:
    """What was measured before a change says nothing about the count after it."""
    world = Scaling(timed, scaled(cooldown_s=0, scale_down_stabilization_samples=1))
    world.signals = FakeSignals(aggregation=Aggregation.PER_REPLICA)
    world.restart()
    world.signals.set("web", "q", 20, observed_at=timed.clock.now())
    world.round()
    assert (world.count(), world.states()) == (4, ["executed"])
    world.round()
    assert (world.code(), world.count(), len(world.intents())) == ("no_news", 4, 1)
    world.load(15)
    world.round()
    assert world.count() == 6


@pytest.mark.req("ASC-13")
def test_a_restart_makes_a_stabilization_window_no_shorter(timed: Bench) -> None:
    world = Scaling(timed, scaled(stabilization_window_s=300, scale_down_stabilization_samples=1))
    timed.substrate.boot("web", 5)
    world.load(50)
    world.tick()
    world.restart()
    world.load(10)
    for _ in range(20):
        world.tick()
        assert world.intents() == []
    world.tick()
    assert world.states() == ["intent_accepted"]


@pytest.mark.req("ASC-6", "PRO-12")
def test_a_plane_that_leads_again_counts_on_from_what_another_one_counted(timed: Bench) -> None:
    world = Scaling(timed)
    timed.substrate.boot("web", 5)
    world.load(10)
    world.tick()
    world.tick()
    first, ours = world.autoscaler, timed.holder
    world.restart()
    timed.holder = "another plane"
    timed.clock.advance(60)
    world.load(50)  # on target: the samples in a row are over
    world.tick()
    world.autoscaler, timed.holder = first, ours
    timed.clock.advance(60)
    world.load(10)
    world.tick()
    assert world.intents() == []


@pytest.mark.req("ASC-8", "CON-17")
def test_a_quiet_tick_writes_nothing(bench: Bench) -> None:
    world = Scaling(bench)
    world.load(20)
    for _ in range(2):
        world.tick()
    before = _rows(bench)
    for _ in range(5):
        assert world.tick().quiet
    assert _rows(bench) == before


def _rows(bench: Bench) -> list[object]:
    def read(tx):
        rows = {name: msgspec.structs.replace(one, at=0) for name, one in tx.autoscale_rows.all().items()}
        return [rows, len(tx.reports.list(_page())), len(tx.journal.list(_page())), len(tx.decisions.list(_page()))]

    return bench.store.read(read)


def _page():
    from fleetwarden.ports.stores import Page

    return Page(limit=500)


@pytest.mark.req("ASC-7", "ASC-11", "SGP-2")
def test_a_source_that_fails_moves_nothing_says_so_and_restarts_go_on(bench: Bench) -> None:
    world = Scaling(bench)
    world.signals.fail("prometheus does not answer")
    world.load(99)
    world.tick()
    told = world.autoscaler.standing("web")
    assert told is not None
    assert (told.code, world.intents()) == ("skip_metrics", [])
    assert "prometheus does not answer" in told.reason
    evidence = bench.supervision.evidence()
    assert (evidence.autoscaling_ready, evidence.convergence_ready) == (False, True)
    bench.substrate.crash("web", 0)
    bench.settle_down()
    assert [one.request.kind for one in bench.records()] == ["restart_service"]


@pytest.mark.req("ASC-17", "ASC-8")
def test_nobody_starves_and_pending_approvals_cost_nothing(bench: Bench) -> None:
    services = [scaled(f"s{n}") for n in range(8)]
    world = Scaling(bench, *services, policy=ASKING)
    for one in services:
        bench.substrate.boot(one.name, 2)
        world.load(45, one.name)
    first = world.tick()
    assert (len(first.verdicts), first.deferred) == (5, 3)
    second = world.tick()
    assert len(second.verdicts) == 3
    for _ in range(3):
        assert world.tick().verdicts == ()
    assert (len(bench.approvals()), len(bench.decisions())) == (8, 8)


@pytest.mark.req("ASC-17")
@pytest.mark.parametrize("policy", [a_policy(Tier.FORBIDDEN), ASKING])
def test_those_who_are_refused_keep_nobody_from_being_served(
    bench: Bench, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autoscaler_module, "CHUNK", 1)
    monkeypatch.setattr(autoscaler_module, "CHUNKS_MAX", 2)
    services = [scaled(f"s{n}") for n in range(5)]
    world = Scaling(bench, *services, policy=policy)
    for one in services:
        bench.substrate.boot(one.name, 2)
        world.load(45, one.name)
    for _ in range(3):
        world.tick()
    assert {one.request.target for one in bench.decisions()} == {one.name for one in services}


@pytest.mark.req("POL-5", "POL-6", "AUT-4")
@pytest.mark.parametrize("limits", [{"rate": (1, 3600)}, {"blast": (3, 3600)}, {"blast": (1, 60), "rate": (2, 60)}])
def test_a_list_is_decided_as_its_wishes_one_by_one(sqlite: Database, tmp_path: Path, limits: dict[str, Any]) -> None:
    """Budgets that run out in the middle of a list: the same verdicts, reasons and numbers."""

    def decided(path: Path, chunk: int) -> list[tuple[object, ...]]:
        clock = FakeClock()
        store = open_store(f"sqlite:///{path}", clock)
        bench = Bench(store, clock)
        names = ["a", "b", "c", "d", "e"]
        services = [scaled(name, cooldown_s=0, scale_down_stabilization_samples=1) for name in names]
        world = Scaling(bench, *services, policy=a_policy(**limits), actions_max=9)
        for name in names:
            bench.substrate.boot(name, 2)
        autoscaler_module.CHUNK = chunk
        for load in (45, 30, 55):
            for name in names:
                world.load(load, name)
            world.round(30)
        found: list[tuple[object, ...]] = [
            (one.request.target, one.verdict, re.sub(rb"\.\d+Z", b"Z", canonical_json([one.reason, one.numbers])))
            for one in reversed(bench.decisions())
            if one.request.source == "autoscaler"
        ]
        store.close()
        return found

    known = autoscaler_module.CHUNK  # wishes of one transaction
    try:
        together, alone = decided(tmp_path / "list.db", 64), decided(tmp_path / "one.db", 1)
    finally:
        autoscaler_module.CHUNK = known
    assert together == alone
    assert {verdict for _, verdict, *_ in together} >= {Verdict.ALLOW}
    assert len({verdict for _, verdict, *_ in together}) > 1


@pytest.mark.req("ASC-15")
def test_a_change_counts_against_its_rate_whatever_became_of_its_intent(timed: Bench) -> None:
    """Two more in ten minutes, however the intents end that asked for them."""
    behavior = {"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 600}]}}
    made = read_block(
        located({"min": 1, "max": 50, "signal": "q", "target": 10, "cooldown_s": 0, "behavior": behavior}, "f", 1),
        on_kubernetes=True,
    )
    assert isinstance(made, ScalingBlock), made
    world = Scaling(timed, a_service("web", replicas=2, scaling=made))
    timed.look()
    for wanted in (3, 4, 5, 6):
        world.load(10 * wanted)
        timed.clock.advance(15)
        world.autoscaler.run(timed.fence(CADENCE))
        timed.look()
        timed.act()
    assert "failed" in world.states()  # overtaken before two looks agreed
    assert (world.count(), world.code()) == (4, "rate_limit")


@pytest.mark.req("AUT-23", "CON-11")
@pytest.mark.parametrize(("then", "states"), [(20, ["superseded"]), (45, ["superseded", "intent_accepted"])])
def test_what_waited_for_a_window_is_wanted_anew_when_it_opens(timed: Bench, then: float, states: list[str]) -> None:
    hours = timed.clock.now() // (3600 * SECOND) % 24
    opens = f"{(hours + 3) % 24:02d}:00-{(hours + 4) % 24:02d}:00"
    unit = f"{{maintenance: {{window: {{hours: '{opens}', zone: UTC}}, outside: queue}}}}"
    block = "{min: 1, max: 9, signal: q, target: 10, scale_up_step: 9, cooldown_s: 0}"
    text = f"version: 1\nservices: [{{name: web, replicas: 2, scaling: {block}, unit: {unit}}}]"
    fleet = read_fleet(parse(text, "fleet.yml"), None, "/srv/fleet", "sha256:0")
    assert not fleet.problems
    world = Scaling(timed)
    timed.files.declare(fleet=fleet, policy=a_policy())
    world.load(45)
    world.tick()
    assert world.states() == ["proposed"]
    world.load(then)
    for _ in range(200):
        world.tick(60)
        if world.states() != ["proposed"]:
            break
    assert world.states() == states


@pytest.mark.req("ASC-10")
def test_during_a_rollout_nothing_is_scaled(bench: Bench) -> None:
    world = Scaling(bench)
    world.load(45)

    def deploy(tx):
        payload = {"action": 7, "service": "web", "kind": "deploy_service"}
        tx.work.enqueue(WorkDraft(kind="deploy_watch", key="deploy_watch:X-7", payload=payload, target="web"))

    bench.store.transact("watch", deploy)
    world.tick()
    assert (world.code(), world.intents()) == ("skip_rollout", [])


@pytest.mark.req("REC-13", "POL-9")
@pytest.mark.parametrize(("up", "watches"), [(True, 1), (False, 0)])
def test_growing_is_watched_and_shrinking_only_where_policy_says_so(bench: Bench, up: bool, watches: int) -> None:
    world = Scaling(bench, scaled(scale_down_stabilization_samples=1))
    bench.substrate.boot("web", 4)
    world.load(60 if up else 10)
    world.round()
    assert world.states() == ["executed"]
    found = bench.store.read(lambda tx: tx.work.list(Page(kind="deploy_watch")))
    assert len(found) == watches


@pytest.mark.req("AUT-20", "AUT-4")
def test_two_autoscalers_that_read_the_same_revision_make_one_intent(bench: Bench) -> None:
    world = Scaling(bench)
    world.load(45)
    world.tick()
    other = Scaling(bench)  # it read revision 0 as well, and comes later
    service = bench.files.current().fleet.services["web"]
    mover = Mover(service=service, row=0, current=2, desired=6, reason="scale_up", readings=(), targets=())
    look = bench.sightings.look([service])
    [wish] = Movers(bench.store, frozenset({""})).wishes([mover], look)
    late = msgspec.structs.replace(wish, expected_revision=0)
    [answer] = other.desk.put([late], fence=bench.fence(CADENCE))
    assert (answer.answer, world.states()) == (PutAnswer.STALE, ["intent_accepted"])
    [wish] = Movers(bench.store, frozenset({""})).wishes([mover], look)
    [answer] = other.desk.put([wish], fence=bench.fence(CADENCE))
    assert (answer.answer, world.states()) == (PutAnswer.ACCEPTED, ["superseded", "intent_accepted"])


@pytest.mark.req("ASC-11", "SGP-1")
@pytest.mark.parametrize(
    "wrong", [{"value": None}, {"value": "7"}, {"value": 10**400}, {"value": True}, {"observed_at": None}, 7.0, None]
)
def test_an_answer_that_is_no_sample_spoils_its_own_service_only(timed: Bench, wrong: Any) -> None:
    """A provider may be anybody's code, and promise types that it does not keep."""
    world = Scaling(timed, scaled("web"), scaled("bad"))
    timed.substrate.boot("bad", 2)
    for name in ("web", "bad"):
        world.load(45, name)
    real = world.signals.signal_values

    def answer(pairs: Any, at: int) -> Any:
        found = dict(real(pairs, at))
        [pair] = [one for one in pairs if one.service == "bad"]
        found[pair] = msgspec.structs.replace(found[pair], **wrong) if isinstance(wrong, dict) else wrong
        return found

    world.signals.signal_values = answer  # type: ignore[method-assign]
    world.tick()
    assert (world.code("web"), world.code("bad")) == ("intent_accepted", "skip_metrics")
    assert [one.intent.service for one in world.intents()] == ["web"]


@pytest.mark.req("HLT-2", "ASC-7")
def test_signals_are_known_for_two_intervals_of_whoever_reads_them(timed: Bench) -> None:
    world = Scaling(timed)
    timed.supervision.signals_every(100_000)
    world.load(20)
    world.tick()
    timed.clock.advance(199_980)
    timed.look()
    assert timed.supervision.evidence().autoscaling_ready
    timed.clock.advance(30)
    timed.look()
    assert not timed.supervision.evidence().autoscaling_ready
