"""Pushed samples on both databases: a batch is kept whole or not at all, and a sequence never goes back."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fleetwarden.adapters.signal_sources.attestation import KeyedAuthenticator, OpaqueReferenceAuthenticator
from fleetwarden.controllers.paged_signals import query_for
from fleetwarden.controllers.pushed_signals import PushedPages, PushedSignals
from fleetwarden.controllers.signal_intake import SignalIntake
from fleetwarden.domain.errors import Misconfigured, Refused, Retryable
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.signal_authority import Attestation, SentSample
from fleetwarden.domain.signal_caps import GLOBAL_CAPS, SignalCaps
from fleetwarden.domain.signal_file import PUSHED, AttestationKey, SignalsDocument
from fleetwarden.domain.signal_query import SignalFault
from fleetwarden.domain.signals import (
    Aggregation,
    Definition,
    NoSample,
    Pair,
    Sample,
    SampleFault,
    SignalKind,
    SignalScope,
)
from fleetwarden.ports.stores import Store
from fleetwarden.testing import FakeConfiguration
from fleetwarden.testing.builders import a_configuration, a_fleet, a_service
from tests.contract.store.conftest import Database

WAITING = Definition(
    name="waiting",
    kind=SignalKind.QUEUE,
    unit="jobs",
    scope=SignalScope.SERVICE,
    aggregation=Aggregation.FLEET_TOTAL,
    source=PUSHED,
)


class Bench:
    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.document = SignalsDocument(definitions={"waiting": WAITING})
        self.woken = 0
        self.now = store.read(lambda tx: tx.now())
        files = FakeConfiguration(a_configuration(a_fleet(a_service("web"), a_service("api"))))
        keys = KeyedAuthenticator(lambda: self.document, folder)
        self.pushed = PushedSignals(store, monotonic=lambda: 0.0, caps=lambda: self.document.caps)
        self.intake = SignalIntake(store, files, lambda: self.document, keys, taken=self.wake)

    def wake(self) -> None:
        self.woken += 1

    def sent(self, **over: Any) -> SentSample:
        fields: dict[str, Any] = {
            "source": "shop-1",
            "service": "web",
            "kind": SignalKind.QUEUE,
            "value": 7.0,
            "aggregation": Aggregation.FLEET_TOTAL,
            "unit": "jobs",
            "sampled_at": self.now,
        }
        return SentSample(**(fields | over))

    def take(self, *samples: SentSample) -> list[tuple[int, str]]:
        return [(one.index, one.code.value) for one in self.intake.take(samples)]

    def read(self, service: str = "web") -> Sample | NoSample:
        pair = Pair(service=service, signal="waiting")
        return self.pushed.read({pair: WAITING})[pair]

    def value(self, service: str = "web") -> float:
        reading = self.read(service)
        assert isinstance(reading, Sample)
        return reading.value


@pytest.fixture
def bench(store: Store, tmp_path: Path) -> Bench:
    return Bench(store, tmp_path)


@pytest.mark.req("SIG-5", "SIG-8")
def test_what_was_never_sent_is_missing_and_what_was_is_read_back(bench: Bench) -> None:
    nothing = bench.read()
    assert isinstance(nothing, NoSample)
    assert nothing.fault is SampleFault.MISSING
    assert bench.take(bench.sent()) == []
    kept = bench.read()
    assert isinstance(kept, Sample)
    assert (kept.value, kept.unit, kept.source, kept.observed_at) == (7.0, "jobs", "shop-1", bench.now)
    assert bench.woken == 1
    assert isinstance(bench.read("api"), NoSample)


@pytest.mark.req("SIG-4", "SIG-8")
def test_one_bad_sample_holds_back_its_whole_batch_and_each_is_named(bench: Bench) -> None:
    refused = bench.take(
        bench.sent(sequence=5),
        bench.sent(service="nobody"),
        bench.sent(value=-1.0),
        bench.sent(unit="bytes"),
        bench.sent(sequence=5),
        bench.sent(tenant="somebody-else"),
        bench.sent(scale_unit="api"),
    )
    found = [(1, "scope"), (2, "negative"), (3, "undefined"), (4, "replayed"), (5, "scope"), (6, "scope")]
    assert refused == found
    assert isinstance(bench.read(), NoSample)
    assert (bench.woken, bench.intake.accepted) == (0, 0)
    assert bench.intake.rejections["shop-1", "negative"] == 1
    assert bench.take(bench.sent(sequence=5)) == []  # the refused batch had not used it up


@pytest.mark.req("SIG-4", "SIG-9")
def test_a_sequence_that_is_not_above_the_last_is_refused_also_after_a_restart(bench: Bench, tmp_path: Path) -> None:
    assert bench.take(bench.sent(sequence=5), bench.sent(sequence=6, value=8.0)) == []
    assert bench.take(bench.sent(sequence=6)) == [(0, "replayed")]
    again = Bench(bench.store, tmp_path)
    assert again.take(again.sent(sequence=4)) == [(0, "replayed")]
    assert again.take(again.sent(sequence=4, source="shop-2")) == []
    assert again.take(again.sent(sequence=7, value=9.0)) == []


@pytest.mark.req("SIG-8")
def test_the_newest_measurement_answers_and_two_sources_are_never_added_up(bench: Bench) -> None:
    assert bench.take(bench.sent(value=1.0), bench.sent(value=2.0, sampled_at=bench.now - 10 * SECOND)) == []
    assert bench.value() == 1.0
    assert bench.take(bench.sent(value=3.0, sampled_at=bench.now + SECOND, source="shop-2")) == []
    assert bench.value() == 3.0
    assert bench.take(bench.sent(value=4.0, sampled_at=bench.now + 2 * SECOND)) == []
    assert bench.value() == 4.0


@pytest.mark.req("SIG-9")
def test_a_full_guard_takes_no_new_source_and_goes_on_with_the_known_ones(bench: Bench) -> None:
    bench.document = SignalsDocument(definitions={"waiting": WAITING}, caps=SignalCaps(guard_sources=1))
    assert GLOBAL_CAPS.guard_sources == 65_536
    both = bench.sent(sequence=1), bench.sent(sequence=1, source="shop-2")
    assert bench.take(*both) == [(1, "guard_full")]  # also where both come at once
    assert bench.take(bench.sent(sequence=1)) == []
    assert bench.take(bench.sent(sequence=1, source="shop-2")) == [(0, "guard_full")]
    assert bench.take(bench.sent(sequence=2)) == []
    assert bench.take(bench.sent(source="shop-2")) == []  # without a sequence nothing is remembered


@pytest.mark.req("SIG-9")
def test_a_batch_over_the_cap_of_a_page_is_refused_whole(bench: Bench) -> None:
    bench.document = SignalsDocument(definitions={"waiting": WAITING}, caps=SignalCaps(page_size=2))
    with pytest.raises(Refused) as refused:
        bench.take(*[bench.sent()] * 3)
    assert refused.value.code == "too_large"
    assert isinstance(bench.read(), NoSample)
    assert bench.take(bench.sent(), bench.sent()) == []


@pytest.mark.req("SIG-4", "SIG-6")
def test_where_there_are_keys_everybody_has_to_sign(bench: Bench) -> None:
    keys = {"shop-1": (AttestationKey(id="k1", hmac_file="k1.key"),)}
    bench.document = SignalsDocument(definitions={"waiting": WAITING}, keys=keys)
    assert bench.take(bench.sent()) == [(0, "unattested")]
    assert bench.take(bench.sent(source="free")) == [(0, "unattested")]


@pytest.mark.req("SIG-10")
def test_the_fixture_authenticator_is_refused_for_what_is_pushed(store: Store) -> None:
    with pytest.raises(Misconfigured, match="fixture"):
        SignalIntake(store, FakeConfiguration(), SignalsDocument, OpaqueReferenceAuthenticator(), taken=lambda: None)


@pytest.mark.req("SIG-1", "SIG-4")
def test_a_sample_is_used_for_as_long_as_it_says_and_a_fresher_source_answers_after_it(
    sqlite: Database, tmp_path: Path
) -> None:
    bench = Bench(sqlite.open(), tmp_path)
    long_lived = bench.sent(source="shop-2", value=2.0, sampled_at=bench.now - SECOND)
    assert bench.take(bench.sent(freshness_s=5.0), long_lived) == []
    assert bench.value() == 7.0
    sqlite.clock.advance(6)
    assert bench.value() == 2.0
    sqlite.clock.advance(120)
    ended = bench.read()
    assert isinstance(ended, NoSample)
    assert ended.fault is SampleFault.STALE


@pytest.mark.req("SIG-4", "SIG-6")
def test_a_time_that_cannot_be_written_is_a_rejection_also_of_a_signed_sample(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "k").write_text("a secret of a test", encoding="utf-8")
    keys = {"shop-1": (AttestationKey(id="k1", hmac_file="k"),)}
    bench.document = SignalsDocument(definitions={"waiting": WAITING}, keys=keys)
    early = -62_135_596_800 * SECOND - SECOND  # a second before the year 1, as an offset can make it
    signed = Attestation(key_id="k1", signature="00")
    assert bench.take(bench.sent(event_at=early, attestation=signed)) == [(0, "malformed")]


@pytest.mark.req("SIG-3", "SIG-9")
def test_kept_samples_are_read_in_pages_and_each_service_gets_its_newest(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetwarden.controllers.pushed_signals.SERVICES_MAX", 1)
    for name, most in (("shop-1", 3.0), ("shop-2", 5.0), ("shop-3", 4.0), ("shop-4", 2.0), ("shop-5", 1.0)):
        at = bench.now + int(most)
        assert bench.take(bench.sent(source=name, value=most, sampled_at=at)) == []
        assert bench.take(bench.sent(source=name, service="api", value=10 * most, sampled_at=at)) == []
    for size in (1, 2, 3, 5, 1000):
        bench.document = SignalsDocument(definitions={"waiting": WAITING}, caps=SignalCaps(page_size=size))
        pairs = {Pair(service=name, signal="waiting"): WAITING for name in ("web", "api")}
        found = bench.pushed.read(pairs)
        assert {pair.service: one.value for pair, one in found.items() if isinstance(one, Sample)} == {
            "web": 5.0,
            "api": 50.0,
        }
    walked = []
    pages = PushedPages(bench.store, ["web", "api"])
    asked = query_for(PUSHED, [WAITING], bench.now, SignalCaps(page_size=3))
    after = "begin"
    while after:
        page = pages.page(asked, asked.digest(), after.removeprefix("begin"), 3, 1.0)
        walked += [(one.service, one.source) for one in page.samples]
        after = page.next
    assert walked == [(service, f"shop-{number}") for service in ("web", "api") for number in range(1, 6)]


@pytest.mark.req("SIG-2", "SIG-9")
def test_a_read_that_ends_at_its_most_samples_goes_on_there_and_leaves_nobody_out(bench: Bench) -> None:
    for service in ("api", "web"):
        assert bench.take(bench.sent(service=service), bench.sent(service=service, source="shop-2")) == []
    pairs = {Pair(service=name, signal="waiting"): WAITING for name in ("web", "api", "cron")}
    bench.document = SignalsDocument(definitions={"waiting": WAITING}, caps=SignalCaps(items=2, page_size=1))
    seen: list[set[str]] = []
    for _ in range(3):
        found = bench.pushed.read(pairs)
        seen.append({pair.service for pair, one in found.items() if isinstance(one, Sample)})
        none = {one.fault for one in found.values() if isinstance(one, NoSample)}
        assert none == {SampleFault.NOT_ASKED}  # it says nothing about those that it did not come to
    assert set().union(*seen) == {"api", "web"}


@pytest.mark.req("SIG-2", "SIG-9")
def test_a_read_that_takes_too_long_gives_what_it_has_and_goes_on_there(bench: Bench) -> None:
    for service in ("api", "web"):
        for number in range(3):
            assert bench.take(bench.sent(service=service, source=f"shop-{number}")) == []
    bench.document = SignalsDocument(definitions={"waiting": WAITING}, caps=SignalCaps(page_size=1))
    ticks = count(0, 2)  # each page takes two seconds
    slow = PushedSignals(bench.store, monotonic=lambda: float(next(ticks)), caps=lambda: bench.document.caps)
    pairs = {Pair(service=name, signal="waiting"): WAITING for name in ("web", "api", "cron")}
    for _ in range(2):
        found = {pair.service: one for pair, one in slow.read(pairs).items()}
        assert isinstance(found["web"], Sample)
        none = found["cron"]
        assert isinstance(none, NoSample)
        assert none.fault is SampleFault.NOT_ASKED
    hanging = PushedSignals(bench.store, monotonic=lambda: float(next(ticks)) * 100, caps=lambda: bench.document.caps)
    with pytest.raises(Retryable) as late:
        hanging.read(pairs)
    assert late.value.code == SignalFault.TIMED_OUT


@pytest.mark.req("SIG-4")
def test_a_place_that_is_none_is_refused_in_words(bench: Bench) -> None:
    asked = query_for(PUSHED, [WAITING], bench.now, GLOBAL_CAPS)
    with pytest.raises(Refused) as refused:
        PushedPages(bench.store, ["web"]).page(asked, asked.digest(), "[1", 3, 1.0)
    assert refused.value.code == "malformed_cursor"


@pytest.mark.req("SIG-8", "SIG-4")
def test_sequenced_samples_of_one_source_about_several_services_are_all_read(store, tmp_path):
    """Their order was judged when they came; they are read by service, which is another order."""
    bench = Bench(store, tmp_path)
    sent = [bench.sent(service="web", sequence=1, value=3.0), bench.sent(service="api", sequence=2, value=4.0)]
    assert bench.take(*sent) == []
    found = bench.pushed.read({Pair(service=name, signal="waiting"): WAITING for name in ("api", "web")})
    values = {
        pair.service: reading.value if isinstance(reading, Sample) else reading for pair, reading in found.items()
    }
    assert values == {"api": 4.0, "web": 3.0}
