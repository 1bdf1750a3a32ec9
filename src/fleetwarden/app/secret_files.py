"""Secrets that lie in files of their own, as secret managers and containers hand them over.

Every secret setting NAME can be given as NAME_FILE.  A file is read when it is needed and again when it has changed, so
that a secret is exchanged without a restart.  A message names the file and never what is in it; a file that cannot be
read leaves the last good secret in force and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import structlog

from fleetwarden.domain.errors import FleetError

__all__ = ["FILE_SUFFIX", "SECRET_BYTES_MAX", "AdminTokenFile", "StoreAddress", "read_secret"]

FILE_SUFFIX = "_FILE"
SECRET_BYTES_MAX = 4096
log = structlog.get_logger(__name__)


def read_secret(file: Path) -> str:
    """The one line in the file.  Raises ValueError: unreadable, empty, too long, or more than one line."""
    try:
        with file.open("rb") as opened:
            content = opened.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from error
    if len(content) > SECRET_BYTES_MAX:
        raise ValueError(f"{file} is longer than {SECRET_BYTES_MAX} bytes: it holds no secret")
    try:
        secret = content.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not UTF-8 text") from None
    if not secret:
        raise ValueError(f"{file} is empty")
    if len(secret.splitlines()) > 1:
        raise ValueError(f"{file} has more than one line")
    return secret


class StoreAddress:
    """The store's address for each new connection: as its file says then, if it still names the same database.

    `first`: what it said at the start.  `normal` brings an address into its usual form, `place` names its database
    without the password.
    """

    def __init__(self, file: Path, first: str, *, normal: Callable[[str], str], place: Callable[[str], str]) -> None:
        self._file = file
        self._known = first
        self._normal = normal
        self._place = place

    def __call__(self) -> str:
        try:
            fresh = self._normal(read_secret(self._file))
            same = self._place(fresh) == self._place(self._known)
        except (ValueError, FleetError) as error:
            log.warning("the store's address cannot be read again, the last one is used", reason=str(error))
            return self._known
        if not same:
            log.error(
                "the store's address names another database now: restart the plane for that", file=str(self._file)
            )
            return self._known
        self._known = fresh
        return fresh


class AdminTokenFile:
    """Looks whether the admin token's file has changed.  `apply` makes a secret the valid one; `first` is that now."""

    def __init__(self, file: Path, first: str, apply: Callable[[str], object]) -> None:
        self._file = file
        self._known = first
        self._apply = apply
        self._told = ""

    def look(self) -> bool:
        """Whether another secret was made valid now.  Raises what `apply` raises, and is then tried again."""
        try:
            fresh = read_secret(self._file)
        except ValueError as error:
            if str(error) != self._told:
                log.warning("the admin token cannot be read again, the last one stays valid", reason=str(error))
            self._told = str(error)
            return False
        self._told = ""
        if fresh == self._known:
            return False
        self._apply(fresh)
        self._known = fresh
        log.info("the admin token was exchanged", file=str(self._file))
        return True
