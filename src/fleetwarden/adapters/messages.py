"""The way to chat, mail, web hooks and a hundred other places: through apprise, or a notifier that was installed.

An address is a secret: it is read when it is needed, and what this module logs or raises names the target only.  The
library is imported with the first message, so that a plane without `notify.yml` does not need it.  A failure is raised
with what the library said, without what looks like a secret and without the address.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from fleetwarden.domain.errors import Misconfigured, Retryable
from fleetwarden.domain.notify_file import Target
from fleetwarden.domain.scrubbing import scrubbed
from fleetwarden.ports.notices import Message
from fleetwarden.ports.system import Notice, Notifier

__all__ = ["AppriseChannel", "library_problem"]

ADDRESS_BYTES_MAX = 4096
SAID_MAX = 300  # characters of what the library says
_TYPES: Mapping[str, str] = {"critical": "failure", "error": "failure", "warning": "warning", "info": "info"}
_LIBRARY = "apprise"


def library_problem() -> str:
    """Why the library cannot be used, or ""."""
    try:
        _library()
    except Misconfigured as error:
        return str(error)
    return ""


def _library() -> Any:
    try:
        found = importlib.import_module(_LIBRARY)
    except ImportError as error:
        raise Misconfigured(
            f"the library that sends messages is not installed ({error})",
            hint="pip install 'fleetwarden[notify]', then restart the plane",
        ) from error
    logging.getLogger(_LIBRARY).propagate = False  # its lines hold addresses
    return found


class AppriseChannel:
    """Implements `ports.notices.Channel`.

    `folder`: from which paths of address files start.  `plugins`: makes the notifier of that name, raises Misconfigured
    where there is none.
    """

    def __init__(self, folder: Path, plugins: Callable[[str], Notifier]) -> None:
        self._folder = folder
        self._plugins = plugins
        self._made: dict[str, Notifier] = {}
        self._lock = threading.Lock()

    def send(self, target: Target, message: Message) -> None:
        if target.plugin:
            self._through_plugin(target, message)
            return
        address = self._address(target)
        library = _library()
        with _Listening(library) as said:
            sender = library.Apprise()
            if not sender.add(address):
                raise Misconfigured(
                    f"the address of {target.name} is of no form that apprise knows{said.told(address)}"
                )
            done = sender.notify(
                title=message.title, body=message.body, notify_type=_TYPES.get(message.severity, "info")
            )
            if not done:
                raise Retryable(f"{target.name} did not take the message{said.told(address)}")

    def _through_plugin(self, target: Target, message: Message) -> None:
        with self._lock:
            if target.plugin not in self._made:
                self._made[target.plugin] = self._plugins(target.plugin)
            notifier = self._made[target.plugin]
        notice = Notice(
            severity=message.severity, subject=target.name, summary=message.title, detail={"body": message.body}
        )
        if not notifier.notify(notice):
            raise Retryable(f"the notifier {target.plugin} did not take the message")

    def _address(self, target: Target) -> str:
        """Read anew for each message, so that a secret is exchanged by writing the file."""
        if target.url:
            return target.url
        file = self._folder / target.url_file
        try:
            with file.open("rb") as opened:
                content = opened.read(ADDRESS_BYTES_MAX + 1)
        except OSError as error:
            raise Misconfigured(f"the address of {target.name} cannot be read: {file}: {error.strerror}") from error
        lines = content.decode("utf-8", "replace").strip().splitlines()
        if len(content) > ADDRESS_BYTES_MAX or len(lines) != 1:
            raise Misconfigured(f"the address of {target.name}: {file} has to hold one line, and nothing else")
        return lines[0].strip()


class _Listening(logging.Handler):
    """What the library says while it sends: it returns only whether it worked.

    The library sends on threads of its own, so that words cannot be told apart while several messages are on their way.
    Then none are taken: those of another target may hold its address.
    """

    _lock = threading.Lock()
    _present: ClassVar[set[_Listening]] = set()

    def __init__(self, library: Any) -> None:
        super().__init__(logging.WARNING)
        self._logger = logging.getLogger(library.__name__)
        self._said: list[str] = []
        self.alone = True

    def __enter__(self) -> Self:
        with self._lock:
            self._present.add(self)
            if len(self._present) > 1:
                for one in self._present:
                    one.alone = False
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        with self._lock:
            self._present.discard(self)

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(record.getMessage())

    def told(self, address: str) -> str:
        """That, as the end of a sentence.  Whatever shares a longer piece with the address is left out."""
        if not self.alone:
            return ""
        pieces = [one for one in _pieces(address) if len(one) >= 6]
        kept = [scrubbed(line) for line in self._said if not any(piece.lower() in line.lower() for piece in pieces)]
        return f": {'; '.join(kept)[:SAID_MAX]}" if kept else ""


def _pieces(address: str) -> list[str]:
    """What an address is made of, besides its scheme."""
    rest = address.partition("://")[2]
    for mark in "/@:?&=,":
        rest = rest.replace(mark, " ")
    return rest.split()
