"""What a terminal gets: plain lines, aligned columns, and colour that only repeats a word.

Text of services and people passes through `clean`, so that an escape sequence in a log line cannot drive the terminal;
square brackets mean nothing here.  A pipe gets whole lines without colour and is never cut to a width; a terminal gets
its last column folded, not truncated.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TextIO

__all__ = ["Screen", "clean", "width_of"]

_NARROWEST = 24  # a last column gets at least this much before folding is given up
_CODES = {"good": "32", "warn": "33", "bad": "31", "quiet": "2"}


def clean(text: object) -> str:
    """One line of printable text: line ends become blanks, other control characters show as their escapes."""
    said = str(text)
    if said.isprintable():
        return said
    joined = " ".join(part.strip() for part in said.splitlines()) if "\n" in said or "\r" in said else said
    return "".join(one if one.isprintable() else " " if one == "\t" else _escaped(one) for one in joined)


def _escaped(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")


def width_of(text: str) -> int:
    """Columns that a text takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


class Screen:
    """Writes lines.  `width`: columns to fold at, None for never; `colour`: whether tones are shown.

    `may_go`: the terminal may go away without that being a failure, as it may for a plane that runs on.
    """

    def __init__(self, out: TextIO, *, width: int | None = None, colour: bool = False) -> None:
        self._out = out
        self.width = width
        self.may_go = False
        self._colour = colour

    @classmethod
    def of_terminal(cls, out: TextIO | None = None) -> Screen:
        """The screen of this process: standard output unless another stream is given."""
        stream = sys.stdout if out is None else out
        terminal = stream.isatty()
        dumb = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        width = shutil.get_terminal_size().columns if terminal else None
        return cls(stream, width=width, colour=terminal and not dumb)

    def tone(self, text: str, tone: str) -> str:
        """`text` in a colour, where colours are shown: good, warn, bad or quiet.  Padding is the caller's."""
        code = _CODES.get(tone) if self._colour else None
        return f"\x1b[{code}m{text}\x1b[0m" if code and text.strip() else text

    def line(self, text: str = "", *, indent: int = 0, tone: str = "") -> None:
        """One cleaned line, folded to the width with `indent` blanks before every further line."""
        for part in self._folded(clean(text), indent):
            self._write(self.tone(part, tone))

    def _folded(self, text: str, indent: int) -> list[str]:
        room = self.width
        if room is None or width_of(text) <= room or room - indent < _NARROWEST:
            return [text]
        head = text[: len(text) - len(text.lstrip())]
        return textwrap.wrap(
            text.strip(),
            room,
            initial_indent=head,
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [text]

    def _write(self, text: str) -> None:
        try:
            self._out.write(text.rstrip() + "\n")
        except OSError:
            if not self.may_go:
                raise

    def continued(self, head: str, text: str, *, indent: int) -> None:
        """A head that is laid out already (it may hold tones), and text behind it that folds at `indent`."""
        first, *rest = self._last_column(clean(text), indent)
        self._write(head + first)
        for more in rest:
            self._write(" " * indent + more)

    def raw(self, text: str) -> None:
        """Text that is already safe and complete, such as JSON."""
        self._out.write(text + "\n")

    def flush(self) -> None:
        try:
            self._out.flush()
        except OSError:
            if not self.may_go:
                raise

    def table(
        self,
        head: Sequence[str],
        rows: Sequence[Sequence[object]],
        *,
        tones: Mapping[str, str] | None = None,
        indent: int = 0,
    ) -> None:
        """Rows in columns under their heads; a cell whose whole text is in `tones` takes that tone.

        The last column is folded under itself on a terminal.
        """
        cells = [[clean(cell) for cell in row] for row in rows]
        shown = [list(head), *cells] if any(head) else cells
        if not shown:
            return
        widths = [max(width_of(row[column]) for row in shown) for column in range(len(head) - 1)]
        start = indent + sum(widths) + 2 * len(widths)
        for row in shown:
            padded = [" " * indent]
            for cell, width in zip(row, widths, strict=False):
                tone = (tones or {}).get(cell, "") if row is not shown[0] or not any(head) else ""
                padded.append(self.tone(cell, tone) + " " * (width - width_of(cell) + 2))
            first, *rest = self._last_column(row[-1], start)
            self._write("".join(padded) + first)
            for more in rest:
                self._write(" " * start + more)

    def _last_column(self, text: str, start: int) -> list[str]:
        room = None if self.width is None else self.width - start
        if room is None or room < _NARROWEST or width_of(text) <= room:
            return [text]
        return textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [text]
