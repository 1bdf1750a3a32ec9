"""Placeholders in the texts of a process block: `{port}`, `{index}`, `{version}`, `{name}`.

One small grammar for everybody: the reader of the registry refuses what it cannot fill, the substrate fills it.  A
misspelt placeholder must never reach a command line as it stands, so there is no "leave it if unknown".  Only a word
in braces is a placeholder; JSON and other braces pass through.  `{{word}}` is the literal `{word}`, and `${word}`
belongs to the shell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["KNOWN", "expand", "placeholders", "unknown_placeholders"]

KNOWN = ("port", "index", "version", "name")
_PATTERN = re.compile(r"\{\{(?P<literal>[A-Za-z_][A-Za-z0-9_]*)\}\}|(?<!\$)\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")


def placeholders(text: str) -> tuple[str, ...]:
    """The names that `text` wants filled, in their order, doubled ones included."""
    if "{" not in text:
        return ()
    return tuple(found["name"] for found in _PATTERN.finditer(text) if found["name"])


def unknown_placeholders(text: str) -> tuple[str, ...]:
    """The names in `text` that nothing can fill."""
    return tuple(name for name in placeholders(text) if name not in KNOWN)


def expand(text: str, values: Mapping[str, str | int]) -> str:
    """`text` with every placeholder filled.  Raises KeyError for one that `values` does not hold."""
    if "{" not in text:
        return text

    def fill(found: re.Match[str]) -> str:
        literal = found["literal"]
        return "{" + literal + "}" if literal else str(values[found["name"]])

    return _PATTERN.sub(fill, text)
