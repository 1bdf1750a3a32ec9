"""Between a decision and its call: the last check goes by what holds then, and waits where it cannot tell."""

from __future__ import annotations

import msgspec
import pytest

from fleetwarden.controllers.recheck import Fate
from fleetwarden.controllers.sightings import Sightings
from fleetwarden.domain.actions import Kind, Source, Tier
from fleetwarden.domain.errors import Fenced
from fleetwarden.domain.fleet import Mode
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.testing import FakeSubstrate, a_fleet, a_policy, a_request, a_service
from tests.contract.pipeline.conftest import Bench


@pytest.fixture
def prepared(bench: Bench) -> Bench:
    """A replica is down and its restart is authorised, but not begun."""
    bench.substrate.crash("web", 0)
    assert len(bench.look().prepared) == 1
    return bench


def break_files(bench: Bench) -> None:
    good = bench.files.current().last_good_fleet
    bench.files.declare(fleet=msgspec.structs.replace(good, services={}, error="fleet.yml:3  is no mapping"))


def mend_files(bench: Bench) -> None:
    bench.files.declare(fleet=bench.files.current().last_good_fleet)


def wait(bench: Bench, seconds: float = 2.0) -> None:
    bench.clock.advance(seconds)


@pytest.mark.req("PRO-1")
def test_a_rule_that_is_declared_while_the_check_waits_for_the_store_counts(prepared: Bench) -> None:
    transact = prepared.store.transact

    def slowly(name, fn):
        if name == "commit_1":
            prepared.files.declare(policy=a_policy(Tier.FORBIDDEN))
        return transact(name, fn)

    prepared.store.transact = slowly  # type: ignore[method-assign]
    prepared.act()
    assert prepared.records()[0].state is OutboxState.ABANDONED
    assert prepared.calls() == 0


@pytest.mark.req("REC-4", "POL-8")
def test_files_that_cannot_be_read_hold_an_action_and_end_none(prepared: Bench) -> None:
    break_files(prepared)
    prepared.act()
    assert prepared.records()[0].state is OutboxState.PREPARED
    mend_files(prepared)
    wait(prepared)
    prepared.act()
    assert prepared.records()[0].state is OutboxState.SUCCEEDED


@pytest.mark.req("REC-4", "POL-8", "AUT-20")
def test_files_that_cannot_be_read_lose_no_grant(bench: Bench) -> None:
    bench.policy(a_policy(Tier.APPROVAL_REQUIRED))
    bench.substrate.crash("web", 0)
    bench.look()
    break_files(bench)
    bench.desk.grant(bench.approvals()[0].seq, by="ada", reason="")
    assert bench.approvals()[0].status is ApprovalState.GRANTED
    mend_files(bench)
    bench.settle_down()
    assert bench.approvals()[0].status is ApprovalState.CLOSED
    assert bench.calls() == 1


@pytest.mark.req("POL-8", "AUT-20")
def test_a_service_whose_state_is_unknown_for_a_moment_loses_no_grant(bench: Bench) -> None:
    bench.policy(a_policy(Tier.APPROVAL_REQUIRED))
    bench.substrate.crash("web", 0)
    bench.look()
    bench.substrate.blurred.add("web")
    bench.desk.grant(bench.approvals()[0].seq, by="ada", reason="")
    bench.settle_down()
    assert bench.approvals()[0].status is ApprovalState.GRANTED
    bench.substrate.blurred.clear()
    wait(bench, 10)
    bench.settle_down()
    assert bench.approvals()[0].status is ApprovalState.CLOSED


@pytest.mark.req("ACT-2")
@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.DRY_RUN])
@pytest.mark.parametrize("source", [Source.RECONCILER, Source.OPERATOR])
def test_a_service_that_is_no_longer_live_is_not_touched(bench: Bench, mode: Mode, source: Source) -> None:
    service = bench.files.current().fleet.services["web"]
    bench.substrate.crash("web", 0)
    request = a_request(service, kind=Kind.RESTART, params={"replica": 0}, source=source, requested_by="ada")
    [admission] = bench.gate.admit([request], fence=None)
    assert admission.record is not None
    bench.files.declare_service(msgspec.structs.replace(service, mode=mode))
    bench.act()
    assert bench.records()[0].state is OutboxState.ABANDONED
    assert bench.calls() == 0


@pytest.mark.req("PRO-1")
def test_a_declaration_that_changes_between_look_and_fence_is_looked_at_anew(prepared: Bench) -> None:
    service = prepared.files.current().fleet.services["web"]
    look_at = prepared.sightings.look_at

    def slowly(one):
        seen = look_at(one)
        prepared.files.declare_service(msgspec.structs.replace(service, version="2"))
        return seen

    prepared.sightings.look_at = slowly  # type: ignore[method-assign]
    prepared.act()
    assert prepared.records()[0].state is OutboxState.PREPARED
    wait(prepared)
    prepared.act()
    assert prepared.records()[0].state is OutboxState.SUCCEEDED


@pytest.mark.req("OBS-1")
def test_an_observer_that_breaks_blinds_nobody_else(bench: Bench) -> None:
    class Broken(FakeSubstrate):
        def observe(self, services, at):
            raise KeyError("a plug-in with a fault")

    broken = Broken(bench.clock, "process")
    sightings = Sightings(bench.store, [broken, bench.substrate], max_age_s=60)
    look = sightings.look([*bench.files.current().fleet.services.values(), a_service("db", process=True)])
    assert set(look.seen) == {"web"}
    assert "a plug-in with a fault" in look.failed[broken.name]


@pytest.mark.req("AUT-20")
def test_records_that_wait_neither_spin_nor_keep_others_from_their_turn(bench: Bench) -> None:
    names = [f"s{number:02}" for number in range(12)]
    bench.files.declare(fleet=a_fleet(*(a_service(name) for name in names)))
    for name in names:
        bench.substrate.boot(name)
        bench.substrate.crash(name, 0)
    bench.build(actions_max=20)
    assert len(bench.look().prepared) == 12
    bench.substrate.hidden.update(names[:10])
    assert bench.act() == 8  # as many as may run at once; none of them can be observed
    assert bench.act() == 4  # the others have their turn next
    done = [one for one in bench.records() if one.state is OutboxState.SUCCEEDED]
    assert {one.request.target for one in done} == {"s10", "s11"}
    assert bench.act() == 0  # and nobody again at once
    wait(bench)
    assert bench.act() == 8


@pytest.mark.req("RUN-2", "PRO-15")
def test_a_lease_that_a_thread_found_lost_is_given_up_and_taken_anew(prepared: Bench) -> None:
    stale = prepared.fence("action_executor")
    prepared.store.transact("void", lambda tx: tx.leases.void_all())  # it comes back under another token
    prepared.executor.run_prepared(stale)
    assert prepared.calls() == 0
    with pytest.raises(Fenced):
        prepared.executor.run_prepared(stale)
    assert prepared.fence("action_executor").token > stale.token


@pytest.mark.req("PRO-5")
def test_an_adapter_that_breaks_before_the_fence_leaves_the_record_to_lapse(prepared: Bench) -> None:
    class Broken(FakeSubstrate):
        def refusal(self, request, service):
            raise ZeroDivisionError

    prepared.build(Broken(prepared.clock))
    prepared.act()
    assert prepared.records()[0].state is OutboxState.PREPARED
    assert prepared.executor.executing() == frozenset()


@pytest.mark.req("AUT-14")
def test_a_record_that_somebody_else_has_is_left_alone(prepared: Bench) -> None:
    [record] = prepared.records()
    fence = prepared.fence("action_executor")
    prepared.act()
    assert prepared.executor.execute(record, fence).fate is Fate.GONE
    assert prepared.calls() == 1
