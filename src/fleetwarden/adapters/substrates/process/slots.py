"""The durable memory of local processes: one small JSON file per instance slot.

A slot is written before its process is made and completed after, so that whatever stops the plane between the two
leaves a plan that names the action behind it.  Every write is a whole new file (temporary file, fsync, rename, fsync of
the folder); a reader sees the old one or the new one.  A file that cannot be read is a finding of its own: it is never
taken for a missing slot, never for a dead process, and never ends a pass.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import TypeVar

import msgspec

from fleetwarden.adapters.substrates.process.proc import ProcessId
from fleetwarden.domain.errors import Retryable
from fleetwarden.domain.identifiers import Micros

__all__ = ["Emptied", "EmptiedBy", "ServiceFiles", "SlotFiles", "SlotRecord", "SlotState", "Unreadable"]

_FORMAT = 1
_EMPTIED = "emptied.json"
_FILE_BYTES_MAX = 65536
_HELD_S = 10.0  # writing a few small files takes milliseconds
_HELD_STEP_S = 0.005
R = TypeVar("R", bound="SlotRecord | Emptied")


class SlotState(StrEnum):
    """What was being done with a slot when its file was last written.  Whether a process lives is never stored."""

    SPAWNING = "spawning"  # a process is about to be made
    RUNNING = "running"  # it was made; pid and ticks say which
    STOPPING = "stopping"  # the service is being stopped: once the process is gone, the slot is
    REMOVING = "removing"  # as above, by scaling down
    FAILED = "failed"  # a restart could not make the new process; `note` says why


class EmptiedBy(StrEnum):
    """How a service came to have no slot."""

    STOP = "stop"
    SCALE = "scale"


class SlotRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One slot as written down.

    `key` is the outbox key of the action that made the process, or is about to; `ended_by` that of the stop or
    scale-down that is taking the slot away.  `fresh`: no process was ever made for this slot, so a plan that came to
    nothing leaves no slot behind.  `note`: how its process ended, or why none could be made.
    """

    service: str
    index: int
    state: SlotState
    key: str
    ended_by: str = ""
    fresh: bool = False
    version: str = ""
    port: int | None = None
    boot: str = ""
    pid: int = 0
    ticks: int = 0
    started_at: Micros | None = None
    note: str = ""
    definition: str = ""  # digest of what the process was made from; see `domain.versions`
    format: int = _FORMAT

    @property
    def process(self) -> ProcessId | None:
        """The process that was made, whether or not it lives."""
        return ProcessId(self.pid, self.ticks) if self.pid > 1 else None


class Emptied(msgspec.Struct, frozen=True, kw_only=True):
    """What stays behind where all slots of a service were taken away on purpose.  `version`: which one ran."""

    by: EmptiedBy
    key: str
    at: Micros
    version: str = ""
    format: int = _FORMAT


class Unreadable(msgspec.Struct, frozen=True):
    """A file that is there and says nothing that can be relied on."""

    reason: str


class ServiceFiles(msgspec.Struct, frozen=True):
    """All files of one service."""

    slots: Mapping[int, SlotRecord | Unreadable]
    emptied: Emptied | Unreadable | None


class SlotFiles:
    """The slot files below one folder, `<folder>/<service>/<index>.json`.

    Reading never raises.  Writing raises Retryable where the disk refuses; what was there before stays whole.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = Lock()

    def services(self) -> tuple[str, ...]:
        """Names of all services that have files here."""
        try:
            return tuple(sorted(entry.name for entry in os.scandir(self.folder) if entry.is_dir()))
        except OSError:
            return ()

    def read(self, service: str) -> ServiceFiles:
        """What is written down of one service."""
        folder = self.folder / service
        try:
            names = [path.name for path in folder.iterdir()]
        except FileNotFoundError:
            return ServiceFiles({}, None)
        except OSError as error:
            return ServiceFiles({}, Unreadable(f"{folder} cannot be read: {error.strerror}"))
        slots: dict[int, SlotRecord | Unreadable] = {}
        for name in names:
            stem, dot, kind = name.rpartition(".")
            if dot and kind == "json" and stem.isascii() and stem.isdigit():
                found = self._slot(service, int(stem))
                if found is not None:
                    slots[int(stem)] = found
        emptied = _decode(folder / _EMPTIED, Emptied) if _EMPTIED in names else None
        return ServiceFiles(dict(sorted(slots.items())), emptied)

    def write(self, *records: SlotRecord) -> None:
        """Put each record, all of one service, in its slot's place.

        One by one each is whole; if writing fails, those before the failure are written.
        """
        if records:
            with self._alone(records[0].service):
                for record in records:
                    _replace(self._path(record.service, record.index), msgspec.json.encode(record))

    def update(self, service: str, index: int, change: Callable[[SlotRecord], SlotRecord | None]) -> None:
        """Read, change and write one slot as one step; `change` returns None to leave it.  Nothing if unreadable.

        No other plane of this host writes between the reading and the writing: what it wrote would be undone.
        """
        if not (self.folder / service).is_dir():
            return
        with self._alone(service):
            current = self._slot(service, index)
            changed = change(current) if isinstance(current, SlotRecord) else None
            if changed is not None:
                _replace(self._path(service, index), msgspec.json.encode(changed))

    def remove(self, service: str, *indices: int) -> None:
        """Take the slots away, readable or not."""
        self._unlink(service, *(self._path(service, index) for index in indices))

    def write_emptied(self, service: str, emptied: Emptied) -> None:
        """Note that the service has no slots, and through which action."""
        with self._alone(service):
            _replace(self.folder / service / _EMPTIED, msgspec.json.encode(emptied))

    def remove_emptied(self, service: str) -> None:
        """The service has slots again."""
        self._unlink(service, self.folder / service / _EMPTIED)

    def _slot(self, service: str, index: int) -> SlotRecord | Unreadable | None:
        path = self._path(service, index)
        found = _decode(path, SlotRecord)
        if isinstance(found, SlotRecord) and (found.service, found.index) != (service, index):
            return Unreadable(f"{path} is about {found.service}#{found.index}")
        return found

    def _path(self, service: str, index: int) -> Path:
        return self.folder / service / f"{index}.json"

    def _unlink(self, service: str, *paths: Path) -> None:
        if any(path.exists() for path in paths):
            with self._alone(service):
                for path in paths:
                    path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _alone(self, service: str) -> Iterator[None]:
        """Write in the service's folder while nobody else does; what was done is durable at the end."""
        folder = self.folder / service
        with self._lock:
            try:
                if not folder.is_dir():
                    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
                    _sync_folder(folder.parent)
                with _held(folder):
                    yield
                    _sync_folder(folder)
            except OSError as error:
                name = error.filename or folder
                raise Retryable(f"{name} cannot be written: {error.strerror}", code="slot_unwritable") from error


def _replace(path: Path, body: bytes) -> None:
    temporary = path.with_name(f".{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
    try:
        os.write(descriptor, body)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.replace(path)


def _decode(path: Path, kind: type[R]) -> R | Unreadable | None:
    """The record in `path`; None if there is no such file (any more)."""
    try:
        with path.open("rb") as file:
            body = file.read(_FILE_BYTES_MAX + 1)
        found = msgspec.json.decode(body, type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        return Unreadable(f"{path} cannot be read: {error}")
    if found.format != _FORMAT:
        return Unreadable(f"{path} has format {found.format}, this version reads format {_FORMAT}")
    return found


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Keep other writers out of the folder, those of another plane on this host too; a kill lets go of it.

    A plane that is stopped while it holds the folder is waited for no longer than `_HELD_S`: OSError.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        until = time.monotonic() + _HELD_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    reason = f"another plane of this host has held it for {_HELD_S:.0f} s"
                    raise OSError(errno.EAGAIN, reason, str(folder)) from None
            time.sleep(_HELD_STEP_S)
        yield
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
