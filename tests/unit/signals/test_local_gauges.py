"""Gauges of this process answer for whom they are defined, with value and time together; unset is no data."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from fleetwarden import signals
from fleetwarden.app.bootstrap import Plane
from fleetwarden.app.settings import load_settings
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.shipped_signals import shipped_signals, with_shipped
from fleetwarden.domain.signal_file import SignalsDocument, SourceSpec
from fleetwarden.ports.stores import WorkDraft
from fleetwarden.testing import FakeClock, FakeSubstrate

NOW = 1_800_000_000_000_000
CPU = signals.Definition(
    name="cpu",
    kind=signals.SignalKind.CPU,
    unit="percent",
    scope=signals.SignalScope.SERVICE,
    aggregation=signals.Aggregation.PER_REPLICA,
    services=("web",),
)


def pair(service: str, signal: str) -> signals.Pair:
    return signals.Pair(service=service, signal=signal)


def fault(reading: signals.Reading) -> signals.SampleFault | None:
    return reading.fault if isinstance(reading, signals.NoSample) else None


@pytest.mark.req("SGP-5", "SIG-5")
def test_a_gauge_answers_for_its_own_service_and_unset_is_no_data() -> None:
    gauges: Any = signals.LocalGauges({"cpu": CPU})
    asked = [pair("web", "cpu"), pair("api", "cpu"), pair("web", "ram")]
    assert [fault(one) for one in gauges.signal_values(asked, NOW).values()] == ["missing", "undefined", "undefined"]
    gauges.set("web", "cpu", 71.5, NOW - 5)
    found = gauges.signal_values(asked, NOW)
    sample = found[pair("web", "cpu")]
    assert (sample.value, sample.observed_at, sample.unit, sample.scope) == (71.5, NOW - 5, "percent", "service")
    assert fault(found[pair("api", "cpu")]) == "undefined"
    for service, signal in (("api", "cpu"), ("web", "ram")):
        with pytest.raises(Misconfigured, match="is defined"):
            gauges.set(service, signal, 1.0, NOW)
    with pytest.raises(Misconfigured, match="names no service"):
        signals.LocalGauges({"cpu": signals.Definition(**{**_fields(CPU), "services": ()})})


def _fields(one: signals.Definition) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__struct_fields__}


@pytest.mark.req("SGP-5")
def test_a_value_is_never_seen_with_anothers_time() -> None:
    gauges = signals.LocalGauges({"a": CPU, "b": CPU})
    done = threading.Event()

    def write() -> None:
        for number in range(3_000):
            gauges.set_all("web", {"a": float(number), "b": float(number)}, number)
        done.set()

    writer = threading.Thread(target=write)
    gauges.set_all("web", {"a": 0.0, "b": 0.0}, 0)
    writer.start()
    torn = 0
    while not done.is_set():
        found = list(gauges.signal_values([pair("web", "a"), pair("web", "b")], NOW).values())
        torn += len({(one.value, one.observed_at) for one in found if isinstance(one, signals.Sample)}) != 1
    writer.join()
    assert torn == 0
    last = gauges.signal_values([pair("web", "a")], NOW)[pair("web", "a")]
    assert isinstance(last, signals.Sample)
    assert last.value == last.observed_at == 2_999


@pytest.mark.req("SGP-5", "SGP-2")
def test_the_shipped_signals_are_there_only_for_a_named_service_and_without_a_source() -> None:
    shipped = shipped_signals("worker")
    told = {name: (one.unit, one.scope, one.kind, one.services) for name, one in shipped.items()}
    assert told == {
        "queue_depth": ("items", "fleet", "queue", ("worker",)),
        "consumer_lag": ("messages", "fleet", "queue", ("worker",)),
    }
    document = with_shipped(SignalsDocument(), "worker")
    assert document.definition("worker", "queue_depth") is not None
    assert document.definition("web", "queue_depth") is None
    assert with_shipped(SignalsDocument(), "").definitions == {}
    sourced = SignalsDocument(sources={"main": SourceSpec(name="main", url="http://127.0.0.1:1")})
    assert with_shipped(sourced, "worker").definitions == {}
    own = SignalsDocument(definitions={"queue_depth": CPU})
    assert with_shipped(own, "worker").definitions["queue_depth"] is CPU


FLEET = """\
version: 1
services:
  - {name: worker, scaling: {min: 1, max: 6, signal: queue_depth, target: 2, scale_up_step: 9}}
  - {name: other, scaling: {min: 1, max: 6, signal: queue_depth, target: 2, scale_up_step: 9}}
"""


def plane_of(folder: Path, clock: FakeClock, fake: FakeSubstrate, **over: str) -> Plane:
    (folder / "fleet.yml").write_text(FLEET, encoding="utf-8")
    rule = "{kind: '*_service', target: '*', tier: auto, rate_limit: {max: 99, window_s: 60}}"
    (folder / "policy.yml").write_text(f"version: 1\nrules: [{rule}]\n", encoding="utf-8")
    (folder / "data").mkdir()
    on = {"FLEET_DATA_DIR": str(folder / "data"), "FLEET_RECONCILER": "1", "FLEET_AUTOSCALER": "1", **over}
    return Plane(load_settings(folder, on), actuators={"": fake}, observers=[fake], clock=clock)


@pytest.mark.req("SGP-5", "SGP-2")
def test_the_planes_own_queue_scales_its_worker_and_nobody_else(tmp_path: Path) -> None:
    clock = FakeClock()
    fake = FakeSubstrate(clock)
    for name in ("worker", "other"):
        fake.boot(name)
    plane = plane_of(tmp_path, clock, fake, FLEET_WORKER_SERVICE="worker")
    try:

        def enqueue(tx: Any) -> None:
            for number in range(8):
                tx.work.enqueue(WorkDraft(kind="somebody's", key=f"k{number}", payload={}))
            tx.work.enqueue(WorkDraft(kind="somebody's", key="later", payload={}, not_before=tx.now() + 10**12))

        plane.store.transact("t", enqueue)
        plane.store.transact("t", lambda tx: tx.work.claim("somebody", ["somebody's"], 60_000_000, 2))
        assert plane.store.read(lambda tx: tx.work.depth()) == (6, 8)
        plane.tick("fleet_reconciler")
        report: Any = plane.tick("fleet_autoscaler")
        assert [(one.service, one.desired) for one in report.verdicts] == [("worker", 3)]
        assert plane.autoscaling.standing("other").code == "skip_metrics"  # type: ignore[union-attr]
    finally:
        plane.stop()


@pytest.mark.req("SGP-2")
def test_a_prometheus_that_is_configured_answers_alone(tmp_path: Path) -> None:
    clock = FakeClock()
    settings = {"FLEET_WORKER_SERVICE": "worker", "SCALING_PROMETHEUS_URL": "http://127.0.0.1:1"}
    plane = plane_of(tmp_path, clock, FakeSubstrate(clock), **settings)
    try:
        assert plane.autoscaling.sources.declared("worker", "queue_depth") is None
    finally:
        plane.stop()


@pytest.mark.req("SGP-5")
def test_a_worker_that_is_no_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="FLEET_WORKER_SERVICE"):
        load_settings(tmp_path, {"FLEET_WORKER_SERVICE": "no name"})
