"""What an observer says of real processes: readiness, ages of readings, deaths as they happen."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fleetwarden.domain.actions import Kind
from fleetwarden.domain.errors import Retryable
from fleetwarden.domain.fleet import HealthCheck, HealthKind, InstanceStatus, Service, ServiceStatus
from tests.unit.process.yard import Yard, eventually, free_ports, http_health, pid_of, python

# Well while the file `well-<port>` exists; writes down each question that it was asked.
WEB = python(
    """
import http.server, os, sys
port = int(sys.argv[1])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open(f"asked-{port}", "a") as file:
            file.write("x")
        self.send_response(200 if os.path.exists(f"well-{port}") else 503)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
)
UP, DOWN, STARTING, UNKNOWN = InstanceStatus.UP, InstanceStatus.DOWN, InstanceStatus.STARTING, InstanceStatus.UNKNOWN


def web(yard: Yard, *, replicas: int = 1, **health) -> Service:
    port = free_ports(replicas)
    return yard.service(command=(*WEB, "{port}"), port=port, replicas=replicas, health=http_health(**health))


def port_of(service: Service, index: int = 0) -> int:
    assert service.process is not None
    assert service.process.port is not None
    return service.process.port + index


def make_well(yard: Yard, service: Service, index: int = 0) -> None:
    (yard.folder / f"well-{port_of(service, index)}").touch()


def make_unwell(yard: Yard, service: Service, index: int = 0) -> None:
    (yard.folder / f"well-{port_of(service, index)}").unlink()


def status_becomes(yard: Yard, service: Service, status: ServiceStatus):
    return eventually(lambda: (seen := yard.see(service)).status is status and seen, status.value)


@pytest.mark.req("OBS-2", "REC-10")
def test_what_starts_is_not_down_and_becomes_up_when_it_answers_well(yard: Yard) -> None:
    service = web(yard, start_grace_s=3600)
    seen = yard.start(service)
    assert (seen.status, seen.ready, seen.existing, seen.instances[0].status) == (
        ServiceStatus.DEGRADED,
        0,
        1,
        STARTING,
    )
    eventually(lambda: "HTTP 503" in yard.see(service).detail, "it answers, and is not well")
    assert yard.see(service).status is ServiceStatus.DEGRADED
    make_well(yard, service)
    assert status_becomes(yard, service, ServiceStatus.UP).ready == 1


def test_down_needs_as_many_failed_probes_as_declared_and_the_process_lives_on(yard: Yard) -> None:
    service = web(yard, failures=3)
    make_well(yard, service)
    yard.start(service)
    status_becomes(yard, service, ServiceStatus.UP)
    make_unwell(yard, service)
    seen = [yard.see(service) for _ in range(3)]
    assert [one.instances[0].status for one in seen] == [UP, UP, DOWN]
    assert "HTTP 503 (1 of 3 failed probes in a row)" in seen[0].detail
    assert (seen[2].status, seen[2].ready, seen[2].existing) == (ServiceStatus.DOWN, 0, 1)
    make_well(yard, service)
    assert yard.see(service).status is ServiceStatus.UP


@pytest.mark.req("OBS-3")
def test_fewer_ready_than_wanted_is_degraded(yard: Yard) -> None:
    service = web(yard, replicas=2, failures=1)
    for index in (0, 1):
        make_well(yard, service, index)
    yard.start(service)
    status_becomes(yard, service, ServiceStatus.UP)
    make_unwell(yard, service, 1)
    seen = yard.see(service)
    assert (seen.status, seen.ready, seen.existing, seen.total) == (ServiceStatus.DEGRADED, 1, 2, 2)


def test_what_was_never_well_within_its_grace_time_is_down(yard: Yard) -> None:
    service = web(yard, failures=1, start_grace_s=0.1)
    yard.start(service)
    assert (
        "not seen well by this plane, and its 0.1 s to start are over"
        in status_becomes(yard, service, ServiceStatus.DOWN).detail
    )


def test_a_plane_that_has_only_just_begun_to_look_does_not_call_an_old_instance_down(yard: Yard) -> None:
    service = web(yard, failures=3, start_grace_s=0.0)
    make_well(yard, service)
    yard.start(service)
    status_becomes(yard, service, ServiceStatus.UP)
    make_unwell(yard, service)
    yard.open()
    assert [yard.see(service).status for _ in range(3)] == [ServiceStatus.UNKNOWN] * 2 + [ServiceStatus.DOWN]


def test_tcp_and_command_checks_see_the_instances_own_port_and_folder(yard: Yard) -> None:
    port = free_ports(2)
    tcp = HealthCheck(kind=HealthKind.TCP, tcp="{port}", start_grace_s=3600)
    command = HealthCheck(kind=HealthKind.COMMAND, command=("test", "-e", "asked-{port}"), start_grace_s=3600)
    one = yard.service("one", command=(*WEB, "{port}"), port=port, health=tcp)
    two = yard.service("two", command=(*WEB, "{port}"), port=port + 1, health=command)
    for service in (one, two):
        yard.start(service)
    status_becomes(yard, one, ServiceStatus.UP)
    assert yard.see(two).status is ServiceStatus.DEGRADED
    (yard.folder / f"asked-{port + 1}").touch()
    status_becomes(yard, two, ServiceStatus.UP)


def test_probing_uses_the_port_that_the_instance_was_started_with(yard: Yard) -> None:
    service = web(yard, start_grace_s=3600)
    make_well(yard, service)
    yard.start(service)
    status_becomes(yard, service, ServiceStatus.UP)
    moved = yard.service(command=(*WEB, "{port}"), port=free_ports(), health=http_health())
    seen = yard.see(moved)
    assert (seen.status, seen.instances[0].port) == (ServiceStatus.UP, port_of(service))


def test_a_health_command_that_does_not_exist_is_unknown_and_not_down(yard: Yard) -> None:
    check = HealthCheck(kind=HealthKind.COMMAND, command=("no-such-check",), failures=1, start_grace_s=0)
    service = yard.service(health=check)
    yard.start(service)
    seen = [yard.see(service) for _ in range(3)]
    assert {one.status for one in seen} == {ServiceStatus.UNKNOWN}
    assert "health command could not be run" in seen[-1].detail


@pytest.mark.parametrize(("code", "how"), [(0, "exited with code 0"), (3, "exited with code 3")])
def test_a_crash_says_how_it_ended(yard: Yard, code: int, how: str) -> None:
    service = yard.service(command=("sh", "-c", f"sleep 0.2; exit {code}"))
    yard.start(service)
    seen = status_becomes(yard, service, ServiceStatus.DOWN)
    assert (seen.instances[0].detail, seen.existing, seen.total) == (how, 0, 1)


@pytest.mark.req("OBS-1", "PRO-9")
def test_an_answer_is_as_old_as_the_look_that_it_comes_from(yard: Yard) -> None:
    service = yard.service()
    yard.start(service)
    assert yard.substrate.observer.observe([service], 777)["web"].observed_at == 777


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Yard]:
    """A yard whose observer waits for probes only a moment."""
    yard = Yard(tmp_path)
    yard.substrate.observer._budget_s = 0.2
    yield yard
    yard.close()


def test_a_probe_that_takes_longer_than_a_look_is_told_with_the_age_of_its_question(hasty: Yard, monkeypatch) -> None:
    yard = hasty
    slow = HealthCheck(
        kind=HealthKind.COMMAND,
        command=("sh", "-c", "echo x >> asked; while [ ! -e go ]; do sleep 0.02; done"),
        timeout_s=60,
    )
    service = yard.service(health=slow)
    yard.start(service)
    first = yard.at  # the look of `start` has asked
    seen = [yard.see(service) for _ in range(3)]
    assert {one.instances[0].status for one in seen} == {STARTING}
    assert (yard.folder / "asked").read_text() == "x\n", "the question is asked once, however often one looks"
    observer = yard.substrate.observer
    observer._budget_s, really_wait = 8.0, observer._await

    def answer_and_wait(pending) -> None:
        (yard.folder / "go").touch()
        really_wait(pending)

    monkeypatch.setattr(observer, "_await", answer_and_wait)
    answered = yard.see(service)
    assert (answered.status, answered.observed_at) == (ServiceStatus.UP, first)
    assert yard.see(service).observed_at == yard.at


def test_an_answer_that_came_too_late_is_used_and_a_fresh_question_asked(hasty: Yard) -> None:
    yard = hasty
    check = HealthCheck(
        kind=HealthKind.COMMAND,
        command=("sh", "-c", "while [ ! -e go ]; do sleep 0.02; done; echo x >> done"),
        timeout_s=60,
    )
    service = yard.service(health=check)
    yard.start(service)
    (yard.folder / "go").touch()
    eventually(lambda: (yard.folder / "done").exists() and all(one.future.done() for one in _asked(yard)))
    yard.substrate.observer._budget_s = 8.0
    seen = yard.see(service)
    assert (seen.status, seen.observed_at) == (ServiceStatus.UP, yard.at)
    assert (yard.folder / "done").read_text() == "x\nx\n"


def _asked(yard: Yard):
    return list(yard.substrate.observer._asked.values())


def test_one_hanging_service_does_not_hold_up_the_others(hasty: Yard) -> None:
    hanging = HealthCheck(kind=HealthKind.COMMAND, command=("sleep", "60"), timeout_s=60)
    slow, quick = hasty.service("slow", health=hanging), hasty.service("quick")
    for service in (slow, quick):
        hasty.start(service)
    seen = hasty.substrate.observer.observe([slow, quick], 10**12)
    assert (seen["slow"].status, seen["quick"].status) == (ServiceStatus.DEGRADED, ServiceStatus.UP)


def test_looks_from_several_threads_ask_each_instance_once_at_a_time(yard: Yard) -> None:
    check = HealthCheck(
        kind=HealthKind.COMMAND,
        command=("sh", "-c", "mkdir busy || echo clash >> clashes; sleep 0.05; rmdir busy"),
        start_grace_s=3600,
    )
    service = yard.service(health=check)
    yard.start(service)
    with ThreadPoolExecutor(4) as pool:
        looks = [pool.submit(yard.see, service) for _ in range(20)]
    assert all(look.result().total == 1 for look in looks)
    assert not (yard.folder / "clashes").exists()


def test_a_service_of_another_host_is_left_out(yard: Yard) -> None:
    here, there = yard.service("here"), yard.service("there", host="h2")
    assert set(yard.substrate.observer.observe([here, there, Service(name="injected")], 1)) == {"here"}


def test_since_when_is_the_time_of_the_look_that_saw_the_change(yard: Yard) -> None:
    service = yard.service()
    assert yard.see(service).since is None
    yard.start(service)
    up_since = yard.at
    assert [yard.see(service).since for _ in range(2)] == [up_since] * 2
    os.kill(pid_of(yard.see(service)), signal.SIGKILL)
    seen = status_becomes(yard, service, ServiceStatus.DOWN)
    assert up_since < (seen.since or 0) <= yard.at


@pytest.mark.req("OBS-1")
def test_looking_changes_nothing(yard: Yard) -> None:
    service = yard.service(replicas=2)
    pid = pid_of(yard.start(service))
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: yard.slot(service).note)
    before = {path: path.read_bytes() for path in yard.folder.rglob("*") if path.is_file()}
    for _ in range(3):
        yard.see(service)
    assert {path: path.read_bytes() for path in yard.folder.rglob("*") if path.is_file()} == before
    assert len(yard.pids()) == 1


@pytest.mark.parametrize("pidfds", [True, False], ids=["pidfd", "polling"])
def test_a_death_wakes_whoever_listens(tmp_path: Path, pidfds: bool) -> None:
    told: list[str] = []
    yard = Yard(tmp_path, on_exit=told.append, pidfds=pidfds)
    try:
        service = yard.service(replicas=2)
        seen = yard.start(service)
        os.kill(pid_of(seen, 1), signal.SIGKILL)
        eventually(lambda: told)
        assert told == ["web"]
        assert yard.act(Kind.STOP, service).ok
        eventually(lambda: len(told) == 2)
    finally:
        yard.close()


def test_an_adopted_instance_wakes_whoever_listens_too(yard: Yard) -> None:
    told: list[str] = []
    service = yard.service()
    pid = pid_of(yard.start(service))
    yard.open(on_exit=told.append)
    yard.see(service)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: told)
    assert told == ["web"]


def test_while_an_instance_is_being_made_it_starts_and_is_not_down(yard: Yard) -> None:
    from fleetwarden.adapters.substrates.process import PosixSpawner, SpawnOrder

    inside, go_on = threading.Event(), threading.Event()

    class Slow(PosixSpawner):
        def spawn(self, order: SpawnOrder) -> int:
            inside.set()
            go_on.wait(20)
            return super().spawn(order)

    yard.open(spawner=Slow())
    service = yard.service()
    thread = threading.Thread(target=yard.act, args=(Kind.START, service))
    thread.start()
    assert inside.wait(20)
    seen = yard.see(service)
    go_on.set()
    thread.join(20)
    assert (seen.status, seen.total, seen.existing) == (ServiceStatus.DEGRADED, 1, 0)
    assert (seen.instances[0].status, seen.instances[0].detail) == (STARTING, "being started")
    assert yard.see(service).status is ServiceStatus.UP


def test_fifty_services_are_seen_in_one_look(yard: Yard) -> None:
    services = [yard.service(f"s{number}") for number in range(50)]
    for service in services:
        assert yard.act(Kind.START, service).ok
    began = time.monotonic()
    seen = yard.substrate.observer.observe(services, 10**12)
    print(f"observed 50 services in {(time.monotonic() - began) * 1000:.1f} ms")
    assert {one.status for one in seen.values()} == {ServiceStatus.UP}
    assert len({one.instances[0].pid for one in seen.values()}) == 50


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """This very process may open nothing more, while what is open goes on working."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.req("OBS-1")
def test_a_plane_that_has_run_out_of_descriptors_calls_nobody_dead(yard: Yard) -> None:
    service = yard.service()
    yard.start(service)
    with no_descriptors_left(), pytest.raises(Retryable):
        yard.see(service)
    assert yard.see(service).status is ServiceStatus.UP


def test_a_death_while_no_descriptor_is_left_is_told_afterwards(tmp_path: Path) -> None:
    told: list[str] = []
    yard = Yard(tmp_path, on_exit=told.append)
    try:
        pid = pid_of(yard.start(yard.service()))
        with no_descriptors_left():
            os.kill(pid, signal.SIGKILL)
            time.sleep(0.5)
            assert told == []
        eventually(lambda: told)
    finally:
        yard.close()
