"""What a service needs now, from what is declared and what was seen."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.domain.actions import ActionRequest, Kind, Source
from fleetwarden.domain.convergence import Need, Rest, converge, facts, identity, still_needed, undecidable
from fleetwarden.domain.fleet import (
    DesiredState,
    InstanceStatus,
    Mode,
    ObservedInstance,
    ObservedService,
    Presence,
    ProcessSpec,
    ScalingBlock,
    Service,
    ServiceStatus,
)

UP, DOWN, STARTING = InstanceStatus.UP, InstanceStatus.DOWN, InstanceStatus.STARTING


def declared(**changes: object) -> Service:
    base = Service(name="web", replicas=2, version="1.0", process=ProcessSpec(command=("web",)), source="fleet.yml:3")
    return msgspec.structs.replace(base, **changes)


def seen(*statuses: InstanceStatus, status: ServiceStatus | None = None, **changes: object) -> ObservedService:
    ready = sum(one is UP for one in statuses)
    rolled = ServiceStatus.UP if ready == len(statuses) else ServiceStatus.DEGRADED if ready else ServiceStatus.DOWN
    base = ObservedService(
        name="web",
        observed_at=1_000,
        source="process",
        status=status or rolled,
        ready=ready,
        existing=sum(one is not DOWN for one in statuses),
        total=len(statuses),
        version="1.0",
        instances=tuple(ObservedInstance(id=str(i), status=one) for i, one in enumerate(statuses)),
    )
    return msgspec.structs.replace(base, **changes)


def wish(service: Service, kind: Kind, source: str = Source.RECONCILER, **params: object) -> ActionRequest:
    return ActionRequest(
        kind=kind,
        target=service.name,
        params=params,
        source=source,
        requested_by="x",
        key="k",
        identity=identity(service),
    )


@pytest.mark.req("REC-3", "REC-10")
def test_one_dead_instance_of_two_is_repaired_alone() -> None:
    need = converge(declared(), seen(UP, DOWN))
    assert isinstance(need, Need)
    assert (need.kind, need.params) == (Kind.RESTART, {"replica": 1})


@pytest.mark.req("REC-3")
def test_a_service_whose_instances_are_all_down_is_restarted_whole() -> None:
    need = converge(declared(), seen(DOWN, DOWN))
    assert isinstance(need, Need)
    assert (need.kind, need.params) == (Kind.RESTART, {})


@pytest.mark.req("REC-3")
def test_down_comes_before_a_wrong_count() -> None:
    need = converge(declared(replicas=2), seen(status=ServiceStatus.DOWN))
    assert isinstance(need, Need)
    assert need.kind == Kind.RESTART


@pytest.mark.req("REC-3")
@pytest.mark.parametrize("presence", [Presence.NEVER_STARTED, Presence.NOT_SINCE_BOOT, Presence.STOPPED_BY_US])
def test_what_was_not_started_is_started_not_restarted(presence: Presence) -> None:
    need = converge(declared(), seen(status=ServiceStatus.DOWN, presence=presence))
    assert isinstance(need, Need)
    assert (need.kind, need.params) == (Kind.START, {"replicas": 2})


@pytest.mark.req("REC-3", "AUT-26")
@pytest.mark.parametrize(("there", "direction"), [(1, "up"), (3, "down")])
def test_a_wrong_wanted_count_is_scaled_to_the_declared_one(there: int, direction: str) -> None:
    need = converge(declared(replicas=2), seen(*[UP] * there))
    assert isinstance(need, Need)
    assert (need.kind, need.params, need.direction) == (Kind.SCALE, {"replicas": 2}, direction)


@pytest.mark.req("AUT-26")
def test_a_dead_slot_is_not_a_missing_replica() -> None:
    need = converge(declared(replicas=2), seen(UP, DOWN))
    assert isinstance(need, Need)
    assert need.kind == Kind.RESTART


@pytest.mark.req("AUT-11", "ORC-1")
def test_a_scaling_block_owns_the_count_but_not_the_repair() -> None:
    service = declared(replicas=2, scaling=ScalingBlock(line=9))
    rest = converge(service, seen(UP))
    assert isinstance(rest, Rest)
    assert rest.code == "follows_load"
    need = converge(service, seen(UP, UP, DOWN))
    assert isinstance(need, Need)
    assert (need.kind, need.params) == (Kind.RESTART, {"replica": 2})


@pytest.mark.req("REC-3")
def test_up_but_declared_stopped_is_stopped() -> None:
    need = converge(declared(desired=DesiredState.STOPPED), seen(UP, UP))
    assert isinstance(need, Need)
    assert need.kind == Kind.STOP


@pytest.mark.req("REC-3")
def test_down_and_declared_stopped_needs_nothing() -> None:
    rest = converge(declared(desired=DesiredState.STOPPED), seen(DOWN, DOWN))
    assert isinstance(rest, Rest)
    assert rest.code == "stopped"


@pytest.mark.req("REC-3", "OBS-1")
def test_no_observation_and_an_unknown_state_propose_nothing() -> None:
    for observed in (None, seen(UP, status=ServiceStatus.UNKNOWN)):
        assert isinstance(converge(declared(replicas=7), observed), Rest)


@pytest.mark.req("REC-10")
def test_a_starting_instance_is_left_in_peace() -> None:
    rest = converge(declared(), seen(UP, STARTING))
    assert isinstance(rest, Rest)
    assert rest.code == "starting"


@pytest.mark.req("ACT-2")
def test_observe_mode_never_proposes() -> None:
    assert isinstance(converge(declared(mode=Mode.OBSERVE), seen(DOWN, DOWN)), Rest)


@pytest.mark.req("REC-8")
def test_zero_replicas_means_zero() -> None:
    never = seen(status=ServiceStatus.UP, presence=Presence.NEVER_STARTED)
    assert isinstance(converge(declared(replicas=0), never), Rest)
    need = converge(declared(replicas=0), seen(UP))
    assert isinstance(need, Need)
    assert (need.kind, need.params) == (Kind.SCALE, {"replicas": 0})


@pytest.mark.req("REC-3")
@given(
    st.lists(st.sampled_from(list(InstanceStatus)), max_size=5),
    st.integers(0, 5),
    st.sampled_from(list(DesiredState)),
    st.sampled_from(list(Presence)),
    st.sampled_from(list(ServiceStatus)),
)
def test_a_need_is_still_needed_on_the_very_same_evidence(
    statuses: list[InstanceStatus], replicas: int, desired: DesiredState, presence: Presence, status: ServiceStatus
) -> None:
    service = declared(replicas=replicas, desired=desired)
    observed = seen(*statuses, status=status, presence=presence)
    need = converge(service, observed)
    if isinstance(need, Need):
        request = wish(service, need.kind, **need.params)
        assert still_needed(request, service, observed) is None


@pytest.mark.req("POL-8", "PRO-1")
def test_a_restart_is_not_needed_once_the_instance_is_up() -> None:
    service = declared()
    assert still_needed(wish(service, Kind.RESTART, replica=1), service, seen(UP, DOWN)) is None
    assert still_needed(wish(service, Kind.RESTART, replica=1), service, seen(UP, UP)) == "web#1 is up by now"
    assert still_needed(wish(service, Kind.RESTART), service, seen(UP, DOWN)) == "web is degraded by now"
    assert still_needed(wish(service, Kind.RESTART), service, None) == "web cannot be observed now"


@pytest.mark.req("POL-7")
def test_a_changed_declaration_is_another_action() -> None:
    service = declared()
    request = wish(service, Kind.RESTART, replica=1)
    changed = declared(process=ProcessSpec(command=("other",)))
    assert still_needed(request, changed, seen(UP, DOWN)) == "web is declared differently by now"


@pytest.mark.req("REC-3")
def test_a_persons_own_wish_is_not_measured_against_the_fleet() -> None:
    service = declared()
    assert still_needed(wish(service, Kind.STOP, source=Source.OPERATOR), service, seen(UP, UP)) is None


@pytest.mark.req("ACT-2", "PRO-1")
@pytest.mark.parametrize("source", [Source.RECONCILER, Source.OPERATOR])
def test_a_mode_that_was_changed_meanwhile_holds_for_whoever_asked(source: Source) -> None:
    request = wish(declared(), Kind.RESTART, source=source)
    down = seen(DOWN, DOWN)
    assert still_needed(request, declared(), down) is None
    assert "observe" in str(still_needed(request, declared(mode=Mode.OBSERVE), down))
    assert "dry_run" in str(still_needed(request, declared(mode=Mode.DRY_RUN), down))
    simulated = msgspec.structs.replace(request, dry_run=True)
    assert still_needed(simulated, declared(mode=Mode.DRY_RUN), down) is None


@pytest.mark.req("POL-8")
def test_what_nobody_can_judge_now_is_waited_for_and_not_ended() -> None:
    request = wish(declared(), Kind.RESTART)
    unknown = seen(UP, UP, status=ServiceStatus.UNKNOWN)
    assert undecidable(request, None) == "web cannot be observed now"
    assert "unknown" in str(undecidable(request, unknown))
    assert undecidable(msgspec.structs.replace(request, source=Source.OPERATOR), unknown) is None
    assert undecidable(request, seen(DOWN, DOWN)) is None


@pytest.mark.req("REC-10")
def test_an_instance_whose_name_is_no_number_is_repaired_by_restarting_the_whole() -> None:
    two = seen(UP, DOWN)
    named = msgspec.structs.replace(
        two, instances=tuple(msgspec.structs.replace(one, id=f"web-{one.id}") for one in two.instances)
    )
    need = converge(declared(), named)
    assert isinstance(need, Need)
    assert need.params == {}
    assert still_needed(wish(declared(), need.kind), declared(), named) is None


@pytest.mark.req("POL-13")
def test_evidence_is_bounded_whatever_an_observer_says() -> None:
    loud = msgspec.structs.replace(seen(UP, DOWN), detail="x" * 400_000)
    loud = msgspec.structs.replace(
        loud, instances=tuple(msgspec.structs.replace(one, detail="y" * 400_000) for one in loud.instances)
    )
    need = converge(declared(), loud)
    assert isinstance(need, Need)
    assert len(need.reason) < 1_000
    assert len(str(facts(loud))) < 5_000
