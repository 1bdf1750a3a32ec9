"""Start, stop, restart and scale of real processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fleetwarden.domain.actions import Kind
from fleetwarden.domain.fleet import InstanceStatus, Presence, Service, ServiceStatus
from tests.unit.process.yard import STUBBORN, Yard, eventually, free_ports, lives, pid_of, python

START, STOP, RESTART, SCALE = Kind.START, Kind.STOP, Kind.RESTART, Kind.SCALE
# The parent ends at once; its child goes on in the same session and holds the port.
ORPHANING = python(
    """
import os, socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
if os.fork() == 0:
    time.sleep(600)
print("leaving", flush=True)
time.sleep(0.3)
os._exit(3)
"""
)
# Forks twice, so that the grandchild's parent is nobody we know; ignores SIGTERM.
DOUBLE_FORKING = python(
    """
import os, signal, time
if os.fork() == 0:
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("grandchild", os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""
)


def told_pid(yard: Yard, service: Service, word: str) -> int:
    """The pid that a service prints after that word."""
    return int(eventually(lambda: [line.split()[1] for line in yard.log(service).splitlines() if word in line])[0])


def test_start_makes_as_many_instances_as_declared(yard: Yard) -> None:
    service = yard.service(replicas=3, version="1.0")
    assert yard.see(service).presence is Presence.NEVER_STARTED
    seen = yard.start(service, key="start-1")
    assert (seen.status, seen.ready, seen.existing, seen.total) == (ServiceStatus.UP, 3, 3, 3)
    assert (seen.presence, seen.version) == (Presence.STARTED, "1.0")
    assert {one.key for one in seen.instances} == {"start-1"}
    assert len({one.identity for one in seen.instances}) == 3
    assert all(one.pid is not None and lives(one.pid) for one in seen.instances)


def test_start_leaves_alone_what_runs_and_makes_what_does_not(yard: Yard) -> None:
    service = yard.service(replicas=2)
    first = yard.start(service, key="k1")
    os.kill(pid_of(first, 1), signal.SIGKILL)
    eventually(lambda: yard.see(service).existing == 1)
    second = yard.start(service, key="k2")
    assert pid_of(second, 0) == pid_of(first, 0)
    assert [one.key for one in second.instances] == ["k1", "k2"]


def test_start_takes_the_count_that_was_decided(yard: Yard) -> None:
    service = yard.service(replicas=1)
    assert yard.start(service, replicas=3).total == 3


def test_an_instance_gets_its_place_in_command_environment_and_folder(yard: Yard) -> None:
    port = free_ports(2)
    (yard.folder / "web-1").mkdir()
    (yard.folder / "web-0").mkdir()
    service = yard.service(
        command=("sh", "-c", 'echo "{name} {index} {port} {version} ${HOME:+home} $PLACE $(pwd)"; exec sleep 600'),
        port=port, env={"PLACE": "at {port}"}, cwd=str(yard.folder / "{name}-{index}"), version="1.1", replicas=2,
    )  # fmt: skip
    seen = yard.start(service)
    assert [one.port for one in seen.instances] == [port, port + 1]
    line = eventually(lambda: yard.log(service, 1))
    assert line == f"web 1 {port + 1} 1.1 home at {port + 1} {yard.folder}/web-1\n"


def test_an_instance_inherits_nothing_that_is_the_planes_own(tmp_path: Path) -> None:
    private = [
        "FLEET_ADMIN_TOKEN",
        "FLEETWARDEN_X",
        "ACTION_POLICY_PATH",
        "DEPLOY_WATCH_POLL",
        "SCALING_X",
        "NOTIFY_SOCKET",
    ]
    plane = dict.fromkeys(private, "secret") | {
        "PATH": os.environ["PATH"],
        "KEPT": "yes",
        "FLEETWARDEN_INSTANCE": "x/y/0/z",
    }
    yard = Yard(tmp_path, environment=plane)
    try:
        service = yard.service(command=("sh", "-c", "env; exec sleep 600"), env={"OWN": "1"})
        yard.start(service, key="k1")
        told = dict(line.split("=", 1) for line in eventually(lambda: yard.log(service)).splitlines())
        assert "secret" not in told.values()
        assert (told["KEPT"], told["OWN"]) == ("yes", "1")
        assert told["FLEETWARDEN_INSTANCE"] == f"{yard.fleet}/web/0/k1"
    finally:
        yard.close()


def test_an_instance_gets_what_its_service_declares_also_under_names_of_the_planes_settings(tmp_path: Path) -> None:
    declared = {"FLEET_URL": "http://own", "ACTION_POLICY_PATH": "own", "SCALING_FACTOR": "2", "DEPLOY_WATCH_POLL": "1"}
    yard = Yard(tmp_path, environment={"PATH": os.environ["PATH"], "FLEET_URL": "planes", "SCALING_X": "planes"})
    try:
        yard.start(yard.service(command=("sh", "-c", "env; exec sleep 600"), env=declared), key="k1")
        told = dict(line.split("=", 1) for line in eventually(lambda: yard.log(yard.service())).splitlines())
        assert {name: told.get(name) for name in declared} == declared
        assert "SCALING_X" not in told
    finally:
        yard.close()


@pytest.mark.parametrize("name", ["web.v2", "a-1", "A.b-c_d", "0"])
def test_any_service_name_is_started_seen_and_stopped(yard: Yard, name: str) -> None:
    service = yard.service(name)
    pid = pid_of(yard.start(service))
    assert yard.act(STOP, service).ok
    assert not lives(pid)
    assert yard.see(service).presence is Presence.STOPPED_BY_US


def test_stop_ends_all_and_is_remembered_with_its_key(yard: Yard) -> None:
    service = yard.service(replicas=2)
    pids = [one.pid or 0 for one in yard.start(service).instances]
    outcome = yard.act(STOP, service, key="stop-1")
    assert outcome.ok
    assert outcome.evidence["ended"] == sorted(pids)
    assert not any(lives(pid) for pid in pids)
    seen = yard.see(service)
    assert (seen.existing, seen.total, seen.presence, seen.stop_key) == (0, 0, Presence.STOPPED_BY_US, "stop-1")


def test_a_stop_of_what_does_not_run_is_remembered_too(yard: Yard) -> None:
    service = yard.service()
    assert yard.act(STOP, service, key="stop-1").ok
    assert yard.see(service).stop_key == "stop-1"


def test_a_start_after_a_stop_forgets_the_stop(yard: Yard) -> None:
    service = yard.service()
    yard.start(service)
    yard.act(STOP, service)
    seen = yard.start(service)
    assert (seen.presence, seen.stop_key, seen.total) == (Presence.STARTED, "", 1)


@pytest.mark.req("REC-10")
def test_one_instance_of_two_is_restarted_alone(yard: Yard) -> None:
    service = yard.service(replicas=2)
    before = yard.start(service)
    os.kill(pid_of(before, 1), signal.SIGKILL)
    seen = eventually(lambda: (seen := yard.see(service)).status is ServiceStatus.DEGRADED and seen)
    assert [one.status for one in seen.instances] == [InstanceStatus.UP, InstanceStatus.DOWN]
    assert seen.instances[1].detail == "killed by signal 9 (SIGKILL)"
    assert (seen.ready, seen.existing, seen.total) == (1, 1, 2)
    assert yard.act(RESTART, service, replica=1, key="repair").ok
    after = yard.see(service)
    assert pid_of(after, 0) == pid_of(before, 0)
    assert (after.instances[1].key, after.status) == ("repair", ServiceStatus.UP)


def test_restart_replaces_every_instance(yard: Yard) -> None:
    service = yard.service(replicas=2)
    before = {one.pid for one in yard.start(service).instances}
    assert yard.act(RESTART, service, key="again").ok
    after = yard.see(service)
    assert not before & {one.pid for one in after.instances}
    assert {one.key for one in after.instances} == {"again"}
    assert not any(lives(pid) for pid in before if pid)


def test_the_same_restart_again_restarts_nothing(yard: Yard) -> None:
    service = yard.service(replicas=2)
    yard.start(service)
    yard.act(RESTART, service, key="once")
    after = [one.pid for one in yard.see(service).instances]
    outcome = yard.act(RESTART, service, key="once")
    assert (outcome.ok, outcome.evidence) == (True, {})
    assert [one.pid for one in yard.see(service).instances] == after


def test_restart_of_what_was_never_started_changes_nothing(yard: Yard) -> None:
    outcome = yard.act(RESTART, yard.service())
    assert (outcome.ok, outcome.code) == (False, "not_started")
    assert yard.pids() == []


def test_restart_of_a_replica_that_does_not_exist_changes_nothing(yard: Yard) -> None:
    service = yard.service(replicas=1)
    pid = pid_of(yard.start(service))
    outcome = yard.act(RESTART, service, replica=1)
    assert (outcome.ok, outcome.code) == (False, "no_such_replica")
    assert yard.pids() == [pid]


def test_scaling_up_makes_the_missing_slots_and_down_ends_the_highest(yard: Yard) -> None:
    service = yard.service(replicas=2)
    first = yard.start(service)
    assert yard.act(SCALE, service, replicas=4).ok
    grown = yard.see(service)
    assert [one.id for one in grown.instances] == ["0", "1", "2", "3"]
    assert [one.pid for one in grown.instances[:2]] == [one.pid for one in first.instances]
    outcome = yard.act(SCALE, service, replicas=1)
    assert outcome.evidence["removed"] == [1, 2, 3]
    shrunk = yard.see(service)
    assert ([one.pid for one in shrunk.instances], shrunk.total) == ([pid_of(first, 0)], 1)


def test_scaling_counts_dead_slots_and_does_not_revive_them(yard: Yard) -> None:
    service = yard.service(replicas=2)
    os.kill(pid_of(yard.start(service), 0), signal.SIGKILL)
    eventually(lambda: yard.see(service).existing == 1)
    assert yard.act(SCALE, service, replicas=3).ok
    seen = yard.see(service)
    assert (seen.total, seen.existing, seen.instances[0].status) == (3, 2, InstanceStatus.DOWN)


@pytest.mark.req("OBS-3", "AUT-26")
def test_scaled_to_zero_is_not_down_and_not_stopped(yard: Yard) -> None:
    service = yard.service(replicas=1)
    yard.start(service)
    assert yard.act(SCALE, service, replicas=0).ok
    seen = yard.see(service)
    assert (seen.status, seen.total, seen.presence) == (ServiceStatus.UP, 0, Presence.STARTED)
    assert yard.act(SCALE, service, replicas=2).ok
    assert yard.see(service).ready == 2


def test_scaling_to_the_count_that_is_there_changes_nothing(yard: Yard) -> None:
    service = yard.service(replicas=2)
    pids = [one.pid for one in yard.start(service).instances]
    outcome = yard.act(SCALE, service, replicas=2)
    assert (outcome.ok, outcome.evidence) == (True, {})
    assert [one.pid for one in yard.see(service).instances] == pids


def test_who_ignores_sigterm_is_killed_after_its_grace_time(yard: Yard) -> None:
    service = yard.service(command=STUBBORN, stop_grace_s=0.3)
    pid = pid_of(yard.start(service))
    outcome = yard.act(STOP, service)
    assert outcome.ok
    assert pid in outcome.evidence["killed"]
    assert "needed SIGKILL" in outcome.detail
    assert not lives(pid)


def test_who_heeds_sigterm_is_not_killed(yard: Yard) -> None:
    service = yard.service(command=("sh", "-c", 'trap "echo bye; exit 0" TERM; echo up; while :; do sleep 0.02; done'))
    yard.start(service)
    eventually(lambda: "up" in yard.log(service))
    outcome = yard.act(STOP, service)
    assert outcome.ok
    assert "killed" not in outcome.evidence
    assert yard.log(service).endswith("bye\n")


def test_a_grandchild_in_the_same_session_ends_with_its_instance(yard: Yard) -> None:
    service = yard.service(command=DOUBLE_FORKING, stop_grace_s=0.3)
    leader = pid_of(yard.start(service))
    grandchild = told_pid(yard, service, "grandchild")
    outcome = yard.act(STOP, service)
    assert outcome.ok
    assert grandchild in outcome.evidence["killed"]
    assert not lives(leader)
    assert not lives(grandchild)


def test_whom_an_instance_starts_while_it_ends_is_ended_too(yard: Yard) -> None:
    script = "trap 'sleep 600 & echo last $!; exit 0' TERM; echo up; while :; do sleep 0.02; done"
    service = yard.service(command=("sh", "-c", script), stop_grace_s=1)
    yard.start(service)
    eventually(lambda: "up" in yard.log(service))
    outcome = yard.act(STOP, service)
    last = told_pid(yard, service, "last")
    assert outcome.ok
    assert last in outcome.evidence["ended"]
    assert not lives(last)


def test_a_child_that_outlives_its_leader_is_ended_before_the_restart_and_frees_the_port(yard: Yard) -> None:
    port = free_ports()
    service = yard.service(command=(*ORPHANING, "{port}"), port=port)
    yard.start(service)
    seen = eventually(lambda: (seen := yard.see(service)).status is ServiceStatus.DOWN and seen)
    orphan = int(seen.instances[0].detail.rpartition(" ")[2])
    assert seen.instances[0].detail == f"exited with code 3; left over of it: pid {orphan}"
    assert lives(orphan)
    assert seen.existing == 1, "something of it lives"
    outcome = yard.act(RESTART, service)
    assert outcome.ok, outcome
    assert outcome.evidence["ended"] == [orphan]
    assert not lives(orphan)


def test_an_environment_that_was_cleaned_hides_nobody_while_the_leader_lives(yard: Yard) -> None:
    service = yard.service(command=("sh", "-c", "env -i sleep 600 & echo child $!; wait"))
    yard.start(service)
    child = told_pid(yard, service, "child")
    assert yard.act(STOP, service).ok
    assert not lives(child)


def test_other_services_are_not_touched(yard: Yard) -> None:
    neighbours = [yard.service(name) for name in ("web-1", "web.x", "we", "webb")]
    pids = {pid_of(yard.start(one)) for one in neighbours}
    service = yard.service("web", replicas=2)
    yard.start(service)
    for kind, params in ((RESTART, {}), (SCALE, {"replicas": 3}), (STOP, {})):
        assert yard.act(kind, service, **params).ok
    assert set(yard.pids()) == pids
