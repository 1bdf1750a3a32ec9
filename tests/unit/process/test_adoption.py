"""The plane goes, the services stay, and the next plane finds them: by their files, and by their markers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from fleetwarden.adapters.substrates.process.slots import SlotRecord, SlotState
from fleetwarden.adapters.system import SystemClock
from fleetwarden.domain.actions import Kind
from fleetwarden.domain.fleet import HealthCheck, HealthKind, InstanceStatus, Presence, Service, ServiceStatus
from tests.unit.process.yard import STUBBORN, Yard, eventually, lives, pid_of, python

CHATTERBOX = python(
    """
import time
number = 0
while True:
    print("line", number, flush=True)
    number += 1
    time.sleep(0.002)
"""
)


def plane(yard: Yard, when: str, kind: str, service: Service, key: str = "k1") -> subprocess.Popen[str]:
    """Another plane over the same folder, which dies at that point."""
    script = Path(__file__).with_name("plane.py")
    arguments = [str(yard.folder), yard.fleet, when, kind, msgspec.json.encode(service).decode(), key]
    return subprocess.Popen([sys.executable, str(script), *arguments], stdout=subprocess.PIPE, text=True)


def dies(yard: Yard, when: str, kind: str, service: Service, key: str = "k1") -> None:
    with plane(yard, when, kind, service, key) as process:
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL


def test_a_fresh_plane_over_the_same_folder_sees_the_same_instances(yard: Yard) -> None:
    service = yard.service(replicas=2, version="1.0")
    before = yard.start(service)
    yard.open()
    after = yard.see(service)
    assert after.instances == before.instances
    assert (after.status, after.version) == (ServiceStatus.UP, "1.0")


@pytest.mark.req("ACT-3")
def test_the_service_goes_on_and_writes_on_when_its_plane_is_killed(yard: Yard) -> None:
    service = yard.service(command=CHATTERBOX)
    with plane(yard, "never", Kind.START, service) as process:
        assert process.stdout is not None
        assert '"ok":true' in process.stdout.readline()
        process.kill()
    pid = pid_of(yard.see(service))
    lines = yard.log(service).count("\n")
    eventually(lambda: yard.log(service).count("\n") > lines + 100, "it writes on")
    assert lives(pid)
    os.kill(pid, signal.SIGTERM)
    seen = eventually(lambda: (seen := yard.see(service)).status is ServiceStatus.DOWN and seen)
    assert seen.instances[0].detail == "exit unknown"
    assert seen.instances[0].key == "k1"


@pytest.mark.req("ACT-3", "AUT-10")
def test_a_process_that_was_made_and_never_written_down_is_found_by_its_marker(yard: Yard) -> None:
    service = yard.service(version="1.0")
    dies(yard, "after spawn", Kind.START, service, key="lost")
    assert yard.slot(service).state == "spawning"
    (pid,) = yard.pids()
    seen = yard.see(service)
    assert (seen.status, seen.presence, seen.total) == (ServiceStatus.UP, Presence.STARTED, 1)
    assert (seen.instances[0].pid, seen.instances[0].key, seen.version) == (pid, "lost", "1.0")
    slot = yard.slot(service)
    assert (slot.state, slot.pid, slot.key) == ("running", pid, "lost")
    assert slot.started_at is not None
    assert abs(slot.started_at - yard.clock.now()) < 60_000_000
    assert yard.act(Kind.STOP, service).ok
    assert not lives(pid)


def test_a_plan_that_came_to_nothing_proves_nothing(yard: Yard) -> None:
    service = yard.service()
    dies(yard, "before spawn", Kind.START, service, key="lost")
    seen = yard.see(service)
    assert (seen.presence, seen.total, seen.instances) == (Presence.NEVER_STARTED, 0, ())
    assert yard.start(service).ready == 1


def test_a_restart_that_died_between_end_and_start_leaves_a_dead_slot_without_evidence(yard: Yard) -> None:
    service = yard.service()
    yard.start(service, key="first")
    dies(yard, "before spawn", Kind.RESTART, service, key="lost")
    seen = yard.see(service)
    assert (seen.status, seen.presence, seen.total, seen.existing) == (ServiceStatus.DOWN, Presence.STARTED, 1, 0)
    assert (seen.instances[0].key, seen.instances[0].identity) == ("lost", ""), "a plan, and no process behind it"
    assert yard.act(Kind.RESTART, service).ok
    assert yard.see(service).ready == 1


def test_a_stop_that_died_after_sigterm_is_seen_as_stopped_once_all_is_gone(yard: Yard) -> None:
    service = yard.service(replicas=2)
    pids = [one.pid or 0 for one in yard.start(service).instances]
    dies(yard, "after SIGTERM", Kind.STOP, service, key="stop")
    # The first has got its SIGTERM, the second has not: the service is not stopped.
    seen = eventually(lambda: (seen := yard.see(service)).existing == 1 and seen)
    assert (seen.presence, seen.stop_key) == (Presence.STARTED, "")
    os.kill(pids[1], signal.SIGTERM)
    seen = eventually(lambda: (seen := yard.see(service)).existing == 0 and seen)
    assert (seen.presence, seen.stop_key, seen.total) == (Presence.STOPPED_BY_US, "stop", 0)


def test_a_stop_that_died_between_sigterm_and_sigkill_left_its_target_alive(yard: Yard) -> None:
    service = yard.service(command=STUBBORN, stop_grace_s=0.2)
    pid = pid_of(yard.start(service))
    eventually(lambda: b"trap" in Path(f"/proc/{pid}/cmdline").read_bytes())
    dies(yard, "after SIGTERM", Kind.STOP, service, key="stop")
    seen = yard.see(service)
    assert (seen.existing, seen.presence, seen.stop_key) == (1, Presence.STARTED, "")
    assert yard.act(Kind.STOP, service, key="second").ok
    assert yard.see(service).stop_key == "second"


def test_a_stop_that_died_after_its_last_signal_is_known_by_its_key(yard: Yard) -> None:
    service = yard.service(command=STUBBORN, stop_grace_s=0.2)
    yard.start(service)
    dies(yard, "after SIGKILL", Kind.STOP, service, key="stop")
    seen = eventually(lambda: (seen := yard.see(service)).existing == 0 and seen)
    assert (seen.presence, seen.stop_key) == (Presence.STOPPED_BY_US, "stop")
    assert yard.start(service).ready == 1


def test_an_adopted_zombie_is_dead(yard: Yard) -> None:
    service = yard.service()
    with plane(yard, "becomes a bad parent", Kind.START, service) as process:
        assert process.stdout is not None
        assert '"ok":true' in process.stdout.readline()
        eventually(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
        pid = pid_of(yard.see(service))
        os.kill(pid, signal.SIGKILL)
        seen = eventually(lambda: (seen := yard.see(service)).status is ServiceStatus.DOWN and seen)
        assert Path(f"/proc/{pid}/stat").read_text().split(") ")[1].startswith("Z")
        assert seen.instances[0].detail == "exit unknown"
        assert yard.act(Kind.RESTART, service).ok, "a zombie that nobody waits for is in nobody's way"
        process.kill()


def test_how_a_process_ended_is_still_known_to_the_next_plane(yard: Yard) -> None:
    service = yard.service(command=("sh", "-c", "sleep 0.2; exit 7"))
    yard.start(service)
    eventually(lambda: yard.slot(service).note)
    yard.open()
    assert yard.see(service).instances[0].detail == "exited with code 7"


def edit(yard: Yard, service: Service, **fields: object) -> None:
    """As if the file had been written for another process."""
    yard.slots().write(msgspec.structs.replace(yard.slot(service), **fields))


def strangers(yard: Yard) -> tuple[Yard, int]:
    """A process that another fleet owns.  Whatever starts from here on starts in a later tick of the kernel's clock."""
    (yard.folder / "other").mkdir()
    other = Yard(yard.folder / "other")
    pid = pid_of(other.start(other.service("stranger")))
    began = starttime(pid)
    eventually(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") > began + 1)
    return other, pid


def starttime(pid: int) -> int:
    """In ticks since boot (proc(5), field 22 of stat)."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[19])


@pytest.mark.parametrize("kind", [Kind.STOP, Kind.RESTART, Kind.SCALE])
def test_whoever_has_the_recorded_pid_by_now_is_never_signalled(yard: Yard, kind: str) -> None:
    other, stranger = strangers(yard)
    try:
        service = yard.service()
        pid = pid_of(yard.start(service))
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: yard.slot(service).note)
        edit(yard, service, pid=stranger, note="")  # the pid was reused: same number, other start time
        yard.open()
        seen = yard.see(service)
        assert (seen.status, seen.existing) == (ServiceStatus.DOWN, 0)
        outcome = yard.act(kind, service, **({"replicas": 0} if kind == Kind.SCALE else {}))
        assert outcome.ok
        assert "ended" not in outcome.evidence
        assert lives(stranger)
    finally:
        other.close()


def test_a_process_of_an_earlier_boot_is_not_looked_for(yard: Yard) -> None:
    service = yard.service(replicas=2)
    pids = [one.pid for one in yard.start(service).instances]
    assert yard.act(Kind.STOP, service).ok
    for index, pid in enumerate(pids):
        yard.slots().write(
            SlotRecord(
                service="web", index=index, state=SlotState.RUNNING, key="old", boot="earlier", pid=pid or 0, ticks=5
            )
        )
    yard.open()
    seen = yard.see(service)
    assert (seen.presence, seen.status, seen.existing) == (Presence.NOT_SINCE_BOOT, ServiceStatus.DOWN, 0)
    assert {one.status for one in seen.instances} == {InstanceStatus.DOWN}
    fewer = yard.service(replicas=1)
    assert yard.start(fewer).total == 1, "a start makes the declared slots, and forgets those of the earlier boot"


@pytest.mark.parametrize("body", [b"", b'{"service": "we', b"\xff" * 100])
def test_an_unreadable_slot_file_is_told_of_and_its_process_is_found_all_the_same(yard: Yard, body: bytes) -> None:
    service = yard.service()
    pid = pid_of(yard.start(service))
    path = yard.slots().folder / "web" / "0.json"
    path.write_bytes(body)
    seen = yard.see(service)
    assert (seen.status, pid_of(seen)) == (ServiceStatus.UP, pid)
    assert "cannot be read" in seen.instances[0].detail
    assert yard.act(Kind.RESTART, service).ok
    assert not lives(pid)
    assert yard.see(service).instances[0].detail == ""


def test_an_unreadable_slot_file_without_a_process_is_unknown_and_not_down(yard: Yard) -> None:
    service = yard.service()
    pid = pid_of(yard.start(service))
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: yard.slot(service).note)
    (yard.slots().folder / "web" / "0.json").write_bytes(b"{")
    seen = yard.see(service)
    assert (seen.status, seen.total, seen.instances[0].status) == (ServiceStatus.UNKNOWN, 1, InstanceStatus.UNKNOWN)
    assert "0.json cannot be read" in seen.detail


def test_an_unreadable_note_of_emptiness_leaves_the_service_unknown(yard: Yard) -> None:
    service = yard.service()
    yard.start(service)
    yard.act(Kind.STOP, service)
    (yard.slots().folder / "web" / "emptied.json").write_bytes(b"")
    assert yard.see(service).status is ServiceStatus.UNKNOWN
    assert yard.start(service).status is ServiceStatus.UP


def test_lost_slot_files_are_written_again_from_the_markers(yard: Yard) -> None:
    service = yard.service(replicas=2)
    pids = [one.pid for one in yard.start(service, key="k1").instances]
    for index in (0, 1):
        yard.slots().remove("web", index)
    yard.open()
    seen = yard.see(service)
    assert ([one.pid for one in seen.instances], seen.status) == (pids, ServiceStatus.UP)
    assert {yard.slot(service, index).key for index in (0, 1)} == {"k1"}


def test_two_live_processes_of_one_slot_are_both_shown_and_neither_is_ended_silently(yard: Yard) -> None:
    service = yard.service()
    first = pid_of(yard.start(service, key="k1"))
    yard.slots().remove("web", 0)
    other_plane = yard.open()  # one that does not see what runs, because it is told that the slot is free
    other_plane.actuator._launcher.launch(service, service.process, 0, "k2", fresh=True)  # type: ignore[arg-type]
    seen = yard.see(service)
    second = pid_of(seen)
    assert second != first
    assert (seen.existing, seen.ready, seen.total) == (2, 1, 1)
    assert [one.key for one in seen.instances] == ["k2", "k1"]
    assert f"a second live process of this slot: pid {first}" in seen.detail
    assert lives(first)
    assert lives(second)
    outcome = yard.act(Kind.RESTART, service)
    assert outcome.evidence["ended"] == sorted([first, second])
    assert f"pid {first} was a second live process" in outcome.detail


def test_processes_of_another_fleet_are_not_seen(yard: Yard) -> None:
    other, stranger = strangers(yard)
    try:
        yard.open()
        assert yard.see(yard.service("stranger")).presence is Presence.NEVER_STARTED
        assert yard.act(Kind.STOP, yard.service("stranger")).ok
        assert lives(stranger)
    finally:
        other.close()


@pytest.mark.parametrize("hours", [-48, 48])
def test_a_stepped_clock_changes_nobodys_identity(tmp_path: Path, hours: int) -> None:
    class SteppedClock(SystemClock):
        def now(self) -> int:
            return super().now() + hours * 3_600_000_000

    yard = Yard(tmp_path)
    try:
        young = HealthCheck(kind=HealthKind.COMMAND, command=("false",), start_grace_s=3600)
        service = yard.service(health=young)
        before = yard.start(service)
        yard.clock = SteppedClock()
        yard.open()
        after = yard.see(service)
        assert after.instances[0].identity == before.instances[0].identity
        assert after.instances[0].status is InstanceStatus.STARTING, "its age is not told by a wall clock"
        assert yard.act(Kind.STOP, service).ok
        assert yard.pids() == []
    finally:
        yard.close()
