"""A range of a Prometheus, from a server that a test writes: parts, ages, gaps, and what is no answer."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from fleetwarden.domain.errors import Misconfigured, Retryable
from fleetwarden.domain.signal_file import SignalsDocument, SourceSpec
from fleetwarden.domain.signals import Aggregation, Definition, SignalKind, SignalScope
from fleetwarden.lab.prometheus_recordings import Range, definitions_for, read_range, source_of

S = 1_000_000
START = 1_790_000_000
QUEUE = Definition(
    name="q", kind=SignalKind.QUEUE, unit="items", scope=SignalScope.SERVICE, aggregation=Aggregation.FLEET_TOTAL,
    source="main", query="jobs", by="service",
)  # fmt: skip
MANY: list[tuple[dict[str, str], list[tuple[float, object]]]] = [({"pod": str(n)}, [(START, 1)]) for n in range(101)]
Answer = Callable[[dict[str, str]], tuple[int, Any]]


class Server:
    """Answers range queries as it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.headers: list[str | None] = []
        self.answer: Answer = lambda _: (200, matrix())
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                server.asked.append({name: one[0] for name, one in form.items()})
                server.headers.append(self.headers["Authorization"])
                status, body = server.answer(server.asked[-1])
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def matrix(*series: tuple[dict[str, str], list[tuple[float, object]]], **more: Any) -> dict[str, Any]:
    rows = [{"metric": labels, "values": [[at, str(value)] for at, value in values]} for labels, values in series]
    return {"status": "success", "data": {"resultType": "matrix", "result": rows}, **more}


def points(form: dict[str, str]) -> list[float]:
    start, end, step = (float(form[name]) for name in ("start", "end", "step"))
    return [start + number * step for number in range(round((end - start) / step) + 1)]


def ask(server: Server, *, definition: Definition = QUEUE, seconds: int = 60, step: int = 15) -> tuple[list[Any], Any]:
    source = source_of(server.url, SignalsDocument(), Path())
    span = Range(start=START * S, end=(START + seconds) * S, step_us=step * S)
    recording, notes = read_range(source, {"q": definition}, "shop", span)
    values = [None if math.isnan(one) else one for one in recording.values["q"]]
    return [(at // S - START, value) for at, value in zip(recording.times, values, strict=True)], notes


@pytest.mark.req("ASC-14", "SGP-7")
def test_values_come_with_their_true_ages_and_what_is_repeated_is_no_sample(server: Server) -> None:
    def answer(form: dict[str, str]) -> tuple[int, Any]:
        at = points(form)
        dates = [at[0], at[1] - 3, at[1] - 3, at[1] - 3, at[4] - 130, at[5]]  # a stall, then one that is too old
        return 200, matrix(
            ({"fleetwarden_part": "value", "service": "shop"}, list(zip(at, [5, 6, 6, 6, 7, 8], strict=True))),
            ({"fleetwarden_part": "at", "service": "shop"}, list(zip(at, dates, strict=True))),
        )

    server.answer = answer
    found, notes = ask(server, seconds=75)
    assert found == [(0, 5), (15, 6), (30, None), (45, None), (60, None), (75, 8)]
    assert notes == []
    assert 'on (service) label_replace(vector(1), "service", "shop"' in server.asked[0]["query"]
    assert "timestamp(jobs)" in server.asked[0]["query"]


@pytest.mark.req("ASC-14")
def test_long_ranges_are_asked_in_parts_and_holes_stay_holes(server: Server) -> None:
    def answer(form: dict[str, str]) -> tuple[int, Any]:
        at = [one for one in points(form) if not START + 9_000 <= one < START + 12_000]
        return 200, matrix(({}, [(one, 3) for one in at]), ({}, [(one, 4) for one in at]))

    server.answer = answer
    plain = Definition(
        name="q", kind=SignalKind.QUEUE, unit="", scope=SignalScope.SERVICE, aggregation=Aggregation.FLEET_TOTAL,
        query="sum by (pod) (jobs)",
    )  # fmt: skip
    found, notes = ask(server, definition=plain, seconds=25_000, step=1)
    assert len(server.asked) == 3
    assert all(len(points(one)) <= 10_000 for one in server.asked)
    assert len(found) == 25_001
    assert {value for at, value in found if 9_000 <= at < 12_000} == {None}
    assert {value for at, value in found if not 9_000 <= at < 12_000} == {7}  # series of a total are summed
    assert "nothing says when" in notes[0]


@pytest.mark.req("ASC-14")
def test_a_short_history_is_no_long_quiet_one(server: Server) -> None:
    server.answer = lambda form: (200, matrix(({}, [(one, 1) for one in points(form)[2:4]]), warnings=["partial"]))
    plain = Definition(
        name="q", kind=SignalKind.CPU, unit="", scope=SignalScope.SERVICE, aggregation=Aggregation.PER_REPLICA,
        query="avg(x)",
    )  # fmt: skip
    found, notes = ask(server, definition=plain)
    assert found == [(30, 1), (45, 1)]
    assert any("has samples from" in one for one in notes)
    assert any("warns: partial" in one for one in notes)


@pytest.mark.req("ASC-14", "SGP-5")
@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (200, matrix(), Misconfigured, "has no sample for shop"),
        (400, {"status": "error", "error": "parse error: unclosed"}, Misconfigured, "parse error"),
        (503, {"status": "error", "error": "not ready"}, Retryable, "not ready"),
        (200, b"<html>", Retryable, "something else than"),
        (200, matrix(*MANY), Misconfigured, "101 series"),
        (200, matrix(({}, [(START, "NaN"), (START + 15, "abc")])), Misconfigured, "has no sample for shop"),
    ],
)
def test_what_is_no_answer_is_told(server: Server, status: int, body: Any, error: type[Exception], words: str) -> None:
    server.answer = lambda _: (status, body)
    with pytest.raises(error, match=words):
        ask(server)


def test_a_source_by_name_brings_its_credentials_and_so_does_its_url(server: Server, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    spec = SourceSpec(name="main", url=server.url, bearer_file="token")
    document = SignalsDocument(sources={"main": spec})
    server.answer = lambda form: (200, matrix(({}, [(one, 1) for one in points(form)])))
    plain = Definition(
        name="q", kind=SignalKind.CPU, unit="", scope=SignalScope.SERVICE, aggregation=Aggregation.FLEET_TOTAL,
        query="avg(x)",
    )  # fmt: skip
    for place in ("main", server.url, f"{server.url}/"):
        read_range(
            source_of(place, document, tmp_path), {"q": plain}, "shop", Range(START * S, (START + 30) * S, 15 * S)
        )
    assert server.headers == ["Bearer s3cret"] * 3
    with pytest.raises(Misconfigured, match="neither a URL nor a source"):
        source_of("other", document, tmp_path)


@pytest.mark.req("ASC-14")
def test_ranges_and_queries_that_are_none_are_refused_before_anything_is_asked() -> None:
    for span, words in (
        (Range(2 * S, S, S), "is empty"),
        (Range(0, 5 * S, 60 * S), "shorter than one step"),
        (Range(0, 10**9 * S, S), "at most 5,000,000"),
    ):
        with pytest.raises(Misconfigured, match=words):
            span.span()
    pushed = Definition(
        name="q", kind=SignalKind.QUEUE, unit="i", scope=SignalScope.SERVICE, aggregation=Aggregation.FLEET_TOTAL,
        source="pushed",
    )  # fmt: skip
    with pytest.raises(Misconfigured, match="it is pushed"):
        definitions_for("shop", ["q"], {}, SignalsDocument(definitions={"q": pushed}))
    with pytest.raises(Misconfigured, match="is not declared"):
        definitions_for("shop", ["q"], {}, SignalsDocument())
    with pytest.raises(Misconfigured, match="--query names 'x'"):
        definitions_for("shop", ["q"], {"x": "up"}, SignalsDocument())
    assert definitions_for("shop", ["q"], {"q": "up"}, SignalsDocument())["q"].query == "up"
