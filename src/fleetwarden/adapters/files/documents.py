"""One file as it was at one moment: its bytes, its digest, or the reason why it cannot be had.

A file that is being replaced while it is read gives bytes that nobody wrote, so a reading counts only if the file was
the same before and after.  Only regular files are read, because anything else may block for ever.  A file that is not
there and a file that cannot be read are different answers, and neither is an empty one.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec

from fleetwarden.adapters.files import yaml_tree
from fleetwarden.domain.errors import Misconfigured, Problem
from fleetwarden.domain.identifiers import digest
from fleetwarden.domain.located import Node

__all__ = ["Document", "read_document", "read_tree"]

TRIES_MAX = 5


class Document(msgspec.Struct, frozen=True):
    """What stood at `path`.  `name` is how findings call it.

    Exactly one holds: `data` is there, `problem` says why it cannot be read, or neither (the file does not exist).
    `fingerprint` is equal for equal content, whatever the times of the file are; of content it is the digest.
    """

    path: Path
    name: str
    fingerprint: str = "absent"
    data: bytes | None = None
    problem: str = ""

    @property
    def exists(self) -> bool:
        return self.fingerprint != "absent"

    def failed(self, problem: str) -> Document:
        """The same document as one that cannot be had."""
        return Document(self.path, self.name, f"unreadable: {problem}", problem=problem)

    def tree(self) -> Node:
        """The content as a located tree.  Raises Misconfigured with file, line and reason."""
        if self.data is None:
            reason = self.problem or "does not exist"
            raise Misconfigured(f"{self.name} cannot be read", [Problem(self.name, 0, reason)])
        return yaml_tree.parse(yaml_tree.decode(self.data, self.name), self.name)


def read_document(path: Path, name: str) -> Document:
    """Read a file whole, while nobody changes it.  Never raises."""
    absent = Document(path, name)
    try:
        for _ in range(TRIES_MAX):
            data = _read_once(path)
            if data is not None:
                return Document(path, name, digest(data), data)
    except FileNotFoundError:
        return absent
    except OSError as error:
        return absent.failed(f"cannot be read: {error.strerror or error}")
    except _NotAFileError as error:
        return absent.failed(str(error))
    return absent.failed(f"changed during each of {TRIES_MAX} readings: something keeps writing it")


def read_tree(path: Path, name: str = "") -> Node:
    """The located tree of one file, for commands that look at a single one.  Raises Misconfigured."""
    return read_document(path, name or str(path)).tree()


class _NotAFileError(Exception):
    """What stands at the path is no regular file."""


def _read_once(path: Path) -> bytes | None:
    """The content, or None if the file was changed or replaced meanwhile."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise _NotAFileError("is no regular file")
    with path.open("rb") as file:
        before = os.fstat(file.fileno())
        data = file.read(yaml_tree.FILE_BYTES_MAX + 1)  # one byte more shows that it is too large
        after = os.fstat(file.fileno())
    return data if _state(before) == _state(after) == _state(path.stat()) else None


def _state(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
