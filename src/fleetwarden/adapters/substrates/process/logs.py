"""Output of instances: plain files that a process writes to by itself, rotated by copying.

Standard output and error go straight to an append-mode file.  A pipe would tie every service to the plane's life: once
the reader is gone, the next line is a SIGPIPE.  Because the process keeps its descriptor for ever, a file is rotated by
copying it and cutting the original to nothing; append mode makes the next line start at the new beginning.  What is
written between the last copy and the cut is lost; the copy is repeated until it has caught up, so that this is a matter
of microseconds and not of a whole file.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from threading import Event, Lock, Thread
from typing import BinaryIO

import structlog

from fleetwarden.domain.errors import Misconfigured
from fleetwarden.ports.system import Clock

__all__ = ["Logs"]

log = structlog.get_logger(__name__)
_CATCH_UP_ROUNDS_MAX = 10
_CHUNK_BYTES = 1 << 20


class Logs:
    """Log files in one folder, `<service>-<index>.log`, with `.1` the newest of the kept ones.

    `bytes_max` (at least 1024): a file that is larger is rotated, looked at every `interval_s`, so that a fast writer
    can overshoot.  `kept` (1 to 100): rotated files per instance; the oldest goes.
    """

    def __init__(self, clock: Clock, folder: Path, *, bytes_max: int, kept: int, interval_s: float = 1.0) -> None:
        if bytes_max < 1024 or not 1 <= kept <= 100:
            raise Misconfigured(
                f"log rotation at {bytes_max} bytes with {kept} kept files",
                hint="at least 1024 bytes, and 1 to 100 kept files",
            )
        self.folder = folder
        self._clock = clock
        self._bytes_max = bytes_max
        self._kept = kept
        self._interval_s = interval_s
        self._closing = Event()
        self._lock = Lock()
        self._failing: set[str] = set()
        self._thread: Thread | None = None

    def path(self, service: str, index: int) -> Path:
        """Where that slot's output goes, over all its restarts."""
        return self.folder / f"{service}-{index}.log"

    def ready(self) -> None:
        """Make the folder, and begin to watch sizes.  Raises OSError."""
        self.folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        with self._lock:
            if self._thread is None and not self._closing.is_set():
                self._thread = Thread(target=self._run, name="log-rotation", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop watching sizes; the files go on being written."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def rotate(self) -> int:
        """Rotate every file that is over its size; returns how many were.  One that fails is left, and told once."""
        rotated = 0
        for path in sorted(self.folder.glob("*.log")):
            try:
                if path.stat().st_size > self._bytes_max:
                    self._rotate(path)
                    rotated += 1
                self._failing.discard(path.name)
            except OSError as error:
                if path.name not in self._failing:
                    log.warning("log not rotated", file=path.name, error=str(error))
                self._failing.add(path.name)
        return rotated

    def _run(self) -> None:
        while not self._clock.wait(self._closing, self._interval_s):
            self.rotate()

    def _rotate(self, path: Path) -> None:
        """The copy takes its place among the kept files before the cut: a stop between doubles lines and loses none."""
        copy = path.with_name(f".{path.name}.copy")
        with path.open("r+b") as source, copy.open("wb") as target:
            try:
                _catch_up(source, target)
                self._shift(path, copy)
            except OSError:
                copy.unlink(missing_ok=True)
                raise
            _catch_up(source, target)
            os.ftruncate(source.fileno(), 0)

    def _shift(self, path: Path, newest: Path) -> None:
        """`.1` becomes `.2` and so on, the oldest is overwritten, the newest becomes `.1`."""
        for number in range(self._kept - 1, 0, -1):
            older = path.with_name(f"{path.name}.{number}")
            if older.exists():
                older.replace(path.with_name(f"{path.name}.{number + 1}"))
        newest.replace(path.with_name(f"{path.name}.1"))


def _catch_up(source: BinaryIO, target: BinaryIO) -> None:
    """Copy what `source` holds beyond its position until there is no more; bounded, for a writer that never rests."""
    for _ in range(_CATCH_UP_ROUNDS_MAX):
        if os.fstat(source.fileno()).st_size <= source.tell():
            break
        shutil.copyfileobj(source, target, _CHUNK_BYTES)
        target.flush()
