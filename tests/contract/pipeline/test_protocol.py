"""A governed action from the evidence to its end, and everything that must stop it on the way."""

from __future__ import annotations

import msgspec
import pytest

from fleetwarden.controllers.executor import CADENCE as EXECUTOR
from fleetwarden.controllers.gate import Answer
from fleetwarden.domain.actions import ExecutionState, Outcome, Source, Tier, Verdict
from fleetwarden.domain.errors import Conflict, Fenced, OutboxConflict, Refused
from fleetwarden.domain.fleet import DesiredState, Mode
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.testing import FakeConfiguration, a_fleet, a_policy, a_request, a_service
from tests.contract.pipeline.conftest import Bench


@pytest.mark.req("POL-1", "POL-6", "REC-5", "AUT-7")
def test_a_dead_replica_is_repaired_by_one_decision_one_record_and_one_call(bench: Bench) -> None:
    bench.substrate.crash("web", 1)
    bench.settle_down()
    assert bench.substrate.instances("web") == {0: True, 1: True}
    [decision], [record], [execution] = bench.decisions(), bench.records(), bench.executions()
    assert (decision.verdict, decision.request.params) == (Verdict.ALLOW, {"replica": 1})
    assert decision.action_seq == record.seq
    assert record.state is OutboxState.SUCCEEDED
    assert record.fence is not None
    assert execution.state is ExecutionState.EXECUTED
    assert bench.calls() == 1


@pytest.mark.req("REC-5")
def test_a_restart_schedules_a_watch_that_ends_honestly_as_unobserved(bench: Bench, database) -> None:
    bench.build(window_s=0.001)
    bench.substrate.crash("web", 1)
    bench.look()
    bench.act()
    bench.substrate.hidden.add("web")
    database.lapse()
    bench.watch()
    [watch] = bench.store.read(lambda tx: tx.work.list(_page()))
    assert watch.kind == "deploy_watch"
    assert watch.result["status"] == "unobserved"


@pytest.mark.req("AUT-8", "ACT-2")
def test_a_dry_run_ends_simulated_changes_nothing_and_is_not_watched(bench: Bench) -> None:
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=2, mode=Mode.DRY_RUN)))
    bench.substrate.crash("web", 1)
    bench.look()
    bench.act()
    [record] = bench.records()
    assert record.state is OutboxState.SIMULATED
    assert record.outcome is not None
    assert record.outcome.dry_run
    assert bench.calls() == 0
    assert bench.substrate.instances("web") == {0: True, 1: False}
    assert bench.store.read(lambda tx: tx.work.list(_page())) == []


@pytest.mark.req("AUT-8", "POL-7", "ACT-2")
def test_a_dry_run_is_asked_about_once_and_again_only_when_something_has_changed(bench: Bench) -> None:
    bench.files.declare(
        fleet=a_fleet(a_service("web", replicas=2, mode=Mode.DRY_RUN)), policy=a_policy(Tier.APPROVAL_REQUIRED)
    )
    bench.substrate.crash("web", 1)
    bench.look()
    bench.desk.grant(bench.approvals()[0].seq, by="ada", reason="show me")
    bench.settle_down(6)
    assert [one.state for one in bench.records()] == [OutboxState.SIMULATED]
    assert len(bench.approvals()) == 1
    bench.substrate.revive("web", 1)
    bench.look()
    bench.substrate.crash("web", 0)
    bench.settle_down()
    assert len(bench.approvals()) == 2


@pytest.mark.req("POL-3", "POL-13", "POL-14")
def test_a_budget_denies_and_an_unchanged_denial_is_written_once(bench: Bench) -> None:
    bench.policy(a_policy(rate=(1, 3600)))
    bench.substrate.crash("web", 1)
    bench.settle_down()
    bench.substrate.crash("web", 1)
    bench.settle_down()
    assert [one.verdict for one in bench.decisions()] == [Verdict.DENY, Verdict.ALLOW]
    assert bench.decisions()[0].code == "rate"
    assert bench.calls() == 1


@pytest.mark.req("POL-21")
def test_a_prepared_record_that_lapses_gives_its_budget_slot_back(bench: Bench) -> None:
    bench.policy(a_policy(rate=(1, 3600)))
    bench.substrate.crash("web", 1)
    bench.look()
    bench.policy(a_policy(Tier.FORBIDDEN, rate=(1, 3600)))
    bench.act()
    [record] = bench.records()
    assert record.state is OutboxState.ABANDONED
    bench.policy(a_policy(rate=(1, 3600)))
    bench.settle_down()
    assert bench.calls() == 1
    assert bench.substrate.instances("web") == {0: True, 1: True}


@pytest.mark.req("POL-2", "PLB-5")
def test_a_tier_that_acts_and_tells_tells_once_of_what_is_begun_and_never_of_what_is_not(bench: Bench) -> None:
    bench.policy(a_policy(Tier.AUTO_NOTIFY))
    bench.substrate.crash("web", 1)
    bench.look()
    assert bench.decisions()[0].verdict is Verdict.ALLOW_NOTIFY
    frozen = bench.store.transact("freeze", lambda tx: tx.freezes.add(owner="ada", reason="lunch"))
    bench.act()
    assert not [one for one in bench.notices() if "goes ahead" in one]
    bench.store.transact("thaw", lambda tx: tx.freezes.lift(frozen.seq, by="ada"))
    bench.settle_down()
    assert bench.calls() == 1
    [told] = [one for one in bench.notices() if "goes ahead" in one]
    assert told.startswith("restart_service web")


@pytest.mark.req("PRO-1", "POL-12")
def test_a_freeze_between_decision_and_call_stops_the_call(bench: Bench) -> None:
    bench.substrate.crash("web", 1)
    bench.look()
    bench.store.transact("freeze", lambda tx: tx.freezes.add(owner="ada", reason="lunch"))
    bench.act()
    assert bench.calls() == 0
    [record] = bench.records()
    assert record.state is OutboxState.ABANDONED
    assert "lunch" in record.note
    bench.settle_down()
    assert bench.decisions()[0].code == "freeze"
    assert len(bench.decisions()) == 2


@pytest.mark.req("POL-12")
def test_a_freeze_file_that_appears_after_the_fence_still_stops_the_call(bench: Bench) -> None:
    class Late(FakeConfiguration):
        looks = 0

        def freeze_file(self) -> str:
            self.looks += 1
            return "FREEZE" if self.looks > 2 else ""

    files = Late(bench.files.current())
    bench.files = files
    bench.build()
    bench.substrate.crash("web", 1)
    bench.look()
    bench.act()
    [record] = bench.records()
    assert record.state is OutboxState.FAILED
    assert record.outcome is not None
    assert record.outcome.code == "not_called"
    assert bench.calls() == 0


@pytest.mark.req("PRO-5")
def test_a_call_is_not_begun_once_the_start_window_has_passed(bench: Bench) -> None:
    real = bench.store.transact

    def slow(name, fn):
        done = real(name, fn)
        if name == "commit_1":
            bench.clock.advance(2.5)
        return done

    bench.store.transact = slow  # type: ignore[method-assign]
    bench.substrate.crash("web", 1)
    bench.look()
    bench.act()
    [record] = bench.records()
    assert record.outcome is not None
    assert (record.state, record.outcome.code) == (OutboxState.FAILED, "not_called")
    assert bench.calls() == 0


@pytest.mark.req("AUT-10", "AUT-14", "PRO-6", "PRO-11")
def test_an_unknown_outcome_is_never_repeated_and_is_settled_by_evidence(bench: Bench) -> None:
    actuate = bench.substrate.actuate

    class Lost:
        """Carries it out and loses the answer."""

        def __getattr__(self, name: str) -> object:
            return getattr(bench.substrate, name)

        def actuate(self, call):
            actuate(call)
            raise TimeoutError("no answer")

    bench.build(Lost())  # type: ignore[arg-type]
    bench.substrate.crash("web", 1)
    bench.look()
    bench.act()
    assert bench.records()[0].state is OutboxState.RECOVERY_PENDING
    bench.settle_down()
    [record] = bench.records()
    assert (record.state, record.settled_by) == (OutboxState.SUCCEEDED, "evidence")
    assert [one.state for one in bench.executions()] == [ExecutionState.EXECUTED, ExecutionState.RECOVERY_PENDING]
    assert bench.calls() == 1


@pytest.mark.req("PRO-7")
def test_a_person_may_not_call_it_failed_before_the_horizon(bench: Bench) -> None:
    bench.build(_Silent(bench))  # type: ignore[arg-type]
    bench.substrate.crash("web", 1)
    bench.look()
    bench.act()
    [record] = bench.records()
    with pytest.raises(Refused, match="may still land"):
        bench.recovery.settle_by_person(record.seq, succeeded=False, reason="I looked", by="ada")
    settled = bench.recovery.settle_by_person(record.seq, succeeded=True, reason="pid 7 runs", by="ada")
    assert (settled.state, settled.settled_by) == (OutboxState.SUCCEEDED, "ada")
    with pytest.raises(Conflict):
        bench.recovery.settle_by_person(record.seq, succeeded=True, reason="again", by="ada")


@pytest.mark.req("PRO-3", "PRO-8")
def test_nothing_else_is_authorised_while_an_outcome_is_unknown(bench: Bench) -> None:
    bench.build(_Silent(bench))  # type: ignore[arg-type]
    bench.substrate.crash("web", 1)
    bench.look()
    bench.act()
    bench.substrate.hidden.add("web")
    bench.settle_down()
    [answer] = bench.gate.admit([_own(bench, key="another")], fence=None)
    assert answer.answer is Answer.BUSY
    assert len(bench.records()) == 1


@pytest.mark.req("PRO-14", "PRO-15")
def test_a_running_record_that_nobody_carries_out_is_marked_by_whoever_holds_the_lease(
    bench: Bench,
) -> None:
    bench.substrate.crash("web", 1)
    bench.look()
    _fence_only(bench)
    assert bench.records()[0].state is OutboxState.RUNNING
    other = Bench(bench.store, bench.clock, holder="p2")
    other.substrate, other.files = bench.substrate, bench.files
    other.build()
    bench.store.transact("restart", lambda tx: tx.leases.void_all())
    other.act()
    [record] = bench.records()
    assert record.state is OutboxState.RECOVERY_PENDING
    assert bench.calls() == 0
    assert bench.executions()[0].state is ExecutionState.RECOVERY_PENDING


@pytest.mark.req("PRO-14")
def test_a_record_whose_own_thread_still_executes_is_not_marked(bench: Bench) -> None:
    bench.substrate.crash("web", 1)
    bench.look()
    seen: list[OutboxState] = []

    def during(call) -> None:
        bench.recovery.run(bench.fence(EXECUTOR))
        seen.append(bench.records()[0].state)

    bench.build(_Watching(bench, during))  # type: ignore[arg-type]
    bench.act()
    assert seen == [OutboxState.RUNNING]
    assert bench.records()[0].state is OutboxState.SUCCEEDED


@pytest.mark.req("RUN-1", "AUT-20")
def test_a_holder_that_lost_its_lease_can_neither_fence_nor_settle(bench: Bench) -> None:
    bench.substrate.crash("web", 1)
    bench.look()
    mine = bench.fence(EXECUTOR)
    bench.store.transact("takeover", lambda tx: tx.leases.void_all())
    bench.store.transact("takeover", lambda tx: tx.leases.acquire(EXECUTOR, "0", "p2", 60 * SECOND))
    with pytest.raises(Fenced):
        bench.executor.execute(bench.records()[0], mine)
    assert bench.calls() == 0
    assert bench.records()[0].state is OutboxState.PREPARED


@pytest.mark.req("AUT-14")
def test_the_same_key_gives_the_stored_answer_and_another_request_under_it_is_a_conflict(bench: Bench) -> None:
    bench.substrate.crash("web", 1)
    request = _own(bench, key="k-1")
    [first], [again] = bench.gate.admit([request], fence=None), bench.gate.admit([request], fence=None)
    assert first.record is not None
    assert again.record is not None
    assert again.record.seq == first.record.seq
    assert len(bench.decisions()) == 1
    with pytest.raises(OutboxConflict):
        bench.gate.admit([msgspec.structs.replace(request, params={"replica": 0})], fence=None)


@pytest.mark.req("POL-21")
def test_evidence_from_before_the_last_action_is_refused(bench: Bench) -> None:
    old = bench.store.read(lambda tx: tx.now())
    bench.substrate.crash("web", 1)
    bench.settle_down()
    [answer] = bench.gate.admit([_own(bench, key="late", observed_at=old)], fence=None)
    assert answer.answer is Answer.STALE


@pytest.mark.req("POL-2", "POL-4")
def test_an_override_that_cannot_be_read_denies(bench: Bench) -> None:
    bench.store.transact("put", lambda tx: tx.overrides.put("bad", {"tier": "nonsense"}, active=True, by="ada"))
    bench.substrate.crash("web", 1)
    bench.settle_down()
    assert bench.decisions()[0].verdict is Verdict.DENY
    assert bench.calls() == 0


@pytest.mark.req("POL-4")
def test_an_override_holds_from_the_next_decision_on(bench: Bench) -> None:
    rule = {"kind": "restart_service", "target": "web", "tier": "forbidden"}
    bench.store.transact("put", lambda tx: tx.overrides.put("stop-it", rule, active=True, by="ada"))
    bench.substrate.crash("web", 1)
    bench.settle_down()
    assert bench.decisions()[0].rule_source == "override:stop-it"
    bench.store.transact("put", lambda tx: tx.overrides.put("stop-it", rule, active=False, by="ada"))
    bench.settle_down()
    assert bench.substrate.instances("web") == {0: True, 1: True}


@pytest.mark.req("REC-2", "REC-4", "HLT-1")
def test_an_unreadable_registry_is_a_not_ready_report_and_no_empty_fleet(bench: Bench) -> None:
    bench.substrate.crash("web", 1)
    bench.files.declare(fleet=a_fleet(error="fleet.yml:3  it is no YAML"))
    report = bench.look()
    assert (report.status, report.services) == ("not_ready", 0)
    assert report.evidence is not None
    assert bench.decisions() == []


@pytest.mark.req("OBS-1", "REC-3", "REC-4")
def test_a_failing_observer_makes_nothing_down(bench: Bench) -> None:
    bench.substrate.crash("web", 1)
    bench.substrate.failing = "socket closed"
    assert bench.look().status == "not_ready"
    assert bench.decisions() == []


@pytest.mark.req("REC-5")
def test_a_pass_does_at_most_so_many_actions_and_nobody_starves(bench: Bench) -> None:
    names = [f"s{i}" for i in range(7)]
    bench.files.declare(fleet=a_fleet(*[a_service(name) for name in names]))
    bench.build(actions_max=3)
    first = bench.look()
    assert (len(first.prepared), first.deferred) == (3, 4)
    bench.settle_down(3)
    assert all(bench.substrate.instances(name) == {0: True} for name in names)


@pytest.mark.req("REC-3")
def test_up_but_declared_stopped_is_stopped_and_started_again_later(bench: Bench) -> None:
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=2, desired=DesiredState.STOPPED)))
    bench.settle_down()
    assert not any(bench.substrate.instances("web").values())
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=2)))
    bench.settle_down()
    assert bench.substrate.instances("web") == {0: True, 1: True}
    assert [one.request.kind for one in bench.records()] == ["start_service", "stop_service"]


@pytest.mark.req("REC-14")
def test_a_service_that_left_the_registry_is_never_stopped_for_that(bench: Bench) -> None:
    bench.files.declare(fleet=a_fleet(a_service("other")))
    bench.settle_down()
    assert bench.substrate.instances("web") == {0: True, 1: True}


def _page():
    from fleetwarden.ports.stores import Page

    return Page(limit=100)


def _own(bench: Bench, *, key: str, observed_at: int | None = None):
    service = bench.files.current().fleet.services["web"]
    at = bench.store.read(lambda tx: tx.now()) if observed_at is None else observed_at
    return a_request(
        service, params={"replica": 1}, key=key, observed_at=at, source=Source.OPERATOR, requested_by="ada"
    )


def _fence_only(bench: Bench) -> None:
    """Commit 1, and then the plane is gone."""

    class Gone:
        def __getattr__(self, name: str) -> object:
            return getattr(bench.substrate, name)

        def actuate(self, call) -> Outcome:
            raise SystemExit

    bench.build(Gone())  # type: ignore[arg-type]
    with pytest.raises(SystemExit):
        bench.act()
    bench.build()


class _Silent:
    """Does nothing and never says so."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def __getattr__(self, name: str) -> object:
        return getattr(self._bench.substrate, name)

    def actuate(self, call) -> Outcome:
        return Outcome(ok=False, unknown_outcome=True, code="timeout", detail="no answer")


class _Watching:
    def __init__(self, bench: Bench, during) -> None:
        self._bench, self._during = bench, during

    def __getattr__(self, name: str) -> object:
        return getattr(self._bench.substrate, name)

    def actuate(self, call) -> Outcome:
        # The executor under test is the one that was built with this actuator: ask its recovery.
        self._during(call)
        return self._bench.substrate.actuate(call)
