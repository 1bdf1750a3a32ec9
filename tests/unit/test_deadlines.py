"""Every call that reaches out has an end, whatever is behind the port."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fleetwarden.adapters.deadlines import DeadlineActuator, DeadlineObserver
from fleetwarden.adapters.system import SystemClock
from fleetwarden.domain.actions import Kind, Outcome
from fleetwarden.domain.errors import NotCalled, Refused, Retryable
from fleetwarden.ports.actuation import ActuationCall
from fleetwarden.testing import FakeClock, a_request, a_service

OK = Outcome(ok=True, detail="done")
PATIENCE_S = 20.0


class Actuator:
    """Does what the test says."""

    substrate = "test"
    kinds: frozenset[str] = frozenset({Kind.RESTART})
    simulates = False
    lateness_s: float | None = 1.0
    acknowledged_is_final = True

    def __init__(self, act: Callable[[ActuationCall], Outcome]) -> None:
        self.act = act
        self.calls: list[str] = []

    def deadline_s(self, request: Any, service: Any) -> float:
        return 42.0

    def refusal(self, request: Any, service: Any) -> str | None:
        return "never"

    def actuate(self, call: ActuationCall) -> Outcome:
        self.calls.append(call.request.target)
        return self.act(call)


class Observer:
    name = "test"
    substrates = frozenset({"test"})

    def __init__(self, look: Callable[[], Any]) -> None:
        self.look = look
        self.looks = 0

    def observe(self, services: Any, at: int) -> Any:
        self.looks += 1
        return self.look()


@contextmanager
def hanging() -> Iterator[Callable[..., Any]]:
    """A call that hangs until the test is over."""
    let_go = threading.Event()

    def hang(*_: object) -> Any:
        let_go.wait(PATIENCE_S)
        return OK

    try:
        yield hang
    finally:
        let_go.set()


def call(target: str = "web", deadline: float = 10.0) -> ActuationCall:
    service = a_service(target)
    return ActuationCall(
        key="k1", request=a_request(service, kind=Kind.RESTART), service=service, observed=None, deadline=deadline
    )


def test_an_answer_in_time_is_handed_on() -> None:
    assert DeadlineActuator(SystemClock(), Actuator(lambda _: OK)).actuate(call(deadline=1e12)) == OK


@pytest.mark.parametrize("error", [NotCalled("not begun"), Refused("no"), RuntimeError("odd"), KeyboardInterrupt()])
def test_an_error_is_handed_on_as_it_is(error: BaseException) -> None:
    def fail(_: ActuationCall) -> Outcome:
        raise error

    with pytest.raises(type(error)) as raised:
        DeadlineActuator(SystemClock(), Actuator(fail)).actuate(call(deadline=1e12))
    assert raised.value is error


def test_a_call_that_outlives_its_bound_is_an_unknown_outcome_and_never_a_failure() -> None:
    clock = FakeClock()
    with hanging() as hang:
        outcome = DeadlineActuator(clock, Actuator(hang), slack_s=0.5).actuate(call(deadline=10.0))
    assert (outcome.ok, outcome.unknown_outcome, outcome.code) == (False, True, "deadline")
    assert clock.monotonic() == 11.5, "its deadline, its lateness and the slack, and no longer"


def test_a_target_whose_given_up_call_still_runs_is_not_called_and_others_are() -> None:
    with hanging() as hang:
        inner = Actuator(lambda one: hang() if one.request.target == "web" else OK)
        bounded = DeadlineActuator(FakeClock(), inner)
        assert bounded.actuate(call("web")).unknown_outcome
        with pytest.raises(NotCalled, match="has not ended yet"):
            bounded.actuate(call("web"))
        assert inner.calls == ["web"]
        other = DeadlineActuator(SystemClock(), inner)
        assert other.actuate(call("db", deadline=1e12)) == OK


def test_a_target_can_be_called_again_once_the_given_up_call_has_ended() -> None:
    with hanging() as hang:
        inner = Actuator(hang)
        bounded = DeadlineActuator(FakeClock(), inner)
        assert bounded.actuate(call()).unknown_outcome
    inner.act = lambda _: OK
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            bounded.actuate(call())
            break
        except NotCalled:
            assert time.monotonic() < end
    while inner.calls != ["web", "web"]:
        assert time.monotonic() < end


def test_what_the_adapter_declares_goes_straight_through() -> None:
    inner = Actuator(lambda _: OK)
    bounded = DeadlineActuator(SystemClock(), inner)
    one = call()
    assert bounded.deadline_s(one.request, one.service) == 42.0
    assert bounded.refusal(one.request, one.service) == "never"
    for name in ("substrate", "kinds", "simulates", "lateness_s", "acknowledged_is_final"):
        assert getattr(bounded, name) == getattr(inner, name)


def test_a_look_in_time_is_handed_on_and_its_error_as_well() -> None:
    assert DeadlineObserver(SystemClock(), Observer(dict), bound_s=60).observe([], 5) == {}

    def fail() -> None:
        raise Retryable("engine away")

    with pytest.raises(Retryable, match="engine away"):
        DeadlineObserver(SystemClock(), Observer(fail), bound_s=60).observe([], 5)


@pytest.mark.req("OBS-1")
def test_a_look_that_hangs_is_given_up_and_says_nothing_about_any_service() -> None:
    clock = FakeClock()
    with hanging() as hang:
        bounded = DeadlineObserver(clock, Observer(hang), bound_s=10)
        with pytest.raises(Retryable, match="did not answer within 10 s"):
            bounded.observe([], 5)
    assert clock.monotonic() == 10


def test_hanging_looks_cost_a_bounded_number_of_threads() -> None:
    with hanging() as hang:
        inner = Observer(hang)
        bounded = DeadlineObserver(FakeClock(), inner, abandoned_max=2)
        for _ in range(5):
            with pytest.raises(Retryable):
                bounded.observe([], 5)
        assert inner.looks == 2
    inner.look = dict
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            bounded.observe([], 5)
            break
        except Retryable:
            assert time.monotonic() < end
            time.sleep(0.01)


def test_a_call_that_hangs_does_not_hold_the_end_of_the_process() -> None:
    code = """
import threading
from fleetwarden.adapters.deadlines import DeadlineActuator
from fleetwarden.adapters.system import SystemClock
from tests.unit.test_deadlines import Actuator, call
clock = SystemClock()
bounded = DeadlineActuator(clock, Actuator(lambda _: threading.Event().wait()), slack_s=0)
print(bounded.actuate(call(deadline=clock.monotonic() - 1)).unknown_outcome)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["True"]), done.stderr
