"""The data folder of a plane: who answers for it now, and the admin token that lies in it.

Commands find the plane that they talk to here.  The kernel's lock says whether one runs, never the existence of a file.
The folder belongs to one person: it is made 0700, and a secret is written whole or not at all, 0600 from its first
byte.  Nothing here starts, stops or asks a plane.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from fleetwarden.adapters.files.checkpoints import KEY_FILE
from fleetwarden.adapters.system import SystemClock
from fleetwarden.app.settings import Settings
from fleetwarden.domain.actions import Record
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.identifiers import Micros
from fleetwarden.ports.system import Clock
from fleetwarden.store.opening import sqlite_path
from fleetwarden.store.ownership import Ownership, lock_holder

__all__ = [
    "Announcement",
    "RunningPlane",
    "database_file",
    "forget_token",
    "keep_token",
    "kept_token",
    "ledger_key_file",
    "prepare_data_folder",
    "refuse_another_folder",
    "running_plane",
    "system_clock",
    "token_file",
    "write_secret",
]

TOKEN_FILE = "admin.token"  # noqa: S105  a file's name
TOKEN_BYTES_MAX = 4096


class RunningPlane(Record):
    """Who holds the data folder.  `url` is empty while a plane starts, and for a command that has the store open;
    `config` is the plane's configuration folder, where it says so."""

    pid: int
    url: str
    host: str
    since: Micros
    config: str = ""


def system_clock() -> Clock:
    """This machine's clock, for commands that wait."""
    return SystemClock()


def database_file(settings: Settings) -> Path | None:
    """The SQLite file of these settings; None where the store is a server."""
    return sqlite_path(settings.store_url)


def _lock_of(settings: Settings) -> Path:
    """What is locked: the SQLite file itself, else a name in the data folder."""
    return database_file(settings) or settings.fleet_data_dir / "plane"


def running_plane(settings: Settings) -> RunningPlane | None:
    """Who holds the lock of this data folder at this moment, or None.  Takes no lock.  Raises Misconfigured."""
    holder = lock_holder(_lock_of(settings))
    if holder is None or not holder.held:
        return None
    return RunningPlane(pid=holder.pid, url=holder.url, host=holder.host, since=holder.since, config=holder.config)


def refuse_another_folder(settings: Settings, running: RunningPlane) -> None:
    """Raises Misconfigured if that plane runs another configuration folder than these settings are about.

    Only where nothing says which data folder is meant: the default is the same for every configuration folder.
    """
    told = settings.sources
    if "FLEET_DATA_DIR" in told or (database_file(settings) is not None and "FLEET_STORE_URL" in told):
        return
    if running.config and Path(running.config) != settings.config_dir.resolve():
        raise Misconfigured(
            f"the plane that holds {settings.fleet_data_dir} runs the folder {running.config}, "
            f"not {settings.config_dir}",
            hint=f"say where this folder's data is: FLEET_DATA_DIR, in {settings.config_dir / '.env'} or in the "
            f"environment; or mean that plane: --config {running.config}",
        )


class Announcement:
    """Says where a plane answers, for those who look for it in the data folder.

    A SQLite store says it in its own lock.  Where the store is a server, a lock in the data folder is held for it from
    here on; `taken` is false if another plane holds that already, which then stays the one that commands find.
    """

    def __init__(self, settings: Settings, store: object, clock: Clock) -> None:
        self._config = str(settings.config_dir.resolve())
        self._announce: Callable[[str, str], None] | None = getattr(store, "announce", None)
        self._ownership: Ownership | None = None
        if self._announce is not None:
            return
        try:
            self._ownership = Ownership(_lock_of(settings), clock.now())
        except Misconfigured:
            if running_plane(settings) is None:
                raise
        else:
            self._announce = self._ownership.announce

    @property
    def taken(self) -> bool:
        return self._announce is not None

    def announce(self, url: str) -> None:
        if self._announce is not None:
            self._announce(url, self._config)

    def release(self) -> None:
        """Give up a lock that was taken here.  A store's own ends with the store."""
        if self._ownership is not None:
            self._ownership.release()
            self._ownership = None


def prepare_data_folder(settings: Settings) -> Path:
    """Make the data folder, readable by its owner only; one that exists is left as it is.  Raises Misconfigured."""
    folder = settings.fleet_data_dir
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Misconfigured(
            f"the data folder {folder} cannot be made: {error.strerror}", hint="FLEET_DATA_DIR names another"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Misconfigured(f"the data folder {folder} is not writable", hint="FLEET_DATA_DIR names another")
    return folder


def ledger_key_file(settings: Settings) -> Path:
    """Where the key of the ledger's checkpoints lies, once one was written."""
    return settings.fleet_data_dir / KEY_FILE


def token_file(settings: Settings) -> Path:
    return settings.fleet_data_dir / TOKEN_FILE


def kept_token(settings: Settings) -> str | None:
    """The admin token that lies in the data folder, or None if there is none.  Raises Misconfigured (unreadable)."""
    file = token_file(settings)
    try:
        with file.open("rb") as opened:
            content = opened.read(TOKEN_BYTES_MAX)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Misconfigured(
            f"{file} cannot be read: {error.strerror}", hint="it belongs to whoever runs the plane; or give --token"
        ) from error
    return content.decode("ascii", errors="replace").strip() or None


def keep_token(settings: Settings, secret: str) -> Path:
    """Write the admin token, atomically and 0600.  Raises Misconfigured."""
    return write_secret(token_file(settings), secret)


def write_secret(file: Path, secret: str) -> Path:
    """One line that only its owner can read, in one step in the place of what is there.  Raises Misconfigured."""
    fresh = file.with_name(f"{file.name}.{os.getpid()}.new")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(descriptor, 0o600)  # a leftover of an earlier process may have other bits
            os.write(descriptor, f"{secret}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        fresh.replace(file)
    except OSError as error:
        raise Misconfigured(f"{file} cannot be written: {error.strerror}") from error
    return file


def forget_token(settings: Settings) -> None:
    """Remove the file again; that it is gone already is fine."""
    token_file(settings).unlink(missing_ok=True)
