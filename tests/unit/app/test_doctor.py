"""The doctor on this machine: each thing that is wrong is a finding with what to do, and looking changes nothing."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from fleetwarden.app import doctor
from fleetwarden.app.offline import Offline
from fleetwarden.app.running import keep_token, prepare_data_folder, token_file
from fleetwarden.app.settings import load_settings
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.store import file_systems, sqlite_engine
from fleetwarden.store.opening import open_store
from fleetwarden.store.ownership import Ownership
from fleetwarden.testing import FakeClock


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "fleet"
    made.mkdir()
    (made / "fleet.yml").write_text("version: 1\nservices: []\n")
    (made / ".env").write_text("FLEET_DATA_DIR=data\n")
    return made


def examined(folder: Path, **environ: str) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for one in doctor.examine_here(folder, environ).findings:
        assert one.hint or one.level == "ok", one
        found.setdefault(one.check, []).append((one.level, one.told))
    return found


def with_store(folder: Path) -> None:
    settings = load_settings(folder, {})
    prepare_data_folder(settings)
    Offline(settings).close()


@pytest.mark.req("RUN-11")
def test_before_the_first_start_nothing_is_wrong_and_nothing_is_made(folder: Path) -> None:
    found = examined(folder)
    assert not [told for rows in found.values() for level, told in rows if level == "error"]
    assert found["plane"] == [("warning", "no plane runs here")]
    assert not (folder / "data").exists()


@pytest.mark.req("RUN-11")
def test_a_playbook_that_is_chosen_and_not_installed_is_a_finding(folder: Path) -> None:
    [(level, told)] = examined(folder, FLEET_PLAYBOOKS="nobody-brings-this")["playbooks"]
    assert (level, "FLEET_PLAYBOOKS" in told, "nobody-brings-this" in told) == ("error", True, True)


@pytest.mark.req("RUN-11")
def test_every_problem_of_the_settings_is_a_finding(folder: Path) -> None:
    (folder / ".env").write_text("FLEET_HTTP_PORT=port\nFLEET_RECONCILR=1\n")
    found = examined(folder)
    assert [level for level, _ in found["settings"]] == ["error", "error"]
    assert list(found) == ["settings"]


@pytest.mark.req("RUN-11")
def test_a_registry_that_cannot_be_read_and_a_freeze_file_are_named(folder: Path) -> None:
    (folder / "fleet.yml").write_text("version: [")
    (folder / "FREEZE").write_text("")
    found = examined(folder)
    assert found["configuration"][0][0] == "error"
    assert "fleet.yml" in found["configuration"][0][1]
    assert found["freeze"][0][0] == "warning"


@pytest.mark.req("RUN-11")
def test_what_others_can_read_is_named(folder: Path) -> None:
    with_store(folder)
    settings = load_settings(folder, {})
    keep_token(settings, "fw_secret")
    (folder / "data").chmod(0o755)
    token_file(settings).chmod(0o644)
    told = [told for level, told in examined(folder)["data folder"] if level == "warning"]
    assert [one.split(" can be")[0] for one in told] == [str(folder / "data"), str(token_file(settings))]


@pytest.mark.req("RUN-11")
def test_a_disk_that_fills_up_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_store(folder)
    usage = shutil.disk_usage(folder)
    for free, level in ((doctor.SPACE_WARNING - 1, "warning"), (doctor.SPACE_ERROR - 1, "error")):
        shown = usage._replace(free=free)
        monkeypatch.setattr(shutil, "disk_usage", lambda _, shown=shown: shown)
        assert examined(folder)["disk"][0][0] == level


@pytest.mark.req("RUN-11")
def test_a_closed_store_is_looked_into_and_a_held_one_is_not_opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_store(folder)
    taken: list[object] = []
    monkeypatch.setattr(sqlite_engine, "Ownership", lambda *given: taken.append(given))
    found = examined(folder)
    assert found["store"][0] == ("ok", "sqlite answers")
    assert ("error", "no admin token is valid") in found["tokens"]
    ownership = Ownership(folder / "data" / "fleetwarden.db", 1)
    try:
        found = examined(folder)
    finally:
        ownership.release()
    assert taken == []  # a plane that starts while somebody looks is not refused
    assert "tokens" not in found
    assert "holds the data folder" in found["plane"][0][1]


@pytest.mark.req("RUN-11", "RUN-13")
@pytest.mark.parametrize(("revision", "level"), [("0001", "warning"), ("9999", "error")])
def test_another_schema_is_named_and_left_alone(folder: Path, revision: str, level: str) -> None:
    with_store(folder)
    database = folder / "data" / "fleetwarden.db"
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE fleetwarden_schema SET version_num = ?", [revision])
    connection.close()
    [(found, told)] = examined(folder)["schema"]
    assert found == level
    assert revision in told
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT version_num FROM fleetwarden_schema").fetchone() == (revision,)
    connection.close()


@pytest.mark.req("RUN-11")
def test_a_server_that_does_not_answer_is_named_without_its_password(folder: Path) -> None:
    url = "postgresql://fleet:canary-secret@127.0.0.1:1/fleet"
    found = examined(folder, FLEET_STORE_URL=url)
    assert found["store"][0][0] == "error"
    assert "canary-secret" not in str(found)


MOUNTS = """\
1 0 8:1 / / rw - ext4 /dev/sda1 rw
2 1 0:30 / {share} rw - nfs4 server:/export rw
3 2 8:2 / {share}/local rw - xfs /dev/sdb1 rw
"""


@pytest.mark.req("RUN-17")
def test_sqlite_on_a_network_file_system_is_refused_at_start_and_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mounts").write_text(MOUNTS.format(share=str(folder).replace(" ", "\\040")))
    monkeypatch.setattr(file_systems, "MOUNTS", tmp_path / "mounts")
    (folder / "data").mkdir(mode=0o700)
    (folder / "local").mkdir()
    with pytest.raises(Misconfigured, match=r"network file system \(nfs4\).*local disk, or use PostgreSQL"):
        open_store(str(folder / "data" / "fleetwarden.db"), FakeClock())
    assert not list((folder / "data").iterdir())
    assert examined(folder)["store"][0][0] == "error"
    open_store(str(folder / "local" / "fleetwarden.db"), FakeClock()).close()


@pytest.mark.req("RUN-17")
def test_where_nothing_tells_what_is_mounted_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_systems, "MOUNTS", tmp_path / "none")
    assert file_systems.network_file_system(tmp_path) == ""


@pytest.mark.req("RUN-11", "SGP-8")
def test_a_rejected_signals_file_is_a_finding_and_a_good_one_is_counted(folder: Path) -> None:
    assert "signals" not in examined(folder)
    text = "signals:\n  waiting: {source: pushed, kind: queue, aggregation: fleet_total, unit: jobs}\n"
    (folder / "signals.yml").write_text(text)
    assert examined(folder)["signals"] == [("ok", "1 signal is declared")]
    (folder / "signals.yml").write_text(text.replace("kind: queue", "kind: quebe").replace("unit", "unti"))
    levels, told = zip(*examined(folder)["signals"], strict=True)
    assert set(levels) == {"error"}
    assert all(one.startswith("signals.yml:2  signals.waiting") or "unti" in one for one in told)
    assert len(told) >= 2


@pytest.mark.req("RUN-11", "RUN-14")
def test_a_rejected_events_file_is_a_finding_and_a_good_one_is_counted(folder: Path) -> None:
    assert "events" not in examined(folder)
    (folder / "events.yml").write_text("sources: {main: {kind: alertmanager}}")
    assert examined(folder)["events"] == [("ok", "1 source of events is declared")]
    (folder / "events.yml").write_text("sources: {main: {kind: alertmanger}}")
    [(level, told)] = examined(folder)["events"]
    assert level == "error"
    assert told.startswith("events.yml:1  sources.main.kind")
