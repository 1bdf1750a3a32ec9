"""Prometheus: instant queries, one for each definition, value and age of a sample in the same answer.

An instant query is dated by its evaluation, which says nothing about the scrape.  So each query asks for two things at
once: what is declared, and `timestamp()` of the series that it comes from; the oldest of these dates the sample.  What
is empty, not a number, too much, or came with nothing but warnings is no data.  Nothing but what was declared is asked.
"""

from __future__ import annotations

import base64
import math
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from threading import Lock
from typing import Any

import httpx2
import msgspec
import structlog

from fleetwarden.adapters.signal_sources.asking import SLOTS, Askers
from fleetwarden.domain.errors import Retryable
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.scaling import SIGNALS_MAX
from fleetwarden.domain.signal_file import SourceSpec
from fleetwarden.domain.signals import Aggregation, Definition, NoSample, Pair, Reading, Sample, SampleFault

__all__ = ["BATCH_S", "QUERIES_MAX", "PrometheusSource", "expression", "read_all"]

log = structlog.get_logger(__name__)
QUERIES_MAX = 64  # unique queries of one batch; the rest takes its turn
BATCH_S = 10.0
QUERY_S = 5.0
SERIES_MAX = 100
VECTOR_SERIES_MAX = 50_000
ANSWER_BYTES_MAX = 64 * 1024 * 1024
TIME_MAX_S = 1e11  # no scrape is dated later; what is, is no time
MARK = "fleetwarden_part"  # the label that tells a value from a time in the same answer


class _Series(msgspec.Struct):
    metric: dict[str, str] = {}
    value: tuple[float, str] = (0.0, "")


class _Data(msgspec.Struct):
    result_type: str = msgspec.field(name="resultType", default="")
    result: list[_Series] = []


class _Answer(msgspec.Struct):
    status: str = ""
    data: _Data = msgspec.field(default_factory=_Data)
    error: str = ""
    warnings: list[str] = []


_ANSWER = msgspec.json.Decoder(_Answer)


class _Begun:
    """What one source was asked: its questions, those under way, and the answers that are known already."""

    def __init__(self, wanted: Mapping[str, tuple[Definition, list[Pair]]]) -> None:
        self.wanted = wanted
        self.futures: dict[str, Future[_Answer]] = {}
        self.answers: dict[Pair, Reading] = {}


def read_all(
    asked: Sequence[tuple[PrometheusSource, Mapping[Pair, Definition]]], *, within_s: float = BATCH_S
) -> list[tuple[dict[Pair, Reading], str]]:
    """The answers of several sources, as `PrometheusSource.read` gives them, within `within_s` seconds (at most
    BATCH_S) for all of them.

    All are asked before any is waited for: one that hangs takes no time away from the others.
    """
    until = time.monotonic() + min(within_s, BATCH_S)
    begun = [source.begin(pairs) for source, pairs in asked]
    return [source.collect(one, until) for (source, _), one in zip(asked, begun, strict=True)]


def expression(definition: Definition, *, counted: bool = False) -> str:
    """The one query that asks for a definition's value and for the age of what it is made of; `counted`: and for how
    many series that is, which an aggregate does not show."""
    selector = definition.age_of or definition.query
    by = f" by ({definition.by})" if definition.by else ""
    times = f"min{by} (timestamp({selector}))"
    parts = [(definition.query, "value"), (times, "at")]
    if counted:
        parts.append((f"count{by} ({selector})", "count"))
    return " or ".join(f'label_replace({query}, "{MARK}", "{part}", "", "")' for query, part in parts)


class PrometheusSource:
    """One server.  `folder`: where its files of secrets lie.  `among`: how many servers share the process's calls in
    flight and the queries of a batch, at least 1; one that hangs keeps its own share and no more."""

    def __init__(self, spec: SourceSpec, folder: Path, *, among: int = 1) -> None:
        self.name = spec.name
        self._queries = max(SIGNALS_MAX, QUERIES_MAX // among)  # all signals of one service fit into one batch
        self._spec = spec
        self._folder = folder
        self._lock = Lock()
        self._turn = 0
        self._askers = Askers(spec.name, SLOTS // among)
        self._client: httpx2.Client | None = None
        self._client_of: tuple[Any, ...] = ()

    def read(self, pairs: Mapping[Pair, Definition]) -> tuple[dict[Pair, Reading], str]:
        """Answer for these pairs within BATCH_S seconds, and say why the source as a whole failed ("": it did not)."""
        return read_all([(self, pairs)])[0]

    def begin(self, pairs: Mapping[Pair, Definition]) -> _Begun:
        """Ask, without waiting for an answer."""
        wanted: dict[str, tuple[Definition, list[Pair]]] = {}
        for pair, definition in pairs.items():
            wanted.setdefault(definition.name, (definition, []))[1].append(pair)
        begun = _Begun(wanted)
        names = sorted(wanted, key=lambda name: (min(pair.service for pair in wanted[name][1]), name))
        chosen = self._rotated(names)
        for name in names:
            if name not in chosen:
                reason = f"{len(names)} queries are more than the {self._queries} of one batch: its turn comes"
                none = {pair: _none(pair, SampleFault.NOT_ASKED, reason, self.name) for pair in wanted[name][1]}
                begun.answers |= none
        calls = self._askers.ask([self._asking(wanted[name][0]) for name in chosen])
        begun.futures = dict(zip(chosen, calls, strict=True))
        return begun

    def collect(self, begun: _Begun, until: float) -> tuple[dict[Pair, Reading], str]:
        """The answers that are there by `until` (monotonic seconds); see read."""
        wait(begun.futures.values(), timeout=max(0.0, until - time.monotonic()))
        answers, faults = dict(begun.answers), []
        for name, future in begun.futures.items():
            definition, asked = begun.wanted[name]
            found, fault = self._judge(definition, asked, future)
            answers |= found
            faults.append(fault)
        failed = [fault for fault in faults if fault]
        return answers, failed[0] if failed and len(failed) == len(faults) else ""

    def close(self) -> None:
        """Let threads and connections go.  A call that hangs is left to its daemon thread."""
        self._askers.close()
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _rotated(self, names: Sequence[str]) -> list[str]:
        """At most as many as this source's share of a batch, each in its turn.

        They come in the order of services, and batches overlap, so that all signals of one service meet in some batch:
        one that is not asked for keeps its service from shrinking.
        """
        if len(names) <= self._queries:
            return list(names)
        with self._lock:
            first = self._turn % len(names)
            self._turn = first + max(1, self._queries - SIGNALS_MAX)
        return [names[(first + n) % len(names)] for n in range(self._queries)]

    def _asking(self, definition: Definition) -> Any:
        counted = definition.aggregation is Aggregation.PER_REPLICA or not definition.series_vary
        return lambda: self._ask(expression(definition, counted=counted))

    def _ask(self, query: str) -> _Answer:
        """One instant query, bounded in time as a whole and in bytes.  Raises Retryable with what went wrong."""
        form = {"query": query, "timeout": f"{QUERY_S:g}s"}
        return self._decoded(*self.fetch("/api/v1/query", form, within_s=QUERY_S))

    def fetch(self, path: str, form: Mapping[str, str], *, within_s: float) -> tuple[int, bytes]:
        """POST one form: the status and the whole body.  Raises Retryable with what went wrong."""
        end = time.monotonic() + within_s
        late = f"{self.name} has not answered within {within_s:g} s"
        try:
            request = self._session().stream(
                "POST", f"{self._spec.url}{path}", data=dict(form), headers=self._headers(), timeout=within_s
            )
            with request as response:
                body = bytearray()
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > ANSWER_BYTES_MAX:
                        raise Retryable(f"{self.name} answers more than {ANSWER_BYTES_MAX} bytes")
                    if time.monotonic() > end:
                        raise Retryable(late, code="timed_out")
                return response.status_code, bytes(body)
        except httpx2.TimeoutException as error:
            raise Retryable(late, code="timed_out") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            raise Retryable(f"{self.name} cannot be asked: {type(error).__name__}: {error}"[:300]) from error

    def _decoded(self, status: int, body: bytes) -> _Answer:
        try:
            answer = _ANSWER.decode(body)
        except msgspec.MsgspecError as error:
            raise Retryable(f"{self.name} answered {status} with something else than a query's result") from error
        if status != 200 or answer.status != "success":
            told = answer.error or "no result"
            raise Retryable(f"{self.name} answered {status}: {told}"[:300])
        return answer

    def _session(self) -> httpx2.Client:
        """The shared client, which is thread-safe; made anew when a file of its certificates has changed."""
        files = tuple(self._path(one) for one in (self._spec.ca_file, self._spec.cert_file, self._spec.key_file))
        state = tuple(None if one is None else (one, one.stat().st_mtime_ns) for one in files)
        with self._lock:
            if self._client is None or state != self._client_of:
                ca, cert, key = files
                context = httpx2.create_ssl_context() if ca is None else ssl.create_default_context(cafile=ca)
                if cert is not None:
                    context.load_cert_chain(str(cert), str(key))
                self._client = httpx2.Client(verify=context, timeout=QUERY_S, trust_env=False, follow_redirects=False)
                self._client_of = state
            return self._client

    def _headers(self) -> dict[str, str]:
        if self._spec.bearer_file:
            return {"Authorization": f"Bearer {self._secret(self._spec.bearer_file)}"}
        if self._spec.password_file:
            password = self._secret(self._spec.password_file)
            pair = base64.b64encode(f"{self._spec.username}:{password}".encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        return {}

    def _secret(self, name: str) -> str:
        path = self._path(name)
        assert path is not None
        secret = path.read_text(encoding="utf-8").strip()
        if not secret.isascii() or not secret.isprintable():  # a transport would refuse it, and show it in its error
            raise Retryable(f"{self.name} cannot be asked: {name} is not one line of printable ASCII")
        return secret

    def _path(self, name: str) -> Path | None:
        return self._folder / name if name else None

    def _judge(
        self, definition: Definition, pairs: Sequence[Pair], future: Future[_Answer]
    ) -> tuple[dict[Pair, Reading], str]:
        """The readings of one query, and why it failed as a whole."""
        if not future.done():
            future.cancel()
            reason = f"{self.name} has not answered within {BATCH_S:g} s"
            return {one: _none(one, SampleFault.TIMED_OUT, reason, self.name) for one in pairs}, reason
        error = future.exception()
        if error is not None:
            timed_out = isinstance(error, Retryable) and error.code == "timed_out"
            fault = SampleFault.TIMED_OUT if timed_out else SampleFault.SOURCE_FAILED
            return {one: _none(one, fault, str(error), self.name) for one in pairs}, str(error)
        found = _readings(definition, pairs, future.result(), self.name)
        return found, _unusable(found.values())


def _unusable(readings: Iterable[Reading]) -> str:
    """Why an answer as a whole is none: nothing but warnings, or too many series; "" if it is one."""
    for one in readings:
        if isinstance(one, NoSample) and one.fault in (SampleFault.WARNINGS, SampleFault.TOO_MANY_SERIES):
            return f"{one.source}: {one.reason}"
    return ""


def _oldest(one: float, other: float) -> float:
    """The older of two times in seconds; not a number if either is none."""
    fit = abs(one) <= TIME_MAX_S and abs(other) <= TIME_MAX_S
    return min(one, other) if fit else math.nan


def _readings(definition: Definition, pairs: Sequence[Pair], answer: _Answer, source: str) -> dict[Pair, Reading]:
    series = answer.data.result
    if not series:
        fault = SampleFault.WARNINGS if answer.warnings else SampleFault.MISSING
        told = f"nothing but warnings: {answer.warnings[0]}"[:200] if answer.warnings else "the query has no result"
        return {one: _none(one, fault, told, source) for one in pairs}
    most = VECTOR_SERIES_MAX if definition.by else SERIES_MAX
    valued = sum(one.metric.get(MARK) not in ("at", "count") for one in series)
    if valued > most:
        told = f"{valued} series, {most} are allowed"
        return {one: _none(one, SampleFault.TOO_MANY_SERIES, told, source) for one in pairs}
    values: dict[str, list[float]] = {}
    times: dict[str, float] = {}
    versions: dict[str, set[str]] = {}
    counts: dict[str, int] = {}
    for one in series:
        key = one.metric.get(definition.by, "") if definition.by else ""
        try:
            number = float(one.value[1])
        except ValueError:
            number = math.nan
        if one.metric.get(MARK) == "count":
            counts[key] = int(number) if 0 <= number <= VECTOR_SERIES_MAX else 0
        elif one.metric.get(MARK) == "at":
            times[key] = _oldest(number, times.get(key, number))
        else:
            values.setdefault(key, []).append(number)
            if "version" in one.metric:
                versions.setdefault(key, set()).add(one.metric["version"])
    return {
        pair: _reading(definition, pair, key, values, times, versions, counts, source)
        for pair in pairs
        for key in ((pair.service if definition.by else ""),)
    }


def _reading(
    definition: Definition,
    pair: Pair,
    key: str,
    values: Mapping[str, list[float]],
    times: Mapping[str, float],
    versions: Mapping[str, set[str]],
    counts: Mapping[str, int],
    source: str,
) -> Reading:
    found = values.get(key)
    if not found:
        told = f"the answer has no series with {definition.by}={key}" if definition.by else "the query has no result"
        return _none(pair, SampleFault.MISSING, told, source)
    if key not in times or math.isnan(times[key]):
        return _none(pair, SampleFault.STALE, "nothing says when what it is made of was scraped", source)
    mean = definition.aggregation is Aggregation.PER_REPLICA
    value = sum(found) / len(found) if mean else sum(found)
    known = versions.get(key, set())
    return Sample(
        service=pair.service,
        signal=pair.signal,
        value=value,
        source=source,
        aggregation=definition.aggregation,
        unit=definition.unit,
        scope=definition.scope,
        observed_at=int(times[key] * SECOND),
        version="+".join(sorted(known)[:4]),  # of several it is none of them, so that it shrinks nothing
        series=counts.get(key, len(found)),
    )


def _none(pair: Pair, fault: SampleFault, reason: str, source: str) -> NoSample:
    return NoSample(service=pair.service, signal=pair.signal, fault=fault, reason=reason, source=source)
