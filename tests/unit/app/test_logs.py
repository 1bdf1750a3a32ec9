"""Logs are JSON lines in a file of the owner's, and no secret gets into them."""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from fleetwarden.app import logs
from fleetwarden.app.settings import load_settings

SECRET = "fw_0123456789abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    settings = load_settings(None, {"FLEET_DATA_DIR": str(tmp_path)}, working_dir=tmp_path)
    before = structlog.get_config()
    level = logging.getLogger().level
    yield logs.start_logging(settings)
    logs.stop_logging()
    structlog.configure(**before)
    logging.getLogger().setLevel(level)
    logging.captureWarnings(False)


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_is_json_with_time_level_and_values(log_file: Path) -> None:
    structlog.get_logger("here").info("pass", prepared=2)
    logging.getLogger("library").warning("%s is slow", "disk")
    first, second = entries(log_file)
    assert (first["event"], first["level"], first["prepared"], first["logger"]) == ("pass", "info", 2, "here")
    assert first["at"].endswith("Z")
    assert (second["event"], second["level"]) == ("disk is slow", "warning")


def test_a_logger_that_was_made_before_logging_began_logs_too(log_file: Path) -> None:
    from fleetwarden.controllers import loop

    loop.log.error("pass failed", tick="x")
    assert entries(log_file)[-1]["tick"] == "x"


def test_the_level_of_the_settings_counts(tmp_path: Path, log_file: Path) -> None:
    structlog.get_logger("here").debug("noise")
    assert entries(log_file) == []


def test_a_trace_is_part_of_its_line(log_file: Path) -> None:
    try:
        raise ValueError(SECRET)
    except ValueError:
        structlog.get_logger("here").exception("broke")
    [entry] = entries(log_file)
    assert "ValueError: fw_***" in entry["exception"]


def test_the_file_is_its_owners_also_after_it_was_rotated(log_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = next(one for one in logging.getLogger().handlers if isinstance(one, logs._OwnersFile))
    handler.maxBytes = 200
    for number in range(10):
        structlog.get_logger("here").info("line", number=number)
    files = sorted(log_file.parent.glob("plane.log*"))
    assert len(files) == 1 + logs.KEPT
    assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {0o600}


@pytest.mark.parametrize(
    ("values", "hidden"),
    [
        ({"token": SECRET}, SECRET),
        ({"admin_token": "short-one"}, "short-one"),
        ({"password": "hunter2"}, "hunter2"),
        ({"nested": {"Authorization": "Basic abc"}}, "Basic abc"),
        ({"headers": [{"cookie": "session=1"}]}, "session=1"),
        ({"text": f"called with {SECRET}"}, SECRET),
        ({"text": "Authorization: Bearer abcdefghijkl"}, "abcdefghijkl"),
        ({"url": "postgresql://user:pa55@host/db"}, "pa55"),
        ({"body": f"x {SECRET}".encode()}, SECRET),
        ({"deep": [[[[[[[[{"token": SECRET}]]]]]]]]}, SECRET),
        ({"error": ValueError(SECRET)}, SECRET),
    ],
)
def test_no_secret_gets_into_the_log(log_file: Path, values: dict[str, Any], hidden: str) -> None:
    structlog.get_logger("here").info("something", **values)
    logging.getLogger("library").warning("something %s", values)
    text = log_file.read_text()
    assert hidden not in text.splitlines()[0]
    assert SECRET not in text


def test_words_that_only_sound_like_secrets_stay(log_file: Path) -> None:
    structlog.get_logger("here").info(
        "tokens counted", tokens_total=3, rule="restart_service", url="http://127.0.0.1:8800/x"
    )
    [entry] = entries(log_file)
    assert (entry["tokens_total"], entry["rule"], entry["url"]) == (3, "restart_service", "http://127.0.0.1:8800/x")
