"""Backups and restores, from either database to either: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import json
import sqlite3
import stat
import threading

import psycopg
import pytest

from fleetwarden.app.identity import Caller, Forbidden, local_admin
from fleetwarden.app.storage import EpochOperations
from fleetwarden.controllers.epochs import GAP, SMALL_GAP
from fleetwarden.domain.actions import LeaseFence, Outcome
from fleetwarden.domain.errors import Conflict, Fenced, Misconfigured, NotFound, StoreUnavailable
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.domain.recovery import after_horizon
from fleetwarden.ports.stores import Page
from fleetwarden.store.schema import METADATA
from tests.contract.storage.conftest import POSTGRESQL
from tests.contract.store.records import carried_out, file_approval, request

DIALECTS = ["sqlite", POSTGRESQL]


@pytest.fixture(params=DIALECTS)
def source(request, places):
    return places(request.param)


@pytest.fixture(params=DIALECTS)
def target(request, places):
    return places(request.param)


@pytest.mark.req("RUN-13")
def test_a_backup_says_what_is_in_it_and_holds_every_table(source, tmp_path):
    source.filled()
    file = tmp_path / "fleet.backup"
    made = source.storage.back_up(file)
    assert set(made["tables"]) == {table.name for table in METADATA.sorted_tables}
    assert made["tables"]["outbox"]["rows"] == 4
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir() if "partial" in one.name] == []
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT count(*) FROM approvals").fetchone() == (3,)
    connection.close()


@pytest.mark.req("RUN-13")
def test_a_backup_overwrites_nothing_and_a_missing_store_has_none(places, tmp_path):
    place = places("sqlite")
    with pytest.raises(NotFound, match="there is no store"):
        place.storage.back_up(tmp_path / "a")
    place.filled()
    (tmp_path / "a").write_text("mine")
    with pytest.raises(Conflict, match="exists already"):
        place.storage.back_up(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "mine"


@pytest.mark.req("RUN-13")
def test_a_backup_is_of_one_moment_while_others_write(source, tmp_path):
    """Each transaction writes two rows; a backup that was not one snapshot would hold one of a pair."""
    store, stop = source.open(), threading.Event()
    written: list[int] = []

    def pair(tx):
        for _ in range(2):
            tx.journal.write(topic="notice", actor="test", summary=str(len(written)))

    def write():
        while not stop.is_set():
            store.transact("pair", pair)
            written.append(1)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            before = len(written)
            while len(written) < before + 3:
                stop.wait(0.001)
            source.storage.back_up(tmp_path / f"{number}.backup")
    finally:
        stop.set()
        writer.join()
    counts = []
    for number in range(5):
        with sqlite3.connect(tmp_path / f"{number}.backup") as connection:
            pairs = connection.execute("SELECT summary, count(*) FROM journal GROUP BY summary").fetchall()
        connection.close()
        assert {count for _, count in pairs} == {2}
        counts.append(len(pairs))
    assert counts == sorted(set(counts))  # each later one has more: the writer went on meanwhile


@pytest.mark.req("RUN-13")
def test_what_was_under_way_is_unknown_after_a_restore_and_settled_only_after_its_horizon(source, target, tmp_path):
    numbers, file = source.filled(), tmp_path / "fleet.backup"
    source.storage.back_up(file)
    told = target.storage.restore(file, replace=False)
    assert told["frozen"]
    store = target.open()
    now = store.read(lambda tx: tx.now())
    horizons = {}
    for name in ("running", "prepared", "acting"):
        record = store.read(lambda tx, name=name: tx.outbox.get(numbers[name]))
        assert (record.state, record.negatives_by_person) == (OutboxState.RECOVERY_PENDING, True), name
        assert record.started_at is not None
        assert not after_horizon(record, now)
        assert store.read(lambda tx, name=name: tx.executions.of_action(numbers[name]))[-1].code == "restored"
        horizons[name] = record.horizon_at
    assert horizons["running"] > now + 2 * 86_400_000_000  # its own, which was later, is honoured
    assert horizons["prepared"] > now + 3_600_000_000  # it may have been begun until it lapsed, and landed later
    assert store.read(lambda tx: tx.outbox.get(numbers["done"])).state is OutboxState.SUCCEEDED
    ended = [store.read(lambda tx, n=n: tx.approvals.get(numbers[n])).status for n in ("pending", "granted", "begun")]
    assert ended == [ApprovalState.EXPIRED, ApprovalState.EXPIRED, ApprovalState.GRANTED]
    assert len(store.read(lambda tx: tx.tokens.all())) == 1
    entries = store.read(lambda tx: tx.journal.list(Page(kind="notice", limit=500)))
    assert "naïve ☃ \\ \t tab\nline" in [one.summary for one in entries]


def said(tx):
    """The numbers of an approval and of a freeze, which people quote."""
    return file_approval(tx).seq, tx.freezes.add(owner="ada", reason="lunch").seq


@pytest.mark.req("RUN-13", "RUN-17")
def test_old_fences_are_refused_and_no_number_is_given_out_again(source, target, tmp_path):
    numbers, file = source.filled(), tmp_path / "fleet.backup"
    source.storage.back_up(file)
    lost = source.open()
    later = lost.transact("later", lambda tx: (carried_out(tx, request("later")).seq, *said(tx)))
    lost.close()
    target.storage.restore(file, replace=False)
    store = target.open()
    old = LeaseFence(cadence="action_executor", shard="0", holder="old plane", token=numbers["token"])
    with pytest.raises(Fenced):
        store.read(lambda tx: tx.leases.check(old))
    new = store.transact("acquire", lambda tx: tx.leases.acquire("action_executor", "0", "old plane", 1_000_000))
    assert new.token > old.token + GAP
    own = store.read(lambda tx: tx.freezes.active())[-1].seq
    fresh = store.transact("new", lambda tx: (carried_out(tx, request("new")).seq, *said(tx)))
    assert fresh[0] > later[0] + GAP
    assert later[1] < fresh[1] < later[1] + 2 * SMALL_GAP, "what people say to each other stays short"
    assert later[2] < own < fresh[2] < later[2] + 2 * SMALL_GAP, "the restore's own freeze is no freeze of before"
    entry = store.transact("note", lambda tx: tx.journal.write(topic="notice", actor="test", summary="new"))
    assert entry.seq > GAP
    again = store.transact("new", lambda tx: carried_out(tx, request("newer")).seq)
    assert again == fresh[0] + 1


@pytest.mark.req("RUN-13")
def test_a_restore_of_the_same_backup_again_takes_new_numbers_again(source, tmp_path):
    source.filled()
    file = tmp_path / "fleet.backup"
    source.storage.back_up(file)
    used = []
    for _ in range(2):
        source.storage.restore(file, replace=True)
        store = source.open()
        used.append(store.transact("new", lambda tx: (carried_out(tx, request("new")).seq, *said(tx))))
        store.close()
    assert used[1][0] > used[0][0] + GAP
    assert [one < other < one + 2 * SMALL_GAP for one, other in zip(*used, strict=True)][1:] == [True, True]


@pytest.mark.req("RUN-13")
def test_a_store_with_something_in_it_is_not_overwritten_unasked_and_kept_when_it_is(source, tmp_path):
    numbers, file = source.filled(), tmp_path / "fleet.backup"
    source.storage.back_up(file)
    store = source.open()
    later = store.transact("later", lambda tx: carried_out(tx, request("later"))).seq
    store.close()
    with pytest.raises(Conflict, match=r"not empty.*nothing was restored.*--replace"):
        source.storage.restore(file, replace=False)
    assert source.open().read(lambda tx: tx.outbox.get(later)).seq == later
    source.close()
    told = source.storage.restore(file, replace=True)
    with sqlite3.connect(told["replaced"]) as connection:
        assert connection.execute("SELECT count(*) FROM outbox WHERE seq = ?", [later]).fetchone() == (1,)
    connection.close()
    restored = source.open()
    with pytest.raises(NotFound):
        restored.read(lambda tx: tx.outbox.get(later))
    assert restored.read(lambda tx: tx.outbox.get(numbers["done"])).seq == numbers["done"]


@pytest.mark.req("RUN-13")
def test_a_store_at_which_a_plane_works_is_not_replaced(source, tmp_path):
    source.filled()
    file = tmp_path / "fleet.backup"
    source.storage.back_up(file)
    store = source.open()
    store.transact("lease", lambda tx: tx.leases.acquire("worker", "0", "plane", 60_000_000))
    with pytest.raises((Conflict, Misconfigured), match=r"a plane is at work|is in use by process"):
        source.storage.restore(file, replace=True)
    assert store.read(lambda tx: tx.epochs.all()) == []


@pytest.mark.req("RUN-13")
def test_only_an_admin_releases_a_restored_store_and_says_why(source, tmp_path):
    source.filled()
    file = tmp_path / "fleet.backup"
    source.storage.back_up(file)
    source.storage.restore(file, replace=True)
    store = source.open()
    operations = EpochOperations(store)
    [frozen] = store.read(lambda tx: tx.freezes.active())
    assert "fleetwarden db release" in frozen.reason
    operator = Caller(person="olga", token="t", roles=("operator",))
    with pytest.raises(Forbidden):
        operations.release(operator, reason="looked")
    with pytest.raises(Misconfigured, match="needs a reason"):
        operations.release(local_admin(), reason="  ")
    assert len(store.read(lambda tx: tx.freezes.active())) == 1
    [released] = operations.release(local_admin(), reason="all hosts looked at")["items"]
    assert (released["holds"], released["reason"]) == (False, "all hosts looked at")
    assert store.read(lambda tx: tx.freezes.active()) == []
    assert "all hosts looked at" in store.read(lambda tx: tx.journal.list(Page(kind="recovery")))[0].summary
    with pytest.raises(Conflict, match="nothing is to be released"):
        operations.release(local_admin(), reason="again")


@pytest.mark.req("RUN-13")
@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("UPDATE decisions SET reason = 'rule 2' WHERE seq = 1", "decisions: the content of its rows differs"),
        ("DELETE FROM journal", "journal: 0 rows instead of"),
        ("DROP TABLE leases", "leases: is missing"),
        ("UPDATE fleetwarden_schema SET version_num = '0001'", "schema is another one"),
        ("UPDATE fleetwarden_backup SET manifest = '{}'", "cannot be read as a backup"),
    ],
)
def test_a_backup_that_was_changed_is_refused_and_nothing_is_done(places, tmp_path, damage, told):
    source, target, file = places("sqlite"), places("sqlite"), tmp_path / "fleet.backup"
    source.filled()
    source.storage.back_up(file)
    with sqlite3.connect(file) as connection:
        connection.execute(damage)
    connection.close()
    with pytest.raises(StoreUnavailable, match=told):
        target.storage.restore(file, replace=True)
    assert not target.database.exists()


@pytest.mark.req("RUN-13")
def test_what_is_no_backup_is_refused(places, tmp_path):
    place = places("sqlite")
    place.filled()
    (tmp_path / "text").write_text("hello " * 1000)
    with pytest.raises(StoreUnavailable, match="cannot be read as a backup"):
        place.storage.restore(tmp_path / "text", replace=True)
    with pytest.raises(Misconfigured, match="there is no backup"):
        place.storage.restore(tmp_path / "none", replace=True)
    with pytest.raises(Misconfigured, match=r"is no backup.*db backup"):
        place.storage.restore(place.database, replace=True)


@pytest.mark.req("RUN-13")
def test_a_backup_of_a_newer_schema_is_refused(places, tmp_path):
    place, file = places("sqlite"), tmp_path / "fleet.backup"
    place.filled()
    place.storage.back_up(file)
    with sqlite3.connect(file) as connection:
        [(body,)] = connection.execute("SELECT manifest FROM fleetwarden_backup").fetchall()
        manifest = json.dumps({**json.loads(body), "revision": "9999"})
        connection.execute("UPDATE fleetwarden_backup SET manifest = ?", [manifest])
        connection.execute("UPDATE fleetwarden_schema SET version_num = '9999'")
    connection.close()
    with pytest.raises(Misconfigured, match=r"has schema 9999.*newer version"):
        place.storage.restore(file, replace=True)


@pytest.mark.req("RUN-13")
@pytest.mark.needs("postgresql")
def test_a_server_whose_clock_is_behind_the_ledger_is_refused(places, tmp_path):
    source, target, file = places("sqlite"), places("postgresql"), tmp_path / "fleet.backup"
    source.filled()
    with sqlite3.connect(source.database) as connection:
        connection.execute("UPDATE journal SET at = at + 3600000000")
    connection.close()
    source.storage.back_up(file)
    with pytest.raises(Misconfigured, match="the clock of PostgreSQL"):
        target.storage.restore(file, replace=False)
    with psycopg.connect(target.url) as server:
        assert server.execute("SELECT count(*) FROM decisions").fetchone() == (0,)


@pytest.mark.req("RUN-13", "PRO-7")
def test_a_person_settles_a_doubtful_action_only_when_it_cannot_land_any_more(places, tmp_path):
    place, file = places("sqlite"), tmp_path / "fleet.backup"
    numbers = place.filled()
    place.storage.back_up(file)
    place.storage.restore(file, replace=True)
    store = place.open()
    record = store.read(lambda tx: tx.outbox.get(numbers["prepared"]))
    ended = store.transact(
        "settle",
        lambda tx: tx.outbox.finish(
            record.seq, came_from=record.state, to=OutboxState.SUCCEEDED, outcome=Outcome(ok=True), settled_by="ana"
        ),
    )
    assert ended.state is OutboxState.SUCCEEDED
