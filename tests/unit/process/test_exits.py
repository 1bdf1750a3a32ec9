"""A death is known at once, and its manner only to whom the kernel tells it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest

from fleetwarden.adapters.substrates.process.exits import EXIT_UNKNOWN, Ended, Exits
from fleetwarden.adapters.substrates.process.proc import ProcessId, stat_of
from tests.unit.process.yard import eventually, lives


class Heard:
    """What the listener was told."""

    def __init__(self) -> None:
        self.ended: list[Ended] = []
        self.threads: set[str] = set()

    def __call__(self, ended: Ended) -> None:
        self.threads.add(threading.current_thread().name)
        self.ended.append(ended)


@pytest.fixture(params=[True, False], ids=["pidfd", "polling"])
def pidfds(request) -> bool:
    return request.param


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def exits(heard: Heard, pidfds: bool) -> Iterator[Exits]:
    with closing(Exits(heard, pidfds=pidfds)) as made:
        yield made


def child(*command: str) -> ProcessId:
    """A child that nobody but the watcher waits for."""
    process = subprocess.Popen(command)
    process.returncode = 0
    stat = stat_of(process.pid)
    assert stat is not None
    return stat.id


@pytest.mark.parametrize(
    ("script", "how"),
    [
        ("exit 0", "exited with code 0"),
        ("exit 7", "exited with code 7"),
        ("kill -9 $$", "killed by signal 9 (SIGKILL)"),
        ("kill -TERM $$", "killed by signal 15 (SIGTERM)"),
        ("kill -35 $$", "killed by signal 35"),
    ],
)
def test_how_a_child_ended_is_known(exits: Exits, heard: Heard, script: str, how: str) -> None:
    process = child("sh", "-c", script)
    exits.watch(process, "web", 3)
    eventually(lambda: heard.ended)
    assert heard.ended == [Ended("web", 3, process, how)]
    assert exits.how(process) == how
    assert stat_of(process.pid) is None, "it was waited for"


def test_a_child_that_ended_before_it_was_watched_is_told_of_as_well(exits: Exits, heard: Heard) -> None:
    process = child("sh", "-c", "exit 4")
    eventually(lambda: not lives(process.pid))
    exits.watch(process, "web", 0)
    eventually(lambda: heard.ended)
    assert heard.ended[0].how == "exited with code 4"


@pytest.mark.req("ACT-3")
def test_of_somebody_elses_child_only_the_end_is_known(exits: Exits, heard: Heard) -> None:
    parent = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    stat = stat_of(int(parent.stdout.readline()))
    assert stat is not None
    exits.watch(stat.id, "web", 0)
    os.kill(stat.pid, signal.SIGKILL)
    eventually(lambda: heard.ended)
    assert heard.ended[0].how == EXIT_UNKNOWN
    parent.kill()
    parent.communicate()


def test_a_zombie_that_its_parent_never_waits_for_is_dead(exits: Exits, heard: Heard) -> None:
    """The parent (a sleep that took the shell's place) does not know that it has children."""
    parent = subprocess.Popen(
        ["sh", "-c", "sh -c 'sleep 0.2' & echo $!; exec sleep 600"], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    stat = stat_of(pid)
    assert stat is not None
    exits.watch(stat.id, "web", 0)
    eventually(lambda: heard.ended)
    zombie = stat_of(pid)
    assert zombie is not None
    assert (zombie.id, zombie.state) == (stat.id, "Z")
    assert heard.ended[0].how == EXIT_UNKNOWN
    parent.kill()
    parent.communicate()


def test_a_reused_pid_is_not_the_process_that_was_watched(exits: Exits, heard: Heard) -> None:
    process = child("sleep", "600")
    earlier = ProcessId(process.pid, process.ticks - 1)
    exits.watch(earlier, "web", 0)
    eventually(lambda: heard.ended)
    assert (heard.ended[0].process, heard.ended[0].how) == (earlier, EXIT_UNKNOWN)
    assert lives(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    os.waitpid(process.pid, 0)


def test_each_end_is_told_once_however_often_one_asks(exits: Exits, heard: Heard) -> None:
    process = child("sh", "-c", "exit 1")
    for _ in range(3):
        exits.watch(process, "web", 0)
        eventually(lambda: exits.how(process))
    marker = child("true")
    exits.watch(marker, "after", 0)
    eventually(lambda: any(one.service == "after" for one in heard.ended))
    assert [one.service for one in heard.ended] == ["web", "after"]
    assert heard.threads == {"process-exits"}


def test_what_lives_has_not_ended(exits: Exits, heard: Heard) -> None:
    process = child("sleep", "600")
    exits.watch(process, "web", 0)
    assert exits.how(process) is None
    os.kill(process.pid, signal.SIGKILL)
    eventually(lambda: heard.ended)


def test_a_hundred_deaths_are_all_told(exits: Exits, heard: Heard) -> None:
    for index in range(100):
        exits.watch(child("sh", "-c", f"exit {index}"), "web", index)
    eventually(lambda: len(heard.ended) == 100)
    assert {one.index: one.how for one in heard.ended} == {n: f"exited with code {n}" for n in range(100)}


def test_a_listener_that_fails_does_not_make_the_watcher_deaf() -> None:
    told: list[str] = []

    def listener(ended: Ended) -> None:
        told.append(ended.service)
        raise RuntimeError("listener broke")

    with closing(Exits(listener)) as exits:
        for name in ("first", "second"):
            exits.watch(child("true"), name, 0)
            eventually(partial(told.__contains__, name))


def test_other_children_of_this_process_keep_their_exit_status(exits: Exits, heard: Heard) -> None:
    other = subprocess.Popen(["sh", "-c", "exit 5"])
    exits.watch(child("true"), "web", 0)
    eventually(lambda: heard.ended)
    assert other.wait() == 5


def test_asking_a_closed_watcher_is_harmless(heard: Heard) -> None:
    exits = Exits(heard)
    process = child("true")
    exits.watch(process, "web", 0)
    eventually(lambda: heard.ended)
    exits.close()
    exits.close()
    assert exits.how(process) == "exited with code 0"
    exits.watch(process, "web", 1)
