"""Logs of a running plane: one JSON object a line, in a file of the data folder, never on the screen.

The file is rotated by size, so that a plane that runs for years fills no disk, and belongs to its owner only.  A secret
never gets into it: fields that are named like one, and every text that holds a token or a password in an address, are
masked on the way.  What other libraries log goes the same way.
"""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Mapping, MutableMapping
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import structlog

from fleetwarden.app.settings import Settings
from fleetwarden.domain.errors import Misconfigured

__all__ = ["LOG_FILE", "masked", "start_logging", "stop_logging"]

LOG_FILE = "plane.log"
BYTES_MAX = 10 * 1024 * 1024
KEPT = 5
MASK = "***"
_SECRET_KEY = re.compile(r"secret|password|passwd|authorization|cookie|(?:^|_)tokens?$", re.IGNORECASE)
_TOKEN = re.compile(r"fw_[A-Za-z0-9_-]{8,}")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")
_IN_ADDRESS = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)(?P<user>[^\s/@:]*):(?P<password>[^\s/@]+)@", re.IGNORECASE)
_DEPTH_MAX = 6
_COLOURED = frozenset({"color_message"})  # the server's second form of a message, for terminals


class _OwnersFile(RotatingFileHandler):
    """A rotated file that only its owner can read, from its first byte on."""

    def _open(self) -> Any:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return os.fdopen(descriptor, self.mode, encoding=self.encoding, errors=self.errors)


def start_logging(settings: Settings) -> Path:
    """Send the logs of this process to the data folder, from the level of the settings up; returns the file.

    Raises Misconfigured if the file cannot be opened.
    """
    path = settings.fleet_data_dir / LOG_FILE
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.processors.format_exc_info,
    ]
    try:
        handler = _OwnersFile(path, mode="a", maxBytes=BYTES_MAX, backupCount=KEPT, encoding="utf-8")
    except OSError as error:
        raise Misconfigured(f"the log file {path} cannot be opened: {error.strerror}") from error
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _mask,
                structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
            ],
        )
    )
    root = logging.getLogger()
    stop_logging()
    root.addHandler(handler)
    root.setLevel(settings.fleet_log_level.upper())
    logging.captureWarnings(True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,  # loggers are made at import, before the settings are known
    )
    warnings.simplefilter("default")
    return path


def stop_logging() -> None:
    """Close the file."""
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, _OwnersFile)]:
        root.removeHandler(handler)
        handler.close()


def _mask(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {key: masked(key, value) for key, value in event.items() if key not in _COLOURED}


def masked(key: str, value: Any, depth: int = 0) -> Any:
    """A value of a log line without secrets; nested values too, down to a bounded depth."""
    if _SECRET_KEY.search(key) and value not in (None, "", True, False):
        return MASK
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    if isinstance(value, str):
        return _clean(value)
    if depth >= _DEPTH_MAX:
        return _clean(str(value))
    if isinstance(value, Mapping):
        return {str(name): masked(str(name), one, depth + 1) for name, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [masked("", one, depth + 1) for one in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return _clean(str(value))


def _clean(text: str) -> str:
    text = _TOKEN.sub(f"fw_{MASK}", text)
    text = _BEARER.sub(rf"\1 {MASK}", text)
    return _IN_ADDRESS.sub(rf"\g<scheme>\g<user>:{MASK}@", text)
