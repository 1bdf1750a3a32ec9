"""Deploy and roll back of real processes: versions, what keeps its version, and where a rollout stops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleetwarden.domain import versions
from fleetwarden.domain.actions import Kind
from fleetwarden.domain.convergence import Need, Rest, converge
from fleetwarden.domain.fleet import HealthCheck, HealthKind, InstanceStatus, Presence, Service, VersionSpec
from tests.unit.process.yard import SLEEPER, Yard, eventually, free_ports, pid_of, python

START, STOP, RESTART, SCALE, DEPLOY, ROLLBACK = (
    Kind.START,
    Kind.STOP,
    Kind.RESTART,
    Kind.SCALE,
    Kind.DEPLOY,
    Kind.ROLLBACK,
)
TELLING = ("sh", "-c", 'echo "runs {version} on {index}"; exec sleep 600')
TWO = {"1.0": VersionSpec(), "1.1": VersionSpec()}


def declared(service: Service, version: str) -> Service:
    return msgspec.structs.replace(service, version=version)


def ran(yard: Yard, service: Service) -> list[str]:
    return [one.version for one in yard.see(service).instances]


@pytest.mark.req("ACT-1", "ACT-3")
def test_a_deploy_replaces_every_replica_in_its_slot(yard: Yard) -> None:
    own = VersionSpec(command=("sh", "-c", 'echo "own of {version}"; exec sleep 601'))
    service = yard.service(command=TELLING, replicas=2, version="1.0", versions={"1.0": VersionSpec(), "1.1": own})
    before = yard.start(service)
    new = declared(service, "1.1")
    outcome = yard.act(DEPLOY, new, version="1.1", key="d1")
    assert outcome.ok, outcome
    assert outcome.detail.startswith("deployed version 1.1 of web")
    after = yard.see(new)
    assert (after.version, after.total, after.ready) == ("1.1", 2, 2)
    assert [one.id for one in after.instances] == ["0", "1"]
    assert {one.key for one in after.instances} == {"d1"}
    assert not {one.identity for one in after.instances} & {one.identity for one in before.instances}
    assert eventually(lambda: yard.log(service, 1).splitlines()[1:]) == ["own of 1.1"]
    assert yard.act(ROLLBACK, new, version="1.0").ok
    assert eventually(lambda: yard.log(service, 0).splitlines()[2:]) == ["runs 1.0 on 0"]
    assert yard.see(new).version == "1.0"


@pytest.mark.req("DWH-7")
@pytest.mark.parametrize("emptying", [(STOP, {}), (SCALE, {"replicas": 0})], ids=["stopped", "scaled to zero"])
def test_a_look_at_a_service_without_replicas_tells_which_version_a_start_brings_back(
    yard: Yard, emptying: tuple[Kind, dict[str, int]]
) -> None:
    service = yard.service(command=TELLING, version="1.0", versions=TWO)
    yard.start(service)
    kind, params = emptying
    assert yard.act(kind, service, **params).ok
    new = declared(service, "1.1")
    seen = yard.see(new)
    assert (seen.total, seen.version, list(versions.running(seen))) == (0, "1.0", [])
    assert list(versions.brought_back(new, versions.ran_last(seen))) == ["1.0"]
    assert versions.kept_from_start(new, versions.ran_last(seen), {"1.0": "it failed"}).startswith("version 1.0 of web")
    assert not versions.kept_from_start(new, versions.ran_last(seen), {"1.1": "it failed"})
    again = {"replicas": 1} if kind is SCALE else {}
    assert yard.act(SCALE if kind is SCALE else START, new, **again).ok
    assert ran(yard, new) == ["1.0"]


@pytest.mark.req("ACT-1")
def test_a_rollout_waits_until_a_replica_is_well_before_it_ends_the_next(yard: Yard) -> None:
    """The second replica lives for as long as the first, new one is not well."""
    port = free_ports(2)
    serving = python(
        """
import http.server, os, sys, time
time.sleep(0.5)
other = int(sys.argv[2])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
print("up while the other", "lives" if os.path.exists("/proc/" + str(other)) else "is gone", flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
    )
    health = HealthCheck(kind=HealthKind.HTTP, http="http://127.0.0.1:{port}/", start_grace_s=30)
    service = yard.service(
        command=(*serving, "{port}", "1"), port=port, health=health, replicas=2, version="1.0", versions=TWO
    )
    yard.start(service)
    eventually(lambda: yard.see(service).ready == 2)
    second = pid_of(yard.see(service), 1)
    spec = {"1.0": VersionSpec(), "1.1": VersionSpec(command=(*serving, "{port}", str(second)))}
    assert service.process is not None
    changed = msgspec.structs.replace(service.process, versions=spec)
    new = msgspec.structs.replace(service, version="1.1", process=changed)
    assert yard.act(DEPLOY, new, version="1.1").ok
    assert yard.see(new).ready == 2
    assert yard.log(service, 0).splitlines()[-1] == "up while the other lives"


@pytest.mark.req("ACT-1")
@pytest.mark.parametrize(
    ("command", "health", "said"),
    [
        (("sh", "-c", "exit 7"), HealthCheck(), "its process ended at once"),
        (SLEEPER, HealthCheck(kind=HealthKind.COMMAND, command=("false",), start_grace_s=0.3), "not well after"),
    ],
)
def test_a_rollout_stops_at_the_first_replica_that_does_not_come_up(
    yard: Yard, command: tuple[str, ...], health: HealthCheck, said: str
) -> None:
    spec = {"1.0": VersionSpec(), "1.1": VersionSpec(command=command)}
    service = yard.service(replicas=3, version="1.0", versions=spec)
    before = yard.start(service)
    assert service.process is not None
    probed = msgspec.structs.replace(service.process, health=health)
    new = msgspec.structs.replace(service, version="1.1", process=probed)
    outcome = yard.act(DEPLOY, new, version="1.1")
    assert (outcome.ok, outcome.code) == (False, "partial")
    assert said in outcome.detail
    assert "web#0 did not come up" in outcome.detail
    assert outcome.evidence["version"] == "1.1"
    after = yard.see(service)
    assert [one.identity for one in after.instances[1:]] == [one.identity for one in before.instances[1:]]
    assert [one.version for one in after.instances] == ["1.1", "1.0", "1.0"]


def test_a_command_that_is_not_there_ends_nothing(yard: Yard) -> None:
    spec = {"1.0": VersionSpec(), "1.1": VersionSpec(command=("./no-such-command",))}
    service = yard.service(replicas=2, version="1.0", versions=spec)
    before = yard.start(service)
    outcome = yard.act(DEPLOY, declared(service, "1.1"), version="1.1")
    assert (outcome.ok, outcome.code) == (False, "spawn_failed")
    assert [one.identity for one in yard.see(service).instances] == [one.identity for one in before.instances]


def test_a_rollout_of_what_is_not_started_is_refused(yard: Yard) -> None:
    service = yard.service(version="1.0", versions=TWO)
    assert yard.act(DEPLOY, service, version="1.1").code == "not_started"


def test_only_a_rollout_changes_the_version(yard: Yard) -> None:
    """Whatever else starts a replica starts the version that ran, and a new one gets its neighbours'."""
    service = yard.service(replicas=2, version="1.0", versions=TWO)
    yard.start(service)
    new = declared(service, "1.1")
    assert yard.act(RESTART, new).ok
    assert ran(yard, new) == ["1.0", "1.0"]
    os.kill(pid_of(yard.see(new), 1), signal.SIGKILL)
    eventually(lambda: yard.see(new).existing == 1)
    assert yard.act(RESTART, new, replica=1).ok
    assert yard.act(SCALE, new, replicas=3).ok
    assert ran(yard, new) == ["1.0"] * 3
    assert yard.act(STOP, new).ok
    assert yard.act(START, new).ok
    assert ran(yard, new) == ["1.0"] * 2
    assert yard.act(SCALE, new, replicas=0).ok
    assert yard.act(SCALE, new, replicas=1).ok
    assert ran(yard, new) == ["1.0"]


def test_a_version_that_left_the_registry_cannot_be_started_again(yard: Yard) -> None:
    service = yard.service(version="1.0", versions=TWO)
    yard.start(service)
    assert service.process is not None
    only = msgspec.structs.replace(service.process, versions={"1.1": VersionSpec()})
    new = msgspec.structs.replace(service, version="1.1", process=only)
    assert yard.act(RESTART, new).ok
    assert ran(yard, new) == ["1.1"]


def test_a_rollout_leaves_alone_what_runs_the_version_already(yard: Yard) -> None:
    service = yard.service(replicas=2, version="1.1", versions=TWO)
    before = yard.start(service)
    outcome = yard.act(DEPLOY, service, version="1.1")
    assert outcome.ok
    assert "2 of 2 ran it already" in outcome.detail
    assert [one.identity for one in yard.see(service).instances] == [one.identity for one in before.instances]


def test_a_changed_command_under_the_same_version_is_told_and_a_restart_applies_it(yard: Yard) -> None:
    service = yard.service(replicas=2, version="1.0")
    yard.start(service)
    assert service.process is not None
    changed = msgspec.structs.replace(service.process, command=("sleep", "601"))
    new = msgspec.structs.replace(service, process=changed)
    needs = converge(new, yard.see(new))
    assert isinstance(needs, Rest)
    assert (needs.code, "#0, #1 runs an older definition" in needs.reason) == ("older_definition", True)
    assert yard.act(RESTART, new, replica=0).ok
    assert versions.older_definition(new, yard.see(new)) == (
        "#1 runs an older definition; restart to apply what is declared now"
    )
    assert yard.act(RESTART, new, replica=1).ok
    assert versions.older_definition(new, yard.see(new)) is None


def test_how_it_is_probed_stopped_or_counted_is_no_part_of_the_definition(yard: Yard) -> None:
    service = yard.service(replicas=1, version="1.0")
    yard.start(service)
    assert service.process is not None
    health = HealthCheck(kind=HealthKind.COMMAND, command=("true",))
    other = msgspec.structs.replace(service.process, health=health, stop_grace_s=1.0)
    assert versions.older_definition(msgspec.structs.replace(service, process=other), yard.see(service)) is None


@pytest.mark.req("ACT-3", "PRO-5")
@pytest.mark.parametrize("when", ["after SIGTERM", "before spawn", "after spawn"])
def test_a_plane_that_dies_during_a_rollout_leaves_what_the_next_one_completes(yard: Yard, when: str) -> None:
    service = yard.service(replicas=2, version="1.0", versions=TWO)
    before = yard.start(service)
    new = declared(service, "1.1")
    body = msgspec.json.encode(new).decode()
    script = Path(__file__).with_name("plane.py")
    arguments: list[Any] = [yard.folder, yard.fleet, when, DEPLOY.value, body, "d1", "1.1"]
    ended = subprocess.run([sys.executable, script, *arguments], timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    yard.open()
    if when == "after SIGTERM":
        eventually(lambda: yard.see(new).existing == 1)
    else:  # it may have been forked and not be the new program yet
        eventually(lambda: yard.see(new).instances[0].version != "")
    seen = yard.see(new)
    assert seen.presence is Presence.STARTED
    assert seen.instances[1].identity == before.instances[1].identity
    first = seen.instances[0]
    alive = first.status is InstanceStatus.UP
    assert alive == (when == "after spawn")
    assert first.version == ("1.0" if when == "after SIGTERM" else "1.1")
    needs = converge(new, seen)
    assert isinstance(needs, Need)
    assert needs.kind is (Kind.DEPLOY if alive else Kind.RESTART)
    if not alive:
        assert yard.act(RESTART, new, replica=0).ok
    outcome = yard.act(DEPLOY, new, version="1.1", key="d2")
    assert outcome.ok
    assert ran(yard, new) == ["1.1", "1.1"]
    assert yard.see(new).instances[0].key == ("d1" if alive else yard.see(new).instances[0].key)
