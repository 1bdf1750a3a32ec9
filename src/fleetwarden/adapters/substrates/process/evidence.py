"""What a process leaves behind: its last lines, and how it stood, read before it is ended.

The output of an instance is a plain file that outlives it, but not for long: the next instance writes to the same one,
and rotation takes it away.  Only the end of the file is read, whatever its size, so that this costs the same for a
service that has been shouting for a year.  It changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fleetwarden.adapters.substrates.process.census import SlotView
from fleetwarden.adapters.substrates.process.logs import Logs
from fleetwarden.adapters.substrates.process.supervisor import Supervisor
from fleetwarden.domain.fleet import Service
from fleetwarden.ports.evidence import InstanceEvidence

__all__ = ["ProcessEvidence", "tail"]


class ProcessEvidence:
    """EvidenceSource of substrate `process`."""

    substrate = "process"

    def __init__(self, supervisor: Supervisor, logs: Logs) -> None:
        self._supervisor = supervisor
        self._logs = logs

    def capture(
        self, service: Service, only: frozenset[str] | None, *, lines_max: int, bytes_max: int
    ) -> Sequence[InstanceEvidence]:
        """See EvidenceSource.  A file that was rotated a moment ago is continued with the newest of the kept ones."""
        census = self._supervisor.census(service.name, self._supervisor.table())
        return [
            self._one(service.name, slot, lines_max, bytes_max)
            for slot in census.slots
            if only is None or str(slot.index) in only
        ]

    def _one(self, service: str, slot: SlotView, lines_max: int, bytes_max: int) -> InstanceEvidence:
        lines, cut = self._lines(service, slot.index, lines_max, bytes_max)
        record, leader = slot.record, slot.leader
        recorded = record if record is not None and (slot.is_recorded or leader is None) else None
        pid = leader.pid if leader is not None else (record.pid or None if record is not None else None)
        return InstanceEvidence(
            id=str(slot.index),
            status="alive" if leader is not None else "gone",
            pid=pid,
            version=recorded.version if recorded is not None else "",
            started_at=recorded.started_at if recorded is not None else None,
            ended="" if leader is not None else self._supervisor.how_ended(slot),
            lines=lines,
            cut=cut,
        )

    def _lines(self, service: str, index: int, lines_max: int, bytes_max: int) -> tuple[tuple[str, ...], bool]:
        path = self._logs.path(service, index)
        lines, cut = tail(path, lines_max, bytes_max)
        if not cut and len(lines) < lines_max:
            used = sum(len(line.encode()) + 1 for line in lines)
            older, cut = tail(path.with_name(f"{path.name}.1"), lines_max - len(lines), bytes_max - used)
            lines = older + lines
        return lines, cut


def tail(path: Path, lines_max: int, bytes_max: int) -> tuple[tuple[str, ...], bool]:
    """The last whole lines of a file, oldest first, and whether there is more; nothing for one that cannot be read.

    At most `lines_max` lines in `bytes_max` bytes; a single line that is longer keeps its end.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            begin = max(0, size - max(0, bytes_max))
            file.seek(begin)
            body = file.read(size - begin)
    except OSError:
        return (), False
    lines = body.decode("utf-8", errors="replace").splitlines()
    if begin > 0 and len(lines) > 1:
        lines = lines[1:]  # the first one is half a line
    kept = lines[-lines_max:] if lines_max > 0 else []
    return tuple(kept), begin > 0 or len(kept) < len(lines)
