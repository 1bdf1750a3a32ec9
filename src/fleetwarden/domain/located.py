"""A parsed file as values that know where they stand.

An adapter turns text into this tree; the rules about what may stand where live in `domain`.  Every refusal can name
file, line and reason because no value is ever separated from its line.  A scalar keeps its source text, so that a
rule can tell `off` (text) from `false`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

import msgspec

from fleetwarden.domain.errors import Misconfigured, Problem
from fleetwarden.domain.identifiers import JsonValue

__all__ = ["Findings", "Node", "located"]


class Node(msgspec.Struct, frozen=True, gc=False):
    """A value with its file and 1-based line.

    `value` is a scalar (str, int, float, bool, None), a tuple of Nodes, or, for a mapping, a tuple of (key Node, value
    Node) pairs with `mapping` true.  Pairs keep their order; duplicate keys are kept for a rule to refuse.
    """

    value: JsonValue
    file: str
    line: int
    text: str = ""
    mapping: bool = False

    @property
    def is_list(self) -> bool:
        return isinstance(self.value, tuple) and not self.mapping

    def pairs(self) -> tuple[tuple[Node, Node], ...]:
        assert self.mapping
        return self.value  # type: ignore[no-any-return]

    def items(self) -> tuple[Node, ...]:
        assert self.is_list
        return self.value  # type: ignore[no-any-return]

    def get(self, key: str) -> Node | None:
        """The value under `key` of a mapping, or None."""
        return next((value for name, value in self.pairs() if name.value == key), None)

    def plain(self) -> JsonValue:
        """The value without places."""
        if self.mapping:
            return {str(key.value): value.plain() for key, value in self.pairs()}
        if self.is_list:
            return [item.plain() for item in self.items()]
        return self.value

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def shape(self) -> str:
        """What it is, in words for a message."""
        if self.mapping:
            return "a mapping"
        if self.is_list:
            return "a list"
        names = {str: "text", bool: "true/false", int: "a whole number", float: "a number", type(None): "nothing"}
        return names.get(type(self.value), "a value")


class Findings:
    """Collects problems while a tree is read, so that one reading names all of them."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def problem(self, node: Node, reason: str) -> None:
        self.problems.append(Problem(node.file, node.line, reason))

    def warn(self, node: Node, reason: str) -> None:
        self.warnings.append(Problem(node.file, node.line, reason))

    def keys(self, node: Node, known: Iterable[str], later: Iterable[str] = ()) -> dict[str, Node]:
        """The entries of a mapping, with a finding for each that is unknown, doubled, or not supported yet."""
        known, later = tuple(known), frozenset(later)
        found: dict[str, Node] = {}
        for key, value in node.pairs():
            name = key.value
            if not isinstance(name, str):
                self.problem(key, f"key {key.text or name!r} is {key.shape}, a key is text")
            elif name in found:
                self.problem(key, f"key {name!r} stands here twice")
            elif name in later:
                self.problem(key, f"{name!r} is not supported yet")
            elif name not in known:
                close = get_close_matches(name, known, n=1)
                self.problem(key, f"unknown key {name!r}" + (f" (did you mean {close[0]!r}?)" if close else ""))
            else:
                found[name] = value
        return found

    def raise_if_any(self, what: str) -> None:
        """Raise Misconfigured naming every problem, in the order of their lines."""
        if self.problems:
            count = len(self.problems)
            raise Misconfigured(f"{what}: {count} problem{'s' if count > 1 else ''}", sorted(self.problems))


def located(value: JsonValue, file: str, line: int = 0) -> Node:
    """Wrap plain values (an API body, a stored override) as a tree whose every place is `file:line`."""
    return Node(_wrap(value, file, line), file, line, text=str(value), mapping=isinstance(value, dict))


def _wrap(value: JsonValue, file: str, line: int) -> JsonValue:
    if isinstance(value, dict):
        return tuple(_pairs(value, file, line))
    if isinstance(value, (list, tuple)):
        return tuple(located(item, file, line) for item in value)
    return value


def _pairs(value: dict[str, JsonValue], file: str, line: int) -> Iterator[tuple[Node, Node]]:
    for key, item in value.items():
        yield Node(key, file, line, text=str(key)), located(item, file, line)
