"""The test kit's signals: a copy of what they are given, from any thread, and nothing is ever 0 for want of a value."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from fleetwarden.domain.errors import Retryable
from fleetwarden.domain.signals import NoSample, Pair, Sample, SampleFault
from fleetwarden.ports.signals import ScalingSignalProvider
from fleetwarden.testing import FakeSignals

AT = 1_790_000_000_000_000
WEB = Pair(service="web", signal="q")
API = Pair(service="api", signal="q")


def value(signals: FakeSignals, pair: Pair) -> float | SampleFault:
    found = signals.signal_values([pair], AT)[pair]
    return found.value if isinstance(found, Sample) else found.fault


@pytest.mark.req("ORC-6")
def test_what_was_given_is_copied_and_what_was_not_is_an_error() -> None:
    own = {("web", "q"): 5.0}
    signals = FakeSignals(own)
    provider: ScalingSignalProvider = signals
    own["web", "q"] = 0.0
    own["api", "q"] = 7.0
    answers = provider.signal_values([WEB, API], AT)
    assert isinstance(answers[API], NoSample)
    assert (value(signals, WEB), value(signals, API)) == (5.0, SampleFault.MISSING)


@pytest.mark.req("ORC-6")
def test_values_ages_errors_and_failures_are_set_and_taken_back() -> None:
    signals = FakeSignals()
    signals.set("web", "q", 3, age_s=40)
    found = signals.signal_values([WEB], AT)[WEB]
    assert isinstance(found, Sample)
    assert (found.value, found.observed_at) == (3, AT - 40_000_000)
    signals.set_error("web", "q", SampleFault.STALE, "old")
    assert value(signals, WEB) is SampleFault.STALE
    signals.set("web", "q", 4)
    assert value(signals, WEB) == 4
    signals.fail("down")
    with pytest.raises(Retryable, match="down"):
        signals.signal_values([WEB], AT)
    signals.fail("")
    assert (value(signals, WEB), signals.asked, signals.last_batch) == (4, 5, (WEB,))


@pytest.mark.req("ORC-6")
def test_threads_may_set_and_ask_at_once() -> None:
    signals = FakeSignals()
    names = [f"s{number}" for number in range(8)]

    def work(name: str) -> float:
        for number in range(300):
            signals.set(name, "q", number)
            signals.signal_values([Pair(service=one, signal="q") for one in names], AT)
        found = value(signals, Pair(service=name, signal="q"))
        assert isinstance(found, int | float)
        return found

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, names)) == [299] * 8
    assert signals.asked == 8 * 301
