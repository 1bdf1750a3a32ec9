"""A range of a Prometheus as a row of samples with their true ages: what was, for replays.

The same expression that is asked live is asked for a span of time, in parts that a server answers.  What a server
repeats because nothing newer was scraped is not a new sample: where the age is known it is left out.  Read only, and
bounded in time and bytes for each part; nothing is asked twice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from fleetwarden.adapters.signal_sources.prometheus import MARK, SERIES_MAX, PrometheusSource, expression
from fleetwarden.domain.actions import Record
from fleetwarden.domain.errors import Misconfigured, Retryable
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.domain.signals import Aggregation, Definition

__all__ = ["PART_S_MAX", "Span", "known_ends", "read_span"]

POINTS_A_PART = 10_000  # a server answers at most 11,000 a series
PART_S_MAX = 60.0
_SELECTOR = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*(?:\s*\{[^{}]*\})?\s*")


class _Series(msgspec.Struct):
    metric: dict[str, str] = {}
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct):
    result: list[_Series] = []


class _Answer(msgspec.Struct):
    status: str = ""
    data: _Data = msgspec.field(default_factory=_Data)
    error: str = ""
    warnings: list[str] = []


_ANSWER = msgspec.json.Decoder(_Answer)


class Span(Record):
    """Which moments: `start`, then every `step_us` up to `count` of them."""

    start: Micros
    step_us: Micros
    count: int

    def at(self, place: int) -> Micros:
        return self.start + place * self.step_us


class _Found:
    """By moment: values of all series, and the oldest time that any of them was measured at."""

    def __init__(self, count: int) -> None:
        self.values: list[list[float]] = [[] for _ in range(count)]
        self.measured: list[float] = [math.nan] * count
        self.warnings: set[str] = set()


def read_span(
    source: PrometheusSource,
    definition: Definition,
    service: str,
    span: Span,
    *,
    progress: Callable[[float], None] = lambda _: None,
) -> tuple[list[float], list[str]]:
    """One value for each moment, NaN where there is no sample, and notes for people.

    `progress` hears the share that is done.  Raises Retryable if the server cannot be asked, Misconfigured if it says
    that the query is none.
    """
    dated = bool(definition.age_of) or _SELECTOR.fullmatch(definition.query) is not None
    query = expression(definition) if dated else definition.query
    if definition.by:
        query = f'({query}) and on ({definition.by}) label_replace(vector(1), "{definition.by}", "{service}", "", "")'
    found = _Found(span.count)
    for first in range(0, span.count, POINTS_A_PART):
        last = min(first + POINTS_A_PART, span.count) - 1
        _take(_asked(source, query, span, first, last), span, found)
        progress((last + 1) / span.count)
    notes = [f"{source.name} warns: {one[:200]}" for one in sorted(found.warnings)[:3]]
    if not dated:
        notes.append(
            f"nothing says when {definition.query} was scraped: a gap shows only once {source.name} stops repeating"
            " the last value (5 minutes, unless it is set otherwise)"
        )
    return _samples(found, span, definition, dated=dated), notes


def _asked(source: PrometheusSource, query: str, span: Span, first: int, last: int) -> _Answer:
    form = {
        "query": query,
        "start": f"{span.at(first) / SECOND:.3f}",
        "end": f"{span.at(last) / SECOND:.3f}",
        "step": f"{span.step_us / SECOND:.3f}",
        "timeout": f"{PART_S_MAX:g}s",
    }
    status, body = source.fetch("/api/v1/query_range", form, within_s=PART_S_MAX)
    try:
        answer = _ANSWER.decode(body)
    except msgspec.MsgspecError as error:
        raise Retryable(f"{source.name} answered {status} with something else than a query's result") from error
    if answer.status != "success" or status != 200:
        told = f"{source.name} answered {status}: {answer.error or 'no result'}"[:300]
        raise Misconfigured(told) if status in (400, 422) else Retryable(told)
    return answer


def _take(answer: _Answer, span: Span, found: _Found) -> None:
    found.warnings |= set(answer.warnings)
    valued = sum(one.metric.get(MARK) != "at" for one in answer.data.result)
    if valued > SERIES_MAX:
        raise Misconfigured(
            f"{valued} series answer for one service, {SERIES_MAX} are allowed",
            hint="sum them in the query, or say by which label the service is told (by: in signals.yml)",
        )
    for series in answer.data.result:
        dates = series.metric.get(MARK) == "at"
        for at, text in series.values:
            place = round((at * SECOND - span.start) / span.step_us)
            if not 0 <= place < span.count:
                continue
            number = _number(text)
            if not dates:
                found.values[place].append(number)
            elif math.isfinite(number):
                known = found.measured[place]
                found.measured[place] = number if math.isnan(known) else min(known, number)


def _samples(found: _Found, span: Span, definition: Definition, *, dated: bool) -> list[float]:
    """Live rules: an average or a sum over series, not too old, and newer than the one before."""
    mean = definition.aggregation is Aggregation.PER_REPLICA
    samples, last = [], -math.inf
    for place, values in enumerate(found.values):
        value = math.nan
        if values:
            value = sum(values) / len(values) if mean else sum(values)
        if dated:
            measured = found.measured[place]
            age = span.at(place) / SECOND - measured
            if not (measured > last and age <= definition.max_age_s):  # not so where the time is none, too
                value = math.nan
            elif math.isfinite(value):
                last = measured
        samples.append(value)
    return samples


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def known_ends(columns: Mapping[str, Sequence[float]], count: int) -> tuple[int, int]:
    """The first and the last moment at which any signal has a sample; (0, -1) if none has."""
    known = [place for place in range(count) if any(not math.isnan(one[place]) for one in columns.values())]
    return (known[0], known[-1]) if known else (0, -1)
