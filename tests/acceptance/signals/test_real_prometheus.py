"""Signals from a real Prometheus: values and true ages, what is no data, and a fleet that follows the load."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fleetwarden.adapters.signal_sources import prometheus as adapter
from fleetwarden.adapters.signal_sources.prometheus import PrometheusSource
from fleetwarden.app.bootstrap import Plane
from fleetwarden.app.identity import local_admin
from fleetwarden.app.settings import load_settings
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.signal_file import SourceSpec
from fleetwarden.domain.signal_rules import check
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
from fleetwarden.ports.stores import Page
from tests.prometheus import Exporter, eventually, exporter, prometheus

__all__ = ["exporter"]  # the fixture

pytestmark = pytest.mark.needs("prometheus")


@pytest.fixture
def server(tmp_path: Path, exporter: Exporter) -> Iterator[str]:
    with prometheus(tmp_path, exporter.port) as address:
        yield address


def definition(query: str, **over: object) -> Definition:
    fields: dict[str, object] = {"by": "service", "aggregation": Aggregation.FLEET_TOTAL, **over}
    base = {"name": "jobs", "kind": SignalKind.QUEUE, "unit": "items", "scope": SignalScope.SERVICE, "source": "main"}
    return msgspec.convert({**base, "query": query, **fields}, Definition)


def ask(address: str, one: Definition, *services: str) -> tuple[dict[str, Reading], str]:
    source = PrometheusSource(SourceSpec(name="main", url=address), Path())
    pairs = {Pair(service=name, signal="jobs"): one for name in services}
    try:
        found, failed = source.read(pairs)
    finally:
        source.close()
    return {pair.service: reading for pair, reading in found.items()}, failed


def values(address: str, one: Definition, *services: str) -> dict[str, float | None]:
    found, _ = ask(address, one, *services)
    return {name: reading.value if isinstance(reading, Sample) else None for name, reading in found.items()}


@pytest.mark.req("SGP-3", "SGP-4", "SGP-7", "SGP-8")
def test_one_query_answers_for_every_service_with_value_and_true_age(server: str, exporter: Exporter) -> None:
    exporter.values = {("jobs", "shop"): 120, ("jobs", "mail"): 0, ("cpu", "shop"): 0.75}
    total = definition("sum by (service) (jobs)", age_of="jobs")
    eventually(lambda: values(server, total, "shop", "mail") == {"shop": 120, "mail": 0})  # a real zero is data
    found, failed = ask(server, total, "shop", "mail", "other")
    assert failed == ""
    other = found["other"]
    assert isinstance(other, NoSample)
    assert other.fault is SampleFault.MISSING
    shop = found["shop"]
    assert isinstance(shop, Sample)
    assert time.time() - shop.observed_at / SECOND < 20
    exporter.measured_s_ago = 40  # an aggregate is always as young as its evaluation; what it is made of is not
    exporter.values = {("jobs", "late"): 7}
    eventually(lambda: values(server, total, "late") == {"late": 7})
    late = ask(server, total, "late")[0]["late"]
    assert isinstance(late, Sample)
    assert time.time() - late.observed_at / SECOND >= 40
    strict = definition("sum by (service) (jobs)", age_of="jobs", max_age_s=30.0)
    judged = check(Pair(service="late", signal="jobs"), late, strict, round(time.time() * SECOND), 0)
    assert isinstance(judged, NoSample)
    assert judged.fault is SampleFault.STALE


@pytest.mark.req("SGP-4", "SGP-5")
def test_what_is_no_number_or_about_nobody_is_no_data(server: str, exporter: Exporter) -> None:
    exporter.values = {("jobs", "shop"): float("nan"), ("jobs", "mail"): float("inf"), ("jobs", "ok"): 3}
    one = definition("jobs")
    eventually(lambda: values(server, one, "ok") == {"ok": 3})
    found, _ = ask(server, one, "shop", "mail")
    now = round(time.time() * 1e6)
    for name in ("shop", "mail"):
        judged = check(Pair(service=name, signal="jobs"), found[name], one, now, 0)
        assert isinstance(judged, NoSample)
        assert judged.fault is SampleFault.NOT_FINITE
    wrong, failed = ask(server, definition("sum by (service (jobs)", age_of="jobs"), "ok")
    assert isinstance(wrong["ok"], NoSample)
    assert "400" in failed


@pytest.mark.req("SGP-3")
def test_a_server_that_is_down_or_hangs_is_bounded_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "QUERY_S", 0.3)
    found, failed = ask("http://127.0.0.1:9", definition("jobs"), "shop")
    assert isinstance(found["shop"], NoSample)
    assert found["shop"].fault is SampleFault.SOURCE_FAILED
    assert "cannot be asked" in failed
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        found, failed = ask(f"http://127.0.0.1:{silent.getsockname()[1]}", definition("jobs"), "shop")
    assert isinstance(found["shop"], NoSample)
    assert found["shop"].fault is SampleFault.TIMED_OUT
    assert "has not answered" in failed


@pytest.mark.req("SGP-3")
def test_a_server_that_answers_a_byte_at_a_time_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "QUERY_S", 0.5)
    ends = threading.Event()

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while not ends.wait(0.05):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        threading.Thread(target=drip, args=(listening,), daemon=True).start()
        found, _ = ask(f"http://127.0.0.1:{listening.getsockname()[1]}", definition("jobs"), "shop")
        ends.set()
    assert isinstance(found["shop"], NoSample)
    assert found["shop"].fault is SampleFault.TIMED_OUT


REGISTRY = """version: 1
services:
  - name: worker
    process: {{command: [{python}, -c, "import time; time.sleep(600)"]}}
    scaling: {{min: 1, max: 3, signal: jobs_waiting, target: 100, scale_up_step: 5, cooldown_s: 1}}
"""
SIGNALS = """version: 1
sources: {{main: {{url: "{address}"}}}}
signals:
  jobs_waiting: {{kind: queue, query: "sum by (service) (jobs)", by: service, age_of: jobs, aggregation: fleet_total,
                 unit: items, max_age_s: 30}}
"""
POLICY = (
    "version: 1\ndefaults: {rate_limit: {max: 100, window_s: 60}, blast_radius: {max_targets: 100, window_s: 60}}\n"
    "rules:\n  - {kind: '*_service', target: '*', tier: auto}\n"
)


@pytest.mark.req("AUT-2", "SGP-2", "SGP-8", "ASC-5", "HLT-2", "CON-12")
def test_a_fleet_of_processes_follows_the_load_up_and_down(tmp_path: Path, server: str, exporter: Exporter) -> None:
    exporter.values = {("jobs", "worker"): 50}
    (tmp_path / "fleet.yml").write_text(REGISTRY.format(python=sys.executable))
    (tmp_path / "signals.yml").write_text(SIGNALS.format(address=server))
    (tmp_path / "policy.yml").write_text(POLICY)
    (tmp_path / "data").mkdir()
    environment = {
        "FLEET_DATA_DIR": str(tmp_path / "data"),
        "FLEET_RECONCILER": "1",
        "FLEET_RECONCILER_INTERVAL": "1",
        "FLEET_AUTOSCALER": "1",
        "FLEET_AUTOSCALER_INTERVAL": "1",
        "FLEET_ACTUATOR": "process",
    }
    plane = Plane(load_settings(tmp_path, environment))
    me = local_admin()

    def ready() -> int:
        return int(plane.fleet.service(me, "worker")["ready"])

    plane.start()
    try:
        eventually(lambda: ready() == 1, "it was not started")
        exporter.values = {("jobs", "worker"): 950}
        eventually(lambda: ready() == 3, "it did not grow")
        eventually(lambda: plane.lists.page(me, "intents", _newest())["items"][0]["state"] == "verified")
        item = plane.fleet.service(me, "worker")
        assert (item["controller_mode"], item["intent"]["desired"]) == ("native", 3)
        lineage = plane.lineages.lineage(me, item["intent"]["id"])
        assert lineage["outcome"]["status"] == "converged"
        assert [one["state"] for one in lineage["executions"]] == ["executed"]
        assert lineage["contract"]["execution"]["fence"] == lineage["contract"]["intent"]["fence"]
        exporter.values = {("jobs", "worker"): 1}
        eventually(lambda: ready() == 1, "it did not shrink")
        steps = [one["desired"] for one in plane.lists.page(me, "intents", _newest(50))["items"]]
        assert steps == [1, 2, 3]  # never outside its bounds, one step down at a time
    finally:
        plane.reconciler.paused = True
        _end(plane)


def _newest(limit: int = 1) -> Page:
    return Page(limit=limit)


def _end(plane: Plane) -> None:
    pids = [one["pid"] for one in plane.fleet.service(local_admin(), "worker")["instances"] if one["pid"]]
    plane.stop()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
