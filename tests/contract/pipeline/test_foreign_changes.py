"""What somebody else sets on the substrate: found, told once, held, put back only when that is right."""

from __future__ import annotations

import pytest

from fleetwarden.app.identity import local_admin
from fleetwarden.app.wishes import Wishes
from fleetwarden.domain.desired import ForeignField, ForeignState
from fleetwarden.domain.errors import NotFound
from fleetwarden.domain.fleet import Mode, Presence
from fleetwarden.ports.stores import Page
from fleetwarden.testing import a_fleet, a_service

HOLD_S = 1800


@pytest.fixture
def wishes(bench):
    bench.look()  # the first look: what stands there is ours from now on
    return Wishes(bench.store, bench.files, bench.wakes)


def changes(bench):
    return bench.store.read(lambda tx: tx.foreign.list(Page()))


def entries(bench, topic):
    return bench.store.read(lambda tx: tx.journal.list(Page(kind=topic, target="web")))


def pass_time(bench, seconds):
    """Lets that much of the hold pass: on a server's own clock by dating the hold back."""
    if bench.store.health().dialect == "sqlite":
        bench.clock.advance(seconds)
        return

    def run(tx):
        for one in tx.foreign.standing():
            tx._session._ask(
                b"UPDATE foreign_changes SET hold_until = hold_until - %d WHERE seq = %d"
                % (seconds * 1_000_000, one.seq)
            )

    bench.store.transact("backdate", run)


@pytest.mark.req("REC-9")
@pytest.mark.usefixtures("wishes")
def test_a_count_set_by_somebody_else_is_told_once_and_not_put_back(bench):
    bench.substrate.scaled("web", 5, by="joe")
    bench.settle_down(3)
    [one] = changes(bench)
    assert (one.field, one.before, one.after, one.writer) == (ForeignField.REPLICAS, "2", "5", "joe")
    assert one.status is ForeignState.HELD
    assert one.hold_until == one.at + HOLD_S * 1_000_000
    assert len(bench.substrate.instances("web")) == 5
    assert bench.decisions() == []
    [entry] = entries(bench, "foreign_change")
    assert entry.actor == "joe"
    assert entry.detail["field"] == "replicas"
    assert (entry.detail["before"], entry.detail["after"], entry.detail["writer"]) == ("2", "5", "joe")
    [notice] = entries(bench, "notice")
    assert notice.severity == "warning"
    assert "fleetwarden adopt web" in notice.summary
    assert "fleetwarden reassert web" in notice.summary
    standing = bench.reconciler.standings()["web"]
    assert standing.code == "foreign_held"
    assert "fleetwarden reassert web" in standing.reason


@pytest.mark.req("REC-9")
@pytest.mark.usefixtures("wishes")
def test_a_held_count_is_put_back_when_its_hold_has_ended(bench):
    bench.substrate.scaled("web", 5)
    bench.look()
    pass_time(bench, HOLD_S - 60)
    bench.settle_down(2)
    assert len(bench.substrate.instances("web")) == 5
    pass_time(bench, 61)
    bench.settle_down(2)
    assert len(bench.substrate.instances("web")) == 2
    [one] = changes(bench)
    assert one.status is ForeignState.LAPSED
    assert any("the hold has ended" in told for told in bench.notices())


@pytest.mark.req("REC-9")
@pytest.mark.usefixtures("wishes")
def test_a_held_count_is_repaired_like_any_other(bench):
    bench.substrate.scaled("web", 3)
    bench.look()
    bench.substrate.crash("web", 2)
    bench.settle_down(3)
    assert bench.substrate.instances("web") == {0: True, 1: True, 2: True}
    assert [one.request.kind for one in bench.records()] == ["restart_service"]


@pytest.mark.req("REC-9")
@pytest.mark.parametrize("minutes", [1, 10_000])
def test_a_stop_by_somebody_else_stays_until_a_person_says_so(bench, wishes, minutes):
    bench.substrate.stopped("web", by="joe")
    bench.look()
    pass_time(bench, minutes * 60)
    bench.settle_down(3)
    assert bench.substrate.presence("web") is Presence.STOPPED_BY_OTHER
    [one] = changes(bench)
    assert (one.field, one.before, one.after, one.hold_until) == (ForeignField.STATE, "running", "stopped", None)
    wishes.reassert(local_admin(), "web", reason="a mistake")
    bench.settle_down(3)
    assert bench.substrate.instances("web") == {0: True, 1: True}
    assert len(changes(bench)) == 1
    assert bench.reconciler.standings()["web"].code == "as_declared"


@pytest.mark.req("REC-9")
@pytest.mark.parametrize("ending", ["crash", "kill"])
@pytest.mark.usefixtures("wishes")
def test_a_crash_is_no_change_by_anybody(bench, ending):
    for index in (0, 1) if ending == "kill" else (1,):
        bench.substrate.crash("web", index)
    bench.settle_down(3)
    assert changes(bench) == []
    assert bench.substrate.instances("web") == {0: True, 1: True}


@pytest.mark.req("REC-9")
def test_an_adopted_count_is_what_is_asked_for_from_then_on(bench, wishes):
    bench.substrate.scaled("web", 4)
    bench.look()
    answer = wishes.adopt(local_admin(), "web", reason="right so")
    assert [one["state"] for one in answer["changes"]] == ["adopted"]
    pass_time(bench, 10 * HOLD_S)
    bench.settle_down(2)
    assert len(bench.substrate.instances("web")) == 4
    assert "adopted" in bench.reconciler.standings()["web"].reason
    with pytest.raises(NotFound, match="nothing that somebody else changed"):
        wishes.adopt(local_admin(), "web", reason="")
    wishes.reassert(local_admin(), "web", reason="the files again")
    bench.settle_down(2)
    assert len(bench.substrate.instances("web")) == 2


@pytest.mark.req("REC-9")
def test_a_second_change_within_the_hold_pauses_the_service_and_pages(bench, wishes):
    bench.substrate.scaled("web", 5)
    bench.look()
    bench.substrate.scaled("web", 6)
    bench.substrate.crash("web", 0)
    bench.settle_down(3)
    assert bench.decisions() == []
    second, first = changes(bench)
    assert second.pauses
    assert (first.status, second.status) == (ForeignState.REPLACED, ForeignState.HELD)
    assert [one.severity for one in entries(bench, "notice")] == ["critical", "warning"]
    assert bench.reconciler.standings()["web"].code == "foreign_paused"
    pass_time(bench, 100 * HOLD_S)  # a pause has no end of its own
    bench.settle_down(2)
    assert bench.decisions() == []
    wishes.reassert(local_admin(), "web", reason="ours")
    bench.settle_down(5)
    assert bench.substrate.instances("web") == {0: True, 1: True}


@pytest.mark.req("REC-9")
def test_another_version_set_by_somebody_else_stays(bench, wishes):
    bench.substrate.deployed("web", "1")
    bench.look()  # a version that was never known is no change
    assert changes(bench) == []
    bench.substrate.deployed("web", "2", by="ci")
    bench.look()
    [one] = changes(bench)
    assert (one.field, one.before, one.after, one.writer) == (ForeignField.VERSION, "1", "2", "ci")
    pass_time(bench, 10 * HOLD_S)
    bench.settle_down(2)
    assert bench.decisions() == []
    wishes.adopt(local_admin(), "web", reason="")
    bench.settle_down(2)
    assert bench.decisions() == []


@pytest.mark.req("REC-9")
@pytest.mark.usefixtures("wishes")
def test_our_own_actions_are_nobody_elses(bench):
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=4)))
    bench.settle_down(3)
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=1)))
    bench.settle_down(3)
    assert len(bench.substrate.instances("web")) == 1
    assert changes(bench) == []


@pytest.mark.req("REC-9")
@pytest.mark.usefixtures("wishes")
def test_a_count_that_was_changed_right_after_our_own_action_is_found(bench):
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=4)))
    bench.look()
    bench.act()
    bench.substrate.scaled("web", 2)  # back to what it was before, and no look in between
    bench.settle_down(3)
    [one] = changes(bench)
    assert (one.before, one.after) == ("4", "2")
    assert len(bench.substrate.instances("web")) == 2


@pytest.mark.req("REC-9")
@pytest.mark.usefixtures("wishes")
def test_what_somebody_else_set_as_it_is_asked_for_holds_nothing(bench):
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=3)))
    bench.substrate.scaled("web", 3)
    bench.settle_down(2)
    [one] = changes(bench)
    assert one.status is ForeignState.AGREED
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=1)))
    bench.settle_down(2)
    assert len(bench.substrate.instances("web")) == 1


@pytest.mark.req("REC-9")
@pytest.mark.usefixtures("wishes")
def test_a_stop_that_somebody_else_takes_back_is_not_held_any_more(bench):
    bench.substrate.stopped("web")
    bench.settle_down(2)
    bench.substrate.scaled("web", 2)
    bench.settle_down(3)
    assert bench.substrate.instances("web") == {0: True, 1: True}
    assert [one.status for one in changes(bench)] == [ForeignState.REPLACED]
    assert bench.decisions() == []


@pytest.mark.req("REC-9")
@pytest.mark.usefixtures("wishes")
def test_where_we_only_look_nothing_is_held(bench):
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=2, mode=Mode.OBSERVE)))
    bench.substrate.scaled("web", 7)
    bench.settle_down(2)
    assert changes(bench) == []


@pytest.mark.req("REC-9", "AUT-12")
def test_an_operators_own_count_answers_what_somebody_else_set(bench, wishes):
    bench.substrate.scaled("web", 5)
    bench.look()
    put = wishes.put_override(local_admin(), "web", replicas=3, state=None, for_s=None, reason="three are enough")
    bench.settle_down(3)
    assert len(bench.substrate.instances("web")) == 3
    [one] = changes(bench)
    assert (one.status, one.note) == (ForeignState.REPLACED, f"override {put['id']}")


@pytest.mark.req("REC-9")
@pytest.mark.usefixtures("wishes")
def test_a_change_between_the_decision_and_its_fence_is_not_undone_either(bench):
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=4)))
    bench.look()
    bench.substrate.scaled("web", 6, by="joe")
    bench.act()
    assert bench.calls() == 0
    [record] = bench.records()
    assert record.state.value == "abandoned"
    assert "somebody else changed web" in record.note
    bench.settle_down(2)
    assert len(bench.substrate.instances("web")) == 6
    assert [(one.before, one.after) for one in changes(bench)] == [("2", "6")]
