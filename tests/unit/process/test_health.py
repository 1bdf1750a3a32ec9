"""Probe results in a row become a status; nothing is called down that may only be starting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.adapters.substrates.process.health import Memory, Probed, judge, roll_up
from fleetwarden.domain.fleet import HealthCheck, HealthKind, InstanceStatus, ObservedInstance, Presence, ServiceStatus

CHECK = HealthCheck(kind=HealthKind.HTTP, http="http://x/", failures=2, start_grace_s=30)
UP, DOWN, STARTING, UNKNOWN = (
    InstanceStatus.UP,
    InstanceStatus.DOWN,
    InstanceStatus.STARTING,
    InstanceStatus.UNKNOWN,
)


def after(*answers: bool | None) -> Memory:
    memory = Memory()
    for at, ok in enumerate(answers, 1):
        memory = memory.after(Probed(ok, "HTTP 200" if ok else "HTTP 503"), at)
    return memory


@pytest.mark.parametrize(
    ("answers", "age_s", "status"),
    [
        ((), 0, STARTING),
        ((False, False, False), 29, STARTING),  # not well yet, and it has time
        ((True,), 1, UP),  # well before its time is over
        ((False, True), 1, UP),
        ((True, False), 1, UP),  # one failed probe is no verdict
        ((True, False, False), 1, DOWN),  # also while it is young: it was well once
        ((True, False, True, False), 500, UP),  # in a row is what counts
        ((False,), 31, UNKNOWN),  # its time is over, and one probe is no verdict
        ((False, False), 31, DOWN),
        ((), 31, UNKNOWN),  # nobody has looked: missing evidence is not a bad answer
        ((None, None, None), 31, UNKNOWN),  # the question could not be asked
        ((True, None, None, None), 500, UP),
        ((True, False, None, False), 500, DOWN),
    ],
)
@pytest.mark.req("OBS-1", "REC-10")
def test_the_status_of_an_instance(answers: tuple[bool | None, ...], age_s: float, status: InstanceStatus) -> None:
    assert judge(CHECK, after(*answers), age_s)[0] is status


def test_what_is_not_simply_up_says_why() -> None:
    assert "HTTP 503 (1 of 2 failed probes in a row)" in judge(CHECK, after(True, False), 1)[1]
    assert "HTTP 503 (2 of 2 failed probes in a row)" in judge(CHECK, after(True, False, False), 1)[1]
    assert "HTTP 503 (3 failed probes in a row)" in judge(CHECK, after(True, False, False, False), 1)[1]
    assert "20 s of its grace left" in judge(CHECK, after(False), 10)[1]
    assert judge(CHECK, after(True), 1)[1] == ""


def test_an_answer_to_an_earlier_question_changes_nothing() -> None:
    memory = Memory().after(Probed(True, "HTTP 200"), 10)
    assert memory.after(Probed(False, "HTTP 503"), 9) == memory


def test_a_question_that_could_not_be_asked_is_no_newer_evidence() -> None:
    memory = Memory().after(Probed(True, "HTTP 200"), 10).after(Probed(None, "no descriptor left"), 20)
    assert (memory.at, memory.failures, memory.was_well) == (10, 0, True)


@given(st.lists(st.sampled_from([True, False, None])), st.integers(1, 10), st.floats(0, 3600), st.floats(0, 3600))
def test_down_needs_so_many_failed_probes_in_a_row(answers, failures, grace_s, age_s) -> None:
    check = HealthCheck(kind=HealthKind.TCP, tcp="1", failures=failures, start_grace_s=grace_s)
    memory = after(*answers)
    status, detail = judge(check, memory, age_s)
    asked = [answer for answer in answers if answer is not None]
    if status is DOWN:
        assert len(asked) >= failures
        assert not any(asked[-failures:])
        assert detail
    if asked and asked[-1]:
        assert status is UP


def instances(*states: InstanceStatus) -> list[ObservedInstance]:
    return [ObservedInstance(id=str(index), status=state) for index, state in enumerate(states)]


@pytest.mark.parametrize(
    ("states", "status"),
    [
        ((UP, UP), ServiceStatus.UP),
        ((UP, DOWN), ServiceStatus.DEGRADED),
        ((UP, STARTING), ServiceStatus.DEGRADED),
        ((STARTING, STARTING), ServiceStatus.DEGRADED),  # what starts is never down
        ((STARTING, DOWN), ServiceStatus.DEGRADED),
        ((DOWN, DOWN), ServiceStatus.DOWN),
        ((UNKNOWN, UNKNOWN), ServiceStatus.UNKNOWN),
        ((UNKNOWN, DOWN), ServiceStatus.DEGRADED),  # one of them may be well
        ((UNKNOWN, UP), ServiceStatus.DEGRADED),
    ],
)
@pytest.mark.req("OBS-3")
def test_the_status_of_a_service_with_slots(states: tuple[InstanceStatus, ...], status: ServiceStatus) -> None:
    found, _ = roll_up(instances(*states), total=len(states), wanted=len(states), presence=Presence.STARTED)
    assert found is status


@pytest.mark.parametrize(
    ("wanted", "presence", "status"),
    [
        (0, Presence.STARTED, ServiceStatus.UP),
        (2, Presence.STARTED, ServiceStatus.UP),  # 0 of 0: the count is wrong, and that is another question
        (2, Presence.NEVER_STARTED, ServiceStatus.DOWN),
        (2, Presence.STOPPED_BY_US, ServiceStatus.DOWN),
        (0, Presence.STOPPED_BY_US, ServiceStatus.UP),
        (0, Presence.NEVER_STARTED, ServiceStatus.UP),
    ],
)
@pytest.mark.req("OBS-3", "AUT-26")
def test_the_status_of_a_service_without_slots(wanted: int, presence: Presence, status: ServiceStatus) -> None:
    assert roll_up([], total=0, wanted=wanted, presence=presence)[0] is status


def test_the_detail_names_the_dead_first_and_not_everybody() -> None:
    many = [ObservedInstance(id=str(n), status=UP) for n in range(3)]
    many += [ObservedInstance(id=str(n), status=STARTING) for n in range(3, 9)]
    many += [ObservedInstance(id="9", status=DOWN, detail="exited with code 1")]
    _, detail = roll_up(many, total=10, wanted=10, presence=Presence.STARTED)
    assert detail == "#9 exited with code 1; #3 starting; #4 starting"
