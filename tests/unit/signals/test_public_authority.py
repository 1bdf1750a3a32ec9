"""`fleetwarden.signal_authority` as a user would use it: a source of one's own, read, projected, and scaled on."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from pathlib import Path

import msgspec
import pytest

from fleetwarden import signal_authority as authority
from fleetwarden import signals
from fleetwarden.domain.errors import Misconfigured, Refused

NOW = 1_800_000_000_000_000
SECRET = b"a secret of a test"


def sample(service: str, value: float, **over: object) -> authority.SentSample:
    made = authority.SentSample(
        source="meter",
        service=service,
        kind=signals.SignalKind.QUEUE,
        value=value,
        aggregation=signals.Aggregation.FLEET_TOTAL,
        unit="jobs",
        sampled_at=NOW,
    )
    return msgspec.structs.replace(made, **over)


def signed(one: authority.SentSample, secret: bytes = SECRET) -> authority.SentSample:
    told = hmac.new(secret, authority.signed_bytes(one), hashlib.sha256).hexdigest()
    return msgspec.structs.replace(one, attestation=authority.Attestation(key_id="k1", signature=told))


class Meter:
    """A remote catalogue of some samples, three to a page at most."""

    name = "meter"
    remote = True

    def __init__(self, *kept: authority.SentSample) -> None:
        self.kept = kept

    def page(
        self, query: authority.SignalQuery, query_digest: str, after: str, limit: int, timeout_s: float
    ) -> authority.SourcePage:
        assert query.digest() == query_digest
        assert 0 < timeout_s <= query.timeout_s
        first = int(after or 0)
        last = first + min(limit, 3)
        more = str(last) if last < len(self.kept) else ""
        return authority.SourcePage(
            query_digest=query_digest, snapshot="today", samples=self.kept[first:last], next=more
        )


@pytest.fixture
def keyed(tmp_path: Path) -> authority.KeyedAuthenticator:
    (tmp_path / "k").write_bytes(SECRET)
    document = authority.SignalsDocument(keys={"meter": (authority.AttestationKey(id="k1", hmac_file="k"),)})
    return authority.KeyedAuthenticator(lambda: document, tmp_path)


def definition(*services: str) -> signals.Definition:
    return signals.Definition(
        name="waiting",
        kind=signals.SignalKind.QUEUE,
        unit="jobs",
        scope=signals.SignalScope.SERVICE,
        aggregation=signals.Aggregation.FLEET_TOTAL,
        services=services,
    )


def asked(*names: str) -> list[signals.Pair]:
    return [signals.Pair(service=name, signal="waiting") for name in names]


@pytest.mark.req("RUN-16", "SIG-2", "SIG-6", "SIG-7")
def test_a_remote_catalogue_is_read_attested_and_summed_up(keyed: authority.KeyedAuthenticator) -> None:
    meter = Meter(*[signed(sample(f"s{number}", number)) for number in range(7)], sample("s7", 7.0))
    reader = authority.SignalReader(meter, authenticator=keyed, monotonic=time.monotonic)
    query = authority.SignalQuery(text="everything that waits", window_start=NOW - 60_000_000, window_end=NOW)
    summing = authority.Summing.of(query)
    for page in reader.pages(query, NOW, {f"s{number}" for number in range(8)}):
        summing.add(page)
    summary = summing.summary()
    assert (summary.pages, summary.samples, dict(summary.rejected)) == (3, 7, {"unattested": 1})
    assert (summary.complete, summary.snapshot) == (True, "today")
    evidence = authority.SignalDecisionEvidence.of(query, summary)
    assert evidence.text == "everything that waits"
    assert "waits" not in json.dumps(evidence.graph_projection())


@pytest.mark.req("RUN-16", "SIG-10")
def test_the_fixture_authenticator_is_for_this_process_only() -> None:
    fixture = authority.OpaqueReferenceAuthenticator()
    with pytest.raises(Misconfigured, match="remote"):
        authority.SignalReader(Meter(), authenticator=fixture, monotonic=time.monotonic)
    with pytest.raises(Misconfigured, match="remote"):
        authority.PagedSignals(Meter(), {}, authenticator=fixture, monotonic=time.monotonic)


@pytest.mark.req("RUN-16", "SIG-4", "SIG-5")
def test_a_provider_over_pages_answers_each_pair_with_its_newest_or_a_reason(
    keyed: authority.KeyedAuthenticator,
) -> None:
    old = NOW - 200_000_000
    meter = Meter(
        signed(sample("web", 3.0, sampled_at=NOW - 2)),
        signed(sample("web", 4.0, sampled_at=NOW - 1)),
        signed(sample("web", 5.0, sampled_at=NOW - 3)),
        signed(sample("api", 1.0, sampled_at=old)),
        signed(sample("cron", 1.0), b"another secret"),
        signed(sample("mail", -1.0)),
        signed(sample("bulk", 1.0, unit="bytes")),
    )
    provider: signals.ScalingSignalProvider = authority.PagedSignals(
        meter,
        {"waiting": definition("web", "api", "cron", "mail", "bulk", "idle")},
        authenticator=keyed,
        monotonic=time.monotonic,
    )
    found = provider.signal_values(asked("web", "api", "cron", "mail", "bulk", "idle", "other"), NOW)
    assert {pair.service: one.value for pair, one in found.items() if isinstance(one, signals.Sample)} == {"web": 4.0}
    faults = {pair.service: one.fault for pair, one in found.items() if isinstance(one, signals.NoSample)}
    assert faults == {
        "api": signals.SampleFault.STALE,
        "cron": signals.SampleFault.UNTRUSTED,
        "mail": signals.SampleFault.NEGATIVE,
        "bulk": signals.SampleFault.MISSING,  # another unit is another signal's
        "idle": signals.SampleFault.MISSING,
        "other": signals.SampleFault.UNDEFINED,
    }
    assert all(one.reason for one in found.values() if isinstance(one, signals.NoSample))


@pytest.mark.req("SIG-2", "SIG-9")
def test_a_provider_that_was_cut_short_says_nothing_of_what_it_did_not_come_to(
    keyed: authority.KeyedAuthenticator,
) -> None:
    meter = Meter(*[signed(sample(name, 1.0)) for name in ("a", "b", "c", "d")])
    caps = authority.SignalCaps(items=3)
    provider = authority.PagedSignals(
        meter, {"waiting": definition()}, authenticator=keyed, monotonic=time.monotonic, caps=caps
    )
    found = provider.signal_values(asked("a", "d"), NOW)
    [last] = [one for one in found.values() if isinstance(one, signals.NoSample)]
    assert (last.service, last.fault) == ("d", signals.SampleFault.NOT_ASKED)


class Liar(Meter):
    def page(self, *asked: object) -> authority.SourcePage:
        return authority.SourcePage(query_digest="sha256:" + "0" * 64, snapshot="today")


@pytest.mark.req("SIG-4")
def test_an_answer_to_another_query_answers_nothing(keyed: authority.KeyedAuthenticator) -> None:
    provider = authority.PagedSignals(Liar(), {"waiting": definition()}, authenticator=keyed, monotonic=time.monotonic)
    with pytest.raises(Refused) as refused:
        provider.signal_values(asked("web"), NOW)
    assert refused.value.code == authority.SignalFault.QUERY_DIGEST
