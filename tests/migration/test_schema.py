"""Fresh, migrated, older, newer, foreign: what becomes of a database's schema."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from importlib import resources
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from fleetwarden.domain.errors import Misconfigured
from fleetwarden.store import revisions, schema
from fleetwarden.store.opening import lock_holder, open_store
from fleetwarden.testing.system import FakeClock

ROOT = Path(__file__).resolve().parents[2]
needs_postgresql = pytest.mark.needs("postgresql")


def migrated_sqlite(path, to="head"):
    connection = sqlite3.connect(path, isolation_level=None)
    revisions.migrate("sqlite", lambda: connection, to=to)
    connection.close()


def migrated_postgresql(url, to="head"):
    revisions.migrate("postgresql+psycopg", lambda: psycopg.connect(url), to=to)


def shape_of_sqlite(path):
    """Every table and index as SQLite itself describes it."""
    connection = sqlite3.connect(path)
    listed = connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name"
    ).fetchall()
    tables = sorted(name for kind, name, _, _ in listed if kind == "table")
    details = [
        (table, pragma, sorted(map(str, connection.execute(f"SELECT * FROM pragma_{pragma}('{table}')").fetchall())))
        for table in tables
        for pragma in ("table_xinfo", "foreign_key_list")
    ]
    strict = connection.execute("SELECT name, strict FROM pragma_table_list ORDER BY name").fetchall()
    connection.close()
    indexes = [(name, table, " ".join(sql.split())) for kind, name, table, sql in listed if kind == "index"]
    return tables, details, indexes, [row for row in strict if not row[0].startswith("sqlite_")]


def shape_of_postgresql(url):
    """Every column, constraint and index as PostgreSQL itself describes it."""
    questions = (
        """SELECT table_name, column_name, data_type, is_nullable, column_default, is_identity, identity_generation
           FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2""",
        """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
           FROM pg_constraint WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2""",
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
    )
    with psycopg.connect(url) as connection:
        return [connection.execute(question.encode()).fetchall() for question in questions]


def test_on_sqlite_a_fresh_schema_equals_a_migrated_one(tmp_path):
    fresh, migrated = tmp_path / "fresh.db", tmp_path / "migrated.db"
    open_store(str(fresh), FakeClock()).close()
    migrated_sqlite(migrated)
    assert shape_of_sqlite(fresh) == shape_of_sqlite(migrated)
    tables, _, indexes, strict = shape_of_sqlite(fresh)
    assert {table.name for table in schema.METADATA.sorted_tables} == set(tables) - {schema.VERSION_TABLE}
    assert len(indexes) == sum(len(table.indexes) for table in schema.METADATA.sorted_tables)
    assert {name for name, is_strict in strict if not is_strict} == {schema.VERSION_TABLE}


@needs_postgresql
def test_on_postgresql_a_fresh_schema_equals_a_migrated_one(postgresql):
    fresh, migrated = (postgresql.url(postgresql.empty_database()) for _ in range(2))
    open_store(fresh, FakeClock()).close()
    migrated_postgresql(migrated)
    assert shape_of_postgresql(fresh) == shape_of_postgresql(migrated)


def test_the_models_and_the_migrations_agree_by_alembics_own_comparison(tmp_path):
    path = tmp_path / "fleet.db"
    migrated_sqlite(path)
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": schema.VERSION_TABLE})
        assert compare_metadata(context, schema.METADATA) == []
    engine.dispose()


def test_the_known_revisions_are_the_migrations_in_their_order():
    scripts = ScriptDirectory(str(resources.files("fleetwarden.store") / "migrations"))
    chain = [script.revision for script in scripts.walk_revisions()]
    assert tuple(reversed(chain)) == schema.REVISIONS


def test_a_database_without_any_revision_applied_is_taken_over_by_the_migrations(tmp_path):
    """Alembic left its table behind, empty: then nothing of ours is there yet, but something of Alembic's is."""
    path = tmp_path / "fleet.db"
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE {schema.VERSION_TABLE} (version_num VARCHAR(32) NOT NULL)")
    connection.close()
    with pytest.raises(Misconfigured, match="tables of something else"):
        open_store(str(path), FakeClock())


def test_a_newer_sqlite_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "fleet.db"
    open_store(str(path), FakeClock()).close()
    set_revision_sqlite(path, "9999")
    before = shape_of_sqlite(path)
    with pytest.raises(Misconfigured, match=r"has schema 9999, this version knows schemas up to 0015.*newer version"):
        open_store(str(path), FakeClock())
    assert shape_of_sqlite(path) == before
    assert lock_holder(path) is None


def set_revision_sqlite(path, revision):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"UPDATE {schema.VERSION_TABLE} SET version_num = ?", [revision])
    connection.close()


@needs_postgresql
def test_a_newer_postgresql_database_is_refused_and_left_alone(postgresql):
    url = postgresql.url(postgresql.database())
    with psycopg.connect(url) as connection:
        connection.execute(f"UPDATE {schema.VERSION_TABLE} SET version_num = '9999'".encode())
    before = shape_of_postgresql(url)
    with pytest.raises(Misconfigured, match="has schema 9999"):
        open_store(url, FakeClock())
    assert shape_of_postgresql(url) == before


@pytest.fixture
def older(monkeypatch):
    """Pretend that today's schema has a successor's predecessor in the databases: `0000`, which 0001 follows."""
    monkeypatch.setattr(revisions, "REVISIONS", ("0000", "0001"))


def test_an_older_database_is_moved_up_by_the_migrations(tmp_path, older, monkeypatch):
    """What matters here is that an older revision leads to Alembic, in our transaction, on our connection."""
    path, asked = tmp_path / "fleet.db", []
    open_store(str(path), FakeClock()).close()
    set_revision_sqlite(path, "0000")

    def migrate(dialect, connect, to="head"):
        connection = connect()
        asked.append((dialect, connection.in_transaction))
        connection.execute(f"UPDATE {schema.VERSION_TABLE} SET version_num = '{schema.REVISIONS[-1]}'")

    monkeypatch.setattr(revisions, "migrate", migrate)
    open_store(str(path), FakeClock()).close()
    assert asked == [("sqlite", False)]


@needs_postgresql
def test_planes_that_start_together_move_an_older_postgresql_database_up_once(postgresql, older, monkeypatch):
    url, asked = postgresql.url(postgresql.database()), []
    with psycopg.connect(url) as connection:
        connection.execute(f"UPDATE {schema.VERSION_TABLE} SET version_num = '0000'".encode())

    def migrate(dialect, connect, to="head"):
        asked.append(dialect)
        with connect() as connection:
            assert not connection.autocommit
            threading.Event().wait(0.2)  # the others are at the lock by now
            connection.execute(f"UPDATE {schema.VERSION_TABLE} SET version_num = '{revisions.HEAD}'".encode())

    monkeypatch.setattr(revisions, "migrate", migrate)
    open_together(url, 4)
    assert asked == ["postgresql+psycopg"]


@needs_postgresql
def test_planes_that_start_together_on_an_empty_postgresql_database_make_its_schema_once(postgresql):
    url = postgresql.url(postgresql.empty_database())
    open_together(url, 4)
    assert shape_of_postgresql(url) == shape_of_postgresql(postgresql.url(postgresql.database()))


def open_together(url, many):
    failures, ready = [], threading.Barrier(many)

    def start():
        ready.wait(10)
        try:
            open_store(url, FakeClock()).close()
        except Exception as error:  # noqa: BLE001 -- the test looks at it
            failures.append(error)

    planes = [threading.Thread(target=start) for _ in range(many)]
    for plane in planes:
        plane.start()
    for plane in planes:
        plane.join()
    assert failures == []


def test_a_foreign_sqlite_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE customers (id INTEGER)")
    connection.close()
    with pytest.raises(Misconfigured, match="tables of something else"):
        open_store(str(path), FakeClock())
    assert shape_of_sqlite(path)[0] == ["customers"]


@needs_postgresql
def test_foreign_tables_of_our_names_on_postgresql_are_left_alone(postgresql):
    url = postgresql.url(postgresql.empty_database())
    with psycopg.connect(url) as connection:
        connection.execute(b"CREATE TABLE leases (flat text)")
    before = shape_of_postgresql(url)
    with pytest.raises(Misconfigured, match=r"leases.*database of its own"):
        open_store(url, FakeClock())
    assert shape_of_postgresql(url) == before


@pytest.mark.parametrize("stage", [0, 20, 45])
def test_a_process_killed_while_it_makes_the_schema_leaves_an_empty_database_that_opens(tmp_path, stage):
    path = tmp_path / "fleet.db"
    script = f"""
import os, sys
from fleetwarden.store import revisions
from fleetwarden.store.opening import open_store
from fleetwarden.testing.system import FakeClock
real = revisions.creation
def creation(dialect):
    for number, statement in enumerate(real(dialect)):
        if number == {stage}:
            os.kill(os.getpid(), 9)
        yield statement
revisions.creation = creation
open_store(sys.argv[1], FakeClock())
"""
    done = subprocess.run([sys.executable, "-c", script, str(path)], cwd=ROOT, check=False)
    assert done.returncode == -9
    store = open_store(str(path), FakeClock())
    store.transact("works", lambda tx: tx.facts.put("a", 1))
    store.close()


def test_a_failed_creation_leaves_nothing_behind(tmp_path, monkeypatch):
    path, real = tmp_path / "fleet.db", revisions.creation
    monkeypatch.setattr(revisions, "creation", lambda dialect: [*real(dialect), "CREATE TABLE decisions (a INTEGER)"])
    with pytest.raises(Exception, match="already exists"):
        open_store(str(path), FakeClock())
    assert shape_of_sqlite(path)[0] == []


def test_a_failed_migration_leaves_the_database_as_it_was(tmp_path):
    path = tmp_path / "fleet.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("CREATE TABLE tokens (a INTEGER)")  # in the way of the last tables, not of the first
    with pytest.raises(sa.exc.OperationalError, match="tokens already exists"):
        revisions.migrate("sqlite", lambda: connection)
    connection.close()
    assert shape_of_sqlite(path)[0] == ["tokens"]
