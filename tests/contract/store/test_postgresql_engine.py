"""The engine on PostgreSQL: lost connections, collisions, and waits that end."""

from __future__ import annotations

import socket
import threading

import psycopg
import pytest

from fleetwarden.domain.errors import Conflict, Misconfigured, OutcomeUnknown, StoreUnavailable
from fleetwarden.ports.stores import Page
from fleetwarden.store import postgresql_engine
from fleetwarden.store.opening import open_store
from fleetwarden.store.postgresql_session import connect
from fleetwarden.testing.system import FakeClock

pytestmark = pytest.mark.needs("postgresql")


@pytest.fixture
def store(server):
    return server.open()


def write(tx, summary="x"):
    return tx.journal.write(topic="notice", actor="test", summary=summary)


def summaries(store):
    return [one.summary for one in store.read(lambda tx: tx.journal.list(Page(limit=500)))]


def backend(tx):
    """The server's process behind this transaction."""
    return tx._session._connection.info.backend_pid


# ---------------------------------------------------------------------------------------------- lost connections


def test_a_connection_lost_before_commit_changes_nothing_and_says_so(store, postgresql):
    def run(tx):
        write(tx)
        postgresql.terminate(backend(tx))
        write(tx, "more")

    with pytest.raises(StoreUnavailable, match="cannot be used now"):
        store.transact("cut", run)
    assert summaries(store) == []
    store.transact("goes on", write)


def test_a_connection_lost_in_a_read_is_unavailable_and_never_empty(store, postgresql):
    def run(tx):
        postgresql.terminate(backend(tx))
        return tx.journal.list(Page())

    with pytest.raises(StoreUnavailable):
        store.read(run)
    assert store.health().reachable


def test_connections_that_died_while_they_lay_idle_are_replaced_without_a_word(store, postgresql, server):
    for _ in range(3):
        threads = [threading.Thread(target=store.transact, args=("write", write)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for each in postgresql.backends(server.url.rpartition("/")[2]):
            postgresql.terminate(each)
    store.transact("write", write)
    assert len(summaries(store)) == 13


def test_a_connection_that_is_gone_when_commit_is_sent_leaves_the_outcome_unknown(store, postgresql):
    with pytest.raises(OutcomeUnknown, match="read back"):
        store.transact("cut", lambda tx: (tx.facts.put("cut", 1), postgresql.terminate(backend(tx))))


class Relay:
    """A network between store and server that can be cut around COMMIT."""

    def __init__(self, port):
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.cut = ""  # "before" the server hears COMMIT, or "after" it answered
        self._pairs = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._server))
            self._pairs.append((client, server))
            committed = threading.Event()
            threading.Thread(target=self._up, args=(client, server, committed), daemon=True).start()
            threading.Thread(target=self._down, args=(client, server, committed), daemon=True).start()

    def _up(self, client, server, committed):
        try:
            while data := client.recv(65536):
                if self.cut and b"COMMIT\0" in data:
                    if self.cut == "before":
                        self._end(client, server)
                        return
                    committed.set()
                server.sendall(data)
        except OSError:
            pass

    def _down(self, client, server, committed):
        try:
            while data := server.recv(65536):
                if committed.is_set():
                    self._end(client, server)
                    return
                client.sendall(data)
        except OSError:
            pass

    @staticmethod
    def _end(*ends):
        for end in ends:
            end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._listener.close()
        for pair in self._pairs:
            for end in pair:
                end.close()


@pytest.mark.parametrize(("cut", "kept"), [("before", []), ("after", ["x"])])
def test_a_connection_lost_during_commit_is_an_unknown_outcome_that_can_be_read_back(server, postgresql, cut, kept):
    relay = Relay(postgresql.port)
    store = open_store(server.url.replace(str(postgresql.port), str(relay.port)), FakeClock())
    heard = []

    def run(tx):
        tx.after_commit(lambda: heard.append("told"))
        return write(tx)

    relay.cut = cut
    with pytest.raises(OutcomeUnknown) as unknown:
        store.transact("cut", run)
    assert unknown.value.code == "outcome_unknown"
    relay.cut = ""
    assert summaries(store) == kept
    assert heard == []
    store.close()
    relay.close()


def test_nobody_at_the_address_is_unavailable_without_the_password(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
    with pytest.raises(StoreUnavailable, match="cannot be reached") as error:
        open_store(f"postgresql://someone:tops3cret@127.0.0.1:{free}/fleet", FakeClock())
    assert "tops3cret" not in str(error.value)


def test_a_url_that_cannot_be_read_is_a_misconfiguration_without_the_password():
    with pytest.raises(Misconfigured) as error:
        open_store("postgresql://u:tops3cret@h/d?no_such_option=1", FakeClock())
    assert "tops3cret" not in str(error.value)


def test_synchronous_off_is_not_for_a_server(server):
    with pytest.raises(Misconfigured, match="SQLite"):
        open_store(server.url, FakeClock(), synchronous_off=True)


# ---------------------------------------------------------------------------------------------- collisions


def test_of_two_that_wait_for_each_other_one_is_run_again(store):
    """Each takes one row and then wants the other's: the database breaks the ring, the store runs one again."""
    a, b = (store.transact("put", lambda tx, name=name: tx.facts.put(name, 0)) or name for name in "ab")
    meet, runs = threading.Barrier(2), []

    def both(first, second):
        def run(tx):
            runs.append(first)
            tx.facts.put(first, first)
            if len(runs) <= 2:
                meet.wait(10)
            tx.facts.put(second, first)
            return "done"

        return run

    ends = []

    def take(fn):
        ends.append(store.transact("ring", fn))

    threads = [threading.Thread(target=take, args=(fn,)) for fn in (both(a, b), both(b, a))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert ends == ["done", "done"]
    assert 3 <= len(runs) <= postgresql_engine.RUNS_MAX
    assert store.read(lambda tx: (tx.facts.get("a"), tx.facts.get("b"))) in {("a", "a"), ("b", "b")}


def serialisation_failure(tx):
    """Raise what the database raises, through the session, as a statement of ours would."""
    tx._session._ask(b"DO $$ BEGIN RAISE SQLSTATE '40001'; END $$")


def test_a_serialisation_failure_runs_the_function_again(store, server):
    runs = []

    def run(tx):
        runs.append(1)
        write(tx)
        if len(runs) < 3:
            serialisation_failure(tx)
        return len(runs)

    assert store.transact("again", run) == 3
    assert summaries(store) == ["x"]


def test_a_collision_is_run_again_whatever_the_function_made_of_it(store):
    runs = []

    def run(tx):
        runs.append(1)
        if len(runs) == 1:
            with pytest.raises(StoreUnavailable):
                serialisation_failure(tx)
            raise Conflict("what it made of it")
        if len(runs) == 2:
            with pytest.raises(StoreUnavailable):
                serialisation_failure(tx)
            return "swallowed"
        return "at last"

    assert store.transact("again", run) == "at last"
    assert len(runs) == 3


def test_running_again_is_bounded(store, server):
    runs = []

    def run(tx):
        runs.append(1)
        serialisation_failure(tx)

    with pytest.raises(StoreUnavailable, match="collided with others 6 times"):
        store.transact("for ever", run)
    assert len(runs) == postgresql_engine.RUNS_MAX
    assert server.clock.monotonic() > 0.3  # it paused in between


def test_code_that_swallows_a_failed_statement_is_not_committed(store):
    def run(tx):
        write(tx)
        with pytest.raises(Exception, match="division by zero"):
            tx._session._ask(b"SELECT 1/0")
        return "fine"

    with pytest.raises(Exception, match="division by zero"):
        store.transact("swallows", run)
    assert summaries(store) == []


# ---------------------------------------------------------------------------------------------- waits that end


def test_every_wait_on_the_server_is_bounded(server):
    with connect(server.url) as connection:
        row = connection.execute(
            "SELECT current_setting('statement_timeout'), current_setting('lock_timeout'),"
            " current_setting('idle_in_transaction_session_timeout'), current_setting('client_encoding')"
        ).fetchone()
        assert row == ("30s", "10s", "1min", "UTF8")
        assert connection.info.get_parameters()["connect_timeout"] == "5"


def test_a_lock_that_another_holds_for_too_long_is_unavailable_and_names_it(store, server):
    store.transact("put", lambda tx: tx.facts.put("a", 1))
    with psycopg.connect(server.url) as other:
        other.execute("UPDATE facts SET value = '2'")

        def run(tx):
            tx._session._ask(b"SET LOCAL lock_timeout = '20ms'")
            tx.facts.put("a", 3)

        with pytest.raises(StoreUnavailable, match="holds a lock for too long"):
            store.transact("waits", run)
        other.rollback()
    store.transact("goes on", lambda tx: tx.facts.put("a", 4))


def test_more_threads_than_connections_wait_for_one_and_are_then_refused(server, monkeypatch):
    monkeypatch.setattr(postgresql_engine, "CONNECTIONS_MAX", 1)
    monkeypatch.setattr(postgresql_engine, "CONNECTION_WAIT_S", 0.01)
    store, inside, go = server.open(), threading.Event(), threading.Event()

    def hold(tx):
        inside.set()
        go.wait(10)

    holder = threading.Thread(target=store.read, args=(hold,))
    holder.start()
    inside.wait(10)
    with pytest.raises(StoreUnavailable, match="all 1 connections"):
        store.read(lambda tx: tx.now())
    go.set()
    holder.join()
    store.read(lambda tx: tx.now())


# ---------------------------------------------------------------------------------------------- time and durability


@pytest.mark.req("POL-6")
def test_time_is_the_servers_and_not_this_machines(store, server):
    with psycopg.connect(server.url) as other:
        row = other.execute("SELECT extract(epoch FROM clock_timestamp()) * 1000000").fetchone()
    server.clock.step(-86_400 * 365)
    assert row is not None
    assert store.transact("now", lambda tx: tx.now()) > row[0]


@pytest.mark.req("POL-6")
def test_time_is_read_after_the_admission_lock_was_waited_for(store):
    inside, go, times = threading.Event(), threading.Event(), {}

    def admission(name, hold):
        def run(tx):
            tx.lock_admission(exclusive=True)
            if hold:
                inside.set()
                go.wait(10)
            times[name] = tx.now()

        return run

    first = threading.Thread(target=store.transact, args=("first", admission("first", True)))
    first.start()
    inside.wait(10)
    second = threading.Thread(target=store.transact, args=("second", admission("second", False)))
    second.start()
    second.join(0.1)
    go.set()
    first.join()
    second.join()
    assert times["second"] > times["first"]


def test_shared_admissions_do_not_wait_for_each_other(store):
    meet = threading.Barrier(2)

    def run(tx):
        tx.lock_admission(exclusive=False)
        meet.wait(10)

    threads = [threading.Thread(target=store.transact, args=("commit 1", run)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not meet.broken


def test_a_server_that_does_not_wait_for_the_disk_is_told_to(server):
    database = server.url.rpartition("/")[2]
    with psycopg.connect(server.url, autocommit=True) as admin:
        for configured, expected in (("off", "on"), ("local", "local"), ("remote_apply", "remote_apply")):
            admin.execute(f'ALTER DATABASE "{database}" SET synchronous_commit = {configured}'.encode())
            with connect(server.url) as connection:
                assert connection.execute("SHOW synchronous_commit").fetchone() == (expected,)
        admin.execute(f'ALTER DATABASE "{database}" RESET synchronous_commit'.encode())


def test_a_stray_commit_of_an_aborted_transaction_is_not_taken_for_a_commit(store):
    """An aborted transaction answers COMMIT with ROLLBACK, and no error."""

    def run(tx):
        write(tx)
        tx._session.flush()  # else what is written at the end would notice first
        tx._session._connection.execute("SAVEPOINT a")
        with pytest.raises(psycopg.Error):
            tx._session._connection.execute("SELECT 1/0")

    with pytest.raises(StoreUnavailable, match="rolled 'stray' back"):
        store.transact("stray", run)
    assert summaries(store) == []
