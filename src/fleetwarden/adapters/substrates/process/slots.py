"""The durable memory of local processes: one small JSON file per instance slot.

A slot is written before its process is made and completed after, so that whatever stops the plane between the two
leaves a plan that names the action behind it.  Every write is a whole new file (temporary file, fsync, rename, fsync of
the folder); a reader sees the old one or the new one.  A file that cannot be read is a finding of its own: it is never
taken for a missing slot, never for a dead process, and never ends a pass.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
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
        with self._lock:
            for record in records:
                self._replace(self._path(record.service, record.index), msgspec.json.encode(record))
            if records:
                self._sync(records[0].service)

    def update(self, service: str, index: int, change: Callable[[SlotRecord], SlotRecord | None]) -> None:
        """Read, change and write one slot as one step; `change` returns None to leave it.  Nothing if unreadable."""
        with self._lock:
            current = self._slot(service, index)
            changed = change(current) if isinstance(current, SlotRecord) else None
            if changed is not None:
                self._replace(self._path(service, index), msgspec.json.encode(changed))
                self._sync(service)

    def remove(self, service: str, *indices: int) -> None:
        """Take the slots away, readable or not."""
        self._unlink(service, *(self._path(service, index) for index in indices))

    def write_emptied(self, service: str, emptied: Emptied) -> None:
        """Note that the service has no slots, and through which action."""
        with self._lock:
            self._replace(self.folder / service / _EMPTIED, msgspec.json.encode(emptied))
            self._sync(service)

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

    def _replace(self, path: Path, body: bytes) -> None:
        try:
            if not path.parent.is_dir():
                path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
                _sync_folder(path.parent.parent)
            with _alone_in(path.parent):
                temporary = path.with_name(f".{path.name}.new")
                descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
                try:
                    os.write(descriptor, body)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                temporary.replace(path)
        except OSError as error:
            raise Retryable(f"{path} cannot be written: {error.strerror}", code="slot_unwritable") from error

    def _unlink(self, service: str, *paths: Path) -> None:
        with self._lock:
            try:
                there = [path for path in paths if path.exists()]
                for path in there:
                    path.unlink()
            except OSError as error:
                reason = f"files of {service} cannot be removed from {self.folder}: {error.strerror}"
                raise Retryable(reason, code="slot_unwritable") from error
            if there:
                self._sync(service)

    def _sync(self, service: str) -> None:
        """Make what was renamed or removed in the service's folder durable."""
        try:
            _sync_folder(self.folder / service)
        except OSError as error:
            raise Retryable(
                f"{self.folder / service} cannot be synced: {error.strerror}", code="slot_unwritable"
            ) from error


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
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other writers out of the folder, those of another plane on this host too; a kill lets go of it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
