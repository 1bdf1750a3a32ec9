"""A SQLite database belongs to one process.

Beside the database lies a lock file.  Who owns the database holds a `flock` on it, open, for as long as it lives; the
kernel frees it however the process ends, so that nothing has to be cleaned up after a kill and no leftover file can
keep anybody out.  The file's content only tells people who that is and where it answers.

Looking must not disturb: a glance that took the lock for a moment would refuse a plane that starts in that moment.  So
the owner also holds a record lock of its open file, which others can ask the kernel about without taking anything.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

import msgspec

from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.identifiers import Micros, rfc3339

__all__ = ["LockHolder", "Ownership", "lock_holder", "lock_path"]

_CONTENT_BYTES_MAX = 4096
_FIRST_BYTE = struct.Struct("hhqqi4x")  # struct flock: type, whence, start, length, pid
_ASK = getattr(fcntl, "F_OFD_GETLK", None)  # Linux
_MARK = getattr(fcntl, "F_OFD_SETLK", None)


class LockHolder(msgspec.Struct, frozen=True, kw_only=True):
    """What the lock file says.  `held` is the kernel's word: whether the lock is held now."""

    pid: int
    since: Micros
    host: str
    url: str = ""  # where its plane answers, once it does
    config: str = ""  # and which configuration folder it runs
    held: bool = False

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {rfc3339(self.since)}"


def lock_path(database: Path) -> Path:
    """The lock file of a database; the same for every path that leads to it."""
    real = database.resolve()
    return real.with_name(real.name + ".lock")


def lock_holder(database: Path) -> LockHolder | None:
    """Who holds, or last held, the lock of this database; None if nobody is known.  Takes no lock.

    An unreadable content with the lock held gives a holder with pid 0.
    """
    path = lock_path(database)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Misconfigured(f"the lock file {path} cannot be read: {error.strerror}") from error
    try:
        held = _is_held(descriptor)
        content = os.pread(descriptor, _CONTENT_BYTES_MAX, 0)
    finally:
        os.close(descriptor)
    try:
        written = msgspec.json.decode(content, type=LockHolder)
    except msgspec.MsgspecError:
        return LockHolder(pid=0, since=0, host="an unknown host", held=True) if held else None
    return msgspec.structs.replace(written, held=held)


def _is_held(descriptor: int) -> bool:
    if _ASK is not None:
        asked = _FIRST_BYTE.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        answer: bytes = fcntl.fcntl(descriptor, _ASK, asked)
        return bool(_FIRST_BYTE.unpack(answer)[0] != fcntl.F_UNLCK)
    try:  # elsewhere there is no way to ask: take it shared for a moment
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


class Ownership:
    """The lock, held from construction to `release`.

    Raises Misconfigured if another process holds it, saying who and what to do.
    """

    def __init__(self, database: Path, since: Micros) -> None:
        self._database = database
        self._path = lock_path(database)
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Misconfigured(f"the lock file {self._path} cannot be opened: {error.strerror}") from error
        try:
            self._take()
            self._holder = LockHolder(pid=os.getpid(), since=since, host=os.uname().nodename)
            self._write()
        except BaseException:
            os.close(self._descriptor)
            raise

    def announce(self, url: str, config: str = "") -> None:
        """Write where this process answers and for which configuration, for those who find the database locked."""
        self._holder = msgspec.structs.replace(self._holder, url=url, config=config)
        self._write()

    def release(self) -> None:
        """Give it up.  The file stays: removing it would let two processes lock two different files."""
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)

    def _take(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise self._refusal() from error
        if _MARK is not None:
            fcntl.fcntl(self._descriptor, _MARK, _FIRST_BYTE.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))

    def _refusal(self) -> Misconfigured:
        holder = lock_holder(self._database)
        who = str(holder) if holder is not None else "another process"
        where = f"; its plane answers at {holder.url}" if holder is not None and holder.url else ""
        return Misconfigured(
            f"the database {self._database} is in use by {who}{where}",
            hint="talk to that plane instead (--url), or end it first (fleetwarden down)",
        )

    def _write(self) -> None:
        body = msgspec.json.encode(self._holder).ljust(_CONTENT_BYTES_MAX)
        os.pwrite(self._descriptor, body, 0)  # in one write, so that a reader sees one or the other
