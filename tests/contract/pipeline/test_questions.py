"""A question to a person does not outlive what it rests on: it is withdrawn, cannot be granted, and never floods."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from fleetwarden.adapters.files.yaml_tree import parse
from fleetwarden.domain.actions import Source, Tier
from fleetwarden.domain.errors import Conflict
from fleetwarden.domain.fleet import DesiredState, Mode
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.lifecycles import ApprovalState
from fleetwarden.domain.registry import read_fleet
from fleetwarden.ports.stores import Page
from fleetwarden.testing import a_policy, a_service
from tests.contract.pipeline.conftest import Bench
from tests.contract.pipeline.scaling import Scaling, scaled
from tests.contract.store.conftest import Database, sqlite

__all__ = ["sqlite"]  # the fixture
ASKING = a_policy(Tier.APPROVAL_REQUIRED)


@pytest.fixture
def timed(sqlite: Database) -> Bench:
    """Where the store goes by the clock that a test moves."""
    made = Bench(sqlite.open(), sqlite.clock)
    made.substrate.boot("web", 4)
    return made


def asked(bench: Bench, **over: Any) -> Scaling:
    """Four replicas, and a person is asked for one."""
    world = Scaling(bench, scaled(scale_down_stabilization_samples=1, **over), policy=ASKING)
    world.load(3)
    world.round()
    assert (world.states(), world.intents()[0].intent.desired_replicas) == (["proposed"], 1)
    return world


def withdrawals(bench: Bench) -> list[str]:
    rows = bench.store.read(lambda tx: tx.journal.list(Page(kind="approval", limit=100)))
    return [one.summary for one in rows if "withdrew" in one.summary]


def statuses(bench: Bench) -> list[ApprovalState]:
    """Of the autoscaler's questions, oldest first; what the reconciler asks for meanwhile is its own."""
    return [one.status for one in reversed(bench.approvals()) if one.request.source == Source.AUTOSCALER]


@pytest.mark.req("AUT-2", "AUT-23", "PRO-11", "POL-7")
def test_a_want_that_is_gone_for_a_while_withdraws_its_question_once(timed: Bench) -> None:
    world = asked(timed)
    world.load(40)  # the load fits four
    world.round(60)
    world.restart()  # the time goes on over a restart
    world.round(60)
    world.round(60)
    assert world.states() == ["proposed"]
    world.round(60)
    world.round(60)
    assert (world.states(), statuses(timed)) == (["superseded"], [ApprovalState.SUPERSEDED])
    assert "not wanted any more for 180 s" in world.intents()[0].note
    assert len(withdrawals(timed)) == 1
    assert (world.count(), timed.calls()) == (4, 0)


@pytest.mark.req("AUT-2")
def test_one_noisy_tick_neither_closes_nor_asks_again(timed: Bench) -> None:
    world = asked(timed)
    for _ in range(6):
        world.load(40)
        world.round(60)
        world.load(3)
        world.round(60)
    assert (world.states(), statuses(timed)) == (["proposed"], [ApprovalState.PENDING])
    assert withdrawals(timed) == []


@pytest.mark.req("AUT-2", "ASC-5")
def test_without_evidence_a_question_ends_when_its_time_is_over(timed: Bench) -> None:
    world = asked(timed)
    for _ in range(9):
        world.load(3, age_s=100_000)
        world.round(60)
    assert world.states() == ["proposed"]
    for _ in range(2):
        world.round(60)
    assert world.states() == ["superseded"]
    assert "skip_metrics" in world.intents()[0].note


@pytest.mark.req("AUT-2", "POL-17", "AUT-24")
def test_a_late_yes_is_refused_while_load_says_otherwise_and_taken_when_it_asks_again(timed: Bench) -> None:
    world = asked(timed)
    [approval] = timed.approvals()
    world.load(40)
    world.round(60)
    with pytest.raises(Conflict, match=r"deadband|at_target") as told:
        timed.desk.grant(approval.seq, by="ann", reason="fine")
    assert told.value.code == "evidence_gone"
    assert timed.approvals()[0].votes == ()
    world.load(3)
    world.round(60)
    timed.desk.grant(approval.seq, by="ann", reason="fine")
    timed.settle_down(3)
    assert (world.count(), statuses(timed)) == (1, [ApprovalState.CLOSED])


@pytest.mark.req("AUT-2", "POL-17")
def test_a_yes_is_refused_where_no_tick_has_looked_for_long(timed: Bench) -> None:
    world = asked(timed)
    timed.clock.advance(601)
    with pytest.raises(Conflict, match="no tick has found it wanted since"):
        timed.desk.grant(timed.approvals()[0].seq, by="ann", reason="fine")
    assert world.states() == ["proposed"]


@pytest.mark.req("AUT-6", "AUT-23", "POL-8")
def test_what_was_granted_is_not_carried_out_once_its_evidence_is_gone(timed: Bench) -> None:
    world = asked(timed)
    timed.store.transact("freeze", lambda tx: tx.freezes.add(owner="ann", reason="lunch"))
    timed.desk.grant(timed.approvals()[0].seq, by="ann", reason="fine")
    timed.look()
    world.load(40)
    world.tick(30)
    timed.store.transact("thaw", lambda tx: [tx.freezes.lift(one.seq, "ann") for one in tx.freezes.active()])
    timed.settle_down()
    assert (world.count(), timed.calls()) == (4, 0)
    for _ in range(4):
        world.round(60)
    assert (world.states(), statuses(timed)) == (["superseded"], [ApprovalState.SUPERSEDED])
    assert (world.count(), timed.calls()) == (4, 0)


CLOSED = {
    "stopped": (scaled(desired=DesiredState.STOPPED), "to be stopped"),
    "observe": (scaled(mode=Mode.OBSERVE), "observe"),
    "paused": (scaled(paused=True), "paused"),
    "external": (scaled(controller_mode="external_hpa"), "external_hpa"),
    "no block": (a_service("web", replicas=4), "scaling block"),
    "gone": (a_service("other"), "registry"),
}


@pytest.mark.req("AUT-12", "AUT-18", "ASC-13")
@pytest.mark.parametrize("case", CLOSED)
def test_where_nothing_follows_load_any_more_the_question_ends_at_once(timed: Bench, case: str) -> None:
    world = asked(timed)
    service, why = CLOSED[case]
    world.declare(service, policy=ASKING)
    world.tick()
    assert (world.states(), statuses(timed)) == (["superseded"], [ApprovalState.SUPERSEDED])
    assert why in world.intents()[0].note
    assert len(withdrawals(timed)) == 1


@pytest.mark.req("AUT-22", "POL-7")
def test_a_signal_that_swings_without_cooldown_replaces_a_question_once_per_floor(timed: Bench) -> None:
    world = asked(timed, cooldown_s=0)
    for number in range(40):  # 20 minutes
        world.load(3 if number % 2 else 55)
        world.round(30)
    made = [one.created_at for one in reversed(timed.approvals())]
    assert 3 <= len(made) <= 6
    gaps = [later - earlier for earlier, later in pairwise(made[1:])]
    assert min(gaps) >= 300_000_000
    assert len(timed.decisions()) == len(made)


@pytest.mark.req("AUT-24", "POL-17", "ASC-5")
def test_a_yes_takes_no_more_away_than_load_allows_by_now(timed: Bench) -> None:
    world = asked(timed)
    [approval] = timed.approvals()
    world.load(25)  # three would do, one would not
    world.round(60)
    with pytest.raises(Conflict, match="asks for 3, not for 1") as told:
        timed.desk.grant(approval.seq, by="ann", reason="fine")
    assert told.value.code == "evidence_gone"
    for _ in range(3):
        world.round(60)
    assert (world.states(), statuses(timed)) == (["proposed"], [ApprovalState.PENDING])  # it is asked in its time
    world.round(75)
    assert world.states() == ["superseded", "proposed"]
    timed.desk.grant(timed.approvals()[0].seq, by="ann", reason="fine")
    timed.settle_down(3)
    assert (world.count(), statuses(timed)[0]) == (3, ApprovalState.SUPERSEDED)


@pytest.mark.req("AUT-23", "AUT-2")
def test_one_that_waits_for_its_window_is_not_let_go_on_a_want_that_is_gone(timed: Bench) -> None:
    minute = timed.clock.now() // (60 * SECOND) + 2
    opens, ends = (f"{one // 60 % 24:02d}:{one % 60:02d}" for one in (minute, minute + 120))
    unit = f"{{maintenance: {{window: {{hours: '{opens}-{ends}', zone: UTC}}, outside: queue}}}}"
    block = "{min: 1, max: 9, signal: q, target: 10, scale_up_step: 9, cooldown_s: 0}"
    text = f"version: 1\nservices: [{{name: web, replicas: 4, scaling: {block}, unit: {unit}}}]"
    world = Scaling(timed)
    timed.files.declare(fleet=read_fleet(parse(text, "fleet.yml"), None, "/srv/fleet", "sha256:0"), policy=a_policy())
    world.load(60)
    world.tick(5)
    assert world.states() == ["proposed"]
    world.load(40)
    for _ in range(7):
        world.round(20)
    assert timed.clock.now() > minute * 60 * SECOND  # it is open by now
    assert world.states() == ["proposed"]
    world.load(60)
    world.round(20)
    world.round(20)
    assert (world.states(), world.count()) == (["executed"], 6)
