"""The sealed ledger on both databases: what is entered, what is sealed when, and who wins."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden import ledger_verifier
from fleetwarden.controllers.sealer import Sealer
from fleetwarden.domain import sealing
from fleetwarden.domain.errors import Conflict, Fenced
from fleetwarden.domain.sealing import Leaf
from fleetwarden.store import ledger, revisions, schema
from fleetwarden.store.opening import open_store
from fleetwarden.testing.system import FakeClock
from tests.contract.ledger import ledgers
from tests.contract.store.records import decide

pytestmark = pytest.mark.req("RUN-8")
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def seal_all(store, most=1_000):
    while store.transact("seal", lambda tx: tx.ledger.seal(most)) is not None:
        pass


def verified(store, folder):
    verifier = ledger_verifier.Verifier()
    for item in ledgers.export(store, folder):
        verifier.take(item)
    return verifier.end()


@given(st.dictionaries(TEXT, st.none() | TEXT | st.integers(-(2**63), 2**63 - 1)))
def test_the_verifier_and_the_store_write_values_in_the_same_form(row):
    told = sealing.content_digest("journal", row)
    assert told == ledger_verifier.digest({"row": row, "table": "journal"})


@given(st.lists(TEXT, min_size=1, max_size=40))
def test_the_verifier_and_the_sealer_find_the_same_root(digests):
    leaves = [Leaf(position=at, kind="votes", ref=at, digest=one) for at, one in enumerate(digests, 1)]
    plain = [ledger_verifier.canonical([at, "votes", at, one]) for at, one in enumerate(digests, 1)]
    assert sealing.merkle_root(leaves) == ledger_verifier.root_of(plain)


def test_every_column_of_the_ledgers_tables_is_sealed_or_known_to_change():
    for name, columns in ledger.SEALED.items():
        assert set(columns) | ledger.CHANGING[name] == {column.name for column in schema.METADATA.tables[name].c}
        assert set(columns) == set(ledger_verifier.ROWS[name].split())


def test_every_row_is_entered_by_the_transaction_that_writes_it(store, tmp_path):
    store.transact("happenings", ledgers.happenings)
    report = verified(store, tmp_path)
    assert report.told == []
    assert (report.seals, report.sealed) == (0, 0)
    counts = {kind: sum(one == kind for one, _ in report.tail) for kind in ledger.SEALED}
    assert counts == {"decisions": 6, "executions": 1, "journal": 2, "approvals": 3, "votes": 3, "ledger_events": 4}


def test_a_transaction_that_is_rolled_back_enters_nothing(store, tmp_path):
    def fails(tx):
        ledgers.happenings(tx)
        raise Conflict("no")

    with pytest.raises(Conflict):
        store.transact("fails", fails)
    assert verified(store, tmp_path).tail == []
    store.transact("works", decide)
    assert len(verified(store, tmp_path).tail) == 1


def test_ranges_are_sealed_without_a_gap_and_each_names_the_one_before(store, tmp_path):
    store.transact("happenings", ledgers.happenings)
    seal_all(store, most=5)
    seals = store.read(lambda tx: tx.ledger.seals(0, 1_000))
    assert [one.number for one in seals] == [1, 2, 3, 4]
    assert [(one.first, one.last) for one in seals] == [(1, 5), (6, 10), (11, 15), (16, 19)]
    assert [one.previous for one in seals] == ["", *(one.digest for one in seals[:-1])]
    report = verified(store, tmp_path)
    assert (report.told, report.sealed, report.tail) == ([], 19, [])


def test_a_pass_of_the_sealer_that_finds_nothing_new_writes_nothing(store):
    store.transact("happenings", ledgers.happenings)
    names, real = [], store.transact
    sealer = Sealer(store, None)

    def named(name, fn):
        names.append(name)
        return real(name, fn)

    store.transact = named
    assert sealer.run(None) == 19
    assert sealer.run(None) == 0
    assert names == ["seal"]


def test_a_sealer_that_lost_its_lease_seals_nothing(store):
    store.transact("happenings", ledgers.happenings)
    old = store.transact("lease", lambda tx: tx.leases.acquire("ledger_sealer", "0", "a", 1))
    store.transact("give up", lambda tx: tx.leases.release(old))
    store.transact("lease", lambda tx: tx.leases.acquire("ledger_sealer", "0", "b", 60_000_000))
    with pytest.raises(Fenced):
        Sealer(store, None).run(old)
    assert store.read(lambda tx: tx.ledger.tip()) is None


def test_of_sealers_side_by_side_one_wins_each_range(database, tmp_path):
    stores = [database.open()] if database.dialect == "sqlite" else [database.open(), database.open()]
    for _ in range(40):
        stores[0].transact("decide", decide)
    ready = threading.Barrier(4)

    def seal(store):
        ready.wait(10)
        for _ in range(20):
            with suppress(Conflict):
                store.transact("seal", lambda tx: tx.ledger.seal(3))

    threads = [threading.Thread(target=seal, args=[stores[at % len(stores)]]) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seal_all(stores[0])
    report = verified(stores[0], tmp_path)
    assert (report.told, report.sealed, report.tail) == ([], 40, [])


@pytest.mark.needs("postgresql")
def test_nothing_is_sealed_beyond_a_transaction_that_still_runs_and_nothing_is_skipped(server, tmp_path):
    store, other = server.open(), server.open()
    written, go_on = threading.Event(), threading.Event()

    def slow(tx):
        decide(tx)
        written.set()
        assert go_on.wait(30)

    thread = threading.Thread(target=other.transact, args=["slow", slow])
    thread.start()
    assert written.wait(30)
    store.transact("later", decide)  # a higher number, committed first
    store.transact("seal", lambda tx: tx.ledger.seal(100))
    early = verified(store, tmp_path)
    go_on.set()
    thread.join()
    assert (early.told, early.sealed, len(early.tail)) == ([], 0, 1)
    seal_all(store)
    late = verified(store, tmp_path)
    assert (late.told, late.sealed, late.tail) == ([], 2, [])


def test_texts_are_kept_once_by_their_own_digest(store):
    body = "version: 1\n"
    first = store.transact("keep", lambda tx: tx.texts.keep(kind="policy", name="policy.yml", body=body))
    again = store.transact("keep", lambda tx: tx.texts.keep(kind="policy", name="other.yml", body=body))
    kept = store.read(lambda tx: tx.texts.get(first))
    assert first == again
    assert (kept.name, kept.body, kept.kind) == ("policy.yml", body, "policy")
    assert store.read(lambda tx: tx.texts.get("sha256:none")) is None


def test_rows_from_before_the_ledger_was_sealed_are_entered_by_the_migration(tmp_path):
    """What the earlier schema held, put there by today's code and its newer tables taken away again."""
    file, fresh = tmp_path / "old.db", tmp_path / "today.db"
    today = open_store(str(fresh), FakeClock())
    today.transact("happenings", ledgers.happenings)
    today.close()
    connection = sqlite3.connect(file, isolation_level=None)
    revisions.migrate("sqlite", lambda: connection, to="0004")
    connection.execute("ATTACH ? AS today", [str(fresh)])
    for table in ("decisions", "approvals", "outbox", "executions", "journal"):
        names = ", ".join(row[1] for row in connection.execute(f"PRAGMA main.table_info({table})"))
        connection.execute(f"INSERT INTO main.{table} ({names}) SELECT {names} FROM today.{table}")
    old_votes = connection.execute("SELECT seq, votes FROM approvals").fetchall()
    for seq, votes in old_votes:
        plain = [{key: vote[key] for key in ("by", "decision", "reason", "at")} for vote in json.loads(votes)]
        connection.execute("UPDATE approvals SET votes = ? WHERE seq = ?", [json.dumps(plain), seq])
    connection.close()
    store = open_store(str(file), FakeClock())
    report = verified(store, tmp_path)
    assert report.told == []
    assert len(report.tail) == 6 + 1 + 2 + 3 + 3 + 2  # two approvals ended; starts of actions were no events yet
    seal_all(store)
    assert verified(store, tmp_path).sealed == 17
    store.close()
