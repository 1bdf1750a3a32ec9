"""A SQLite file belongs to one process, and everybody can see to which."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fleetwarden.domain.errors import Misconfigured
from fleetwarden.store import ownership
from fleetwarden.store.opening import lock_holder, open_store, sqlite_path
from fleetwarden.testing.system import FakeClock

ROOT = Path(__file__).resolve().parents[3]
OWNER = """
import sys, threading
from fleetwarden.adapters.system import SystemClock
from fleetwarden.store.opening import open_store
store = open_store(sys.argv[1], SystemClock())
store.announce("http://127.0.0.1:8800")
print("open", flush=True)
sys.stdin.read()
store.close()
print("closed", flush=True)
sys.stdin = None
threading.Event().wait()
"""


@contextlib.contextmanager
def other_process(path):
    command = [sys.executable, "-c", OWNER, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "open\n"
        try:
            yield owner
        finally:
            owner.kill()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fleet.db"


@pytest.mark.req("RUN-1")
def test_a_second_process_is_refused_and_told_who_has_it_and_what_to_do(path):
    with other_process(path) as owner:
        holder = lock_holder(path)
        assert holder is not None
        assert (holder.pid, holder.host, holder.url, holder.held) == (
            owner.pid,
            os.uname().nodename,
            "http://127.0.0.1:8800",
            True,
        )
        with pytest.raises(Misconfigured) as refused:
            open_store(str(path), FakeClock())
        for word in (str(owner.pid), os.uname().nodename, "http://127.0.0.1:8800", "fleetwarden down", str(path)):
            assert word in str(refused.value)


@pytest.mark.req("RUN-1", "AUT-20")
def test_kill_9_frees_it_at_once_and_the_content_left_behind_keeps_nobody_out(path):
    with other_process(path) as owner:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        left = lock_holder(path)
        assert left is not None
        assert (left.pid, left.held) == (owner.pid, False)
        open_store(str(path), FakeClock()).close()


def test_a_closed_store_frees_it_while_its_process_lives(path):
    with other_process(path) as owner:
        owner.stdin.close()
        assert owner.stdout.readline() == "closed\n"
        assert lock_holder(path) is None
        open_store(str(path), FakeClock()).close()


def test_the_same_process_cannot_open_it_twice_either(path):
    store = open_store(str(path), FakeClock())
    with pytest.raises(Misconfigured, match=f"process {os.getpid()}"):
        open_store(str(path), FakeClock())
    store.close()
    open_store(str(path), FakeClock()).close()


def test_another_path_to_the_same_file_is_the_same_file(path, tmp_path):
    link = tmp_path / "link.db"
    link.symlink_to(path)
    store = open_store(str(path), FakeClock())
    with pytest.raises(Misconfigured, match="in use"):
        open_store(str(link), FakeClock())
    assert lock_holder(link) == lock_holder(path)
    store.close()


def test_looking_takes_no_lock(path):
    """Between the looks of one process, and while it looks, another can take the lock."""
    store = open_store(str(path), FakeClock())
    store.close()
    descriptor = os.open(ownership.lock_path(path), os.O_RDWR)
    real, taken = fcntl.fcntl, []

    def look_and_take(*args):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        taken.append(True)
        return real(*args)

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fcntl, "fcntl", look_and_take)
            lock_holder(path)
    finally:
        os.close(descriptor)
    assert taken == [True]


def test_where_the_kernel_cannot_be_asked_the_lock_is_tried(path, monkeypatch):
    monkeypatch.setattr(ownership, "_ASK", None)
    store = open_store(str(path), FakeClock())
    holder = lock_holder(path)
    assert holder is not None
    assert holder.held
    store.close()
    assert lock_holder(path) is None


def test_nobody_holds_a_database_that_never_was(path):
    assert lock_holder(path) is None


def test_a_lock_file_with_unreadable_content_still_tells_whether_it_is_held(path):
    lock = ownership.lock_path(path)
    store = open_store(str(path), FakeClock())
    lock.write_text("{")
    holder = lock_holder(path)
    assert holder is not None
    assert (holder.held, holder.pid) == (True, 0)
    with pytest.raises(Misconfigured, match="in use by process 0 on an unknown host"):
        open_store(str(path), FakeClock())
    store.close()
    lock.write_text("{")
    assert lock_holder(path) is None


def test_a_failed_opening_frees_it(path):
    path.write_bytes(b"this is no database, and long enough to be looked at as one" * 20)
    with pytest.raises(Misconfigured, match="cannot be used as a database"):
        open_store(str(path), FakeClock())
    assert lock_holder(path) is None


def test_database_and_lock_are_for_their_owner_alone(path):
    store = open_store(str(path), FakeClock())
    store.transact("write", lambda tx: tx.facts.put("a", 1))
    files = [file for file in path.parent.iterdir() if file.name.startswith("fleet.db")]
    assert {file.name for file in files} == {"fleet.db", "fleet.db-wal", "fleet.db-shm", "fleet.db.lock"}
    assert {oct(file.stat().st_mode & 0o777) for file in files} == {"0o600"}
    store.close()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite:///fleet.db", Path("fleet.db")),
        ("sqlite:////data/fleet.db", Path("/data/fleet.db")),
        ("data/fleet.db", Path("data/fleet.db")),
        ("postgresql://u@h/d", None),
        ("postgres://u@h/d?sslmode=require", None),
    ],
)
def test_a_url_names_a_file_or_a_server(url, expected):
    assert sqlite_path(url) == expected


@pytest.mark.parametrize(
    "url", ["", "sqlite://", "sqlite:///", "sqlite:///:memory:", ":memory:", "mysql://h/d", "sqlite:///a.db?mode=ro"]
)
def test_a_url_of_another_kind_is_refused_and_told_the_forms(url):
    with pytest.raises(Misconfigured, match="postgresql://user@host/database"):
        open_store(url, FakeClock())


def test_the_folder_of_the_database_must_exist(tmp_path):
    with pytest.raises(Misconfigured, match=r"nowhere.* does not exist"):
        open_store(str(tmp_path / "nowhere" / "fleet.db"), FakeClock())
    assert list(tmp_path.iterdir()) == []
