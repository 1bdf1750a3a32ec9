"""The files that remember slots: whole or unreadable, never half believed."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.adapters.substrates.process.slots import (
    Emptied,
    EmptiedBy,
    ServiceFiles,
    SlotFiles,
    SlotRecord,
    SlotState,
    Unreadable,
)
from fleetwarden.domain.errors import Retryable


def record(service: str = "web", index: int = 0, **fields: object) -> SlotRecord:
    settings: dict[str, object] = {"state": SlotState.RUNNING, "key": "k1", "pid": 50, "ticks": 7, "boot": "b"}
    return SlotRecord(service=service, index=index, **(settings | fields))  # type: ignore[arg-type]


@pytest.fixture
def files(tmp_path: Path) -> SlotFiles:
    return SlotFiles(tmp_path / "processes")


def test_nothing_written_reads_as_nothing(files: SlotFiles) -> None:
    assert files.read("web") == ServiceFiles({}, None)
    assert files.services() == ()


@pytest.mark.parametrize("name", ["web", "web.v2", "web-1", "a_b.c-d", "9"])
def test_a_slot_is_read_as_it_was_written(files: SlotFiles, name: str) -> None:
    files.write(record(name, 12, version="1.0", port=9112, note="exited with code 1"))
    again = SlotFiles(files.folder)
    assert again.read(name).slots == {12: record(name, 12, version="1.0", port=9112, note="exited with code 1")}
    assert again.services() == (name,)


def test_slots_come_in_the_order_of_their_numbers(files: SlotFiles) -> None:
    for index in (10, 2, 0):
        files.write(record(index=index))
    assert list(files.read("web").slots) == [0, 2, 10]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'{"service":"web"}',
        b"\xff\xfe\x00",
        b'{"service":"web","index":0,"state":"odd","key":"k"}',
    ],
)
def test_a_file_that_says_nothing_is_unreadable_and_not_missing(files: SlotFiles, body: bytes) -> None:
    files.write(record(index=1))
    (files.folder / "web" / "0.json").write_bytes(body)
    slots = files.read("web").slots
    assert isinstance(slots[0], Unreadable)
    assert "0.json" in slots[0].reason
    assert slots[1] == record(index=1)


@given(st.integers(0, 300))
def test_any_beginning_of_a_file_is_unreadable(tmp_path_factory, length: int) -> None:
    files = SlotFiles(tmp_path_factory.mktemp("p"))
    files.write(record())
    path = files.folder / "web" / "0.json"
    body = path.read_bytes()
    path.write_bytes(body[:length])
    found = files.read("web").slots[0]
    assert found == record() if length >= len(body) else isinstance(found, Unreadable)


def test_a_file_of_another_format_is_unreadable(files: SlotFiles) -> None:
    files.write(record(format=2))
    found = files.read("web").slots[0]
    assert isinstance(found, Unreadable)
    assert "format 2" in found.reason


def test_a_file_that_was_copied_to_another_slot_is_unreadable(files: SlotFiles) -> None:
    files.write(record())
    (files.folder / "web" / "3.json").write_bytes((files.folder / "web" / "0.json").read_bytes())
    assert isinstance(files.read("web").slots[3], Unreadable)


def test_other_files_in_the_folder_are_no_slots(files: SlotFiles) -> None:
    files.write(record())
    for name in (".1.json.new", "notes.txt", "one.json", "-1.json", "1.json.bak"):
        (files.folder / "web" / name).write_text("{}")
    assert list(files.read("web").slots) == [0]


def test_a_write_that_fails_leaves_the_old_slot_whole(files: SlotFiles) -> None:
    files.write(record())
    (files.folder / "web" / ".0.json.new").mkdir()  # nothing can be written there, whoever one is
    with pytest.raises(Retryable, match="cannot be written"):
        files.write(record(pid=99))
    assert files.read("web").slots == {0: record()}


def test_an_update_sees_the_latest_record_and_may_leave_it(files: SlotFiles) -> None:
    files.write(record())
    files.update("web", 0, lambda old: msgspec.structs.replace(old, note="ended"))
    files.update("web", 0, lambda _: None)
    files.update("web", 7, lambda old: old)
    assert files.read("web").slots == {0: record(note="ended")}


@pytest.mark.req("ACT-3")
@pytest.mark.parametrize("does", ["writes", "removes"])
def test_what_another_plane_of_the_host_does_to_a_slot_is_not_undone_by_a_note(files: SlotFiles, does: str) -> None:
    """A plane notes the end of its child while the next one already plans the slot's new process, or took it away."""
    files.write(record())
    other, plan = SlotFiles(files.folder), record(key="k2", state=SlotState.SPAWNING, pid=0)
    acting = threading.Thread(target=lambda: other.write(plan) if does == "writes" else other.remove("web", 0))

    def note(old: SlotRecord) -> SlotRecord:
        acting.start()
        acting.join(0.3)  # enough for a write that waits for nobody
        return msgspec.structs.replace(old, note="ended")

    files.update("web", 0, note)
    acting.join()
    assert files.read("web").slots == ({0: plan} if does == "writes" else {})


def test_a_folder_that_a_stopped_plane_holds_is_not_waited_for_without_end(
    files: SlotFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write(record())
    monkeypatch.setattr("fleetwarden.adapters.substrates.process.slots._HELD_S", 0.05)
    descriptor = os.open(files.folder / "web", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(Retryable, match="web cannot be written: another plane of this host has held it"):
            files.write(record(pid=99))
    finally:
        os.close(descriptor)
    assert files.read("web").slots == {0: record()}
    files.write(record(pid=99))
    assert files.read("web").slots == {0: record(pid=99)}


def test_a_removed_slot_is_gone_and_removing_twice_is_no_matter(files: SlotFiles) -> None:
    files.write(record())
    files.remove("web", 0)
    files.remove("web", 0)
    files.remove("never-there", 0)
    assert files.read("web").slots == {}


def test_how_a_service_was_emptied_is_kept_and_forgotten(files: SlotFiles) -> None:
    note = Emptied(by=EmptiedBy.STOP, key="k9", at=5)
    files.write_emptied("web", note)
    assert files.read("web").emptied == note
    files.remove_emptied("web")
    assert files.read("web").emptied is None


def test_a_torn_note_of_emptiness_is_unreadable(files: SlotFiles) -> None:
    files.write_emptied("web", Emptied(by=EmptiedBy.STOP, key="k9", at=5))
    (files.folder / "web" / "emptied.json").write_text('{"by": "st')
    assert isinstance(files.read("web").emptied, Unreadable)


def test_a_folder_that_cannot_be_read_is_no_empty_service(files: SlotFiles) -> None:
    files.folder.mkdir()
    (files.folder / "web").write_text("a file where the folder should be")
    assert isinstance(files.read("web").emptied, Unreadable)


def test_two_planes_that_write_the_same_slot_never_take_each_others_half(tmp_path: Path) -> None:
    """Each has its own lock in memory; the folder's lock is what they share."""
    one, other = SlotFiles(tmp_path / "processes"), SlotFiles(tmp_path / "processes")
    problems: list[str] = []

    def write(files: SlotFiles) -> None:
        for _ in range(50):
            try:
                files.write(record())
            except Retryable as error:
                problems.append(str(error))

    threads = [threading.Thread(target=write, args=(files,)) for files in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert isinstance(one.read("web").slots[0], SlotRecord)
