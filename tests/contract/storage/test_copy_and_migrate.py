"""A store that moves: to PostgreSQL with every row compared, and from the last released schema to today's."""

from __future__ import annotations

import sqlite3

import psycopg
import pytest

from fleetwarden.app.identity import local_admin
from fleetwarden.app.storage import EpochOperations
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.errors import Conflict, Fenced, Misconfigured, NotFound, StoreUnavailable
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.ports.stores import Page
from fleetwarden.store import postgresql_transfer, revisions
from fleetwarden.store.ownership import Ownership
from fleetwarden.store.schema import REVISIONS
from tests.contract.storage.conftest import POSTGRESQL
from tests.contract.store.records import carried_out, file_approval, request

needs_postgresql = pytest.mark.needs("postgresql")


@pytest.fixture
def pair(places):
    return places("sqlite"), places("postgresql")


def content(connection, table, dialect):
    names = [name for name in columns(connection, table, dialect) if name != "xact"]
    listed = ", ".join(f'"{name}"' for name in names)
    query = f'SELECT {listed} FROM "{table}"'
    found = connection.execute(query if dialect == "sqlite" else query.encode()).fetchall()
    return sorted(found, key=repr)


def columns(connection, table, dialect):
    if dialect == "sqlite":
        return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    query = "SELECT column_name FROM information_schema.columns WHERE table_name = %s ORDER BY ordinal_position"
    return [name for (name,) in connection.execute(query.encode(), [table])]


@pytest.mark.req("RUN-13")
@needs_postgresql
def test_a_copy_has_every_row_of_every_table(pair):
    source, target = pair
    source.filled()
    told = source.storage.copy(target.url)
    with sqlite3.connect(source.database) as left, psycopg.connect(target.url) as right:
        for table in told["tables"]:
            rows = content(left, table, "sqlite")
            if table == "facts":
                rows = [row for row in rows if row[0] not in ("store.moved_to", "store.newest_time")]
                others = [row for row in content(right, table, "postgresql") if row[0] != "store.newest_time"]
            else:
                others = content(right, table, "postgresql")
            assert rows == others, table
    left.close()
    assert told["rows"] > 20
    assert told["ledger"]["sound"] is True


@pytest.mark.req("RUN-13")
@needs_postgresql
def test_after_a_copy_what_was_under_way_goes_on_there_and_only_there(pair):
    source, target = pair
    numbers = source.filled()
    source.storage.copy(target.url)
    store = target.open()
    states = [store.read(lambda tx, n=n: tx.outbox.get(numbers[n])).state for n in ("done", "running", "prepared")]
    assert states == [OutboxState.SUCCEEDED, OutboxState.RUNNING, OutboxState.PREPARED]
    assert store.read(lambda tx: tx.approvals.get(numbers["granted"])).status is ApprovalState.GRANTED
    assert store.read(lambda tx: tx.freezes.active()) == []
    [epoch] = store.read(lambda tx: tx.epochs.all())
    assert (epoch.kind, epoch.holds) == ("copied", False)
    with pytest.raises(Conflict, match="nothing is to be released"):
        EpochOperations(store).release(local_admin(), reason="x")

    old = LeaseFence(cadence="action_executor", shard="0", holder="old plane", token=numbers["token"])
    with pytest.raises(Fenced):
        store.read(lambda tx: tx.leases.check(old))
    fresh = store.transact("new", lambda tx: (carried_out(tx, request("new")).seq, file_approval(tx).seq))
    assert numbers["acting"] < fresh[0] < numbers["acting"] + 100
    assert numbers["begun"] < fresh[1] < numbers["begun"] + 100
    with pytest.raises(Misconfigured, match=r"was copied to PostgreSQL 127.0.0.1.*goes on in its place"):
        source.open()
    with pytest.raises(Misconfigured, match=r"was copied to .* already"):
        source.storage.copy(target.url)


@pytest.mark.req("RUN-13")
@needs_postgresql
def test_a_copied_store_can_be_gone_back_to_only_frozen(pair, tmp_path):
    source, target = pair
    source.filled()
    source.storage.copy(target.url)
    source.storage.back_up(tmp_path / "old.backup")
    source.storage.restore(tmp_path / "old.backup", replace=True)
    store = source.open()
    assert len(store.read(lambda tx: tx.freezes.active())) == 1


@pytest.mark.req("RUN-13")
@needs_postgresql
def test_a_copy_into_a_store_with_rows_is_refused_and_changes_neither(pair):
    source, target = pair
    source.filled()
    other = target.open()
    other.transact("theirs", lambda tx: tx.facts.put("theirs", 1))
    with pytest.raises(Conflict, match="is not empty: facts has rows"):
        source.storage.copy(target.url)
    assert other.read(lambda tx: tx.facts.get("theirs")) == 1
    source.open().close()


@pytest.mark.req("RUN-13")
@needs_postgresql
def test_a_copy_while_a_plane_holds_the_store_is_refused(pair):
    source, target = pair
    source.filled()
    held = Ownership(source.database, 1)
    try:
        with pytest.raises(Misconfigured, match="is in use by process"):
            source.storage.copy(target.url)
    finally:
        held.release()
    assert postgresql_transfer.revision_of(target.url) is None


@pytest.mark.req("RUN-13")
@needs_postgresql
@pytest.mark.parametrize("stage", ["load", "arrived"])
def test_a_copy_that_was_cut_off_leaves_one_store_at_most_and_the_same_command_finishes_it(pair, monkeypatch, stage):
    source, target = pair
    numbers = source.filled()
    real = getattr(postgresql_transfer, stage)

    def cut(*given, **named):
        if stage == "load":
            real(*given, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(postgresql_transfer, stage, cut)
    with pytest.raises(KeyboardInterrupt):
        source.storage.copy(target.url)
    monkeypatch.undo()
    with pytest.raises(Misconfigured, match="has not been finished"):
        target.open()
    if stage == "arrived":
        with pytest.raises(Misconfigured, match="goes on in its place"):
            source.open()
    else:  # the old one goes on, and what it does then is in the copy
        store = source.open()
        store.transact("more", lambda tx: carried_out(tx, request("more")))
        store.close()
    source.storage.copy(target.url)
    store = target.open()
    assert store.read(lambda tx: tx.outbox.get(numbers["running"])).state is OutboxState.RUNNING
    targets = [one.request.target for one in store.read(lambda tx: tx.outbox.list(Page(limit=100)))]
    assert ("more" in targets) == (stage == "load")


@pytest.mark.req("RUN-13")
@needs_postgresql
def test_a_row_that_arrives_changed_undoes_the_whole_copy(pair, monkeypatch):
    source, target = pair
    source.filled()
    real = postgresql_transfer._load_table

    def changed(left, right, table):
        real(left, right, table)
        if table.table == "decisions":
            right.execute(b"UPDATE decisions SET reason = 'another' WHERE seq = 2")

    monkeypatch.setattr(postgresql_transfer, "_load_table", changed)
    with pytest.raises(StoreUnavailable, match="nothing was kept: decisions: the content of its rows differs"):
        source.storage.copy(target.url)
    assert source.open().read(lambda tx: tx.epochs.moved_to()) == ""
    with psycopg.connect(target.url) as connection:
        assert connection.execute("SELECT count(*) FROM decisions").fetchone() == (0,)


@pytest.mark.req("RUN-13")
def test_only_a_file_is_copied_and_only_to_a_server(places):
    place = places("sqlite")
    with pytest.raises(Misconfigured, match="copied to PostgreSQL"):
        place.storage.copy("sqlite:///elsewhere.db")


_ASKED = (
    '{"kind":"restart_service","target":"web","params":{},"source":"r","requested_by":"r","reason":"",'
    '"dry_run":false,"key":"k"}'
)
OLD_ROWS = (
    f"""INSERT INTO decisions (at, kind, target, source, key, dry_run, request, request_digest, verdict, code, reason,
        rule, rule_source, policy_digest, numbers, waives) VALUES (1, 'restart_service', 'web', 'r', 'k', 0, '{_ASKED}',
        'd', 'allow', '', 'why', '', '', '', '{{}}', '[]')""",
    """INSERT INTO journal (at, topic, actor, subject, severity, summary, detail)
       VALUES (2, 'notice', 'plane', '', 'info', 'of old', '{}')""",
    """INSERT INTO tokens (name, live_name, secret_digest, roles, person, created_at)
       VALUES ('ana', 'ana', 'sha256:1', '["admin"]', 'Ana', 3)""",
    """INSERT INTO facts (name, value, at) VALUES ('fleet_id', '"f"', 4)""",
    "INSERT INTO freezes (scope, value, owner, reason, at, lifted_by) VALUES ('all', '', 'ana', 'lunch', 5, '')",
)


@pytest.fixture(params=["sqlite", POSTGRESQL])
def released(request, places):
    """A store of the last released schema, with rows in it."""
    place = places(request.param)
    if request.param == "sqlite":
        connection = sqlite3.connect(place.database, isolation_level=None)
        revisions.migrate("sqlite", lambda: connection, to="0001")
        for statement in OLD_ROWS:
            connection.execute(statement)
        connection.close()
    else:
        revisions.migrate("postgresql+psycopg", lambda: psycopg.connect(place.url), to="0001")
        with psycopg.connect(place.url) as server:
            for statement in OLD_ROWS:
                server.execute(statement.encode())
    return place


@pytest.mark.req("RUN-13")
def test_the_last_released_schema_is_backed_up_and_moved_up_with_what_is_in_it(released, places):
    assert released.storage.schema() == {
        "schema": "0001",
        "newest": REVISIONS[-1],
        "outdated": True,
        "newer": False,
    }
    told = released.storage.migrate()
    assert (told["schema"], told["newest"], told["migrated"]) == ("0001", REVISIONS[-1], True)
    store = released.open()
    assert store.read(lambda tx: tx.decisions.get(1)).reason == "why"
    assert [one.name for one in store.read(lambda tx: tx.tokens.all())] == ["ana"]
    assert [one.reason for one in store.read(lambda tx: tx.freezes.active())] == ["lunch"]
    assert store.read(lambda tx: tx.facts.get("fleet_id")) == "f"
    store.close()

    again = places("sqlite")  # what was backed up is of the old schema, and can be put back anywhere
    restored = again.storage.restore(again.folder / told["backup"], replace=False)
    assert restored["schema"] == "0001"
    assert again.open().read(lambda tx: tx.decisions.get(1)).reason == "why"

    assert released.storage.schema()["outdated"] is False
    assert released.storage.migrate()["backup"] is None


@pytest.mark.req("RUN-13")
def test_a_start_on_an_older_schema_backs_it_up_first(released):
    store, backup = released.storage.open()
    store.close()
    assert backup is not None
    assert backup.parent == released.folder / "data" / "backups"
    assert backup.name.startswith(f"before-schema-{REVISIONS[-1]}-from-0001-")


@pytest.mark.req("RUN-13")
def test_a_newer_schema_is_neither_migrated_nor_opened(places):
    place = places("sqlite")
    place.filled()
    with sqlite3.connect(place.database) as connection:
        connection.execute("UPDATE fleetwarden_schema SET version_num = '9999'")
    connection.close()
    assert place.storage.schema()["newer"] is True
    for act in (place.storage.migrate, place.open):
        with pytest.raises(Misconfigured, match="has schema 9999"):
            act()
    assert place.storage.schema()["schema"] == "9999"


@pytest.mark.req("RUN-13")
def test_nothing_is_made_by_asking_for_the_schema_of_a_store_that_is_not_there(places):
    place = places("sqlite")
    assert place.storage.schema()["schema"] is None
    with pytest.raises(NotFound):
        place.storage.migrate()
    assert not place.database.exists()
