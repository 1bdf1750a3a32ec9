"""A recording from a Prometheus: the declared queries of a service's signals, or queries that somebody gives.

What lies before the first and behind the last sample is left out and said, so that a short history is not taken for a
long quiet one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fleetwarden.adapters.signal_sources.prometheus import PrometheusSource
from fleetwarden.adapters.signal_sources.prometheus_range import Span, known_ends, read_span
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.identifiers import Micros, rfc3339
from fleetwarden.domain.signal_file import SignalsDocument, SourceSpec, url_problem
from fleetwarden.domain.signals import Aggregation, Definition, SignalKind, SignalScope
from fleetwarden.lab.recordings import TICKS_MAX, Recording

__all__ = ["Range", "definitions_for", "read_range", "source_of"]


@dataclass(frozen=True, slots=True)
class Range:
    """From `start` to `end`, a sample every `step_us`.  Raises Misconfigured for a range that is none."""

    start: Micros
    end: Micros
    step_us: Micros

    def span(self) -> Span:
        """Its moments.  Raises Misconfigured."""
        if self.end <= self.start:
            raise Misconfigured(
                f"the range from {rfc3339(self.start)} to {rfc3339(self.end)} is empty", hint="--end lies after --start"
            )
        count = (self.end - self.start) // self.step_us + 1
        if count < 2:
            raise Misconfigured("the range is shorter than one step", hint="give a shorter --step")
        if count > TICKS_MAX:
            raise Misconfigured(
                f"the range has {count:,} steps, at most {TICKS_MAX:,} can be replayed", hint="give a longer --step"
            )
        return Span(start=self.start, step_us=self.step_us, count=count)


def source_of(place: str, document: SignalsDocument, folder: Path) -> PrometheusSource:
    """The server at a URL, or the one that `signals.yml` calls by that name (with its credentials).

    Raises Misconfigured.
    """
    if place in document.sources:
        return PrometheusSource(document.sources[place], folder)
    if not place.startswith(("http://", "https://")):
        known = ", ".join(sorted(document.sources)) or "none"
        raise Misconfigured(
            f"--prometheus {place!r} is neither a URL nor a source of signals.yml",
            hint=f"such as http://127.0.0.1:9090; sources: {known}",
        )
    url = place.rstrip("/")
    if (wrong := url_problem(url)) is not None:
        raise Misconfigured(f"--prometheus: {wrong}", hint="a source of signals.yml has its credentials in files")
    same = next((one for one in document.sources.values() if one.url.rstrip("/") == url), None)
    if same is not None:
        return PrometheusSource(msgspec.structs.replace(same, url=url), folder)
    return PrometheusSource(SourceSpec(name=url, url=url), folder)


def definitions_for(
    service: str, signals: Sequence[str], queries: Mapping[str, str], document: SignalsDocument
) -> dict[str, Definition]:
    """What to ask for each signal: a given query, else the declared one.  Raises Misconfigured for one without."""
    if unknown := sorted(queries.keys() - set(signals)):
        raise Misconfigured(f"--query names {unknown[0]!r}", hint=f"the block follows {', '.join(signals)}")
    found: dict[str, Definition] = {}
    for signal in signals:
        declared = document.definition(service, signal)
        if signal in queries:
            found[signal] = Definition(
                name=signal,
                kind=SignalKind.QUEUE if declared is None else declared.kind,
                unit="" if declared is None else declared.unit,
                scope=SignalScope.SERVICE,
                aggregation=Aggregation.FLEET_TOTAL if declared is None else declared.aggregation,
                query=queries[signal],
            )
        elif declared is None or not declared.query:
            why = "is not declared for it in signals.yml" if declared is None else "has no query there: it is pushed"
            raise Misconfigured(f"{signal} of {service} {why}", hint=f"give one: --query '{signal}=sum(…)'")
        else:
            found[signal] = declared
    return found


def read_range(
    source: PrometheusSource,
    definitions: Mapping[str, Definition],
    service: str,
    asked: Range,
    *,
    progress: Callable[[float], None] = lambda _: None,
) -> tuple[Recording, list[str]]:
    """The recording, and notes for people.  Raises Retryable, and Misconfigured if there is nothing in the range."""
    span = asked.span()
    columns: dict[str, list[float]] = {}
    notes: list[str] = []
    share = 1 / len(definitions)
    try:
        for number, (signal, definition) in enumerate(definitions.items()):
            done = number * share

            def tell(part: float, done: float = done) -> None:
                progress(done + part * share)

            columns[signal], told = read_span(source, definition, service, span, progress=tell)
            notes += told
    finally:
        source.close()
    first, last = known_ends(columns, span.count)
    where = f"{rfc3339(asked.start)} to {rfc3339(asked.end)}"
    if last < first:
        raise Misconfigured(
            f"{source.name} has no sample for {service} from {where}",
            hint="look whether the query answers for it: fleetwarden signals check",
        )
    if first > 0 or last < span.count - 1:
        notes.append(f"{source.name} has samples from {rfc3339(span.at(first))} to {rfc3339(span.at(last))} only")
    kept = slice(first, last + 1)
    times = [span.at(place) for place in range(first, last + 1)]
    recording = Recording(name=source.name, times=times, values={name: one[kept] for name, one in columns.items()})
    return recording, notes
