"""What a process leaves behind, read from its file before it is ended."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fleetwarden.adapters.deadlines import DeadlineEvidence
from fleetwarden.adapters.substrates.process.evidence import tail
from fleetwarden.domain.errors import Retryable
from fleetwarden.ports.evidence import EvidenceSource
from tests.unit.process.yard import Yard, eventually, pid_of

SHOUTING = ("sh", "-c", 'i=0; while [ $i -lt 300 ]; do echo "line $i of {index}"; i=$((i+1)); done; exec sleep 600')


@pytest.mark.req("ACT-6")
def test_each_replica_with_its_last_lines_and_how_it_stood(yard: Yard) -> None:
    service = yard.service(command=SHOUTING, replicas=2, version="1.0")
    seen = yard.start(service)
    eventually(lambda: "line 299" in yard.log(service, 0) and "line 299" in yard.log(service, 1))
    os.kill(pid_of(seen, 1), signal.SIGKILL)
    eventually(lambda: yard.see(service).existing == 1)
    source = yard.substrate.evidence
    assert isinstance(source, EvidenceSource)
    alive, gone = source.capture(service, None, lines_max=100, bytes_max=16_384)
    assert (alive.id, alive.status, alive.pid, alive.version, alive.ended) == ("0", "alive", pid_of(seen, 0), "1.0", "")
    assert alive.lines == tuple(f"line {number} of 0" for number in range(200, 300))
    assert alive.cut
    assert (gone.id, gone.status, gone.pid) == ("1", "gone", pid_of(seen, 1))
    assert "SIGKILL" in gone.ended
    assert gone.lines[-1] == "line 299 of 1"
    [one] = source.capture(service, frozenset({"1"}), lines_max=3, bytes_max=16_384)
    assert one.lines == tuple(f"line {number} of 1" for number in range(297, 300))


@pytest.mark.req("ACT-6")
def test_what_was_rotated_a_moment_ago_is_still_read(yard: Yard) -> None:
    service = yard.service(command=("sh", "-c", "echo before; exec sleep 600"))
    yard.start(service)
    path = yard.substrate.logs.path("web", 0)
    eventually(lambda: "before" in yard.log(service))
    path.rename(path.with_name(f"{path.name}.1"))
    path.write_text("after\n", encoding="utf-8")
    [one] = yard.substrate.evidence.capture(service, None, lines_max=100, bytes_max=16_384)
    assert (one.lines, one.cut) == (("before", "after"), False)


@pytest.mark.req("ACT-6")
def test_a_service_that_never_ran_leaves_nothing(yard: Yard) -> None:
    assert list(yard.substrate.evidence.capture(yard.service(), None, lines_max=9, bytes_max=999)) == []


@pytest.mark.parametrize(
    ("body", "lines", "size", "kept", "cut"),
    [
        (b"", 9, 99, (), False),
        (b"a\nb\nc", 9, 99, ("a", "b", "c"), False),
        (b"a\nb\nc\n", 2, 99, ("b", "c"), True),
        (b"aaaa\nbbbb\ncccc\n", 9, 12, ("bbbb", "cccc"), True),
        (b"x" * 100, 9, 10, ("x" * 10,), True),
        (b"\xff\xfe bad\n", 9, 99, ("�� bad",), False),
        (b"a\nb\n", 0, 99, (), True),
        (b"a\nb\n", 9, 0, (), True),
    ],
)
def test_only_the_end_is_read(
    tmp_path: Path, body: bytes, lines: int, size: int, kept: tuple[str, ...], cut: bool
) -> None:
    path = tmp_path / "log"
    path.write_bytes(body)
    assert tail(path, lines, size) == (kept, cut)


def test_a_file_that_cannot_be_read_has_no_lines(tmp_path: Path) -> None:
    assert tail(tmp_path / "none", 9, 99) == ((), False)
    assert tail(tmp_path, 9, 99) == ((), False)


@pytest.mark.req("ACT-6")
def test_a_capture_that_hangs_is_given_up(yard: Yard) -> None:
    from threading import Event

    release = Event()

    class Hanging:
        substrate = "process"

        def capture(self, *_: object, **__: object) -> list[object]:
            release.wait(60)
            return []

    source = DeadlineEvidence(yard.clock, Hanging(), bound_s=0.05, abandoned_max=1)  # type: ignore[arg-type]
    with pytest.raises(Retryable, match="could not be read within"):
        source.capture(yard.service(), None, lines_max=1, bytes_max=1)
    with pytest.raises(Retryable, match="are hanging"):
        source.capture(yard.service(), None, lines_max=1, bytes_max=1)
    release.set()
    eventually(lambda: not source._abandoned)
    assert list(source.capture(yard.service(), None, lines_max=1, bytes_max=1)) == []
