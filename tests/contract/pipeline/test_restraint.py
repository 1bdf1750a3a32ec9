"""What a pass needs and does not ask for: rows of failures, dependencies, substrates that nobody can see."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fleetwarden.controllers.restraint import Restraint
from fleetwarden.domain.actions import Kind, Source, Tier
from fleetwarden.domain.fleet import DesiredState
from fleetwarden.domain.identifiers import SECOND, rfc3339
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.ports.stores import JournalEntry, Page
from fleetwarden.testing import Answer, Delivery, a_fleet, a_policy, a_request, a_service
from tests.contract.pipeline.conftest import INTERVAL_S, Bench
from tests.contract.store.conftest import Database, sqlite

__all__ = ["sqlite"]  # the fixture


def with_a_broken_one(bench: Bench) -> Bench:
    """`lone` runs one replica, which is dead and cannot be restarted."""
    bench.files.declare(fleet=a_fleet(a_service("lone")))
    bench.substrate.boot("lone")
    bench.substrate._deliver = lambda _: Delivery(answer=Answer.REFUSED)
    bench.substrate.crash("lone", 0)
    return bench


@pytest.fixture
def broken(bench: Bench) -> Bench:
    return with_a_broken_one(bench)


@pytest.fixture
def timed(sqlite: Database) -> Bench:
    """Where the store goes by the clock that a test moves."""
    return with_a_broken_one(Bench(sqlite.open(), sqlite.clock))


def once(bench: Bench) -> int:
    """One round; returns how many calls it made."""
    before = bench.calls()
    bench.look()
    bench.act()
    bench.clock.advance(0.01)
    return bench.calls() - before


def fail(bench: Bench, times: int) -> None:
    for _ in range(times):
        assert once(bench) == 1


def notices(bench: Bench, word: str) -> list[str]:
    return [one for one in bench.notices() if word in one]


# ------------------------------------------------------------------------------------------------ rows of failures
@pytest.mark.req("REC-6")
def test_three_failures_in_a_row_are_told_once_and_then_it_is_left_alone_for_growing_pauses(timed: Bench) -> None:
    fail(timed, 2)
    assert notices(timed, "in a row") == []
    fail(timed, 1)
    [told] = notices(timed, "in a row")
    assert "restart_service lone failed 3 times in a row" in told
    for pause in (1, 2, 4, 8):
        assert once(timed) == 0
        timed.clock.advance(pause * INTERVAL_S - 1)
        assert once(timed) == 0
        timed.clock.advance(1)
        assert once(timed) == 1
    assert len(notices(timed, "in a row")) == 1
    assert {one.severity for one in journal(timed) if "in a row" in one.summary} == {"critical"}


@pytest.mark.req("REC-6")
def test_the_third_failure_is_told_in_the_transaction_that_writes_it(broken: Bench) -> None:
    fail(broken, 3)
    [told] = [one for one in journal(broken) if "in a row" in one.summary]
    assert (told.severity, told.subject, told.topic) == ("critical", "lone", "notice")
    assert (told.detail["incident"], told.detail["failures"]) == ("repeated_failure", 3)
    assert once(broken) == 0


def journal(bench: Bench) -> Sequence[JournalEntry]:
    return bench.store.read(lambda tx: tx.journal.list(Page(limit=500)))


@pytest.mark.req("REC-6")
def test_the_pause_is_never_longer_than_an_hour(timed: Bench) -> None:
    fail(timed, 3)
    for _ in range(12):
        timed.clock.advance(3600)
        assert once(timed) == 1
    timed.clock.advance(3599)
    assert once(timed) == 0
    timed.clock.advance(1)
    assert once(timed) == 1


@pytest.mark.req("REC-6")
def test_what_is_held_says_until_when_and_leaves_no_decision(broken: Bench) -> None:
    fail(broken, 3)
    decided = len(broken.decisions())
    for _ in range(4):
        broken.look()
    report = broken.look()
    standing = broken.reconciler.standings()["lone"]
    last = max(one.at for one in broken.executions())
    assert (standing.code, standing.until) == ("backing_off", last + int(INTERVAL_S * SECOND))
    assert str(rfc3339(standing.until)) in standing.reason
    assert (report.held, report.proposed, len(broken.decisions())) == (1, 0, decided)


@pytest.mark.req("REC-6")
def test_a_success_ends_the_row(timed: Bench) -> None:
    fail(timed, 3)
    timed.substrate._deliver = lambda _: Delivery()
    timed.clock.advance(INTERVAL_S)
    fail(timed, 1)
    assert timed.substrate.instances("lone") == {0: True}
    timed.watch()
    timed.clock.advance(300)
    timed.watch()  # its watch says that it lasted
    timed.substrate._deliver = lambda _: Delivery(answer=Answer.REFUSED)
    timed.substrate.crash("lone", 0)
    fail(timed, 3)
    assert once(timed) == 0
    assert len(notices(timed, "in a row")) == 2


@pytest.mark.req("REC-6")
def test_a_plane_that_starts_again_holds_back_as_before(timed: Bench) -> None:
    fail(timed, 3)
    again = Bench(timed.store, timed.clock, ids=timed.ids)
    again.files, again.substrate = timed.files, timed.substrate
    again.build()
    assert once(again) == 0
    again.clock.advance(INTERVAL_S)
    assert once(again) == 1
    assert len(notices(again, "in a row")) == 1


@pytest.mark.req("REC-6")
def test_another_declaration_is_another_request(broken: Bench) -> None:
    broken.substrate.sicken("lone", 0)
    fail(broken, 3)
    assert once(broken) == 0
    broken.files.declare(fleet=a_fleet(a_service("lone", replicas=2)))
    broken.substrate.revive("lone", 0)
    broken.substrate.sicken("lone", 0)
    assert once(broken) == 0  # the restart is the same request still
    broken.substrate.heal("lone", 0)
    assert once(broken) == 1  # the larger count is another one


@pytest.mark.req("REC-6")
def test_no_person_is_asked_again_while_it_is_left_alone(timed: Bench) -> None:
    fail(timed, 3)

    timed.policy(a_policy(Tier.APPROVAL_REQUIRED))
    timed.look()
    assert timed.approvals() == []
    timed.clock.advance(INTERVAL_S)
    timed.look()
    assert len(timed.approvals()) == 1


@pytest.mark.req("REC-6", "REC-10")
def test_another_dead_instance_of_the_service_does_not_wait_behind_one_that_is_left_alone(bench: Bench) -> None:
    bench.substrate._deliver = lambda call: Delivery(
        answer=Answer.REFUSED if call.request.params.get("replica") == 0 else Answer.OK
    )
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=3)))
    bench.substrate.boot("web", 3)
    bench.substrate.crash("web", 0)
    fail(bench, 3)
    assert once(bench) == 0
    bench.substrate.crash("web", 1)
    assert once(bench) == 1
    assert bench.substrate.instances("web") == {0: False, 1: True, 2: True}
    assert once(bench) == 0  # a success of another replica says nothing about this one
    assert bench.reconciler.standings()["web"].code == "backing_off"


# ------------------------------------------------------------------------------------------------ dependencies
@pytest.fixture
def chain(bench: Bench) -> Bench:
    """`web` needs `db`; both run."""
    bench.files.declare(fleet=a_fleet(a_service("db"), a_service("web", replicas=2, depends_on=("db",))))
    bench.substrate.boot("db")
    return bench


@pytest.mark.req("REC-11")
def test_a_service_waits_for_what_it_depends_on_and_says_so(chain: Bench) -> None:
    chain.substrate.crash("db", 0)
    chain.substrate.crash("web", 0)
    report = chain.look()
    assert (report.proposed, report.held) == (1, 1)
    assert chain.reconciler.standings()["web"].code == "waits_for"
    assert "db, which is down" in chain.reconciler.standings()["web"].reason
    chain.act()
    chain.settle_down(2)
    assert chain.substrate.instances("web") == {0: True, 1: True}
    assert [one.request.target for one in reversed(chain.records())] == ["db", "web"]


@pytest.mark.req("REC-11")
def test_a_service_waits_while_its_dependency_is_under_repair(chain: Bench) -> None:
    chain.substrate.crash("db", 0)
    chain.look()  # its restart is authorised and not begun
    chain.substrate.revive("db", 0)
    chain.substrate.crash("web", 0)
    chain.look()
    assert "db, which is under repair (X-" in chain.reconciler.standings()["web"].reason
    chain.settle_down(2)
    assert chain.substrate.instances("web") == {0: True, 1: True}


@pytest.mark.req("REC-11")
def test_everything_starts_in_the_order_of_its_dependencies(bench: Bench) -> None:
    bench.files.declare(
        fleet=a_fleet(a_service("a", depends_on=("b",)), a_service("b", depends_on=("c",)), a_service("c"))
    )
    bench.settle_down(6)
    assert [one.request.target for one in reversed(bench.records())] == ["c", "b", "a"]
    assert {one.state for one in bench.records()} == {OutboxState.SUCCEEDED}


@pytest.mark.req("REC-11", "PRO-1")
def test_a_dependency_that_goes_down_after_the_decision_holds_the_call(chain: Bench) -> None:
    chain.substrate.crash("web", 0)
    assert len(chain.look().prepared) == 1
    chain.substrate.crash("db", 0)
    chain.act()
    assert (chain.records()[0].state, chain.calls()) == (OutboxState.PREPARED, 0)
    chain.substrate.revive("db", 0)
    chain.clock.advance(2)
    chain.act()
    assert chain.records()[0].state is OutboxState.SUCCEEDED


@pytest.mark.req("REC-11", "PRO-1")
def test_a_dependency_under_repair_holds_the_call_until_it_is_repaired(chain: Bench) -> None:
    chain.substrate.crash("web", 0)
    chain.look()
    chain.substrate.crash("db", 0)
    chain.look()
    assert len(chain.records()) == 2
    chain.act()
    assert {one.request.target: one.state for one in chain.records()} == {
        "db": OutboxState.SUCCEEDED,
        "web": OutboxState.PREPARED,
    }
    chain.clock.advance(2)
    chain.act()
    assert chain.substrate.instances("web") == {0: True, 1: True}


@pytest.mark.req("REC-11")
def test_a_persons_restart_waits_for_no_dependency(chain: Bench) -> None:
    chain.substrate.crash("db", 0)
    chain.substrate.crash("web", 0)
    service = chain.files.current().fleet.services["web"]
    request = a_request(service, kind=Kind.RESTART, params={"replica": 0}, source=Source.OPERATOR, requested_by="ada")
    [admission] = chain.gate.admit([request], fence=None)
    assert admission.record is not None
    chain.act()
    assert chain.substrate.instances("web") == {0: True, 1: True}


@pytest.mark.req("REC-11")
def test_a_stop_waits_for_nobody(chain: Bench) -> None:
    stopped = a_service("web", replicas=2, depends_on=("db",), desired=DesiredState.STOPPED)
    chain.files.declare(fleet=a_fleet(a_service("db"), stopped))
    chain.substrate._deliver = lambda call: Delivery(
        answer=Answer.REFUSED if call.request.target == "db" else Answer.OK
    )
    chain.substrate.crash("db", 0)
    chain.settle_down(1)
    assert chain.substrate.instances("web") == {}


# ------------------------------------------------------------------------------------------------ targeted passes
@pytest.mark.req("REC-7")
def test_a_targeted_pass_acts_on_its_services_alone(bench: Bench) -> None:
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=2), a_service("api")))
    bench.substrate.boot("api")
    bench.look()
    bench.substrate.crash("web", 0)
    bench.substrate.crash("api", 0)
    report = bench.reconciler.run_for({"web", "unknown"}, bench.fence("fleet_reconciler"))
    assert report is not None
    assert (report.targets, report.services, len(report.prepared)) == (("web",), 1, 1)
    assert [one.request.target for one in bench.records()] == ["web"]
    assert bench.reconciler.standings()["web"].code == "prepared"
    assert bench.reconciler.standings()["api"].code == "as_declared"
    bench.settle_down(2)
    assert [one.request.kind for one in bench.records()] == [Kind.RESTART, Kind.RESTART]


@pytest.mark.req("REC-7")
def test_a_targeted_pass_with_nothing_to_do_writes_nothing(bench: Bench) -> None:
    bench.look()
    written = len(bench.store.read(lambda tx: tx.reports.list(Page(limit=100))))
    report = bench.reconciler.run_for({"web"}, bench.fence("fleet_reconciler"))
    assert report is not None
    assert report.quiet
    assert len(bench.store.read(lambda tx: tx.reports.list(Page(limit=100)))) == written


@pytest.mark.req("REC-7", "REC-11")
def test_a_targeted_pass_looks_at_dependencies_too(chain: Bench) -> None:
    chain.look()
    chain.substrate.crash("db", 0)
    chain.substrate.crash("web", 0)
    report = chain.reconciler.run_for({"web"}, chain.fence("fleet_reconciler"))
    assert report is not None
    assert (report.held, report.proposed) == (1, 0)


@pytest.mark.req("REC-7", "REC-4")
def test_a_targeted_pass_holds_without_healthy_evidence_and_while_the_plane_stops(bench: Bench) -> None:
    bench.look()
    bench.substrate.crash("web", 0)
    bench.substrate.failing = "socket closed"
    report = bench.reconciler.run_for({"web"}, bench.fence("fleet_reconciler"))
    assert report is not None
    assert (report.status, report.proposed) == ("partial", 0)
    bench.substrate.failing = ""
    bench.reconciler.paused = True
    assert bench.reconciler.run_for({"web"}, bench.fence("fleet_reconciler")) is None


# ------------------------------------------------------------------------------------------------ a person's no
def asked_and_rejected(bench: Bench, hold_s: float) -> None:
    bench.policy(a_policy(Tier.APPROVAL_REQUIRED))
    bench.reconciler._restraint = Restraint(bench.store, interval_s=INTERVAL_S, rejected_hold_s=hold_s)
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=2)))
    bench.substrate.boot("web", 2)
    bench.substrate.crash("web", 0)
    bench.look()
    [asked] = bench.store.read(lambda tx: tx.approvals.list(Page(state="pending")))
    bench.desk.reject(asked.seq, by="ada", reason="not now")


def waiting(bench: Bench) -> int:
    return bench.store.read(lambda tx: tx.approvals.count(ApprovalState.PENDING))


@pytest.mark.req("POL-7", "REC-12")
def test_what_a_person_rejected_is_not_asked_again_at_once(sqlite: Database) -> None:
    bench = Bench(sqlite.open(), sqlite.clock)
    asked_and_rejected(bench, hold_s=600)
    decisions = len(bench.store.read(lambda tx: tx.decisions.list(Page())))
    sqlite.clock.advance(599)
    bench.look()
    assert waiting(bench) == 0
    assert len(bench.store.read(lambda tx: tx.decisions.list(Page()))) == decisions
    held = bench.reconciler.standings().get("web")
    assert held is not None
    assert "was rejected by ada: not asked again before" in held.reason
    sqlite.clock.advance(2)
    bench.look()
    assert waiting(bench) == 1


def test_without_a_hold_it_is_asked_at_the_next_pass(sqlite: Database) -> None:
    bench = Bench(sqlite.open(), sqlite.clock)
    asked_and_rejected(bench, hold_s=0)
    bench.look()
    assert waiting(bench) == 1


def test_another_service_and_another_action_are_asked_all_the_same(sqlite: Database) -> None:
    bench = Bench(sqlite.open(), sqlite.clock)
    asked_and_rejected(bench, hold_s=600)
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=2, desired=DesiredState.STOPPED), a_service("db")))
    bench.look()
    kinds = {(one.request.kind, one.request.target) for one in bench.store.read(lambda tx: tx.approvals.list(Page()))}
    assert {("stop_service", "web"), ("start_service", "db")} <= kinds
