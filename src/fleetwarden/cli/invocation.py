"""How to type a command again so that it works as printed: the program as it was called, and the same folder or plane.

A hint that does not work when it is pasted is worse than none.  Tokens are never part of it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

__all__ = ["from_here", "pasteable", "prefix", "program"]

NAME = "fleetwarden"
_MENTIONED = re.compile(
    rf"\b{NAME} (?=(?:init|up|down|status|explain|approvals|freeze|policy|decisions|executions|actions|work|reports"
    r"|journal|recover|token|db|doctor)\b)"
)


def program() -> str:
    """The words that start this program: `fleetwarden` where it is on the PATH, else a path or `python -m`.

    Who called it by a relative path (as `make up` does, with a PATH of its own) has it on no PATH that other terminals
    share, and is given that path.
    """
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{_on_path(Path(sys.executable))} -m {NAME}"
    if not called.is_file():
        return NAME
    return _on_path(called) if called.is_absolute() else shlex.quote(from_here(called))


def _on_path(file: Path) -> str:
    """The bare name if the PATH leads to this very file, else a path that works from here."""
    found = shutil.which(file.name)
    if found is not None and Path(found).samefile(file):
        return file.name
    return shlex.quote(from_here(file))


def from_here(path: Path) -> str:
    """A path as one would type it: relative below the working directory, else absolute, without `..` in it."""
    real = Path(os.path.normpath(path.absolute()))
    try:
        return str(real.relative_to(Path.cwd()))
    except ValueError:
        return str(real)


def prefix(*, config: Path | None, url: str | None) -> str:
    """The program with what names the same plane again; each is None where the default leads there, too."""
    words = [program()]
    if config is not None:
        words += ["--config", shlex.quote(str(config))]
    if url is not None:
        words += ["--url", shlex.quote(url)]
    return " ".join(words)


def pasteable(text: str, words: str) -> str:
    """A sentence in which the plane names commands, with each of them as it has to be typed here."""
    return _MENTIONED.sub(lambda _: f"{words} ", text)
