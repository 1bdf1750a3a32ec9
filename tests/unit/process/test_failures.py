"""What goes wrong with actions on real processes, and the honest account of it."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.adapters.substrates.process import actuator
from fleetwarden.adapters.substrates.process.endings import KILL_WAIT_S
from fleetwarden.adapters.substrates.process.proc import stat_of
from fleetwarden.adapters.substrates.process.spawning import PosixSpawner, SpawnOrder
from fleetwarden.adapters.system import SystemClock
from fleetwarden.domain.actions import Kind, Outcome
from fleetwarden.domain.errors import NotCalled, Refused
from fleetwarden.domain.fleet import Presence, ProcessSpec, ServiceStatus
from tests.unit.process.yard import HOST, SLEEPER, STUBBORN, Yard, eventually, free_ports, lives, pid_of, python

START, STOP, RESTART, SCALE = Kind.START, Kind.STOP, Kind.RESTART, Kind.SCALE
LISTENER = python(
    """
import socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
time.sleep(600)
"""
)


def test_a_command_that_does_not_exist_is_a_clear_failure(yard: Yard) -> None:
    service = yard.service(command=("no-such-command",))
    outcome = yard.act(START, service)
    assert (outcome.ok, outcome.code, outcome.unknown_outcome) == (False, "spawn_failed", False)
    assert "'no-such-command' was not found" in outcome.detail
    assert yard.see(service).presence is Presence.NEVER_STARTED


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"cwd": "/no/such/folder"}, "/no/such/folder does not exist"),
        ({"command": ("./plain.txt",)}, "may not be executed"),
        ({"command": ("./garbage",)}, "Exec format error"),
        ({"command": ("./run.sh",)}, "was not found"),
        ({"command": ("sleep", "{port}")}, "asks for 'port'"),
        ({"command": ("sleep", "a\0b")}, "null byte"),
    ],
)
def test_what_cannot_be_started_says_why(yard: Yard, fields: dict, told: str) -> None:
    (yard.folder / "plain.txt").write_text("hello")
    (yard.folder / "garbage").write_bytes(b"\x7fELFnot really")
    (yard.folder / "garbage").chmod(0o755)
    outcome = yard.act(START, yard.service(**fields))
    assert not outcome.ok
    assert not outcome.unknown_outcome
    assert told in outcome.detail
    assert yard.pids() == []


def test_a_running_instance_is_not_ended_for_one_that_cannot_be_started(yard: Yard) -> None:
    pid = pid_of(yard.start(yard.service()))
    outcome = yard.act(RESTART, yard.service(command=("no-such-command",)))
    assert (outcome.ok, outcome.code) == (False, "spawn_failed")
    assert lives(pid)


class FailingSpawner(PosixSpawner):
    """Makes `good` processes, and then no more."""

    def __init__(self, good: int) -> None:
        self.good = good

    def spawn(self, order: SpawnOrder) -> int:
        if self.good <= 0:
            raise OSError(11, "Resource temporarily unavailable")
        self.good -= 1
        return super().spawn(order)


def test_a_restart_that_ended_the_old_and_could_not_make_the_new_says_both(yard: Yard) -> None:
    yard.open(spawner=FailingSpawner(1))
    service = yard.service()
    pid = pid_of(yard.start(service))
    outcome = yard.act(RESTART, service)
    assert (outcome.ok, outcome.code) == (False, "partial")
    assert f"ended pid {pid}" in outcome.detail
    assert "could not be started" in outcome.detail
    seen = yard.see(service)
    assert (seen.status, seen.total, seen.presence) == (ServiceStatus.DOWN, 1, Presence.STARTED)
    assert "Resource temporarily unavailable" in seen.instances[0].detail


def test_a_restart_ends_no_further_instance_after_one_that_could_not_be_made(yard: Yard) -> None:
    yard.open(spawner=FailingSpawner(3))
    service = yard.service(replicas=3)
    last = pid_of(yard.start(service), 2)
    assert yard.act(RESTART, service).code == "partial"
    assert lives(last)


def test_a_start_of_which_some_could_not_be_made_is_partial(yard: Yard) -> None:
    yard.open(spawner=FailingSpawner(2))
    service = yard.service(replicas=3)
    outcome = yard.act(START, service)
    assert (outcome.code, sorted(outcome.evidence["started"])) == ("partial", ["0", "1"])
    seen = yard.see(service)
    assert (seen.total, seen.ready, seen.presence) == (2, 2, Presence.STARTED)


def test_a_port_that_somebody_else_holds_is_named_with_its_holder(yard: Yard) -> None:
    port = free_ports(2)
    other = yard.service("other", command=(*LISTENER, str(port + 1)))
    holder = pid_of(yard.start(other))
    service = yard.service(command=(*LISTENER, "{port}"), port=port, replicas=2)

    def refused() -> Outcome | None:
        outcome = yard.act(START, service)
        if outcome.code == "partial":
            return outcome
        yard.act(STOP, service)  # the other one does not listen yet
        return None

    outcome = eventually(refused)
    assert f"web#1: port {port + 1} is in use by pid {holder}" in outcome.detail
    assert lives(holder)
    assert yard.see(service).total == 1, "the slot without a process was never made"


def test_nothing_is_begun_at_or_after_the_deadline(yard: Yard) -> None:
    service = yard.service()
    pid = pid_of(yard.start(service))
    for kind, params in (
        (STOP, {}),
        (RESTART, {}),
        (SCALE, {"replicas": 0}),
        (SCALE, {"replicas": 5}),
        (START, {"replicas": 5}),
    ):
        with pytest.raises(NotCalled):
            yard.act(kind, service, deadline_s=0, **params)
    assert yard.pids() == [pid]
    assert yard.slot(service).state == "running"


class ClockThatRunsOut:
    """A clock whose deadline passes after so many looks at it; it waits for nothing."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def now(self) -> int:
        return 5

    def monotonic(self) -> float:
        self.looks -= 1
        return 0.0 if self.looks >= 0 else 1000.0

    def wait(self, event, timeout_s: float) -> bool:
        return event.is_set()


@pytest.mark.parametrize("looks", range(2, 8))
def test_wherever_the_deadline_falls_the_account_is_true(tmp_path: Path, looks: int) -> None:
    yard = Yard(tmp_path)
    try:
        service = yard.service(replicas=2)
        before = {one.pid for one in yard.start(service).instances}
        yard.clock = ClockThatRunsOut(10**9)
        yard.open()
        call = yard.call(SCALE, service, replicas=5, deadline_s=500)
        yard.clock.looks = looks
        try:
            outcome = yard.substrate.actuator.actuate(call)
        except NotCalled:
            started = {}
        else:
            started = outcome.evidence.get("started", {})
            assert outcome.ok == (len(started) == 3)
        assert set(yard.pids()) == before | set(started.values())
    finally:
        yard.close()


@pytest.mark.parametrize(("kind", "params"), [(STOP, {}), (RESTART, {}), (SCALE, {"replicas": 1})])
def test_nobody_is_signalled_once_the_deadline_has_passed(yard: Yard, kind: str, params: dict[str, Any]) -> None:
    """The call is begun in time, and the time is up before the first signal."""
    service = yard.service(replicas=2)
    before = {one.pid for one in yard.start(service).instances}
    clock = ClockThatRunsOut(10**9)
    yard.clock = clock
    yard.open()
    call = yard.call(kind, service, deadline_s=500, **params)
    clock.looks = 1
    with pytest.raises(NotCalled):
        yard.substrate.actuator.actuate(call)
    assert set(yard.pids()) == before
    assert {yard.slot(service, index).state for index in (0, 1)} == {"running"}
    yard.clock = SystemClock()


def test_who_cannot_be_ended_in_time_is_an_unknown_outcome(yard: Yard) -> None:
    class Deaf:
        def send(self, process, number, *, group: bool) -> bool:
            return True  # as for a process that hangs in the kernel: sent, and nothing comes of it

    yard.open(signaller=Deaf())
    service = yard.service(stop_grace_s=0.1)
    pid = pid_of(yard.start(service))
    outcome = yard.act(STOP, service, deadline_s=0.5)
    assert (outcome.ok, outcome.unknown_outcome, outcome.code) == (False, True, "still_ending")
    assert str(pid) in outcome.detail
    seen = yard.see(service)
    assert (seen.existing, seen.presence) == (1, Presence.STARTED)


def test_who_may_not_be_signalled_is_a_failure_that_changed_nothing(yard: Yard) -> None:
    class Powerless:
        def send(self, process, number, *, group: bool) -> bool:
            raise Refused(f"this plane may not signal pid {process.pid}", code="not_permitted")

    yard.open(signaller=Powerless())
    service = yard.service(stop_grace_s=0.1)
    pid = pid_of(yard.start(service))
    outcome = yard.act(STOP, service, deadline_s=0.5)
    assert (outcome.ok, outcome.unknown_outcome, outcome.code) == (False, False, "not_permitted")
    assert yard.slot(service).state == "running", "a death that comes later was not this stop's doing"
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: yard.see(service).status is ServiceStatus.DOWN)


def test_a_killed_process_is_waited_for_before_the_answer(yard: Yard) -> None:
    """A long grace time is cut short so that the end is seen before the deadline."""
    service = yard.service(command=STUBBORN, stop_grace_s=300)
    pid = pid_of(yard.start(service))
    outcome = yard.act(STOP, service, deadline_s=1.0)
    assert outcome.ok, outcome
    assert not lives(pid)


def test_deadlines_grow_with_grace_and_count_and_are_bounded(yard: Yard) -> None:
    def bound(kind: str, *, grace: float, replicas: int) -> float:
        service = yard.service(stop_grace_s=grace, replicas=replicas)
        params: dict[str, Any] = {"replicas": replicas} if kind == SCALE else {}
        return yard.substrate.actuator.deadline_s(yard.call(kind, service, deadline_s=0, **params).request, service)

    assert bound(START, grace=300, replicas=1) < 15
    assert bound(STOP, grace=30, replicas=1) > 33
    assert bound(STOP, grace=30, replicas=50) < 60, "all are stopped at the same time"
    assert bound(RESTART, grace=30, replicas=3) > 90, "one after another"
    for kind in (START, STOP, RESTART, SCALE):
        for replicas in (0, 1, 7, 1000):
            for grace in (0.0, 10.0, 300.0):
                assert 5 <= bound(kind, grace=grace, replicas=replicas) <= 600


@given(st.floats(0, 300), st.integers(1, 1000))
def test_a_restart_ends_one_at_a_time_unless_that_could_outlast_any_deadline(grace_s: float, count: int) -> None:
    spec = ProcessSpec(command=SLEEPER, stop_grace_s=grace_s)
    size = actuator._at_once(spec, count)
    one_round_s = grace_s + KILL_WAIT_S
    assert math.ceil(count / size) * one_round_s + count * 0.1 <= 600
    assert 1 <= size <= count
    assert size == 1 or count * one_round_s + count * 0.1 > 580


@pytest.mark.parametrize(
    ("service", "kind", "params", "code"),
    [
        ({}, Kind.DEPLOY, {"version": "2"}, "unknown_version"),
        ({"version": "1"}, Kind.ROLLBACK, {"version": "2"}, "unknown_version"),
        ({"version": "1"}, Kind.ROLLBACK, {}, "bad_params"),
        ({"version": "1"}, Kind.DEPLOY, {"image": "web:1"}, "bad_params"),
        ({}, Kind.DIAGNOSE, {}, "unsupported_kind"),
        ({"host": "elsewhere"}, RESTART, {}, "wrong_host"),
        ({}, SCALE, {}, "bad_params"),
        ({}, SCALE, {"replicas": "3"}, "bad_params"),
        ({}, SCALE, {"replicas": True}, "bad_params"),
        ({}, SCALE, {"replicas": -1}, "bad_params"),
        ({}, SCALE, {"replicas": 100_000}, "bad_params"),
        ({}, RESTART, {"replica": "0"}, "bad_params"),
        ({}, START, {"replicas": 1.0}, "bad_params"),
    ],
)
def test_what_can_never_be_carried_out_is_refused_beforehand_and_again(yard: Yard, service, kind, params, code) -> None:
    declared = yard.service(**service)
    call = yard.call(kind, declared, deadline_s=60, **params)
    refusal = yard.substrate.actuator.refusal(call.request, declared)
    assert refusal is not None
    assert refusal.startswith(f"{code}: ")
    outcome = yard.substrate.actuator.actuate(call)
    assert (outcome.ok, outcome.code, outcome.unknown_outcome) == (False, code, False)
    assert yard.pids() == []


def test_a_service_of_this_host_or_of_none_is_not_refused(yard: Yard) -> None:
    for host in ("", HOST):
        service = yard.service(host=host)
        assert yard.substrate.actuator.refusal(yard.call(RESTART, service).request, service) is None


@pytest.mark.req("ACT-7")
@pytest.mark.parametrize(
    ("kind", "params"), [(STOP, {}), (RESTART, {}), (SCALE, {"replicas": 0}), (RESTART, {"replica": 0})]
)
def test_a_plane_does_not_end_itself(yard: Yard, kind: str, params: dict) -> None:
    """The slot says that this very process is the instance, as when a service started the plane."""
    service = yard.service()
    yard.start(service)
    me = stat_of(os.getpid())
    assert me is not None
    yard.slots().update("web", 0, lambda slot: type(slot)(**_changed(slot, pid=me.pid, ticks=me.ticks)))
    call = yard.call(kind, service, **params)
    refusal = yard.substrate.actuator.refusal(call.request, service)
    assert refusal is not None
    assert refusal.startswith("self_target: ")
    assert yard.substrate.actuator.actuate(call).code == "self_target"


def _changed(record, **fields):
    return {name: getattr(record, name) for name in record.__struct_fields__} | fields


@pytest.mark.req("ACT-7")
def test_a_plane_that_was_started_from_inside_an_instance_knows_it(yard: Yard) -> None:
    code = """
import os, sys
from pathlib import Path
from fleetwarden.adapters.substrates.process import ProcessSubstrate
from fleetwarden.adapters.system import SystemClock
from fleetwarden.domain.actions import ActionRequest
from fleetwarden.domain.fleet import ProcessSpec, Service
actuator = ProcessSubstrate(SystemClock(), fleet=sys.argv[1], host="h1", data=Path(sys.argv[2])).actuator
for name in ("shell", "web"):
    service = Service(name=name, process=ProcessSpec(command=("sleep", "600")))
    request = ActionRequest(kind="stop_service", target=name, source="operator", requested_by="test", key="k")
    print(name, actuator.refusal(request, service))
"""
    environment = os.environ | {"FLEETWARDEN_INSTANCE": f"{yard.fleet}/shell/0/k1"}
    command = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", code, yard.fleet, str(yard.folder)]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout
    assert told.splitlines() == [
        "shell self_target: this plane runs inside of shell, and does not end itself",
        "web None",
    ]


def test_two_calls_for_one_target_never_overlap(yard: Yard) -> None:
    service = yard.service()
    yard.start(service)
    entered = []

    class Nested(PosixSpawner):
        def spawn(self, order: SpawnOrder) -> int:
            with pytest.raises(NotCalled):
                yard.act(STOP, service)
            entered.append(True)
            return super().spawn(order)

    yard.open(spawner=Nested())
    assert yard.act(RESTART, service).ok
    assert entered
    assert yard.act(STOP, service).ok


def test_a_full_disk_keeps_nothing_from_being_stopped(yard: Yard) -> None:
    service = yard.service()
    pid = pid_of(yard.start(service))
    folder = yard.slots().folder / "web"
    (folder / ".0.json.new").mkdir()
    (folder / ".emptied.json.new").mkdir()
    outcome = yard.act(STOP, service)
    assert outcome.ok
    assert not lives(pid)
    assert "cannot be written" in outcome.detail


def test_without_a_place_for_its_slot_nothing_is_started(yard: Yard) -> None:
    service = yard.service()
    (yard.slots().folder / "web" / ".0.json.new").mkdir(parents=True)
    outcome = yard.act(START, service)
    assert (outcome.ok, outcome.code) == (False, "slot_unwritable")
    assert yard.pids() == []
