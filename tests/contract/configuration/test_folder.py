"""The configuration folder on a real disk: what it reads, what it keeps when a file goes bad, and what it refuses."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from threading import Event

import pytest

from fleetwarden.adapters.files.documents import read_document, read_tree
from fleetwarden.adapters.files.folder import ConfigurationFolder
from fleetwarden.domain.errors import Misconfigured, Problem
from fleetwarden.domain.identifiers import digest
from fleetwarden.domain.policy_document import SHIPPED
from fleetwarden.testing.system import START, FakeClock

FLEET = "version: 1\nservices: [{name: web}]\n"
POLICY = "version: 1\nrules: [{kind: restart_service, target: web, tier: auto}]\n"


class WritingClock(FakeClock):
    """A clock during whose pauses somebody writes to files."""

    def __init__(self, *writes: tuple[Path, str]) -> None:
        super().__init__()
        self.writes = list(writes)

    def wait(self, event: Event, timeout_s: float) -> bool:
        if self.writes:
            path, text = self.writes.pop(0)
            path.write_text(text)
        return super().wait(event, timeout_s)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fleet.yml").write_text(FLEET)
    return tmp_path


def source(
    folder: Path,
    clock: FakeClock | None = None,
    *,
    registry: Path | None = None,
    override: Path | None = None,
    policy: Path | None = None,
) -> ConfigurationFolder:
    return ConfigurationFolder(
        clock or FakeClock(),
        registry=registry or folder / "fleet.yml",
        override=override,
        policy=policy,
        folder=folder,
        freeze_folders=(folder,),
    )


# ------------------------------------------------------------------------------------------------ the fleet
def test_the_fleets_digest_is_that_of_the_files_bytes_and_moves_with_the_override(folder: Path) -> None:
    files = source(folder)
    assert files.current().fleet.digest == digest(FLEET.encode())
    (folder / "desired-state.yml").write_text("version: 1\nservices: [{name: web, replicas: 3}]\n")
    assert files.refresh() is True
    assert files.current().fleet.digest not in (digest(FLEET.encode()), "")
    assert files.current().fleet.services["web"].replicas == 3


@pytest.mark.req("REC-2")
def test_the_folders_override_layer_is_optional_and_may_be_taken_away(folder: Path) -> None:
    override = folder / "desired-state.yml"
    override.write_text("version: 1\nservices: [{name: web, desired: stopped}]\n")
    files = source(folder)
    assert files.current().fleet.services["web"].wanted == 0
    override.unlink()
    assert files.refresh() is True
    assert files.current().fleet.services["web"].wanted == 1


@pytest.mark.req("REC-2")
def test_an_override_layer_that_was_asked_for_has_to_be_there(folder: Path) -> None:
    files = source(folder, override=folder / "layer.yml")
    assert files.current().fleet.error
    assert files.current().fleet.problems == (Problem("layer.yml", 0, "does not exist"),)


@pytest.mark.req("REC-2")
@pytest.mark.parametrize("text", ["services: [", "version: 1\nservices: {}\n", "", "\x00"])
def test_an_override_that_cannot_be_read_is_never_passed_over(folder: Path, text: str) -> None:
    files = source(folder)
    (folder / "desired-state.yml").write_text(text)
    assert files.refresh() is True
    assert files.current().fleet.error
    assert not files.current().fleet.services
    assert list(files.current().last_good_fleet.services) == ["web"]


@pytest.mark.req("REC-2")
def test_a_missing_registry_is_an_error_at_the_first_start_and_later(folder: Path) -> None:
    files = source(folder)
    (folder / "fleet.yml").unlink()
    assert files.refresh() is True
    again = source(folder)
    for one in (files, again):
        assert one.current().fleet.error
        assert one.current().fleet.problems == (Problem("fleet.yml", 0, "does not exist"),)
    assert list(files.current().last_good_fleet.services) == ["web"]
    assert not again.current().last_good_fleet.services


def test_problems_of_both_layers_are_told_together(folder: Path) -> None:
    (folder / "fleet.yml").write_text("a: [")
    (folder / "desired-state.yml").write_text("a:\n\t- b")
    assert [(one.file, one.line) for one in source(folder).current().fleet.problems] == [
        ("desired-state.yml", 2),
        ("fleet.yml", 1),
    ]


def test_files_outside_the_folder_are_named_with_their_whole_path(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "services.yml"
    elsewhere.write_text("version: 1\nservices: [{name: web, process: {command: [x], cwd: app}}]\n")
    fleet = source(folder, registry=elsewhere).current().fleet
    assert fleet.services["web"].source == f"{elsewhere}:2"
    assert fleet.services["web"].process is not None
    assert fleet.services["web"].process.cwd == str(folder / "app")


@pytest.mark.req("AUT-25")
def test_a_scaling_block_that_goes_bad_holds_even_across_an_unreadable_file(folder: Path) -> None:
    registry = folder / "fleet.yml"
    registry.write_text("version: 1\nservices: [{name: web, scaling: {max: 3, signal: cpu, target: 5}}]\n")
    files = source(folder)
    for text in ("version: [", "version: 1\nservices: [{name: web, scaling: {max: 3}}]\n"):
        registry.write_text(text)
        assert files.refresh() is True
    web = files.current().fleet.services["web"]
    assert web.scaling is not None
    assert web.scaling_error is not None


# ------------------------------------------------------------------------------------------------ reading again
@pytest.mark.req("REC-14")
def test_content_counts_and_times_of_files_do_not(folder: Path) -> None:
    registry = folder / "fleet.yml"
    files = source(folder)
    before = files.current()
    registry.write_text(FLEET)
    os.utime(registry, ns=(1, 1))
    assert files.refresh() is False
    times = registry.stat()
    registry.write_text(FLEET.replace("web", "api"))
    os.utime(registry, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert files.refresh() is True
    assert list(files.current().fleet.services) == ["api"]
    assert list(before.fleet.services) == ["web"]


def test_a_snapshot_says_when_it_was_taken(folder: Path) -> None:
    clock = FakeClock()
    files = source(folder, clock)
    clock.advance(60)
    assert files.refresh() is False
    assert files.current().loaded_at == START
    (folder / "policy.yml").write_text(POLICY)
    files.refresh()
    assert files.current().loaded_at >= START + 60_000_000


@pytest.mark.req("REC-2", "REC-14")
def test_the_first_half_of_a_file_is_not_taken_for_the_whole(folder: Path) -> None:
    registry = folder / "fleet.yml"
    whole = "version: 1\nservices:\n- name: web\n- name: worker\n- name: db\n"
    clock = WritingClock((registry, whole[:35]), (registry, whole))
    files = source(folder, clock)
    registry.write_text(whole[:25])
    assert files.refresh() is True
    assert list(files.current().fleet.services) == ["web", "worker", "db"]


@pytest.mark.req("REC-14")
def test_the_gap_in_which_an_editor_replaces_a_file_is_no_removal(folder: Path) -> None:
    override = folder / "desired-state.yml"
    text = "version: 1\nservices: [{name: web, desired: stopped}]\n"
    override.write_text(text)
    files = source(folder, WritingClock((override, text)))
    override.unlink()
    assert files.refresh() is False
    assert files.current().fleet.services["web"].wanted == 0


def test_a_file_that_never_stands_still_is_an_unreadable_one(folder: Path) -> None:
    registry = folder / "fleet.yml"
    clock = WritingClock(*((registry, f"{FLEET}# {n}\n") for n in range(100)))
    files = source(folder, clock)
    registry.write_text(FLEET + "# and more\n")
    assert files.refresh() is True
    assert "does not stand still" in files.current().fleet.error
    assert list(files.current().last_good_fleet.services) == ["web"]
    clock.writes.clear()
    assert files.refresh() is True
    assert files.current().fleet.error == ""


def test_many_threads_may_ask_at_once_and_a_change_is_told_once(folder: Path) -> None:
    files = source(folder)
    (folder / "fleet.yml").write_text(FLEET.replace("web", "api"))
    told: list[bool] = []
    threads = [threading.Thread(target=lambda: told.append(files.refresh())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == [False] * 7 + [True]
    assert list(files.current().fleet.services) == ["api"]


# ------------------------------------------------------------------------------------------------ the policy
@pytest.mark.req("POL-4", "POL-14")
def test_without_a_policy_file_the_shipped_default_is_in_force_without_complaint(folder: Path) -> None:
    now = source(folder).current()
    assert now.policy is SHIPPED
    assert now.policy_problems == ()


@pytest.mark.req("POL-14")
def test_a_bad_policy_at_the_first_start_leaves_the_shipped_default_in_force(folder: Path) -> None:
    (folder / "policy.yml").write_text("version: 1\nrules:\n- {kind: restart_service, teir: auto}\n")
    now = source(folder).current()
    assert now.policy is SHIPPED
    assert [(one.file, one.line) for one in now.policy_problems] == [("policy.yml", 3)] * len(now.policy_problems)
    assert any("did you mean 'tier'" in one.reason for one in now.policy_problems)


@pytest.mark.req("POL-14")
@pytest.mark.parametrize("text", ["rules: [", POLICY.replace("auto", "atuo"), "", "\x00", "[]"])
def test_a_policy_that_goes_bad_leaves_the_last_good_one_in_force(folder: Path, text: str) -> None:
    policy = folder / "policy.yml"
    policy.write_text(POLICY)
    files = source(folder)
    good = files.current().policy
    assert good.digest == digest(POLICY.encode())
    policy.write_text(text)
    assert files.refresh() is True
    assert files.current().policy is good
    assert files.current().policy_problems
    policy.write_text(POLICY + "# mended\n")
    assert files.refresh() is True
    assert files.current().policy.digest == digest(f"{POLICY}# mended\n".encode())
    assert files.current().policy_problems == ()


@pytest.mark.req("POL-14")
def test_a_policy_that_is_taken_away_while_running_stays_in_force_and_says_so(folder: Path) -> None:
    policy = folder / "policy.yml"
    policy.write_text(POLICY)
    files = source(folder)
    good = files.current().policy
    policy.unlink()
    assert files.refresh() is True
    assert files.current().policy is good
    reason = "does not exist: the policy last read from it is in force"
    assert files.current().policy_problems == (Problem("policy.yml", 0, reason),)


@pytest.mark.req("POL-14")
def test_a_policy_that_was_asked_for_and_is_missing_is_named(folder: Path) -> None:
    now = source(folder, policy=folder / "mine.yml").current()
    assert now.policy is SHIPPED
    assert now.policy_problems == (Problem("mine.yml", 0, "does not exist: the shipped default is in force"),)


def test_a_bad_registry_does_not_touch_the_policy_and_the_other_way_round(folder: Path) -> None:
    (folder / "policy.yml").write_text(POLICY)
    files = source(folder)
    before = files.current()
    (folder / "fleet.yml").write_text("[")
    files.refresh()
    assert files.current().policy is before.policy
    (folder / "fleet.yml").write_text(FLEET)
    (folder / "policy.yml").write_text("[")
    files.refresh()
    assert files.current().fleet == before.fleet


# ------------------------------------------------------------------------------------------------ files without effect
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("notify.yaml", "is not read (did you mean notify.yml?)"),
        ("fleet.yaml", "is not read (did you mean fleet.yml?)"),
        ("policy.yaml", "is not read (did you mean policy.yml?)"),
        ("desired_state.yml", "is not read (did you mean desired-state.yml?)"),
    ],
)
def test_a_file_that_has_no_effect_is_named(folder: Path, name: str, reason: str) -> None:
    (folder / name).write_text("anything: 1\n")
    assert source(folder).current().fleet.warnings == (Problem(name, 0, reason),)


def test_a_file_that_appears_later_is_named_by_the_next_refresh(folder: Path) -> None:
    files = source(folder)
    (folder / "notify.yaml").touch()
    assert files.refresh() is True
    assert [one.file for one in files.current().fleet.warnings] == ["notify.yaml"]


def test_files_of_others_are_their_own_affair(folder: Path) -> None:
    for name in ("docker-compose.yml", "README.md", "fleet.yml.orig", "values.yaml"):
        (folder / name).touch()
    assert source(folder).current().fleet.warnings == ()


def test_the_folders_policy_is_named_when_the_settings_chose_another(folder: Path) -> None:
    (folder / "policy.yml").write_text(POLICY)
    (folder / "mine.yml").write_text(POLICY)
    now = source(folder, policy=folder / "mine.yml").current()
    assert now.fleet.warnings == (Problem("policy.yml", 0, "is not read: the settings name another file"),)


# ------------------------------------------------------------------------------------------------ FREEZE
@pytest.mark.req("POL-12")
def test_a_freeze_file_in_either_folder_freezes(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    data = tmp_path_factory.mktemp("data")
    files = ConfigurationFolder(FakeClock(), registry=folder / "fleet.yml", freeze_folders=(folder, data))
    for place in (folder, data):
        (place / "FREEZE").write_text("lunch")
        assert files.freeze_file() == str(place / "FREEZE")
        (place / "FREEZE").unlink()
    assert files.freeze_file() == ""


@pytest.mark.req("POL-12")
def test_a_freeze_file_is_a_change_of_the_snapshot_too(folder: Path) -> None:
    files = source(folder)
    (folder / "FREEZE").mkdir()
    assert files.refresh() is True
    assert files.current().freeze_file == str(folder / "FREEZE")
    (folder / "FREEZE").rmdir()
    assert files.refresh() is True
    assert files.current().freeze_file == ""


@pytest.mark.req("POL-12")
def test_a_link_that_leads_nowhere_freezes_as_well(folder: Path) -> None:
    (folder / "FREEZE").symlink_to(folder / "nowhere")
    assert source(folder).freeze_file() == str(folder / "FREEZE")


@pytest.mark.req("POL-12")
def test_a_folder_that_cannot_be_looked_into_counts_as_frozen(folder: Path) -> None:
    (folder / "data").write_text("no folder")
    files = ConfigurationFolder(FakeClock(), registry=folder / "fleet.yml", freeze_folders=(folder / "data",))
    assert "cannot be looked for" in files.freeze_file()


@pytest.mark.req("POL-12")
def test_a_folder_that_vanishes_counts_as_frozen_and_one_that_never_was_does_not(folder: Path) -> None:
    data = folder / "data"
    files = ConfigurationFolder(FakeClock(), registry=folder / "fleet.yml", freeze_folders=(data,))
    assert files.freeze_file() == ""
    data.mkdir()
    assert files.freeze_file() == ""
    data.rmdir()
    assert "the folder is gone" in files.freeze_file()


# ------------------------------------------------------------------------------------------------ single files
def test_a_file_that_the_system_refuses_is_unreadable_and_says_why(folder: Path) -> None:
    (folder / "fleet.yml").unlink()
    (folder / "fleet.yml").symlink_to(folder / "fleet.yml")
    assert "cannot be read: Too many levels of symbolic links" in source(folder).current().fleet.error


def test_a_file_that_is_written_while_it_is_read_is_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "fleet.yml"
    writes = iter(["version: 1\nservices: [{name: a}]\n", "version: 1\nservices: [{name: a}, {name: b}]\n"])
    look = os.fstat

    def look_and_let_write(descriptor: int) -> os.stat_result:
        seen = look(descriptor)
        if text := next(writes, ""):
            path.write_text(text)
        return seen

    monkeypatch.setattr("fleetwarden.adapters.files.documents.os.fstat", look_and_let_write)
    assert read_document(path, "fleet.yml").data == b"version: 1\nservices: [{name: a}, {name: b}]\n"


def test_a_file_that_is_always_being_written_is_unreadable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "fleet.yml"
    look = os.fstat

    def look_and_let_write(descriptor: int) -> os.stat_result:
        with path.open("a") as file:
            file.write("#")
        return look(descriptor)

    monkeypatch.setattr("fleetwarden.adapters.files.documents.os.fstat", look_and_let_write)
    assert read_document(path, "fleet.yml").problem.startswith("changed during each of 5 readings")


def test_a_pipe_is_refused_instead_of_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.yml")
    assert read_document(folder / "pipe.yml", "pipe.yml").problem == "is no regular file"


def test_a_folder_in_place_of_a_file_is_refused(folder: Path) -> None:
    (folder / "policy.yml").mkdir()
    now = source(folder).current()
    assert now.policy is SHIPPED
    assert now.policy_problems == (Problem("policy.yml", 0, "is no regular file"),)


def test_a_link_to_a_file_is_read(folder: Path) -> None:
    (folder / "v1").mkdir()
    (folder / "v1" / "x.yml").write_text("a: 1")
    (folder / "x.yml").symlink_to(folder / "v1" / "x.yml")
    assert read_tree(folder / "x.yml").plain() == {"a": 1}


def test_an_absent_an_empty_and_an_unreadable_file_are_three_things(folder: Path) -> None:
    (folder / "empty.yml").touch()
    absent = read_document(folder / "absent.yml", "absent.yml")
    empty = read_document(folder / "empty.yml", "empty.yml")
    unreadable = read_document(folder, "folder")
    assert [one.exists for one in (absent, empty, unreadable)] == [False, True, True]
    assert len({one.fingerprint for one in (absent, empty, unreadable)}) == 3
    assert empty.tree().plain() == {}
    for one in (absent, unreadable):
        with pytest.raises(Misconfigured):
            one.tree()
