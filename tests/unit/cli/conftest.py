"""A screen that keeps what was written, a shell without surroundings, and a fixed zone for local times."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from fleetwarden.cli import main
from fleetwarden.cli.screen import Screen


class Paper:
    """A screen whose lines can be read back."""

    def __init__(self, width: int | None = None, *, colour: bool = False) -> None:
        self.out = io.StringIO()
        self.screen = Screen(self.out, width=width, colour=colour)

    @property
    def text(self) -> str:
        return self.out.getvalue()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


@pytest.fixture
def paper() -> Paper:
    return Paper()


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two hours ahead of UTC, without summer time."""
    monkeypatch.setenv("TZ", "FIX-2")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


class Ran(NamedTuple):
    """What a command left: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


class Shell:
    """Runs commands in this process, in a folder of their own and without settings from outside."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self.folder = folder
        for name in list(os.environ):
            if name.startswith(("FLEET", "ACTION_POLICY", "DEPLOY_WATCH", "SCALING")):
                monkeypatch.delenv(name)
        monkeypatch.chdir(folder)

    def setenv(self, name: str, value: str) -> None:
        self._monkeypatch.setenv(name, value)

    def __call__(self, *words: str) -> Ran:
        self._capsys.readouterr()
        self._monkeypatch.setattr(sys, "argv", ["fleetwarden", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self._capsys.readouterr()
        return Ran(int(ended.value.code or 0), out, err)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Shell:
    return Shell(monkeypatch, capsys, tmp_path)
