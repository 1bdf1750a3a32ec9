"""Only healthy evidence lets a pass act, and each service rests on nothing but what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import pytest

from fleetwarden.controllers.readiness import RETRY_S
from fleetwarden.controllers.sightings import SLOW_MIN_S, Sightings
from fleetwarden.controllers.supervision import Supervision
from fleetwarden.domain.actions import Tier
from fleetwarden.domain.errors import Problem
from fleetwarden.domain.fleet import ObservedService, Service
from fleetwarden.domain.health import FleetHealthEvidence, HealthStatus
from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.domain.policy_document import SHIPPED, Policy
from fleetwarden.testing import FakeSubstrate, a_fleet, a_policy, a_service
from tests.contract.pipeline.conftest import Bench


@pytest.fixture
def two(bench: Bench) -> Bench:
    """`web` on the injected substrate and `proc` on processes, each with an observer of its own; both run."""
    processes = FakeSubstrate(bench.clock, "process")
    processes.boot("proc")
    bench.processes = processes  # type: ignore[attr-defined]
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=2), a_service("proc", process=True)))
    bench.sightings = bench.reconciler._sightings = Sightings(bench.store, [bench.substrate, processes], max_age_s=60)
    bench.executor._sightings = bench.desk._sightings = bench.sightings
    bench.executor._actuators["process"] = processes
    bench.reconciler._acting = frozenset({"", "process"})
    return bench


def blind(bench: Bench, why: str) -> FakeSubstrate:
    processes: FakeSubstrate = bench.processes  # type: ignore[attr-defined]
    processes.failing = why
    return processes


@pytest.mark.req("HLT-2", "REC-4", "OBS-1")
def test_a_blind_observer_holds_its_own_services_only(two: Bench) -> None:
    processes = blind(two, "socket closed")
    processes.crash("proc", 0)
    two.substrate.crash("web", 0)
    report = two.look()
    assert (report.status, [one.request.target for one in two.records()]) == ("partial", ["web"])
    assert report.evidence is not None
    assert report.evidence["status"] == "partial"
    standing = two.reconciler.standings()["proc"]
    assert (standing.code, "observer:fake-process" in standing.reason) == ("not_ready", True)
    two.act()
    assert two.substrate.instances("web") == {0: True, 1: True}
    processes.failing = ""
    two.settle_down(2)
    assert processes.instances("proc") == {0: True}
    assert two.look().status == "ok"


@pytest.mark.req("HLT-2", "HLT-1")
def test_where_every_observer_fails_the_pass_is_not_ready(two: Bench) -> None:
    blind(two, "socket closed")
    two.substrate.failing = "gone"
    report = two.look()
    assert report.status == "not_ready"
    assert report.evidence is not None
    assert report.evidence["status"] == "unavailable"


@pytest.mark.req("HLT-2", "REC-4")
def test_what_was_authorised_waits_while_its_scope_is_not_healthy_and_lapses_on_its_own(two: Bench) -> None:
    two.substrate.crash("web", 0)
    two.look()
    two.supervision.overdue("worker", "no pass for 99 s")
    two.act()
    assert (two.records()[0].state, two.calls()) == (OutboxState.PREPARED, 0)
    two.supervision.overdue("worker", "")
    two.clock.advance(1.1)
    two.act()
    assert two.records()[0].state is OutboxState.SUCCEEDED


@pytest.mark.req("HLT-2", "REC-4", "REC-5")
def test_grants_of_a_scope_that_is_not_healthy_are_neither_drained_nor_carried_out(two: Bench) -> None:
    two.policy(a_policy(Tier.APPROVAL_REQUIRED))
    processes: FakeSubstrate = two.processes  # type: ignore[attr-defined]
    processes.crash("proc", 0)
    two.look()
    [approval] = two.approvals()
    two.desk.grant(approval.seq, by="ada", reason="yes")
    blind(two, "socket closed")
    assert two.look().drained == 0
    blind(two, "")
    assert two.look().drained == 1
    blind(two, "socket closed")
    two.look()
    two.worker.run()
    assert two.records() == []
    assert two.approvals()[0].status is ApprovalState.GRANTED
    blind(two, "")
    two.look()
    two.clock.advance(RETRY_S + 1)
    if two.store.health().dialect == "sqlite":  # elsewhere the store's time is not ours to move
        two.settle_down(2)
        assert two.approvals()[0].status is ApprovalState.CLOSED


@pytest.mark.req("REC-4", "POL-8")
def test_expiries_run_while_nothing_is_ready(two: Bench) -> None:
    two.policy(a_policy(Tier.APPROVAL_REQUIRED, approval_expires_s=0))
    two.substrate.crash("web", 0)
    two.look()
    blind(two, "x")
    two.substrate.failing = "x"
    report = two.look()
    assert (report.status, report.expired) == ("not_ready", 1)


# ------------------------------------------------------------------------------------------------ an injected envelope
def envelope(status: HealthStatus, at: Micros) -> FleetHealthEvidence:
    healthy = status is HealthStatus.HEALTHY
    return FleetHealthEvidence(
        status=status,
        ready=healthy,
        convergence_ready=healthy,
        autoscaling_ready=healthy,
        generated_at=at,
        dependencies={},
    )


def judged_by(bench: Bench, judge: Callable[[], FleetHealthEvidence]) -> Supervision:
    return Supervision(bench.store, max_age_s=60, envelope=judge)


@pytest.mark.req("HLT-2")
def test_an_injected_envelope_covers_every_service(bench: Bench) -> None:
    now = bench.store.read(lambda tx: tx.now())
    bad = judged_by(bench, lambda: envelope(HealthStatus.PARTIAL, now)).envelopes()
    assert (bad.of("").status, bad.of("process").status, bad.whole.status) == (HealthStatus.PARTIAL,) * 3
    assert judged_by(bench, lambda: envelope(HealthStatus.HEALTHY, now)).envelopes().of("process").convergence_ready


@pytest.mark.req("HLT-2", "HLT-3")
def test_an_injected_envelope_that_is_old_or_fails_counts_as_unavailable(bench: Bench) -> None:
    def fails() -> FleetHealthEvidence:
        raise OSError("no route")

    now = bench.store.read(lambda tx: tx.now())
    told = judged_by(bench, fails).evidence()
    assert (told.status, told.dependencies["injected"].error_class) == (HealthStatus.UNAVAILABLE, "OSError")
    told = judged_by(bench, lambda: envelope(HealthStatus.HEALTHY, now - 61_000_000)).evidence()
    assert (told.status, told.dependencies["injected"].error_class) == (HealthStatus.UNAVAILABLE, "stale")


# ------------------------------------------------------------------------------------------------ slow observers
@pytest.fixture
def timed(two: Bench) -> Bench:
    """`two`, with observers that are timed."""
    processes: FakeSubstrate = two.processes  # type: ignore[attr-defined]
    two.sightings = two.reconciler._sightings = Sightings(
        two.store, [two.substrate, processes], max_age_s=60, clock=two.clock, slow_s=5
    )
    two.executor._sightings = two.desk._sightings = two.sightings
    return two


@pytest.mark.req("HLT-1", "HLT-2", "REC-4")
def test_a_slow_observer_holds_its_own_services_until_it_answers_in_time(timed: Bench) -> None:
    processes: FakeSubstrate = timed.processes  # type: ignore[attr-defined]
    processes.crash("proc", 0)
    timed.substrate.crash("web", 0)
    processes._at = lambda point: timed.clock.advance(SLOW_MIN_S + 1) if point == "observe" else None
    report = timed.look()
    assert (report.status, [one.request.target for one in timed.records()]) == ("partial", ["web"])
    told = timed.supervision.evidence()
    one = told.dependencies["observer:fake-process"]
    assert (told.status, one.status, one.error_class) == ("degraded", "degraded", "slow")
    assert "took 11 s, more than 10 s" in one.diagnostics[0]
    assert "observer:fake-process is degraded" in timed.reconciler.standings()["proc"].reason
    timed.act()
    assert timed.substrate.instances("web") == {0: True, 1: True}
    processes._at = lambda _: None
    assert timed.look().status == "ok"
    assert timed.supervision.evidence().status is HealthStatus.HEALTHY
    timed.act()
    assert processes.instances("proc") == {0: True}


@pytest.mark.req("HLT-1")
def test_a_slow_observer_that_fails_at_last_is_a_failed_one(timed: Bench) -> None:
    processes: FakeSubstrate = timed.processes  # type: ignore[attr-defined]
    processes._at = lambda point: timed.clock.advance(SLOW_MIN_S + 1) if point == "observe" else None
    processes.failing = "socket closed"
    timed.look()
    one = timed.supervision.evidence().dependencies["observer:fake-process"]
    assert (one.status, one.error_class == "slow") == ("unavailable", False)


# ------------------------------------------------------------------------------------------------ classes of trouble
class Raising:
    name, substrates = "raising", frozenset({""})

    def observe(self, services: Sequence[Service], at: Micros) -> Mapping[str, ObservedService]:
        raise ConnectionResetError(f"at {at}, of {len(services)}")


@pytest.mark.req("HLT-1")
def test_the_envelope_names_the_class_of_each_trouble(bench: Bench) -> None:
    bench.reconciler._sightings = Sightings(bench.store, [Raising()], max_age_s=60)
    bench.look()
    bench.supervision.overdue("worker", "no pass for 99 s")
    known = bench.supervision.evidence().dependencies
    assert known["observer:raising"].error_class == "ConnectionResetError"
    assert (known["controller:worker"].error_class, known["controller:worker"].status) == ("overdue", "degraded")
    assert known["store"].error_class == ""


@pytest.mark.req("POL-4")
def test_a_rejected_policy_says_what_is_in_force_instead(bench: Bench) -> None:
    """There is no last good one before there was a good one."""
    problem = Problem("policy.yml", 3, "no rule")

    def told(policy: Policy) -> str:
        files = msgspec.structs.replace(bench.files.current(), policy=policy, policy_problems=(problem,))
        bench.supervision.configured(bench.clock.now(), files)
        return "; ".join(bench.supervision.evidence().dependencies["policy"].diagnostics)

    assert "the shipped default is in force" in told(SHIPPED)
    assert "the last good one stays in force" in told(a_policy())
