"""Single values of a located tree, read strictly: each comes out typed and within its range, or as a finding.

Every reader takes the field's name for its message and returns None after it has recorded a problem, so that one
reading can name all problems of an entry.  Nothing is converted: "3" is text and not a count, true is not 1, and 1.10
is a number that has already lost its zero.  No reader knows what a field is for.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from fleetwarden.domain.located import Findings, Node

__all__ = ["close", "number", "problem_of_number", "problem_of_whole", "quoted", "text", "texts", "whole", "word"]

SHOWN_MAX = 60
CONTROL = frozenset(map(chr, (*range(32), 127)))


def quoted(node: Node) -> str:
    """The value as a message shows it: bounded, quotes around text."""
    if node.mapping or node.is_list or node.value is None:
        return node.shape
    shown = node.text if len(node.text) <= SHOWN_MAX else node.text[:SHOWN_MAX] + "…"
    return f'"{shown}"' if isinstance(node.value, str) else shown


def close(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)`, or nothing where no known name is close."""
    found = get_close_matches(name, list(known), n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def problem_of_whole(node: Node, low: int, high: int) -> str | None:
    """Why this is no whole number from `low` to `high`, or None."""
    value = node.value
    wanted = f"a whole number from {low:,} to {high:,}"
    if type(value) is not int:
        return f"{quoted(node)} is {_shape(node)}, {wanted} is needed{_unquote(node)}"
    if not low <= value <= high:
        return f"{quoted(node)} is out of range, {wanted} is needed"
    return None


def problem_of_number(node: Node, low: float, high: float, *, above: bool = False) -> str | None:
    """Why this is no finite number from `low` (`above`: greater than `low`) to `high`, or None."""
    value = node.value
    wanted = f"a number {'above' if above else 'from'} {low:,g} to {high:,g}"
    if type(value) not in (int, float):
        return f"{quoted(node)} is {_shape(node)}, {wanted} is needed{_unquote(node)}"
    if not low <= value <= high or (above and value == low):  # false for NaN, too
        return f"{quoted(node)} is out of range, {wanted} is needed"
    return None


def whole(findings: Findings, field: str, node: Node, low: int, high: int) -> int | None:
    """A whole number in [low, high]."""
    if problem := problem_of_whole(node, low, high):
        findings.problem(node, f"{field}: {problem}")
        return None
    return int(node.value)


def number(findings: Findings, field: str, node: Node, low: float, high: float) -> float | None:
    """A finite number in [low, high]."""
    if problem := problem_of_number(node, low, high):
        findings.problem(node, f"{field}: {problem}")
        return None
    return float(node.value)


def text(findings: Findings, field: str, node: Node, *, longest: int = 4096, show: bool = True) -> str | None:
    """Text of 1 to `longest` characters without control characters.  `show` false keeps a secret out of the message."""
    value = node.value
    if not isinstance(value, str):
        plain = type(value) in (int, float, bool)
        hint = f': quote it: "{node.text[:SHOWN_MAX] if show else "…"}"' if plain else ""
        findings.problem(
            node, f"{field}: {quoted(node) + ' is ' if plain and show else ''}{node.shape}, text is needed{hint}"
        )
    elif not value:
        findings.problem(node, f"{field}: empty text")
    elif len(value) > longest:
        findings.problem(node, f"{field}: {len(value):,} characters, the limit is {longest:,}")
    elif not CONTROL.isdisjoint(value):
        findings.problem(node, f"{field}: control characters (a line break?) cannot stand here")
    else:
        return value
    return None


def texts(findings: Findings, field: str, node: Node) -> tuple[str, ...] | None:
    """A list of one or more texts, such as the words of a command."""
    if not node.is_list:
        example = '["python", "server.py"]'
        findings.problem(node, f"{field}: {quoted(node)} is {node.shape}, a list of words is needed, such as {example}")
        return None
    if not node.items():
        findings.problem(node, f"{field}: an empty list")
        return None
    words = [_word_of_list(findings, f"{field}[{place}]", item) for place, item in enumerate(node.items())]
    found = tuple(one for one in words if one is not None)
    return found if len(found) == len(words) else None


def _word_of_list(findings: Findings, field: str, node: Node) -> str | None:
    if isinstance(node.value, str) and "\0" not in node.value:
        return node.value  # a script with line breaks, or an empty word, is a word of a command
    return text(findings, field, node)


def word(findings: Findings, field: str, node: Node, known: Iterable[str]) -> str | None:
    """One of the known words."""
    known = tuple(known)
    if isinstance(node.value, str) and node.value in known:
        return node.value
    hint = close(node.value, known) if isinstance(node.value, str) else ""
    findings.problem(node, f"{field}: {quoted(node)} is none of {', '.join(known)}{hint}")
    return None


def _shape(node: Node) -> str:
    if isinstance(node.value, str) and len(node.value) > SHOWN_MAX and node.value.strip("+-").isdigit():
        return f"a number of {len(node.value):,} digits"
    return node.shape


def _unquote(node: Node) -> str:
    plain = (
        isinstance(node.value, str) and node.value.isascii() and node.value.isdigit() and len(node.value) <= SHOWN_MAX
    )
    return " (write it without quotes)" if plain else ""
