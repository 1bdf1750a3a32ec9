"""Output goes to plain files, rotated by copying under whoever writes to them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fleetwarden.adapters.substrates.process.logs import Logs
from fleetwarden.adapters.system import SystemClock
from fleetwarden.domain.errors import Misconfigured
from tests.unit.process.yard import Yard, eventually, python


def logs(folder: Path, **options) -> Logs:
    settings = {"bytes_max": 4096, "kept": 3, "interval_s": 3600.0} | options
    made = Logs(SystemClock(), folder, **settings)
    folder.mkdir(exist_ok=True)
    return made


def write(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_file_below_its_size_is_left_alone(tmp_path: Path) -> None:
    made = logs(tmp_path)
    write(made.path("web", 0), "x" * 4096)
    assert made.rotate() == 0
    assert [path.name for path in tmp_path.iterdir()] == ["web-0.log"]


def test_so_many_files_are_kept_and_the_oldest_goes(tmp_path: Path) -> None:
    made = logs(tmp_path)
    path = made.path("web", 0)
    for turn in range(5):
        write(path, f"{turn}" * 5000)
        assert made.rotate() == 1
    assert path.read_text() == ""
    kept = {one.name: one.read_text()[0] for one in tmp_path.iterdir() if one.suffix != ".log"}
    assert kept == {"web-0.log.1": "4", "web-0.log.2": "3", "web-0.log.3": "2"}


def test_a_writer_in_append_mode_goes_on_at_the_new_beginning(tmp_path: Path) -> None:
    made = logs(tmp_path)
    path = made.path("web", 0)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, b"a" * 5000)
        made.rotate()
        os.write(descriptor, b"b\n")
    finally:
        os.close(descriptor)
    assert path.read_text() == "b\n"


def test_one_file_that_cannot_be_rotated_does_not_keep_the_others_from_it(tmp_path: Path) -> None:
    made = logs(tmp_path)
    (tmp_path / ".aaa-0.log.copy").mkdir()  # the copy has nowhere to go
    for name in ("aaa", "zzz"):
        write(made.path(name, 0), "x" * 5000)
    assert made.rotate() == 1
    assert made.path("aaa", 0).stat().st_size == 5000
    assert made.path("zzz", 0).stat().st_size == 0


def test_services_whose_names_look_alike_have_files_of_their_own(tmp_path: Path) -> None:
    made = logs(tmp_path)
    slots = [("web", 1), ("web-1", 0), ("web-1", 1), ("web", 10), ("web.log", 1), ("web-0.log", 0)]
    assert len({made.path(*slot) for slot in slots}) == len(slots)


@pytest.mark.parametrize(("bytes_max", "kept"), [(0, 3), (4096, 0), (4096, 101)])
def test_a_rotation_that_makes_no_sense_is_refused(tmp_path: Path, bytes_max: int, kept: int) -> None:
    with pytest.raises(Misconfigured):
        Logs(SystemClock(), tmp_path, bytes_max=bytes_max, kept=kept)


WRITER = python(
    """
import os, time
for number in range(20000):
    os.write(1, b"line %06d\\n" % number)
    if number % 100 == 0:
        time.sleep(0.002)
os.write(2, b"done\\n")
time.sleep(600)
"""
)


def test_twenty_thousand_lines_survive_rotation_under_writing(tmp_path: Path) -> None:
    yard = Yard(tmp_path, log_bytes_max=32 * 1024, logs_kept=100)
    try:
        service = yard.service(command=WRITER)
        yard.start(service)
        path = yard.substrate.logs.path("web", 0)
        turns = 0

        def all_written() -> bool:
            nonlocal turns
            turns += yard.substrate.logs.rotate()
            return path.read_text().endswith("done\n")

        eventually(all_written, "the writer is done")
        yard.substrate.logs.close()
        found = [line for one in tmp_path.joinpath("logs").iterdir() for line in one.read_text().splitlines()]
        numbers = sorted(int(line[5:]) for line in found if len(line) == 11 and line.startswith("line "))
        assert turns >= 3
        assert len(numbers) == len(set(numbers)), "no line twice"
        # Between the last copy and the cut lines can be lost: a burst at each turn, where the machine is
        # so busy that the two are apart; never a stretch of the file.
        assert len(numbers) >= 20_000 - 100 * turns
    finally:
        yard.close()
