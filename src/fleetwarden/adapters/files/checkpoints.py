"""Signed checkpoints of the ledger, in a file beside the store and in the log.

The key lies in the data folder, readable by its owner only, and never leaves it; what is signed goes to the log as
well, so that it can be kept where whoever changes the store cannot reach.  A line that a crash cut off is taken away
before the next is written: it was never acknowledged.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog

from fleetwarden.domain.errors import Misconfigured, StoreUnavailable
from fleetwarden.domain.identifiers import Micros, canonical_json
from fleetwarden.domain.sealing import Seal
from fleetwarden.ports.ledger import Checkpoint

__all__ = ["CHECKPOINTS_FILE", "KEY_FILE", "CheckpointFile"]

log = structlog.get_logger(__name__)
CHECKPOINTS_FILE, KEY_FILE = "ledger-checkpoints.jsonl", "ledger.key"
KEY_BYTES = 32
LINE_BYTES_MAX = 4096
_DECODER = msgspec.json.Decoder(Checkpoint)


class CheckpointFile:
    """Implements `ports.ledger.CheckpointLog` in the data folder.  Nothing is made before the first `write`."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / CHECKPOINTS_FILE
        self.key_file = folder / KEY_FILE
        self._newest: Checkpoint | None = None
        self._looked = False

    def write(self, seal: Seal, at: Micros) -> Checkpoint:
        body = {"at": at, "digest": seal.digest, "number": seal.number}
        signed = hmac.new(self._key(), canonical_json(body), hashlib.sha256).hexdigest()
        made = Checkpoint(number=seal.number, digest=seal.digest, at=at, signature=f"hmac-sha256:{signed}")
        try:
            self._append(canonical_json(made) + b"\n")
        except OSError as error:
            raise StoreUnavailable(f"{self.file} cannot be written: {error.strerror}") from error
        self._newest, self._looked = made, True
        log.info("ledger checkpoint", seal=made.number, digest=made.digest, at=made.at, signature=made.signature)
        return made

    def newest(self) -> Checkpoint | None:
        if not self._looked:
            self._newest, self._looked = self._last(), True
        return self._newest

    def all(self) -> Sequence[Checkpoint]:
        try:
            lines = self.file.read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreUnavailable(f"{self.file} cannot be read: {error.strerror}") from error
        return [self._decoded(line) for line in lines if line.endswith(b"\n")]

    def set_aside(self, to: Path) -> None:
        """Move what was written so far to another name.  Raises StoreUnavailable."""
        try:
            self.file.rename(to)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise StoreUnavailable(f"{self.file} cannot be moved to {to}: {error.strerror}") from error
        self._newest, self._looked = None, True

    def _decoded(self, line: bytes) -> Checkpoint:
        try:
            return _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreUnavailable(f"{self.file} holds a line that is no checkpoint: {error}") from error

    def _last(self) -> Checkpoint | None:
        try:
            with self.file.open("rb") as opened:
                opened.seek(max(0, os.fstat(opened.fileno()).st_size - LINE_BYTES_MAX))
                lines = opened.read().splitlines(keepends=True)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreUnavailable(f"{self.file} cannot be read: {error.strerror}") from error
        whole = [line for line in lines if line.endswith(b"\n")]
        return self._decoded(whole[-1]) if whole else None

    def _append(self, line: bytes) -> None:
        descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            tail = os.pread(descriptor, LINE_BYTES_MAX, max(0, size - LINE_BYTES_MAX))
            if tail and not tail.endswith(b"\n"):
                os.ftruncate(descriptor, size - len(tail) + tail.rfind(b"\n") + 1)
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _key(self) -> bytes:
        """The key, made at first use.  Raises Misconfigured: readable by others, empty, cannot be had."""
        try:
            self.key_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                made = os.open(self.key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                return self._kept_key()
            try:
                fresh = os.urandom(KEY_BYTES).hex().encode()
                os.write(made, fresh + b"\n")
                os.fsync(made)
            finally:
                os.close(made)
        except OSError as error:
            raise Misconfigured(f"{self.key_file} cannot be used: {error.strerror}") from error
        return fresh

    def _kept_key(self) -> bytes:
        if self.key_file.stat().st_mode & 0o077:
            raise Misconfigured(
                f"{self.key_file} can be read by others: checkpoints signed with it prove nothing",
                hint="chmod 600, or remove it: a new key is made, and the old checkpoints no longer verify with it",
            )
        found = self.key_file.read_bytes().strip()
        if len(found) < KEY_BYTES:
            raise Misconfigured(f"{self.key_file} holds no key", hint="remove it, and a new one is made")
        return found
