"""The `.env` file of a configuration folder: names and values with their lines, read strictly.

The file is also read by shells, systemd and Compose, which disagree about its corners.  So only the part that all of
them read alike is accepted: `NAME=value`, quotes around a whole value, comments.  Variables are not filled in; where a
shell would do so, the line is refused rather than read in another way.  No value is ever shown in a message, because
any of them may be a secret.
"""

from __future__ import annotations

import re

import msgspec

from fleetwarden.domain.errors import Problem

__all__ = ["Assignment", "parse_env"]

_ASSIGNMENT = re.compile(r"(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<rest>.*)")
_SINGLE = re.compile(r"'(?P<text>[^']*)'(?P<after>.*)")
_DOUBLE = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"(?P<after>.*)')
_FILLED_IN = re.compile(r"\$[A-Za-z_{(]|`")
_COMMENT = re.compile(r"(?:^|[ \t])#.*")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "$": "$", "`": "`"}


class Assignment(msgspec.Struct, frozen=True):
    """One `NAME=value`.  `line` counts from 1."""

    name: str
    value: str
    line: int


def parse_env(text: str, file: str) -> tuple[list[Assignment], list[Problem]]:
    """Every assignment that can be read, and a finding for each line that cannot, and for each doubled name."""
    assignments: list[Assignment] = []
    problems: list[Problem] = []
    first: dict[str, int] = {}
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        written = _ASSIGNMENT.fullmatch(line)
        if written is None:
            problems.append(Problem(file, number, "is neither NAME=value (without spaces around '=') nor a comment"))
            continue
        name = written["name"]
        value, problem = _value(written["rest"])
        if problem:
            problems.append(Problem(file, number, f"{name}: {problem}"))
        elif name in first:
            problems.append(Problem(file, number, f"{name} stands here twice, first in line {first[name]}"))
        else:
            assignments.append(Assignment(name, value, number))
        first.setdefault(name, number)
    return assignments, problems


def _value(rest: str) -> tuple[str, str]:
    """The value that is written after the '=', or "" and what is wrong with it."""
    if rest[:1] in (" ", "\t"):
        return "", "a space after '=': write NAME=value"
    for quote, pattern in (("'", _SINGLE), ('"', _DOUBLE)):
        if rest.startswith(quote):
            quoted = pattern.fullmatch(rest)
            if quoted is None:
                return "", f"the closing {quote} is missing"
            if _COMMENT.sub("", quoted["after"]).strip():
                return "", f"text after the closing {quote}"
            return (quoted["text"], "") if quote == "'" else _unescaped(quoted["text"])
    value = _COMMENT.sub("", rest).strip()
    if _FILLED_IN.search(value):
        return "", "variables and commands are not filled in here: write the value, in '…' if it holds a '$' or '`'"
    return value, ""


def _unescaped(text: str) -> tuple[str, str]:
    plain: list[str] = []
    place = 0
    while place < len(text):
        if text[place] == "\\":
            escape = text[place + 1]  # the pattern lets no backslash stand last
            if escape not in _ESCAPES:
                return "", f'unknown \\{escape} in a "…" value: write \\\\ for one backslash'
            plain.append(_ESCAPES[escape])
            place += 2
        elif _FILLED_IN.match(text, place):
            return "", "variables and commands are not filled in here: write the value, in '…' if it holds a '$' or '`'"
        else:
            plain.append(text[place])
            place += 1
    return "".join(plain), ""
