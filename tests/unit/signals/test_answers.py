"""What is made of a Prometheus's answer: bad parts of it are no data, and one bad part spoils no other."""

from __future__ import annotations

import json
import socket
import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleetwarden.adapters.signal_sources import prometheus as adapter
from fleetwarden.adapters.signal_sources.asking import SLOTS, Askers
from fleetwarden.adapters.signal_sources.prometheus import MARK, QUERIES_MAX, PrometheusSource, expression, read_all
from fleetwarden.controllers.autoscaler_sight import _too_thin
from fleetwarden.domain.fleet import ObservedService, Presence, ServiceStatus
from fleetwarden.domain.signal_file import SourceSpec
from fleetwarden.domain.signals import (
    Aggregation,
    Definition,
    NoSample,
    Pair,
    Reading,
    Sample,
    SampleFault,
    SignalKind,
    SignalScope,
)

NOW = 1_790_000_000.0


def value(service: str, number: str, **labels: str) -> dict[str, Any]:
    return {"metric": {"service": service, adapter.MARK: "value", **labels}, "value": [NOW, number]}


def at(service: str, when: str) -> dict[str, Any]:
    return {"metric": {"service": service, adapter.MARK: "at"}, "value": [NOW, when]}


@contextmanager
def answering(result: Sequence[dict[str, Any]], warnings: Sequence[str] = ()) -> Iterator[str]:
    body = json.dumps({"status": "success", "data": {"result": result}, "warnings": warnings}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def definition(**over: object) -> Definition:
    fields = {
        "name": "jobs",
        "kind": SignalKind.QUEUE,
        "unit": "items",
        "scope": SignalScope.SERVICE,
        "aggregation": Aggregation.FLEET_TOTAL,
        "source": "main",
        "query": "jobs",
        "by": "service",
        **over,
    }
    return msgspec.convert(fields, Definition)


def ask(url: str, one: Definition, *services: str) -> tuple[dict[str, Reading], str]:
    source = PrometheusSource(SourceSpec(name="main", url=url), Path())
    try:
        found, why = source.read({Pair(service=name, signal="jobs"): one for name in services})
    finally:
        source.close()
    return {pair.service: reading for pair, reading in found.items()}, why


def fault(reading: Reading) -> SampleFault | None:
    return reading.fault if isinstance(reading, NoSample) else None


@pytest.mark.req("SGP-4", "SGP-7")
@pytest.mark.parametrize("when", ["+Inf", "-Inf", "NaN", "1e305", "soon"])
@pytest.mark.parametrize("first", [True, False])
def test_a_time_that_is_none_spoils_its_own_service_only(when: str, first: bool) -> None:
    times = [at("a", when), at("a", str(NOW))]
    series = [value("a", "1"), *(times if first else times[::-1]), value("b", "2"), at("b", str(NOW))]
    with answering(series) as url:
        found, why = ask(url, definition(), "a", "b")
    assert (fault(found["a"]), why) == (SampleFault.STALE, "")
    assert isinstance(found["b"], Sample)
    assert found["b"].value == 2


@pytest.mark.req("SGP-4", "SGP-9")
@pytest.mark.parametrize(("count", "told"), [(100, None), (101, SampleFault.TOO_MANY_SERIES)])
def test_a_hundred_series_are_read_and_no_more(count: int, told: SampleFault | None) -> None:
    series = [value("", "1", instance=str(n)) for n in range(count)] + [at("", str(NOW))]
    with answering(series) as url:
        found, why = ask(url, definition(by="", services=("a",)), "a")
    assert fault(found["a"]) == told
    assert bool(why) == (told is not None)  # nothing was answered at all: health has to know


@pytest.mark.req("SGP-4", "HLT-2")
def test_nothing_but_warnings_is_a_source_that_failed() -> None:
    with answering([], ["remote read failed"]) as url:
        found, why = ask(url, definition(), "a")
    assert fault(found["a"]) == SampleFault.WARNINGS
    assert "remote read failed" in why


def count(key: str, number: int) -> dict[str, Any]:
    made = value(key, str(number))
    made["metric"] = {**made["metric"], MARK: "count"}
    return made


@pytest.mark.req("SGP-10")
@pytest.mark.parametrize(("scraped", "ready", "shrinks"), [(1, 3, False), (2, 3, False), (3, 3, True), (4, 3, True)])
def test_an_average_of_fewer_series_than_ready_replicas_shrinks_nothing(
    scraped: int, ready: int, shrinks: bool
) -> None:
    """An aggregate is one series; how many it was made of is asked for in the same query."""
    one = definition(query="avg by (service) (busy)", age_of="busy", aggregation=Aggregation.PER_REPLICA)
    assert "count by (service) (busy)" in expression(one, counted=True)
    with answering([value("a", "1"), at("a", str(NOW)), count("a", scraped)]) as url:
        found, _ = ask(url, one, "a")
    sample = found["a"]
    assert isinstance(sample, Sample)
    assert (sample.series, sample.value) == (scraped, 1.0)
    seen = ObservedService(
        name="a", observed_at=0, source="t", status=ServiceStatus.UP, presence=Presence.STARTED,
        ready=ready, existing=ready, total=ready,
    )  # fmt: skip
    assert _too_thin(sample, seen) is not shrinks
    assert not _too_thin(msgspec.structs.replace(sample, series=0), seen)  # nobody counted: pushed, or of one's own


@pytest.mark.req("SGP-10")
def test_series_of_several_versions_are_of_none_of_them() -> None:
    with answering([value("a", "1", version="1.0"), value("a", "2", version="1.1"), at("a", str(NOW))]) as url:
        found, _ = ask(url, definition(), "a")
    assert isinstance(found["a"], Sample)
    assert found["a"].version not in ("", "1.0", "1.1")


@pytest.mark.req("SGP-9", "SEC-1")
@pytest.mark.parametrize("secret", ["hunter2\nsecond", "hunter2\x00", "hunter2é"])
def test_a_secret_that_cannot_be_sent_is_not_told(tmp_path: Path, secret: str) -> None:
    (tmp_path / "token").write_text(secret, encoding="utf-8")
    with answering([]) as url:
        source = PrometheusSource(SourceSpec(name="main", url=url, bearer_file="token"), tmp_path)
        found, why = source.read({Pair(service="a", signal="jobs"): definition()})
    told = why + repr(found)
    assert "hunter2" not in told
    assert "token is not one line" in told


@pytest.mark.req("SGP-3")
def test_sources_that_hang_share_the_time_of_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked one after another, the second question would begin only when the first had been given up."""
    monkeypatch.setattr(adapter, "QUERY_S", 2.0)
    one = definition()
    with ExitStack() as opened, answering([value("a", "1"), at("a", str(NOW))]) as url:
        silent = [opened.enter_context(socket.socket()) for _ in range(2)]
        for each in silent:
            each.bind(("127.0.0.1", 0))
            each.listen()
            each.settimeout(30)
        waits: list[str] = []
        real = PrometheusSource.collect

        def collect(source: PrometheusSource, *given: Any) -> Any:
            if not waits:  # before the first is waited for, each has been asked
                for each in silent:
                    opened.enter_context(each.accept()[0])
            waits.append(source.name)
            return real(source, *given)

        monkeypatch.setattr(PrometheusSource, "collect", collect)
        urls = [*(f"http://127.0.0.1:{each.getsockname()[1]}" for each in silent), url]
        sources = [PrometheusSource(SourceSpec(name=f"s{n}", url=each), Path()) for n, each in enumerate(urls)]
        found = read_all([(each, {Pair(service="a", signal="jobs"): one}) for each in sources])
    assert [fault(next(iter(answers.values()))) for answers, _ in found] == [
        SampleFault.TIMED_OUT,
        SampleFault.TIMED_OUT,
        None,
    ]
    assert [bool(why) for _, why in found] == [True, True, False]


@pytest.mark.req("SGP-3")
def test_a_source_that_hangs_on_many_questions_keeps_no_other_one_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "BATCH_S", 3.0)
    with socket.socket() as silent, answering([value("a", "1"), at("a", str(NOW))]) as url:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        hung = PrometheusSource(SourceSpec(name="hung", url=f"http://127.0.0.1:{silent.getsockname()[1]}"), Path())
        well = PrometheusSource(SourceSpec(name="well", url=url), Path())
        many = {Pair(service="a", signal=f"jobs{n}"): definition(name=f"jobs{n}") for n in range(2 * SLOTS)}
        [_, (answers, why)] = read_all([(hung, many), (well, {Pair(service="a", signal="jobs"): definition()})])
        hung.close()
        well.close()
    assert [isinstance(one, Sample) for one in answers.values()] == [True], why


@pytest.mark.req("SGP-3")
@pytest.mark.parametrize(("among", "slots", "queries"), [(1, 4, 64), (2, 2, 32), (4, 1, 16), (9, 1, 16)])
def test_sources_share_what_a_process_may_ask(among: int, slots: int, queries: int) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        source = PrometheusSource(SourceSpec(name=f"of{among}", url=url), Path(), among=among)
        begun = source.begin({Pair(service=f"s{n}", signal="jobs"): definition(name=f"jobs{n}") for n in range(80)})
        threads = [one for one in threading.enumerate() if one.name.startswith(f"signals-of{among}-")]
        assert (len(threads), len(begun.futures), len(begun.answers)) == (slots, queries, 80 - queries)
        source.close()


@pytest.mark.req("SGP-3")
def test_threads_of_a_source_that_is_closed_end() -> None:
    asked = Askers("closing")
    assert [one.result() for one in asked.ask([lambda: 1, lambda: 2])] == [1, 2]
    threads = [one for one in threading.enumerate() if one.name.startswith("signals-closing-")]
    assert len(threads) == SLOTS
    asked.close()
    for one in threads:
        one.join(30)
    assert not any(one.is_alive() for one in threads)


@pytest.mark.req("SGP-3")
def test_a_thread_that_waits_keeps_no_answer_alive() -> None:
    class Answer:
        """Something large."""

    gone = threading.Event()

    def large() -> Answer:
        made = Answer()
        weakref.finalize(made, gone.set)
        return made

    asked = Askers("large", slots=1)
    try:
        futures = asked.ask([large])
        assert isinstance(futures[0].result(), Answer)
        futures.clear()
        assert gone.wait(30)  # though the thread waits for a next call that never comes
    finally:
        asked.close()


@pytest.mark.req("ASC-17", "SGP-3")
@pytest.mark.parametrize("services", [33, 64, 100, 128])
def test_of_many_queries_all_signals_of_a_service_meet_in_some_batch(
    services: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two for each service, with names that lie far apart: in batches by name they would never be asked together."""
    source = PrometheusSource(SourceSpec(name="main", url="http://127.0.0.1:9"), Path())
    pairs = {
        Pair(service=f"s{number:03}", signal=f"{kind}{number:03}"): definition(name=f"{kind}{number:03}")
        for number in range(services)
        for kind in ("a", "z")
    }
    asked: list[list[str]] = []
    monkeypatch.setattr(source, "_asking", lambda one: lambda: asked[-1].append(one.name))
    met: set[int] = set()
    for _ in range(2 * services):
        asked.append([])
        wait(source.begin(pairs).futures.values())
        assert len(asked[-1]) <= QUERIES_MAX
        met |= {number for number in range(services) if {f"a{number:03}", f"z{number:03}"} <= set(asked[-1])}
        if len(met) == services:
            break
    source.close()
    assert len(met) == services
