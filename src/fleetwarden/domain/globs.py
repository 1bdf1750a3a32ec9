"""Glob patterns of policy rules: `*`, `?` and `[...]`, case matters, compiled once.

The matching is exactly that of `fnmatch.fnmatchcase`; what this module adds is what a rule needs to know about its own
pattern: whether it is exact, how many of its characters are literal (its specificity), the literal text that it begins
with and its longest literal run, its core (how an index finds it).  A pattern is never interpreted anywhere else.
"""

from __future__ import annotations

import re
from fnmatch import translate

__all__ = ["Glob"]


class Glob:
    """A compiled pattern.  Immutable by habit: nothing writes to it after the constructor."""

    __slots__ = ("_match", "core", "exact", "literals", "pattern", "prefix", "unclosed")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        tokens, self.unclosed = _tokens(pattern)
        wild = [at for at, (literal, _) in enumerate(tokens) if not literal]
        self.exact = not wild
        self.literals = len(tokens) - len(wild)
        self.prefix = "".join(text for _, text in tokens[: wild[0]]) if wild else pattern
        self.core = max("".join(text if literal else "\0" for literal, text in tokens).split("\0"), key=len)
        self._match = None if self.exact else re.compile(translate(pattern)).match

    def matches(self, text: str) -> bool:
        if self._match is None:
            return text == self.pattern
        return self.core in text and self._match(text) is not None  # most patterns fail on their longest literal run

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Glob) and other.pattern == self.pattern

    def __hash__(self) -> int:
        return hash(self.pattern)

    def __repr__(self) -> str:
        return f"Glob({self.pattern!r})"


def _tokens(pattern: str) -> tuple[list[tuple[bool, str]], bool]:
    """Split into (is literal, text) tokens the way fnmatch reads them; and whether a `[` is never closed."""
    tokens: list[tuple[bool, str]] = []
    unclosed = False
    at, end = 0, len(pattern)
    while at < end:
        char = pattern[at]
        step = 1
        if char == "[":
            close = at + 1
            if close < end and pattern[close] == "!":
                close += 1
            close = pattern.find("]", close + 1)  # a `]` that comes first belongs to the set
            if close < 0:
                unclosed = True
            else:
                step = close + 1 - at
        literal = char not in "*?" and step == 1
        tokens.append((literal, pattern[at : at + step]))
        at += step
    return tokens, unclosed
