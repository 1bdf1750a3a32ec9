"""`init`: a configuration folder to start from, commented, valid, and conservative.

It writes three files and overwrites nothing: one that exists already stops it before anything is written.
"""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from fleetwarden.cli.calling import Call
from fleetwarden.domain.errors import Misconfigured

__all__ = ["init"]

USUAL = Path("fleet")
WRITTEN = (  # name, shipped as, permissions, what it is
    ("fleet.yml", "fleet.yml", 0o644, "which services there are, and how they should be"),
    ("policy.yml", "policy.yml", 0o644, "what may be done without asking: for now everything asks first"),
    (".env", "env", 0o600, "settings"),
)


def init(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="The folder to write to.")] = USUAL,
) -> None:
    """Write a starter configuration: registry, policy and settings, commented."""
    existing = [name for name, *_ in WRITTEN if os.path.lexists(folder / name)]
    if existing:
        raise Misconfigured(
            f"{folder} has {', '.join(existing)} already: nothing was written", hint="name another folder"
        )
    shipped = files("fleetwarden") / "data" / "starter"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, source, mode, _ in WRITTEN:
            _write(folder / name, (shipped / source).read_bytes(), mode)
    except OSError as error:
        raise Misconfigured(f"{error.filename or folder} cannot be written: {error.strerror}") from error
    call = Call(config=None if folder == USUAL else folder)
    call.screen.table(("", ""), [(str(folder / name), about) for name, _, _, about in WRITTEN])
    call.screen.line(f"Next:  {call.command('up')}")


def _write(path: Path, content: bytes, mode: int) -> None:
    """Make a file that did not exist."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
