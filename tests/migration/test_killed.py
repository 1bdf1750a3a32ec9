"""Killed with -9 inside a migration: the store is as it was, the backup is whole, and the next start goes on."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from fleetwarden.app.settings import load_settings
from fleetwarden.app.storage import FOLDER, Storage
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.store.backups import read_manifest
from fleetwarden.store.revisions import HEAD
from fleetwarden.store.schema import VERSION_TABLE
from fleetwarden.testing.system import FakeClock
from tests.migration.test_schema import migrated_postgresql, migrated_sqlite
from tests.migration.test_teams import counts_on, older

ROOT = Path(__file__).resolve().parents[2]
OLD = "0005"
FILE = "fleet.db"
# Where the child ends itself: in the middle of the migrations, right before their commit, or
# when the backup before them is full and not yet in its place.
SCRIPT = """
import os, sys
from pathlib import Path
import sqlalchemy as sa
from fleetwarden.app.settings import load_settings
from fleetwarden.app.storage import Storage
from fleetwarden.store import backups, revisions
from fleetwarden.testing.system import FakeClock

folder, url, where = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
seen, moving = 0, False

def end():
    os.kill(os.getpid(), 9)

@sa.event.listens_for(sa.engine.Engine, "before_cursor_execute")
def statement(connection, cursor, text, parameters, context, executemany):
    global seen
    if moving and text.lstrip().upper().startswith(("CREATE", "ALTER", "INSERT", "UPDATE", "DROP")):
        seen += 1
        if where.isdigit() and seen == int(where):
            end()

real = revisions.migrate

def migrate(*arguments, **named):
    global moving
    moving = arguments[0].startswith("postgresql") == url.startswith("postgresql")  # not the making of the backup
    if moving and where == "commit":
        sa.event.listen(sa.engine.Engine, "commit", lambda connection: end())
    real(*arguments, **named)

revisions.migrate = migrate
if where == "backup":
    backups._to_disk = lambda path: end()
settings = load_settings(folder, {"FLEET_DATA_DIR": str(folder / "data"), "FLEET_STORE_URL": url})
Storage(settings, FakeClock()).open()
"""


def killed(folder: Path, url: str, where: str) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-c", SCRIPT, str(folder), url, where]
    return subprocess.run(arguments, cwd=ROOT, check=False, capture_output=True, text=True, timeout=120)


def goes_on(folder: Path, url: str) -> None:
    """The next start, in a process that is not killed: it moves the schema up, and the rows are there."""
    settings = load_settings(folder, {"FLEET_DATA_DIR": str(folder / "data"), "FLEET_STORE_URL": url})
    clock = FakeClock()
    clock.advance(60)
    storage = Storage(settings, clock)
    assert storage.schema()["schema"] == OLD
    store, backup = storage.open()
    assert backup is not None
    assert storage.schema()["schema"] == HEAD
    counts_on(store)
    store.close()
    kept = sorted((folder / "data" / FOLDER).glob("*.backup"))
    assert backup in kept
    assert {read_manifest(one).revision for one in kept if one.stat().st_size} == {OLD}


def folder_of(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir(mode=0o700)
    return tmp_path


@pytest.mark.req("RUN-13")
@pytest.mark.parametrize("where", ["20", "commit"])
def test_on_sqlite_a_killed_migration_leaves_the_store_and_the_backup_whole(tmp_path: Path, where: str) -> None:
    folder = folder_of(tmp_path)
    path = folder / "data" / FILE
    migrated_sqlite(path, OLD)
    connection = sqlite3.connect(path)
    older(connection.execute)
    connection.commit()
    connection.close()
    assert killed(folder, str(path), where).returncode == -9
    connection = sqlite3.connect(path)
    assert connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone() == (OLD,)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    [backup] = (folder / "data" / FOLDER).glob("*.backup")
    assert read_manifest(backup).tables["approvals"].rows == 1
    goes_on(folder, str(path))


@pytest.mark.req("RUN-13")
@pytest.mark.needs("postgresql")
@pytest.mark.parametrize("where", ["20", "commit"])
def test_on_postgresql_a_killed_migration_leaves_the_store_and_the_backup_whole(tmp_path, postgresql, where):
    folder, url = folder_of(tmp_path), postgresql.url(postgresql.empty_database())
    migrated_postgresql(url, OLD)
    with psycopg.connect(url) as connection:
        older(lambda statement: connection.execute(statement.encode()))
    assert killed(folder, url, where).returncode == -9
    with psycopg.connect(url) as connection:
        assert connection.execute(f"SELECT version_num FROM {VERSION_TABLE}".encode()).fetchone() == (OLD,)
    [backup] = (folder / "data" / FOLDER).glob("*.backup")
    assert read_manifest(backup).tables["approvals"].rows == 1
    goes_on(folder, url)


@pytest.mark.req("RUN-13")
def test_a_process_killed_while_it_writes_the_backup_has_changed_nothing_and_the_torso_is_no_backup(tmp_path) -> None:
    folder = folder_of(tmp_path)
    path = folder / "data" / FILE
    migrated_sqlite(path, OLD)
    connection = sqlite3.connect(path)
    older(connection.execute)
    connection.commit()
    connection.close()
    assert killed(folder, str(path), "backup").returncode == -9
    [torso] = (folder / "data" / FOLDER).glob("*.backup")
    with pytest.raises(Misconfigured, match="is no backup"):
        read_manifest(torso)
    goes_on(folder, str(path))
