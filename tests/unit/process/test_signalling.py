"""A signal reaches the very process that is meant, or nobody."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from fleetwarden.adapters.substrates.process.proc import Stat, own_line, stat_of
from fleetwarden.adapters.substrates.process.signalling import PosixSignaller, may_signal
from fleetwarden.domain.errors import Refused
from tests.unit.process.yard import eventually, lives


@pytest.fixture(params=["group by pidfd", "group by number", "no pidfd"])
def signaller(request, monkeypatch) -> PosixSignaller:
    if request.param == "no pidfd":

        def missing(pid: int) -> int:
            os.kill(pid, 0)  # a pid that nobody has is told from a call that does not exist
            raise OSError(errno.ENOSYS, "Function not implemented")

        monkeypatch.setattr(os, "pidfd_open", missing)
    return PosixSignaller(group_by_pidfd=request.param == "group by pidfd")


@contextmanager
def running(*command: str) -> Iterator[tuple[Stat, subprocess.Popen[str]]]:
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True)
    stat = stat_of(process.pid)
    assert stat is not None
    try:
        yield stat, process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_signal_reaches_the_process(signaller: PosixSignaller) -> None:
    with running("sleep", "600") as (stat, process):
        assert signaller.send(stat, signal.SIGTERM, group=False)
        assert process.wait(20) == -signal.SIGTERM


def test_a_group_signal_reaches_all_of_the_group(signaller: PosixSignaller) -> None:
    with running("sh", "-c", "sleep 600 & echo $!; wait") as (stat, process):
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert signaller.send(stat, signal.SIGKILL, group=True)
        assert process.wait(20) == -signal.SIGKILL
        eventually(lambda: not lives(child))


def test_a_process_that_is_gone_gets_nothing(signaller: PosixSignaller) -> None:
    with running("true") as (stat, process):
        process.wait(20)
        assert not signaller.send(stat, signal.SIGKILL, group=False)
        assert not signaller.send(stat, signal.SIGKILL, group=True)


@pytest.mark.parametrize("group", [True, False])
def test_whoever_has_the_pid_now_gets_nothing(signaller: PosixSignaller, group: bool) -> None:
    with running("sleep", "600") as (stat, process):
        earlier = msgspec.structs.replace(stat, ticks=stat.ticks - 1)
        assert not signaller.send(earlier, signal.SIGKILL, group=group)
        assert process.poll() is None


def test_a_process_that_leads_no_group_is_never_signalled_as_one(signaller: PosixSignaller) -> None:
    with running("sh", "-c", "sleep 600 & echo $!; wait") as (_, process):
        assert process.stdout is not None
        child = stat_of(int(process.stdout.readline()))
        assert child is not None
        assert not signaller.send(child, signal.SIGKILL, group=True)
        assert lives(child.pid)


def stat(pid: int, *, group: int = 4_000_000, session: int = 4_000_000) -> Stat:
    return Stat(pid, 1, 1, group, session, "S", 1)


@pytest.mark.req("ACT-7")
@pytest.mark.parametrize(
    "process",
    [
        stat(0),
        stat(1),
        stat(-1),
        stat(os.getpid()),
        stat(os.getppid()),
        stat(4_000_000, group=os.getpgrp()),
        stat(4_000_000, session=os.getsid(0)),
        stat(4_000_000, group=1),
    ],
)
def test_the_system_and_this_plane_are_never_signalled(signaller: PosixSignaller, process: Stat) -> None:
    with pytest.raises(Refused) as refused:
        signaller.send(process, signal.SIGTERM, group=False)
    assert refused.value.code == "self_target"


def test_all_parents_are_protected() -> None:
    line = own_line()
    assert {os.getpid(), os.getppid()} <= line
    for pid in line:
        with pytest.raises(Refused):
            may_signal(stat(pid))
