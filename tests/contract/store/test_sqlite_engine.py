"""The engine on SQLite: who runs where, what a group shares, and what happens when the disk does not play along."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetwarden.domain.errors import Refused, StoreUnavailable
from fleetwarden.ports.stores import Page
from fleetwarden.store import commit_queue, sqlite_engine
from fleetwarden.store.opening import open_store
from fleetwarden.testing.system import FakeClock
from tests.contract.store.records import decide

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def store(sqlite):
    return sqlite.open()


def write(tx, summary="x"):
    return tx.journal.write(topic="notice", actor="test", summary=summary)


def summaries(store):
    return {one.summary for one in store.read(lambda tx: tx.journal.list(Page(limit=500)))}


class Gathered:
    """Transactions that wait while one holds the connection, so that they make one group."""

    def __init__(self, store):
        self.store = store
        self.ends = {}
        self._threads = []
        self._go = threading.Event()

    def _hold(self):
        inside = threading.Event()

        def hold(tx):
            inside.set()
            self._go.wait(10)

        self._threads.append(threading.Thread(target=self.store.transact, args=("holder", hold)))
        self._threads[0].start()
        inside.wait(10)

    def add(self, name, fn):
        """Submit a transaction; returns once it waits, so that the order is known."""
        if not self._threads:
            self._hold()
        waiting = len(self.store._queue._waiting)

        def run():
            try:
                self.ends[name] = self.store.transact(name, fn)
            except BaseException as error:  # noqa: BLE001 -- whatever it is, the test looks at it
                self.ends[name] = error

        thread = threading.Thread(target=run)
        thread.start()
        self._threads.append(thread)
        while len(self.store._queue._waiting) == waiting:
            threading.Event().wait(0.001)

    def go(self):
        self._go.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()
        return self.ends


@pytest.fixture
def gathered(store):
    return Gathered(store)


@pytest.fixture
def statements(store):
    """What the write connection was told, without the rows' own statements."""
    told = []
    words = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")
    store._connection.set_trace_callback(lambda sql: told.append(sql) if sql.startswith(words) else None)
    return told


def test_a_caller_that_finds_the_connection_free_runs_on_its_own_thread(store, statements):
    assert store.transact("inline", lambda tx: threading.get_ident()) == threading.get_ident()
    assert statements == ["BEGIN IMMEDIATE", "COMMIT"]
    assert store._queue._writer is None


def test_waiting_transactions_share_one_commit(store, gathered, statements):
    for number in range(5):
        gathered.add(f"w{number}", lambda tx, number=number: write(tx, f"w{number}"))
    gathered.go()
    assert summaries(store) == {f"w{number}" for number in range(5)}
    assert statements.count("COMMIT") == 2
    assert statements.count("SAVEPOINT job") == 5


def test_nobody_overtakes_those_that_wait(store):
    """The connection is free for a moment between two groups; a new caller has to queue up all the same."""
    queue = store._queue
    order: list[str] = []
    first, second = (commit_queue.Job(name, partial(_noted, order, name)) for name in ("first", "second"))
    real, queue._writer = queue._writer, threading.current_thread()  # no writer thread is started yet
    queue._enqueue(first)
    late = threading.Thread(target=queue.submit, args=(second,))
    late.start()
    late.join(0.1)
    queue._writer = real
    writer = threading.Thread(target=queue._write)
    writer.start()
    late.join(10)
    assert order == ["first", "second"]
    store.close()
    writer.join(10)
    assert not writer.is_alive()


def test_a_group_has_a_largest_size(store, gathered, statements, monkeypatch):
    monkeypatch.setattr(commit_queue, "GROUP_MAX", 4)
    for number in range(10):
        gathered.add(f"w{number}", write)
    gathered.go()
    assert statements.count("COMMIT") == 1 + 3


def test_of_a_group_only_the_one_that_raises_is_rolled_back(store, gathered):
    heard = []

    def raises(tx):
        write(tx, "second")
        tx.after_commit(lambda: heard.append("second"))
        raise Refused("no")

    def good(name):
        def run(tx):
            tx.after_commit(lambda: heard.append(name))
            return write(tx, name).summary

        return run

    gathered.add("first", good("first"))
    gathered.add("second", raises)
    gathered.add("third", good("third"))
    ends = gathered.go()
    assert (ends["first"], ends["third"]) == ("first", "third")
    assert isinstance(ends["second"], Refused)
    assert summaries(store) == {"first", "third"}
    assert sorted(heard) == ["first", "third"]


def test_a_group_in_which_everybody_raises_commits_nothing(store, gathered, statements):
    gathered.add("a", lambda tx: 1 / 0)
    gathered.add("b", lambda tx: 1 / 0)
    ends = gathered.go()
    assert {type(end) for end in ends.values()} == {ZeroDivisionError}
    assert statements[-1] == "ROLLBACK"
    store.transact("goes on", write)


def test_a_later_member_of_a_group_sees_what_an_earlier_one_wrote(store, gathered):
    gathered.add("a", lambda tx: tx.facts.put("n", 1))
    gathered.add("b", lambda tx: tx.facts.put("n", tx.facts.get("n") + 1))
    gathered.go()
    assert store.read(lambda tx: tx.facts.get("n")) == 2


def test_nobody_is_answered_before_the_commit(store, gathered):
    order = []
    store._connection.set_trace_callback(lambda sql: order.append(sql) if sql == "COMMIT" else None)
    for name in "ab":
        gathered.add(name, lambda tx: tx.after_commit(lambda: order.append("answered")))
    gathered.go()
    assert order == ["COMMIT", "COMMIT", "answered", "answered"]


def test_an_interrupt_in_a_group_goes_to_its_caller_alone(store, gathered):
    def interrupted(tx):
        raise KeyboardInterrupt

    gathered.add("a", interrupted)
    gathered.add("b", write)
    ends = gathered.go()
    assert isinstance(ends["a"], KeyboardInterrupt)
    assert summaries(store) == {"x"}


def test_an_interrupt_during_the_commit_passes_on_and_leaves_a_store_that_works(store, monkeypatch):
    def interrupted(newest):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store, "_commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.transact("interrupted", write)
    assert summaries(store) == set()
    store.transact("goes on", write)


def test_closing_finishes_what_waits(sqlite, store, gathered):
    gathered.add("a", write)
    closing = threading.Thread(target=store.close)
    closing.start()
    gathered.go()
    closing.join(10)
    assert not closing.is_alive()
    assert summaries(sqlite.open()) == {"x"}


def test_too_many_waiting_are_refused_at_once(store, gathered, monkeypatch):
    monkeypatch.setattr(commit_queue, "WAITING_MAX", 1)
    gathered.add("a", write)
    with pytest.raises(StoreUnavailable, match="wait for the database already"):
        store.transact("b", write)
    gathered.go()


def test_readers_beyond_the_last_connection_are_refused_after_a_while(sqlite, monkeypatch):
    monkeypatch.setattr(sqlite_engine, "READERS_MAX", 1)
    monkeypatch.setattr(sqlite_engine, "READER_WAIT_S", 0.01)
    store, inside, go = sqlite.open(), threading.Event(), threading.Event()

    def hold(tx):
        inside.set()
        go.wait(10)

    reader = threading.Thread(target=store.read, args=(hold,))
    reader.start()
    inside.wait(10)
    with pytest.raises(StoreUnavailable, match="all 1 connections"):
        store.read(lambda tx: tx.now())
    go.set()
    reader.join()
    store.read(lambda tx: tx.now())


# ---------------------------------------------------------------------------------------------- a disk that is full


def fill(store):
    """Leave no free page in the database."""
    [(pages,)] = store._connection.execute("PRAGMA page_count").fetchall()
    store._connection.execute(f"PRAGMA max_page_count = {pages}")


def make_room(store):
    store._connection.execute("PRAGMA max_page_count = 1073741823")


def large(tx):
    return tx.reports.append("big", {"blob": "b" * 100_000})


def cut_short(store):
    """A write in whose middle SQLite ends the whole transaction, as it does for an I/O error or want of memory."""

    def run(tx):
        store._connection.set_progress_handler(lambda: 1, 1)
        try:
            write(tx, "cut short")
        finally:
            store._connection.set_progress_handler(None, 0)

    return run


def test_a_full_disk_is_unavailable_and_nothing_is_kept(store):
    fill(store)

    def run(tx):
        write(tx)
        large(tx)

    with pytest.raises(StoreUnavailable, match="full"):
        store.transact("too much", run)
    assert summaries(store) == set()
    make_room(store)
    store.transact("goes on", run)
    assert summaries(store) == {"x"}


def test_where_sqlite_takes_back_one_statement_the_neighbours_are_committed(store, gathered):
    fill(store)
    gathered.add("before", write)
    gathered.add("full", large)
    ends = gathered.go()
    assert isinstance(ends["full"], StoreUnavailable)
    assert summaries(store) == {"x"}


def test_where_sqlite_ends_the_transaction_nobody_of_the_group_is_told_success(store, gathered, statements):
    """The savepoints of the neighbours go with it; and who was refused may have been so because of what they wrote."""
    heard = []

    def before(tx):
        write(tx, "before")
        tx.after_commit(lambda: heard.append("before"))

    def refused(tx):
        raise Refused("because of what `before` wrote")

    gathered.add("before", before)
    gathered.add("refused", refused)
    gathered.add("cut short", cut_short(store))
    gathered.add("after", write)
    ends = gathered.go()
    assert {name: type(end) for name, end in ends.items()} == dict.fromkeys(ends, StoreUnavailable)
    assert all("interrupted" in str(end) for end in ends.values())
    assert heard == []
    assert summaries(store) == set()
    assert statements.count("COMMIT") == 1  # the holder's
    store.transact("goes on", write)


def test_code_that_swallows_the_end_of_its_transaction_cannot_write_on(store, gathered):
    """What it wrote next would be a transaction of its own, committed at once."""

    def swallows(tx):
        with pytest.raises(StoreUnavailable):
            cut_short(store)(tx)
        with pytest.raises(StoreUnavailable):
            write(tx, "alone")
        return "fine"

    gathered.add("neighbour", write)
    gathered.add("swallows", swallows)
    ends = gathered.go()
    assert {type(end) for end in ends.values()} == {StoreUnavailable}
    with pytest.raises(StoreUnavailable):
        store.transact("swallows", swallows)
    assert summaries(store) == set()


def test_code_that_swallows_a_failed_statement_is_not_committed_either(store):
    fill(store)

    def swallows(tx):
        write(tx)
        with pytest.raises(StoreUnavailable):
            large(tx)
        return "fine"

    with pytest.raises(StoreUnavailable):
        store.transact("swallows", swallows)
    assert summaries(store) == set()


IO_ERROR = """
import os, resource, signal, sys
from fleetwarden.domain.errors import StoreUnavailable
from fleetwarden.store.opening import open_store
from fleetwarden.testing.system import FakeClock

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = sys.argv[1]
store = open_store(path, FakeClock())
store.transact("before", lambda tx: tx.facts.put("n", 1))
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(path + "-wal"), hard))  # the log cannot grow any more
heard = []

def change(tx):
    tx.facts.put("n", 2)
    tx.after_commit(lambda: heard.append("told"))

try:
    store.transact("fails", change)
except StoreUnavailable as error:
    print("commit:", error)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
for later in (lambda: store.transact("later", change), lambda: store.read(lambda tx: tx.facts.get("n"))):
    try:
        later()
    except StoreUnavailable as error:
        print("later:", error)
print("health:", store.health().reachable, heard)
store.close()
store = open_store(path, FakeClock())
print("again:", store.read(lambda tx: tx.facts.get("n")))
store.transact("goes on", lambda tx: tx.facts.put("n", 3))
store.close()
"""


def test_after_an_io_error_in_a_commit_the_store_refuses_everything_until_it_is_opened_again(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", IO_ERROR, str(tmp_path / "fleet.db")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    commit, later, read, health, again = done.stdout.splitlines()
    assert commit.startswith("commit: whether 'fails' was kept is not known")
    assert "disk I/O error" in commit
    assert later.startswith("later: ")
    assert read.startswith("later: ")
    assert all("start the plane again" in line for line in (commit, later, read))
    assert health == "health: False []"
    assert again == "again: 1"


def test_a_database_that_was_removed_is_unavailable_and_never_an_empty_one(sqlite):
    store = sqlite.open()
    path = Path(sqlite.url.removeprefix("sqlite:///"))
    path.unlink()
    store._readers.give_back(store._readers.take(), sound=False)  # the one that lay idle still has the file open
    with pytest.raises(StoreUnavailable):
        store.read(lambda tx: tx.journal.list(Page()))
    assert not path.exists()


# ---------------------------------------------------------------------------------------------- time


def now(store):
    return store.read(lambda tx: tx.now())


@pytest.mark.req("POL-6")
def test_a_clock_that_steps_back_an_hour_does_not_open_a_budget(sqlite, store):
    first = store.transact("decide", decide)
    sqlite.clock.step(-3600)
    second = store.transact("decide", decide)
    assert first.at < second.at <= first.at + 10
    used = store.read(lambda tx: tx.decisions.uses("restart_service", "web", tx.now() - 100, dry_run=False, limit=9))
    assert [use.decision_seq for use in used] == [second.seq, first.seq]
    assert "s behind the newest time in the ledger" in store.health().detail
    sqlite.clock.step(3600 + 5)
    assert now(store) == pytest.approx(first.at + 5_000_000, abs=10)
    assert store.health().detail == ""


@pytest.mark.req("POL-6", "AUT-20")
@pytest.mark.parametrize("act", [decide, write, lambda tx: tx.leases.acquire("tick", "0", "p", 1)])
def test_the_newest_time_survives_a_restart_whatever_used_it(sqlite, store, act):
    def run(tx):
        act(tx)
        return tx.now()

    newest = store.transact("act", run)
    store.close()
    sqlite.clock.step(-3600)
    again = sqlite.open()
    assert newest < now(again) <= newest + 10
    assert newest < again.transact("act", run) <= newest + 10


@pytest.mark.req("POL-6")
def test_the_ledgers_own_rows_are_a_second_witness_of_the_newest_time(sqlite, store):
    decision = store.transact("decide", decide)
    store._connection.execute("DELETE FROM facts")
    store.close()
    sqlite.clock.step(-3600)
    assert now(sqlite.open()) > decision.at


def test_time_that_was_told_to_a_reader_or_to_a_failed_transaction_is_not_taken_back(sqlite, store):
    told = now(store)
    sqlite.clock.step(-60)
    assert store.transact("now", lambda tx: tx.now()) > told
    sqlite.clock.step(120)

    def fails(tx):
        raise Refused(str(tx.now()))

    with pytest.raises(Refused) as refused:
        store.transact("fails", fails)
    sqlite.clock.step(-120)
    assert now(store) > int(str(refused.value))


def test_each_member_of_a_group_has_a_later_time_than_the_one_before(sqlite, store, gathered):
    def run(tx):
        now = tx.now()
        sqlite.clock.step(-10) if now % 2 else sqlite.clock.advance(0.000_001)
        return now

    for number in range(6):
        gathered.add(number, run)
    ends = gathered.go()
    times = [ends[number] for number in range(6)]
    assert times == sorted(set(times))


def test_after_a_step_back_time_flows_at_half_speed_until_the_clock_has_caught_up(sqlite, store):
    before = now(store)
    sqlite.clock.step(-3600)
    sqlite.clock.advance(600)
    assert now(store) == pytest.approx(before + 300_000_000, abs=10)
    sqlite.clock.advance(6600)
    assert now(store) == pytest.approx(before + 3600_000_000, abs=10)


@given(steps=st.lists(st.floats(-86_400, 86_400, allow_nan=False), max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_the_stores_time_never_goes_back_and_never_repeats_whatever_the_clock_does(sqlite, store, steps):
    told = [now(store)]
    for number, step in enumerate(steps):
        sqlite.clock.step(step)
        told.append(store.transact("now", lambda tx: tx.now()) if number % 2 else now(store))
    assert told == sorted(set(told))


# ---------------------------------------------------------------------------------------------- the write-ahead log


def test_a_grown_log_is_emptied_when_nobody_waits(sqlite, store, monkeypatch):
    monkeypatch.setattr(sqlite_engine, "WAL_BYTES_MAX", 300_000)
    store._checkpoint_above = 300_000
    sizes = []
    for _ in range(30):
        store.transact("grow", large)
        sizes.append(store.health().wal_bytes)
    assert min(sizes) == 0
    assert max(sizes) <= 300_000 + 150_000


def test_a_reader_in_the_way_of_the_checkpoint_loses_nothing_and_delays_nobody(sqlite, store, monkeypatch):
    monkeypatch.setattr(sqlite_engine, "WAL_BYTES_MAX", 300_000)
    store._checkpoint_above = 300_000
    inside, go = threading.Event(), threading.Event()

    def hold(tx):
        before = len(tx.reports.list(Page()))
        inside.set()
        go.wait(10)
        return before, len(tx.reports.list(Page()))

    seen = []
    reader = threading.Thread(target=lambda: seen.append(store.read(hold)))
    reader.start()
    inside.wait(10)
    for _ in range(10):
        store.transact("grow", large)
    assert store.health().wal_bytes > 300_000
    go.set()
    reader.join()
    assert seen == [(0, 0)]
    for _ in range(10):
        store.transact("grow", large)
    assert store.health().wal_bytes < 700_000
    assert len(store.read(lambda tx: tx.reports.list(Page()))) == 20


# ---------------------------------------------------------------------------------------------- durability, opening


@pytest.mark.parametrize(("off", "level"), [(False, 2), (True, 0)])
def test_commits_wait_for_the_disk_unless_a_simulation_says_otherwise(tmp_path, off, level):
    store: Any = open_store(str(tmp_path / "fleet.db"), FakeClock(), synchronous_off=off)
    assert store._connection.execute("PRAGMA synchronous").fetchone() == (level,)
    assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
    store.close()


def test_opening_an_up_to_date_database_loads_nothing_of_alembic(tmp_path):
    path = tmp_path / "fleet.db"
    open_store(str(path), FakeClock()).close()
    script = (
        "import sys; from fleetwarden.store.opening import open_store;"
        "from fleetwarden.testing.system import FakeClock;"
        "open_store(sys.argv[1], FakeClock()).close();"
        "print([name for name in ('alembic', 'psycopg') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_a_copied_database_file_opens_with_what_it_holds(tmp_path):
    path, copy = tmp_path / "fleet.db", tmp_path / "copy.db"
    store = open_store(str(path), FakeClock())
    store.transact("put", lambda tx: tx.facts.put("n", 1))
    store.close()
    copy.write_bytes(path.read_bytes())
    copied = open_store(str(copy), FakeClock(), synchronous_off=True)
    assert copied.read(lambda tx: tx.facts.get("n")) == 1
    copied.close()


def test_a_database_in_a_folder_that_cannot_be_written_is_refused(tmp_path):
    if os.geteuid() == 0:
        target = Path("/proc/fleet.db")
    else:
        tmp_path.chmod(0o500)
        target = tmp_path / "fleet.db"
    with pytest.raises(Exception, match="cannot be opened"):
        open_store(str(target), FakeClock())


def _noted(order: list[str], name: str, _: object) -> None:
    order.append(name)
