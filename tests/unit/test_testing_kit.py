"""The public test kit keeps the promises of the ports that it stands in for."""

from __future__ import annotations

from threading import Event

import pytest

from fleetwarden.domain.actions import Kind, Tier
from fleetwarden.domain.convergence import Need, Rest, converge
from fleetwarden.domain.errors import NotCalled, Retryable
from fleetwarden.domain.fleet import InstanceStatus, Presence, ServiceStatus
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.ports.actuation import ActuationCall, FleetActuator
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.observation import FleetObserver
from fleetwarden.ports.system import Clock, IdSource
from fleetwarden.testing import (
    Answer,
    Delivery,
    FakeClock,
    FakeConfiguration,
    FakeIds,
    FakeSubstrate,
    a_fleet,
    a_policy,
    a_request,
    a_service,
    an_instance,
    an_observation,
)

WEB = a_service("web", replicas=2)


def call(
    clock: FakeClock, kind: str = Kind.RESTART, key: str = "k1", deadline_s: float = 5.0, **params
) -> ActuationCall:
    request = a_request(WEB, kind=kind, key=key, params=params)
    return ActuationCall(key=key, request=request, service=WEB, observed=None, deadline=clock.monotonic() + deadline_s)


def told(substrate: FakeSubstrate) -> list[str]:
    return [line.what for line in substrate.log]


def test_the_fakes_have_the_faces_of_their_ports() -> None:
    """The type checker compares the methods; this shows what a checker of types cannot: which services they serve."""
    clock: Clock = FakeClock()
    ids: IdSource = FakeIds()
    files: ConfigurationSource = FakeConfiguration()
    observer: FleetObserver = FakeSubstrate(clock, "process")
    actuator: FleetActuator = FakeSubstrate(clock, "process")
    request = a_request(WEB, key=ids.new())
    assert set(files.current().fleet.services) == {"web"}
    assert observer.substrates == {actuator.substrate}
    assert actuator.refusal(request, WEB) is not None
    assert actuator.refusal(request, a_service("web", process=True)) is None


def test_a_step_of_the_clock_moves_the_time_and_no_duration() -> None:
    clock = FakeClock()
    began = clock.now()
    clock.advance(1.5)
    clock.step(-3600)
    assert clock.now() == began + 1_500_000 - 3600 * SECOND
    assert clock.monotonic() == 1.5


def test_waiting_lets_the_time_pass_unless_the_event_is_set() -> None:
    clock, event = FakeClock(), Event()
    assert not clock.wait(event, 10)
    assert clock.monotonic() == 10
    event.set()
    assert clock.wait(event, 10)
    assert clock.monotonic() == 10


def test_time_does_not_advance_backwards() -> None:
    with pytest.raises(ValueError, match="cannot advance"):
        FakeClock().advance(-1)


def test_ids_are_unique_repeatable_and_16_hex_digits() -> None:
    one, again, other = FakeIds("a"), FakeIds("a"), FakeIds("b")
    first = [one.new() for _ in range(50)]
    assert first == [again.new() for _ in range(50)]
    assert len({*first, *(other.new() for _ in range(50))}) == 100
    assert all(len(text) == 16 and int(text, 16) >= 0 for text in first)
    assert all(0 <= one.fraction() < 1 for _ in range(50))


def test_what_is_declared_holds_from_the_next_look_on() -> None:
    files = FakeConfiguration()
    files.declare(policy=a_policy(Tier.FORBIDDEN))
    files.declare_service(WEB)
    assert files.current().policy.defaults.tier is Tier.FORBIDDEN
    assert files.current().fleet.services["web"] is WEB
    assert files.refresh()
    assert not files.refresh()


def test_a_fleet_that_cannot_be_read_leaves_the_last_good_one_on_show() -> None:
    files = FakeConfiguration()
    good = files.current().fleet
    files.declare(fleet=a_fleet(error="fleet.yml:3 is no mapping"))
    assert files.current().fleet.error
    assert files.current().last_good_fleet == good


def test_a_restart_makes_every_instance_anew_under_its_key() -> None:
    clock = FakeClock()
    substrate = FakeSubstrate(clock)
    substrate.boot("web", 2)
    before = substrate.observe([WEB], 1)["web"].instances
    assert substrate.actuate(call(clock)).ok
    after = substrate.observe([WEB], 2)["web"]
    assert {one.key for one in after.instances} == {"k1"}
    assert {one.identity for one in after.instances}.isdisjoint({one.identity for one in before})
    assert after.observed_at == 2
    assert told(substrate) == ["called", "touched", "touched", "landed", "answered"]


def test_kinds_do_what_they_say() -> None:
    clock = FakeClock()
    substrate = FakeSubstrate(clock)
    assert substrate.presence("web") is Presence.NEVER_STARTED
    assert substrate.actuate(call(clock, Kind.START, "k1", replicas=2)).ok
    assert substrate.actuate(call(clock, Kind.SCALE, "k2", replicas=3)).ok
    assert list(substrate.instances("web")) == [0, 1, 2]
    assert substrate.actuate(call(clock, Kind.SCALE, "k3", replicas=1)).ok
    assert list(substrate.instances("web")) == [0]
    assert substrate.actuate(call(clock, Kind.STOP, "k4")).ok
    seen = substrate.observe([WEB], 1)["web"]
    assert (seen.presence, seen.stop_key, seen.total) == (Presence.STOPPED_BY_US, "k4", 0)


def test_one_replica_of_several_is_restarted_alone() -> None:
    clock = FakeClock()
    substrate = FakeSubstrate(clock)
    substrate.boot("web", 2)
    substrate.crash("web", 1)
    assert substrate.actuate(call(clock, replica=1)).ok
    assert [one.key for one in substrate.observe([WEB], 1)["web"].instances] == ["", "k1"]


def test_there_is_nothing_to_restart_where_nothing_was_started() -> None:
    clock = FakeClock()
    outcome = FakeSubstrate(clock).actuate(call(clock))
    assert (outcome.ok, outcome.unknown_outcome, outcome.code) == (False, False, "nothing_there")


def test_a_refusal_changes_nothing() -> None:
    clock = FakeClock()
    substrate = FakeSubstrate(clock, deliver=lambda _: Delivery(answer=Answer.REFUSED))
    substrate.boot("web", 2)
    assert substrate.actuate(call(clock)).code == "refused"
    assert "touched" not in told(substrate)


def test_a_lost_answer_leaves_the_outcome_unknown_though_it_was_done() -> None:
    clock = FakeClock()
    substrate = FakeSubstrate(clock, deliver=lambda _: Delivery(answer=Answer.LOST))
    substrate.boot("web", 1)
    assert substrate.actuate(call(clock)).unknown_outcome
    assert "landed" in told(substrate)


def test_a_lost_request_never_lands() -> None:
    clock = FakeClock()
    substrate = FakeSubstrate(clock, deliver=lambda _: Delivery(lands=False))
    substrate.boot("web", 1)
    assert substrate.actuate(call(clock)).unknown_outcome
    clock.advance(1000)
    substrate.arrive()
    assert "landed" not in told(substrate)


@pytest.mark.parametrize("lateness_s", [0.0, 20.0])
def test_nothing_lands_later_than_the_declared_lateness(lateness_s: float) -> None:
    clock = FakeClock()
    substrate = FakeSubstrate(clock, lateness_s=lateness_s, deliver=lambda _: Delivery(travel_s=1000))
    substrate.boot("web", 1)
    assert substrate.actuate(call(clock)).unknown_outcome is (lateness_s > 0)
    clock.advance(2000)
    substrate.arrive()
    landed = [line for line in substrate.log if line.what == "landed"]
    assert [line.late for line in landed] == [lateness_s > 0]
    assert substrate.on_its_way == []


def test_a_doubled_delivery_does_it_again_under_the_same_key() -> None:
    clock = FakeClock()
    substrate = FakeSubstrate(
        clock, lateness_s=30, acknowledged_is_final=False, deliver=lambda _: Delivery(doubled_s=10)
    )
    substrate.boot("web", 1)
    assert substrate.actuate(call(clock)).ok
    assert substrate.on_its_way == ["k1"]
    clock.advance(10)
    substrate.arrive()
    assert told(substrate).count("landed") == 2


def test_a_reported_failure_is_one_that_stays() -> None:
    clock = FakeClock()
    substrate = FakeSubstrate(
        clock, lateness_s=30, acknowledged_is_final=False, deliver=lambda _: Delivery(doubled_s=10)
    )
    assert substrate.actuate(call(clock)).code == "nothing_there"
    assert substrate.on_its_way == []


def test_an_acknowledgement_that_is_final_is_not_delivered_twice() -> None:
    clock = FakeClock()
    substrate = FakeSubstrate(clock, deliver=lambda _: Delivery(doubled_s=10))
    with pytest.raises(ValueError, match="not delivered again"):
        substrate.actuate(call(clock))


def test_an_effect_that_stops_part_of_the_way_says_so() -> None:
    clock = FakeClock()
    substrate = FakeSubstrate(clock, deliver=lambda _: Delivery(instances=1))
    substrate.boot("web", 2)
    outcome = substrate.actuate(call(clock))
    assert (outcome.ok, outcome.code) == (False, "partial")
    assert told(substrate) == ["called", "touched", "cut", "answered"]


def test_nothing_is_begun_at_or_after_the_deadline() -> None:
    clock = FakeClock()
    late = call(clock)
    substrate = FakeSubstrate(clock)
    substrate.boot("web", 2)
    clock.advance(5)
    with pytest.raises(NotCalled):
        substrate.actuate(late)
    assert "touched" not in told(substrate)


def test_a_caller_may_die_between_two_instances() -> None:
    clock = FakeClock()

    def die(point: str) -> None:
        if point == "effect":
            raise KeyboardInterrupt

    substrate = FakeSubstrate(clock, at=die)
    substrate.boot("web", 2)
    with pytest.raises(KeyboardInterrupt):
        substrate.actuate(call(clock))
    assert told(substrate) == ["called", "touched"]


def test_what_cannot_be_seen_is_absent_or_unknown_and_never_down() -> None:
    clock = FakeClock()
    substrate = FakeSubstrate(clock)
    substrate.boot("web", 2)
    substrate.hidden.add("web")
    assert substrate.observe([WEB], 1) == {}
    substrate.hidden.clear()
    substrate.blurred.add("web")
    assert substrate.observe([WEB], 1)["web"].status is ServiceStatus.UNKNOWN
    substrate.failing = "connection refused"
    with pytest.raises(Retryable, match="connection refused"):
        substrate.observe([WEB], 1)


def test_a_slow_start_is_starting_and_then_up() -> None:
    clock = FakeClock()
    substrate = FakeSubstrate(clock, start_s=3)
    substrate.actuate(call(clock, Kind.START, replicas=1))
    assert substrate.observe([WEB], 1)["web"].instances[0].status is InstanceStatus.STARTING
    clock.advance(3)
    assert substrate.observe([WEB], 1)["web"].status is ServiceStatus.UP


def test_instances_crash_come_back_sicken_and_heal() -> None:
    substrate = FakeSubstrate(FakeClock())
    substrate.boot("web", 1, key="k0")
    assert substrate.crash("web", 0)
    assert not substrate.crash("web", 0)
    assert substrate.observe([WEB], 1)["web"].status is ServiceStatus.DOWN
    assert substrate.revive("web", 0)
    assert substrate.observe([WEB], 1)["web"].instances[0].key == "k0"
    assert substrate.sicken("web", 0)
    assert substrate.instances("web") == {0: False}
    assert substrate.heal("web", 0)
    assert substrate.instances("web") == {0: True}


def test_observations_are_what_convergence_takes_them_for() -> None:
    down = an_observation(WEB, at=1, instances=[an_instance(0), an_instance(1, InstanceStatus.DOWN)])
    need = converge(WEB, down)
    assert isinstance(need, Need)
    assert (need.kind, need.params) == (Kind.RESTART, {"replica": 1})
    assert isinstance(converge(WEB, an_observation(WEB, at=1)), Rest)
    never = converge(WEB, an_observation(WEB, at=1, instances=[]))
    assert isinstance(never, Need)
    assert never.kind is Kind.START
