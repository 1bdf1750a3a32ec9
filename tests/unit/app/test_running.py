"""The data folder: whose it is, who answers for it now, and the secret that lies in it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from fleetwarden.app import running
from fleetwarden.app.settings import Settings, load_settings
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.store.ownership import Ownership
from fleetwarden.testing import FakeClock


def settings_in(folder: Path, **environ: str) -> Settings:
    return load_settings(None, environ, working_dir=folder)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_data_folder_is_its_owners(tmp_path: Path) -> None:
    folder = running.prepare_data_folder(settings_in(tmp_path))
    assert folder == tmp_path / ".fleetwarden"
    assert mode_of(folder) == 0o700


def test_one_that_exists_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / ".fleetwarden").mkdir(mode=0o750)
    (tmp_path / ".fleetwarden").chmod(0o750)
    running.prepare_data_folder(settings_in(tmp_path))
    assert mode_of(tmp_path / ".fleetwarden") == 0o750


def test_what_stands_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / ".fleetwarden").write_text("")
    with pytest.raises(Misconfigured, match="cannot be made") as caught:
        running.prepare_data_folder(settings_in(tmp_path))
    assert "FLEET_DATA_DIR" in caught.value.hint


def test_a_token_is_kept_whole_for_its_owner_only(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    running.prepare_data_folder(settings)
    old_mask = os.umask(0)
    try:
        file = running.keep_token(settings, "fw_one")
        running.keep_token(settings, "fw_two")
    finally:
        os.umask(old_mask)
    assert mode_of(file) == 0o600
    assert running.kept_token(settings) == "fw_two"
    assert [one.name for one in file.parent.iterdir()] == ["admin.token"]


def test_no_token_is_none_and_one_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    running.prepare_data_folder(settings)
    assert running.kept_token(settings) is None
    running.token_file(settings).write_text("\n")
    assert running.kept_token(settings) is None
    running.token_file(settings).unlink()
    running.token_file(settings).mkdir()
    with pytest.raises(Misconfigured, match="cannot be read"):
        running.kept_token(settings)


def test_a_token_can_be_forgotten_twice(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    running.prepare_data_folder(settings)
    running.keep_token(settings, "fw_one")
    running.forget_token(settings)
    running.forget_token(settings)
    assert running.kept_token(settings) is None


def test_nobody_runs_where_no_lock_is_held(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    assert running.running_plane(settings) is None
    running.prepare_data_folder(settings)
    ownership = Ownership(running.database_file(settings) or tmp_path, FakeClock().now())
    ownership.announce("http://127.0.0.1:1")
    found = running.running_plane(settings)
    assert found is not None
    assert (found.pid, found.url) == (os.getpid(), "http://127.0.0.1:1")
    ownership.release()
    assert running.running_plane(settings) is None


class ServerStore:
    """A store without a lock of its own."""


def test_a_store_that_is_a_server_is_announced_by_a_lock_in_the_data_folder(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, FLEET_STORE_URL="postgresql://db.example/fleet")
    assert running.database_file(settings) is None
    running.prepare_data_folder(settings)
    first = running.Announcement(settings, ServerStore(), FakeClock())
    first.announce("http://127.0.0.1:1")
    second = running.Announcement(settings, ServerStore(), FakeClock())
    second.announce("http://127.0.0.1:2")
    assert (first.taken, second.taken) == (True, False)
    found = running.running_plane(settings)
    assert found is not None
    assert found.url == "http://127.0.0.1:1"
    second.release()
    first.release()
    assert running.running_plane(settings) is None


def test_a_store_with_a_lock_announces_in_it(tmp_path: Path) -> None:
    class Locked:
        said = ""

        def announce(self, url: str, config: str) -> None:
            self.said = f"{url} {config}"

    store = Locked()
    announcement = running.Announcement(settings_in(tmp_path), store, FakeClock())
    announcement.announce("http://127.0.0.1:1")
    announcement.release()
    assert store.said == f"http://127.0.0.1:1 {tmp_path.resolve() / 'fleet'}"
