"""Exit codes, plain messages, and what a command does not load."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from fleetwarden.cli import fleet
from fleetwarden.cli.entry import exit_code, explain_failure
from fleetwarden.domain.errors import Conflict, Misconfigured, Problem, Retryable
from fleetwarden.store.ownership import Ownership
from tests.unit.cli.conftest import Paper, Shell

HEAVY = "sqlalchemy fastapi starlette uvicorn pydantic structlog httpx2 psutil rich ssl"


@pytest.mark.req("RUN-5")
def test_help_is_an_answer(shell: Shell) -> None:
    ran = shell("--help")
    assert ran.code == 0
    for command in ("init", "up", "down", "status", "explain", "approvals", "freeze", "policy", "recover", "token"):
        assert f"\n  {command} " in ran.out


def test_a_command_says_nothing_that_only_a_log_would_tell() -> None:
    code = """
import logging, sys
from fleetwarden.cli import entry
sys.argv = ["fleetwarden", "--version"]
try:
    entry.main()
except SystemExit:
    logging.getLogger("fleetwarden.store.release").warning("slow transaction")
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (ran.stdout.startswith("fleetwarden 0."), ran.stderr) == (True, "")


def test_the_version_is_printed(shell: Shell) -> None:
    assert shell("--version").out.startswith("fleetwarden 0.")


def test_a_bare_call_shows_the_help_and_is_a_usage_error(shell: Shell) -> None:
    ran = shell()
    assert ran.code == 2
    assert "Commands:" in ran.out + ran.err


@pytest.mark.parametrize(
    "words", [["plann"], ["status", "--frobnicate"], ["freeze", "on", "--for", "2"], ["approvals", "grant"]]
)
def test_a_wrong_call_is_2(shell: Shell, words: list[str]) -> None:
    ran = shell(*words)
    assert ran.code == 2
    assert ran.err


def test_a_command_that_needs_a_plane_says_how_to_start_one(shell: Shell) -> None:
    ran = shell("status")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines() == ["no plane runs here", "→ start one: fleetwarden up"]


def test_the_hint_names_the_same_folder_again(shell: Shell) -> None:
    (shell.folder / "my fleet").mkdir()
    assert "fleetwarden --config 'my fleet' up" in shell("--config", "my fleet", "status").err
    assert "fleetwarden --config 'my fleet' up" in shell("status", "--config", "my fleet").err


@pytest.mark.req("RUN-5")
def test_a_named_folder_never_reaches_the_plane_of_another_one_by_the_default_data_folder(shell: Shell) -> None:
    for name in ("mine", "other"):
        (shell.folder / name).mkdir()
    (shell.folder / ".fleetwarden").mkdir()
    held = Ownership(shell.folder / ".fleetwarden" / "fleetwarden.db", 1)
    held.announce("http://127.0.0.1:1", str((shell.folder / "other").resolve()))
    try:
        for command in ("status", "down", "freeze"):
            refused = shell("--config", "mine", command, *(["status"] if command == "freeze" else []))
            assert refused.code == 2
            assert f"runs the folder {(shell.folder / 'other').resolve()}" in refused.err
            assert "FLEET_DATA_DIR" in refused.err
        for words in (["--config", "other", "status"], ["status"]):
            assert "no plane answers at http://127.0.0.1:1" in shell(*words).err
        shell.setenv("FLEET_DATA_DIR", ".fleetwarden")  # who names the data folder means it
        assert "no plane answers at http://127.0.0.1:1" in shell("--config", "mine", "status").err
    finally:
        held.release()


def test_a_folder_that_does_not_exist_is_2(shell: Shell) -> None:
    assert shell("status", "--config", "nowhere").code == 2
    ran = shell("up")
    assert ran.code == 2
    assert "fleetwarden init" in ran.err


def test_a_bad_setting_is_named_with_its_line(shell: Shell) -> None:
    (shell.folder / "fleet").mkdir()
    (shell.folder / "fleet" / ".env").write_text("FLEET_RECONCILER=yes\nFLEET_HTTP_PORT=eighty\n")
    ran = shell("up")
    assert ran.code == 2
    assert ".env:2" in ran.err
    assert "Traceback" not in ran.err


def test_lists_of_a_folder_where_nothing_ever_ran_are_no_empty_lists(shell: Shell) -> None:
    ran = shell("decisions")
    assert ran.code == 1
    assert "there is no store in" in ran.err
    assert not (shell.folder / ".fleetwarden").exists()


def test_down_where_nothing_runs_is_fine(shell: Shell) -> None:
    for words in (["down"], ["down", "--services"]):
        ran = shell(*words)
        assert (ran.code, ran.out) == (0, "nothing runs here\n")


def test_an_unexpected_failure_is_one_line_and_a_trace_only_on_demand(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("boom\x1b[2J")

    monkeypatch.setattr(fleet, "Misconfigured", broken)  # what `status --pid 0` refuses with
    ran = shell("status", "--pid", "0")
    assert ran.code == 1
    assert ran.err.splitlines()[0] == "fleetwarden failed unexpectedly: RuntimeError: boom\\x1b[2J"
    assert "Traceback" not in ran.err
    monkeypatch.setenv("FLEETWARDEN_DEBUG", "1")
    assert "Traceback" in shell("status", "--pid", "0").err


@pytest.mark.parametrize(
    ("error", "code"), [(Misconfigured("x"), 2), (Conflict("x"), 1), (Retryable("x"), 1), (RuntimeError("x"), 1)]
)
def test_only_what_a_person_has_to_write_differently_is_2(error: Exception, code: int) -> None:
    assert exit_code(error) == code


def test_a_failure_says_what_where_and_what_to_do(paper: Paper) -> None:
    error = Misconfigured("settings: 1 problem", [Problem(".env", 3, "is wrong")], hint="write it right")
    explain_failure(error, paper.screen)
    assert paper.lines == ["settings: 1 problem", "  .env:3  is wrong", "→ write it right"]


def loaded_by(*words: str) -> list[str]:
    """Which heavy libraries a command loads, in a process of its own."""
    program = f"""
import sys
sys.argv = ["fleetwarden", *{list(words)!r}]
from fleetwarden.cli import main
try:
    main()
except SystemExit:
    pass
import json
print("\\n" + json.dumps([name for name in "{HEAVY}".split() if name in sys.modules]))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "FLEET_DATA_DIR": "/nonexistent"},
    )
    found: list[str] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("words", [["--help"], ["status", "--help"]])
def test_help_loads_no_heavy_library(words: list[str]) -> None:
    allowed = {"pydantic"} if len(words) > 1 else set()  # the command line's library reads values with it
    assert set(loaded_by(*words)) <= allowed


@pytest.mark.parametrize("words", [["status"], ["down"], ["decisions"], ["policy", "check"]])
def test_what_opens_no_store_loads_neither_database_nor_web(words: list[str]) -> None:
    assert not set(loaded_by(*words)) & {"sqlalchemy", "fastapi", "starlette", "uvicorn", "psutil", "httpx2"}
