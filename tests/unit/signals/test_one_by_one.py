"""A provider without the bulk call is read pair by pair only in this process, and then bounded and fair."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetwarden import signals, wiring
from fleetwarden.adapters.signal_sources.one_by_one import BATCH_S, OneByOne, as_provider
from fleetwarden.app.bootstrap import Plane
from fleetwarden.app.injection import injected
from fleetwarden.app.settings import load_settings
from fleetwarden.domain.errors import Misconfigured, Retryable
from fleetwarden.testing import FakeClock, FakeSignals, FakeSubstrate

NOW = 1_800_000_000_000_000


class Gauge:
    """Answers one pair at a time.  `takes`: seconds that each answer takes."""

    name = "gauge"
    trusted_in_process: Any = True

    def __init__(self, *, takes: float = 0.0, broken: tuple[str, ...] = ()) -> None:
        self.takes = takes
        self.broken = broken
        self.clock = 0.0
        self.asked: list[str] = []

    def signal_value(self, pair: signals.Pair, at: int) -> signals.Reading:
        self.asked.append(pair.service)
        self.clock += self.takes
        if pair.service in self.broken:
            raise ZeroDivisionError("its own fault")
        return signals.Sample(
            service=pair.service,
            signal=pair.signal,
            value=4.0,
            source=self.name,
            aggregation=signals.Aggregation.FLEET_TOTAL,
            unit="items",
            scope=signals.SignalScope.SERVICE,
            observed_at=at,
        )


def pairs(*names: str) -> list[signals.Pair]:
    return [signals.Pair(service=name, signal="q") for name in names]


def fault(reading: signals.Reading) -> signals.SampleFault | None:
    return reading.fault if isinstance(reading, signals.NoSample) else None


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    wiring.reset()


class Untrusted(Gauge):
    trusted_in_process = False


class Unsaid:
    name = "unsaid"

    def signal_value(self, pair: signals.Pair, at: int) -> signals.Reading:
        raise AssertionError("it is never asked")


class Remote(Gauge):
    remote = True  # whatever it says of itself


class Truthy(Gauge):
    trusted_in_process = "yes"


class Nameless:
    def signal_values(self, pairs: object, at: int) -> object:
        return {}


@pytest.mark.req("SGP-6")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Untrusted(), "not marked as trusted"),
        (Unsaid(), "not marked as trusted"),
        (Remote(), "not marked as trusted"),
        (Truthy(), "not marked as trusted"),
        (Nameless(), "no name"),
        (object(), "no name"),
    ],
)
def test_what_cannot_be_read_safely_is_refused_before_it_is_ever_asked(given: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=said):
        wiring.set_scaling_signal_provider(given)
    assert injected().signals is None
    (tmp_path / "fleet.yml").write_text("version: 1\nservices: []\n", encoding="utf-8")
    (tmp_path / "data").mkdir()
    with pytest.raises(Misconfigured, match=said):
        Plane(load_settings(tmp_path, {"FLEET_DATA_DIR": str(tmp_path / "data")}), signals=given)
    assert getattr(given, "asked", []) == []


@pytest.mark.req("SGP-6", "SGP-2")
def test_a_trusted_one_is_read_pair_by_pair_and_drives_a_tick(tmp_path: Path) -> None:
    (tmp_path / "fleet.yml").write_text(
        "version: 1\nservices: [{name: web, scaling: {min: 1, max: 6, signal: q, target: 1, scale_up_step: 9}}]\n"
    )
    (tmp_path / "policy.yml").write_text("version: 1\nrules: [{kind: '*_service', target: '*', tier: auto}]\n")
    (tmp_path / "data").mkdir()
    clock = FakeClock()
    fake = FakeSubstrate(clock)
    fake.boot("web")
    gauge = Gauge()
    wiring.set_scaling_signal_provider(gauge)
    on = {"FLEET_DATA_DIR": str(tmp_path / "data"), "FLEET_RECONCILER": "1", "FLEET_AUTOSCALER": "1"}
    plane = Plane(load_settings(tmp_path, on), actuators={"": fake}, observers=[fake], clock=clock)
    try:
        plane.tick("fleet_reconciler")
        report: Any = plane.tick("fleet_autoscaler")
        assert [(one.service, one.desired) for one in report.verdicts] == [("web", 4)]
        assert gauge.asked == ["web"]
    finally:
        plane.stop()


@pytest.mark.req("SGP-6")
def test_one_pair_that_breaks_spoils_no_other_and_all_of_them_are_a_failed_source() -> None:
    gauge = Gauge(broken=("b",))
    provider = OneByOne(gauge, lambda: gauge.clock)
    found = provider.signal_values(pairs("a", "b", "c"), NOW)
    assert [fault(found[one]) for one in pairs("a", "b", "c")] == [None, signals.SampleFault.SOURCE_FAILED, None]
    gauge.broken = ("a", "b", "c")
    with pytest.raises(Retryable, match="its own fault"):
        provider.signal_values(pairs("a", "b", "c"), NOW)
    assert provider.signal_values([], NOW) == {}


@pytest.mark.req("SGP-6", "SGP-3")
def test_a_slow_one_ends_with_its_batch_and_those_that_were_left_come_first_next() -> None:
    gauge = Gauge(takes=BATCH_S / 2)
    provider = OneByOne(gauge, lambda: gauge.clock)
    asked = pairs("a", "b", "c", "d", "e")
    found = provider.signal_values(asked, NOW)
    unasked = signals.SampleFault.NOT_ASKED
    assert [fault(found[one]) for one in asked] == [None, None, unasked, unasked, unasked]
    for _ in range(2):
        assert set(provider.signal_values(asked, NOW)) == set(asked)
    assert gauge.asked == ["a", "b", "c", "d", "e", "a"]
    gauge.takes = 0.0
    assert [fault(one) for one in provider.signal_values(asked, NOW).values()] == [None] * 5
    assert gauge.asked[6:] == ["b", "c", "d", "e", "a"]


class Garbage(Gauge):
    def signal_value(self, pair: signals.Pair, at: int) -> Any:
        return 4.0 if pair.service == "a" else super().signal_value(pair, at)


@pytest.mark.req("SGP-6", "SGP-1")
def test_what_is_no_reading_is_no_data() -> None:
    gauge = Garbage()
    found = OneByOne(gauge, lambda: gauge.clock).signal_values(pairs("a", "b"), NOW)
    assert [fault(one) for one in found.values()] == [signals.SampleFault.SOURCE_FAILED, None]


@pytest.mark.req("SGP-6")
def test_one_that_answers_in_bulk_is_taken_as_it_is() -> None:
    fake = FakeSignals()
    assert as_provider(fake, lambda: 0.0) is fake
