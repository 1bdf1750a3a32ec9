"""Recorded signals: from a CSV file, or a range of a Prometheus.  A gap stays a gap, never a zero."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import msgspec

from fleetwarden.domain.actions import Record
from fleetwarden.domain.errors import Misconfigured, Problem, Retryable

__all__ = ["POINTS_MAX", "Recording", "read_csv", "read_range"]

POINTS_MAX = 5_000_000
RANGE_POINTS_MAX = 10_000  # Prometheus answers at most 11,000 a query


class Recording(Record):
    """`times`: seconds since 1970, ascending; `values`: by signal, one a time, NaN where there is none."""

    times: tuple[float, ...]
    values: Mapping[str, tuple[float, ...]]

    def __post_init__(self) -> None:
        if any(later <= earlier for earlier, later in zip(self.times, self.times[1:], strict=False)):
            raise Misconfigured("a recording's times have to grow from row to row")


def read_csv(path: Path, signals: Sequence[str]) -> Recording:
    """`time,value` (one signal), or `time` and a column for each signal; an empty cell is no sample.

    Times are RFC 3339, or seconds since 1970 (or since any moment).  Raises Misconfigured with file and line.
    """
    times: list[float] = []
    columns: dict[str, list[float]] = {name: [] for name in signals}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            header = [one.strip() for one in next(rows, [])]
            places = _places(header, signals, path)
            for number, row in enumerate(rows, start=2):
                if not row:
                    continue
                if len(row) != len(header):
                    raise _wrong(path, number, f"{len(row)} cells, the header has {len(header)}")
                times.append(_time(row[0], path, number))
                for name, place in places.items():
                    columns[name].append(_value(row[place], path, number))
                if len(times) > POINTS_MAX:
                    raise _wrong(path, number, f"more than {POINTS_MAX:,} rows")
                if len(times) > 1 and times[-1] <= times[-2]:
                    raise _wrong(path, number, "its time is not later than that of the row before")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Misconfigured(f"{path} cannot be read: {error}") from error
    if len(times) < 2:
        raise Misconfigured(f"{path} has no two rows of samples")
    return Recording(times=tuple(times), values={name: tuple(column) for name, column in columns.items()})


def _places(header: Sequence[str], signals: Sequence[str], path: Path) -> dict[str, int]:
    if not header or header[0] != "time":
        raise _wrong(path, 1, f"the first line is a header such as time,{','.join(signals)}")
    if len(signals) == 1 and len(header) == 2 and header[1] in ("value", signals[0]):
        return {signals[0]: 1}
    lacking = [name for name in signals if name not in header]
    if lacking:
        raise _wrong(path, 1, f"no column {', '.join(lacking)}")
    return {name: header.index(name) for name in signals}


def _time(text: str, path: Path, line: int) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise _wrong(path, line, f"{text!r} is no time") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _value(text: str, path: Path, line: int) -> float:
    if not text.strip():
        return math.nan
    try:
        return float(text)
    except ValueError:
        raise _wrong(path, line, f"{text!r} is no number") from None


def _wrong(path: Path, line: int, reason: str) -> Misconfigured:
    return Misconfigured(f"{path} cannot be used", [Problem(str(path), line, reason)])


class _Matrix(msgspec.Struct):
    metric: dict[str, str] = {}
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct):
    result: list[_Matrix] = []


class _Answer(msgspec.Struct):
    status: str = ""
    data: _Data = msgspec.field(default_factory=_Data)
    error: str = ""


def read_range(
    url: str, queries: Mapping[str, tuple[str, str]], service: str, *, start: float, end: float, step_s: float
) -> Recording:
    """`queries`: by signal, the query and its label of the service ("": it answers for one).

    Raises Retryable if the server cannot be asked, Misconfigured if it answers nothing.
    """
    times = [start + number * step_s for number in range(int((end - start) / step_s) + 1)]
    values: dict[str, list[float]] = {}
    with httpx2.Client(timeout=30.0, trust_env=False) as client:
        for signal, (query, label) in queries.items():
            found: dict[int, float] = {}
            for first in range(0, len(times), RANGE_POINTS_MAX):
                part = times[first : first + RANGE_POINTS_MAX]
                found |= _asked(client, url, query, label, service, part, step_s, start)
            values[signal] = [found.get(number, math.nan) for number in range(len(times))]
    if all(math.isnan(one) for column in values.values() for one in column):
        raise Misconfigured(f"{url} has nothing for {service} in that range")
    return Recording(times=tuple(times), values={name: tuple(column) for name, column in values.items()})


def _asked(
    client: httpx2.Client,
    url: str,
    query: str,
    label: str,
    service: str,
    part: Sequence[float],
    step_s: float,
    start: float,
) -> dict[int, float]:
    form = {"query": query, "start": f"{part[0]:.3f}", "end": f"{part[-1]:.3f}", "step": f"{step_s:g}"}
    try:
        response = client.post(f"{url.rstrip('/')}/api/v1/query_range", data=form)
        answer = msgspec.json.decode(response.content, type=_Answer)
    except (httpx2.HTTPError, msgspec.MsgspecError) as error:
        raise Retryable(f"{url} cannot be asked: {type(error).__name__}: {error}"[:300]) from error
    if answer.status != "success":
        raise Retryable(f"{url} answered {response.status_code}: {answer.error}"[:300])
    found: dict[int, float] = {}
    for series in answer.data.result:
        if label and series.metric.get(label) != service:
            continue
        for at, text in series.values:
            place = round((at - start) / step_s)
            found[place] = found.get(place, 0.0) + float(text)
    return found
