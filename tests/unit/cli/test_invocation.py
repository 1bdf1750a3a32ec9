"""A command in a hint is typed as this program was called, for the same folder or plane."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fleetwarden.cli.invocation import from_here, pasteable, prefix, program


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `fleetwarden` script that runs now, in a folder that is not on the PATH."""
    script = tmp_path / "bin" / "fleetwarden"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.chdir(tmp_path)
    return script


def test_what_is_on_the_path_is_called_by_its_name(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(installed.parent))
    assert program() == "fleetwarden"


def test_who_calls_it_by_a_relative_path_is_shown_that_path_whatever_the_path_variable_of_this_process_says(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(installed.parent))
    monkeypatch.setattr(sys, "argv", ["bin/fleetwarden"])
    assert program() == "bin/fleetwarden"


def test_another_one_of_that_name_on_the_path_is_not_meant(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "fleetwarden").write_text("#!/bin/sh\n")
    (other / "fleetwarden").chmod(0o755)
    monkeypatch.setenv("PATH", str(other))
    assert program() == "bin/fleetwarden"


def test_below_the_working_directory_the_path_is_relative(installed: Path) -> None:
    assert program() == "bin/fleetwarden"


def test_elsewhere_it_is_absolute(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert program() == str(installed)


def test_a_module_is_called_with_its_python(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = installed.with_name("__main__.py")
    main.touch()
    monkeypatch.setattr(sys, "argv", [str(main)])
    assert program().endswith(" -m fleetwarden")


def test_the_prefix_names_folder_and_plane_and_quotes_them(installed: Path) -> None:
    assert prefix(config=None, url=None) == "bin/fleetwarden"
    said = prefix(config=Path("my fleet"), url="http://127.0.0.1:1")
    assert said == "bin/fleetwarden --config 'my fleet' --url http://127.0.0.1:1"


def test_commands_in_a_sentence_become_pasteable_and_nothing_else_does() -> None:
    told = "a fleetwarden plane says: fleetwarden approvals grant A-1, or fleetwarden freeze off"
    assert pasteable(told, "x y") == "a fleetwarden plane says: x y approvals grant A-1, or x y freeze off"


def test_a_path_has_no_detours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert from_here(tmp_path / "a" / "b" / ".." / "data") == "a/data"
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert from_here(tmp_path / "data") == str(tmp_path / "data")
