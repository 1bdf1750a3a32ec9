"""A recording from a CSV file.  Every line that cannot be used is named with its number; none is skipped or guessed.

time,jobs_waiting            or  time,value  where there is one signal; also without a header
2026-12-01T08:00:00Z,120     or seconds since 1970
2026-12-01T08:00:15Z,        an empty cell: nothing was measured
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from fleetwarden.domain.errors import Misconfigured, Problem
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.lab.recordings import TICKS_MAX, Recording

__all__ = ["parse_csv", "read_csv"]

PROBLEMS_SHOWN = 20
BYTES_MAX = 512 * 1024 * 1024
SECONDS_MAX = 1e11  # a time beyond it is in milliseconds, or no time
TIME_HEADS = ("time", "timestamp", "at", "date", "ts")
REPLICAS = "replicas"
COUNT_MAX = 1e9
_WORDS = {"nan": math.nan, "inf": math.inf, "+inf": math.inf, "-inf": -math.inf}


class _BadCell(Exception):
    """What is wrong with one cell, in words."""


def read_csv(path: Path, signals: Sequence[str]) -> Recording:
    """The recording in that file.  Raises Misconfigured naming each bad line."""
    name = str(path)
    try:
        if not path.is_file():
            reason = "is no regular file" if path.exists() else "does not exist"
            raise Misconfigured(f"{name} cannot be read", [Problem(name, 0, reason)])
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise Misconfigured(f"{name} cannot be read", [Problem(name, 0, error.strerror or str(error))]) from error
    if len(data) > BYTES_MAX:
        raise Misconfigured(f"{name} cannot be read", [Problem(name, 0, f"it is larger than {BYTES_MAX:,} bytes")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = Problem(name, line, f"byte 0x{data[error.start]:02x} is not UTF-8")
        raise Misconfigured(f"{name} cannot be read", [problem]) from error
    return parse_csv(text, name, signals)


def parse_csv(text: str, name: str, signals: Sequence[str]) -> Recording:
    """The recording in that text.  `signals`: which columns are wanted.  Raises Misconfigured naming each bad line."""
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    made = _Reading(name, signals)
    try:
        for row in rows:
            if row and any(row):
                made.take(rows.line_num, row)
    except csv.Error as error:
        made.problem(rows.line_num, f"is no CSV: {error}")
    return made.recording()


class _Reading:
    """Rows in, a recording or its problems out."""

    def __init__(self, name: str, signals: Sequence[str]) -> None:
        self._name = name
        self._signals = tuple(signals)
        self._problems: list[Problem] = []
        self._bad = 0
        self._width = 0
        self._columns: list[tuple[int, list[float], Callable[[str], float]]] = []
        self._values: dict[str, list[float]] = {}
        self._replicas: list[float] | None = None
        self._times: list[Micros] = []
        self._last: Micros = -1  # of the line before, whether or not its values can be used

    def problem(self, line: int, reason: str) -> None:
        self._bad += 1
        if len(self._problems) < PROBLEMS_SHOWN:
            self._problems.append(Problem(self._name, line, reason))

    def take(self, line: int, row: list[str]) -> None:
        """One row that is not empty."""
        if not self._width:
            self._width = len(row)
            if not self._headless(row):
                self._heads(line, [one.strip() for one in row])
                return
        if len(row) != self._width:
            self.problem(line, f"{len(row)} cells where the first line has {self._width}")
            return
        try:
            at = _time(row[0])
            if at <= self._last:
                raise _BadCell(f"{row[0].strip()} is not later than the line before: rows go from old to new")
            self._last = at
            cells = [read(row[place]) for place, _, read in self._columns]
        except _BadCell as error:
            self.problem(line, str(error))
            return
        self._times.append(at)
        for (_, column, _), value in zip(self._columns, cells, strict=True):
            column.append(value)
        if len(self._times) > TICKS_MAX:
            raise Misconfigured(
                f"{self._name} cannot be used", [Problem(self._name, line, f"more than {TICKS_MAX:,} rows")]
            )

    def recording(self) -> Recording:
        """Raises Misconfigured if anything was wrong, or nothing was there."""
        if self._bad:
            more = self._bad - len(self._problems)
            shown = [*self._problems, Problem(self._name, 0, f"and {more:,} more lines")] if more else self._problems
            told = "1 line" if self._bad == 1 else f"{self._bad:,} lines"
            raise Misconfigured(f"{self._name} cannot be used: {told} to put right", shown)
        if not self._times:
            raise Misconfigured(
                f"{self._name} has no samples", hint=f"a header such as time,{','.join(self._signals)}, then rows"
            )
        return Recording(name=self._name, times=self._times, values=self._values, replicas=self._replicas)

    def _headless(self, row: list[str]) -> bool:
        """Whether this is data already: a time, and a value of the only signal."""
        try:
            _time(row[0])
        except _BadCell:
            return False
        if len(self._signals) == 1 and len(row) == 2:
            self._add(self._signals[0], 1)
            return True
        return False

    def _heads(self, line: int, heads: list[str]) -> None:
        wanted = f"time,{','.join(self._signals)}"
        if heads[0].casefold() not in TIME_HEADS:
            self._refuse(line, f"begins with {heads[0]!r}: the first line is a header such as {wanted}")
        doubled = sorted({one for one in heads if heads.count(one) > 1})
        if doubled:
            self._refuse(line, f"column {doubled[0]!r} stands here twice")
        for signal in self._signals:
            if signal in heads[1:]:
                self._add(signal, heads.index(signal, 1))
            elif len(self._signals) == 1 and (place := _place(heads, "value")):
                self._add(signal, place)
            else:
                self._refuse(line, f"no column {signal}: the header has to name each signal, such as {wanted}")
        if REPLICAS not in self._signals and (place := _place(heads, REPLICAS)):
            self._replicas = []
            self._columns.append((place, self._replicas, _count))

    def _add(self, signal: str, place: int) -> None:
        self._values[signal] = []
        self._columns.append((place, self._values[signal], _value))

    def _refuse(self, line: int, reason: str) -> None:
        raise Misconfigured(f"{self._name} cannot be used", [Problem(self._name, line, reason)])


def _place(heads: Sequence[str], name: str) -> int:
    """The column of that name, in whatever case; 0 if there is none."""
    return next((place for place, one in enumerate(heads) if place and one.casefold() == name), 0)


def _number(text: str) -> float | None:
    """A decimal number such as 12, -0.5 or 1e3, or None; Python would also take 1_000, nan and digits of any script."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if text.isascii() and "_" not in text and math.isfinite(number) else None


def _time(text: str) -> Micros:
    at = _number(text)
    if at is not None:
        if not 0 <= at <= SECONDS_MAX:
            hint = ": milliseconds? seconds since 1970 are meant" if at > SECONDS_MAX else ""
            raise _BadCell(f"{text.strip()} is no time{hint}")
        return round(at * SECOND)
    try:
        when = datetime.fromisoformat(text.strip())
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        at = when.timestamp()
    except (ValueError, OverflowError):
        raise _BadCell(f"{_short(text)} is no time: seconds since 1970, or such as 2026-12-01T08:00:00Z") from None
    if at < 0:
        raise _BadCell(f"{text.strip()} lies before 1970")
    return round(at * SECOND)


def _value(text: str) -> float:
    number = _number(text)
    if number is not None:
        return number
    said = text.strip()
    if not said:
        return math.nan
    word = _WORDS.get(said.casefold())
    if word is None:
        raise _BadCell(f"{_short(text)} is no number: an empty cell says that nothing was measured")
    return word


def _count(text: str) -> float:
    said = text.strip()
    if not said:
        return math.nan
    number = _number(said)
    if number is None or not 0 <= number <= COUNT_MAX or number % 1:
        raise _BadCell(f"{_short(text)} is no count of replicas")
    return number


def _short(text: str) -> str:
    said = text.strip()
    return repr(said if len(said) <= 40 else f"{said[:40]}…")
