"""YAML text as a tree of values that know their line, or one refusal that says where and why.

PyYAML's composer turns a bare `off` into False and a bare `1.10` into 1.1 before anybody can object, and takes seconds
for a large registry.  So only its event stream is used here (libyaml's, where it is compiled in): the tree is built
from the events in one flat loop, and scalars follow YAML 1.2's core schema, in which `off`, `on`, `yes` and `no` are
text.  A file is somebody's mistake until it has been read whole: size, depth and the expansion of aliases are bounded,
tags are refused, and nothing of a broken file is ever handed out.  What may stand where is the domain's affair; doubled
keys are kept, so that the rules can name both.

JSON is YAML, and is read by the same code.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)

from fleetwarden.domain.errors import Misconfigured, Problem
from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.domain.located import Node

__all__ = ["ALIASED_NODES_MAX", "DEPTH_MAX", "FILE_BYTES_MAX", "decode", "parse", "resolve"]

FILE_BYTES_MAX = 16 * 1024 * 1024
DEPTH_MAX = 64  # mappings and lists inside each other, aliases followed
ALIASED_NODES_MAX = 1_000_000  # values that aliases add to what is written
DIGITS_MAX = 400  # longer whole numbers stay text: no field has room for one, and Python takes quadratic time for it

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MAY_BE_MORE_THAN_TEXT = frozenset("0123456789+-.~nNtTfF")
_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_WORDS: dict[str, JsonValue] = {
    **dict.fromkeys(("~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
# What libyaml's scanner says, and what the person who wrote the file should look at.
_PLAIN_WORDS = (
    (
        "cannot start any token",
        "a value cannot begin with this character (a tab used to indent? then use spaces; else quote it)",
    ),
    (
        "mapping values are not allowed",
        "a ':' where no key can be: wrong indentation, or a value with ': ' in it to be quoted",
    ),
    ("did not find expected key", "this line does not fit the block above it: wrong indentation, or text to be quoted"),
    (
        "did not find expected '-' indicator",
        "this line does not fit the list above it: wrong indentation, or a '-' is missing",
    ),
    ("could not find expected ':'", "a ':' is missing after the key"),
    ("did not find expected ',' or '}'", "a '{' is not closed: expected ',' or '}'"),
    ("did not find expected ',' or ']'", "a '[' is not closed: expected ',' or ']'"),
    ("found unexpected end of stream", "the file ends inside a quoted value: a closing quote is missing"),
    ("did not find expected node content", "a value is missing here"),
    ("did not find expected <document start>", "text after the end of the document"),
    ("exceeded maximum nesting depth", f"nested deeper than {DEPTH_MAX} levels"),
    (
        "found unknown escape character",
        'unknown \\ escape in a "…" value: write \\\\ for one backslash, or use single quotes',
    ),
)


def decode(data: bytes, file: str) -> str:
    """The text of a file, or Misconfigured: over 16 MiB, a byte order mark, or bytes that are not UTF-8."""
    if len(data) > FILE_BYTES_MAX:
        _refuse(file, 0, f"{len(data):,} bytes, the limit is {FILE_BYTES_MAX:,}")
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        _refuse(file, 1, "begins with a byte order mark: save it as UTF-8 without one")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Misconfigured(
            f"{file} cannot be read",
            [Problem(file, line, f"byte 0x{data[error.start]:02x} is not UTF-8: save it as UTF-8")],
        ) from error


def parse(text: str, file: str) -> Node:
    """The tree of one YAML document.  A file with nothing in it is an empty mapping.

    `file` is the name that findings show.  Raises Misconfigured with the file, the line and a plain reason; never
    anything else, and never returns half a tree.
    """
    if len(text) > FILE_BYTES_MAX:
        _refuse(file, 0, f"{len(text):,} characters, the limit is {FILE_BYTES_MAX:,}")
    if text.startswith("\ufeff"):
        _refuse(file, 1, "begins with a byte order mark: save it as UTF-8 without one")
    if odd := _UNPRINTABLE.search(text):
        line = text.count("\n", 0, odd.start()) + 1
        _refuse(file, line, f"control character U+{ord(odd.group()):04X}: a text file holds none")
    loader = _Loader(text)
    try:
        return _Builder(file).build(loader.get_event)
    except yaml.YAMLError as error:
        raise Misconfigured(f"{file} cannot be read", [_problem(error, file, text)]) from error
    finally:
        loader.dispose()


def resolve(text: str) -> JsonValue:
    """The value of a plain (unquoted) scalar by YAML 1.2's core schema."""
    if not text:
        return None
    if text[0] not in _MAY_BE_MORE_THAN_TEXT:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > DIGITS_MAX:
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _OCTAL.fullmatch(text):
        return int(text, 0)
    if _HEX.fullmatch(text):
        return int(text, 0)
    if infinite := _INFINITE.fullmatch(text):
        return float(infinite.group(1) + "inf")
    return text


class _Open:
    """A mapping or list that is not closed yet.  `merges` holds the places of its `<<` keys among `children`."""

    __slots__ = ("anchor", "children", "height", "is_mapping", "line", "merges", "size_before")

    def __init__(self, is_mapping: bool, line: int, anchor: str | None, size_before: int) -> None:
        self.is_mapping = is_mapping
        self.line = line
        self.anchor = anchor
        self.size_before = size_before
        self.children: list[Node] = []
        self.height = 1
        self.merges: list[int] = []


class _Builder:
    """Builds one document's tree from its events, without recursion."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.open: list[_Open] = []
        self.root: Node | None = None
        self.documents = 0
        self.size = 0  # nodes, aliases counted with all they stand for
        self.aliased = 0
        self.anchors: dict[str, tuple[Node, int, int]] = {}  # node, size, height

    def build(self, next_event: Callable[[], Any]) -> Node:
        handlers: dict[type, Callable[[Any], None]] = {
            MappingStartEvent: self._start_mapping,
            MappingEndEvent: self._end_mapping,
            SequenceStartEvent: self._start_list,
            SequenceEndEvent: self._end_list,
            AliasEvent: self._alias,
            DocumentStartEvent: self._document,
            DocumentEndEvent: lambda _: None,
            StreamStartEvent: lambda _: None,
        }
        scalar = self._scalar
        event = next_event()
        while (kind := type(event)) is not StreamEndEvent:
            if kind is ScalarEvent:  # three of four: no look-up for these
                scalar(event)
            else:
                handlers[kind](event)
            event = next_event()
        return self.root if self.root is not None else Node((), self.file, 1, "", True)

    def _scalar(self, event: Any) -> None:
        text = event.value
        if event.tag is not None:
            self._refuse_tag(event)
        value = text
        if event.implicit[0]:  # plain: neither quoted nor a block of text
            if text == "<<":
                self._note_merge()
            elif not text or text[0] in _MAY_BE_MORE_THAN_TEXT:
                value = resolve(text)
        self.size += 1
        node = Node(value, self.file, event.start_mark.line + 1, text)
        if event.anchor is not None:
            self.anchors[event.anchor] = (node, 1, 0)
        if self.open:
            self.open[-1].children.append(node)
        else:
            self.root = node

    def _note_merge(self) -> None:
        if self.open and self.open[-1].is_mapping and len(self.open[-1].children) % 2 == 0:
            self.open[-1].merges.append(len(self.open[-1].children))

    def _start_mapping(self, event: Any) -> None:
        self._start(event, is_mapping=True)

    def _start_list(self, event: Any) -> None:
        self._start(event, is_mapping=False)

    def _start(self, event: Any, *, is_mapping: bool) -> None:
        line = event.start_mark.line + 1
        if event.tag is not None:
            self._refuse_tag(event)
        if len(self.open) >= DEPTH_MAX:
            _refuse(self.file, line, f"nested deeper than {DEPTH_MAX} levels")
        self.size += 1
        self.open.append(_Open(is_mapping, line, event.anchor, self.size - 1))
        if event.anchor is not None:
            self.anchors.pop(event.anchor, None)

    def _end_list(self, _event: Any) -> None:
        ended = self.open.pop()
        self._close(ended, Node(tuple(ended.children), self.file, ended.line))

    def _end_mapping(self, _event: Any) -> None:
        ended = self.open.pop()
        inner = ended.children
        keys = inner[::2]
        for key in keys:
            if type(key.value) is tuple:
                _refuse(self.file, key.line, f"a key is text, not {key.shape}")
        pairs = tuple(zip(keys, inner[1::2], strict=True))
        if ended.merges:
            pairs = self._merged(pairs, {place // 2 for place in ended.merges})
        self._close(ended, Node(pairs, self.file, ended.line, "", True))

    def _close(self, ended: _Open, node: Node) -> None:
        if ended.anchor is not None:
            self.anchors[ended.anchor] = (node, self.size - ended.size_before, ended.height)
        self._put(node, ended.height)

    def _put(self, node: Node, height: int) -> None:
        if not self.open:
            self.root = node
            return
        parent = self.open[-1]
        parent.children.append(node)
        if height >= parent.height:
            parent.height = height + 1

    def _alias(self, event: Any) -> None:
        line = event.start_mark.line + 1
        name = event.anchor
        if name not in self.anchors:
            own = any(one.anchor == name for one in self.open)
            _refuse(self.file, line, f"*{name} stands inside itself" if own else f"*{name}: no &{name} stands above it")
        node, size, height = self.anchors[name]
        self.size += size
        self.aliased += size
        if self.aliased > ALIASED_NODES_MAX:
            _refuse(self.file, line, f"aliases add more than {ALIASED_NODES_MAX:,} values")
        if len(self.open) + height > DEPTH_MAX:
            _refuse(self.file, line, f"*{name} makes it nested deeper than {DEPTH_MAX} levels")
        self._put(node, height)

    def _merged(self, pairs: tuple[tuple[Node, Node], ...], merges: set[int]) -> tuple[tuple[Node, Node], ...]:
        """A mapping's own entries, then what `<<` brings and they do not name; the first mapping merged wins."""
        own = [pair for place, pair in enumerate(pairs) if place not in merges]
        named = {key.value for key, _ in own}
        brought: list[tuple[Node, Node]] = []
        for place in sorted(merges):
            key, value = pairs[place]
            for source in value.items() if value.is_list else (value,):
                if not source.mapping:
                    _refuse(self.file, key.line, f"<< merges a mapping or a list of mappings, not {source.shape}")
                fresh = [pair for pair in source.pairs() if pair[0].value not in named]
                named.update(name.value for name, _ in fresh)
                brought += fresh
        return (*own, *brought)

    def _document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            _refuse(self.file, event.start_mark.line + 1, "a second document begins here ('---'): a file holds one")

    def _refuse_tag(self, event: Any) -> NoReturn:
        tag = event.tag.replace("tag:yaml.org,2002:", "!!")
        _refuse(
            self.file,
            event.start_mark.line + 1,
            f"tag {tag[:80]} is refused: values here are plain text, numbers and lists",
        )


def _refuse(file: str, line: int, reason: str) -> NoReturn:
    raise Misconfigured(f"{file} cannot be read", [Problem(file, line, reason)])


def _problem(error: yaml.YAMLError, file: str, text: str) -> Problem:
    """What libyaml says, in words for the person who wrote the file, at the line to look at."""
    said = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    plain = next((plain for part, plain in _PLAIN_WORDS if part in said), said)
    mark, begun = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    if begun is not None and ("is not closed" in plain or "closing quote" in plain):
        mark = begun  # it is missed far behind the place where it was opened
    last = text.rstrip().count("\n") + 1
    line = 0 if mark is None else min(mark.line + 1, last)  # the end of the file is its last line with something in it
    if begun is not None and begun.line + 1 < line:
        plain += f" (begun in line {begun.line + 1})"
    return Problem(file, line, plain)
