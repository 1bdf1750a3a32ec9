"""Samples are read page by page: bounded, bound to the query's digest, each judged; what is missing is never zero."""

from __future__ import annotations

import base64
import json
import os
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetwarden.adapters.signal_sources.attestation import OpaqueReferenceAuthenticator
from fleetwarden.controllers.signal_reading import SignalReader
from fleetwarden.domain.errors import FleetError, Misconfigured, Refused, Retryable
from fleetwarden.domain.identifiers import SECOND, canonical_json
from fleetwarden.domain.signal_authority import Attestation, Rejection, SentSample
from fleetwarden.domain.signal_caps import GLOBAL_CAPS, SignalCaps
from fleetwarden.domain.signal_pages import ReplayGuard, SignalDecisionEvidence, SignalPage, Summing
from fleetwarden.domain.signal_query import (
    Position,
    SignalFault,
    SignalQuery,
    credential_problem,
    cursor_of,
    position_of,
    query_problem,
)
from fleetwarden.domain.signals import Aggregation, SignalKind
from fleetwarden.ports.signal_pages import SourcePage

NOW = 1_800_000_000 * SECOND
FULL = os.environ.get("FLEETWARDEN_TEST_DEPTH", "quick") == "full"


def sent(**over: Any) -> SentSample:
    fields: dict[str, Any] = {
        "source": "shop-1",
        "service": "web",
        "kind": SignalKind.QUEUE,
        "value": 12.5,
        "aggregation": Aggregation.FLEET_TOTAL,
        "unit": "jobs",
        "sampled_at": NOW,
    }
    return SentSample(**(fields | over))


def query(**over: Any) -> SignalQuery:
    fields: dict[str, Any] = {"text": "all samples", "window_start": NOW - 3600 * SECOND, "window_end": NOW}
    return SignalQuery(**(fields | over))


class Everything:
    """A catalogue in which every service is declared."""

    def __contains__(self, name: object) -> bool:
        return True


class Catalogue:
    """A source that makes its samples when they are asked for, `count` of them."""

    name = "catalogue"
    remote = False

    def __init__(self, count: int, make: Callable[[int], SentSample] | None = None) -> None:
        self.count = count
        self.make = make or (
            lambda number: sent(service=f"s{number}", source=f"agent-{number % 1000}", sequence=number)
        )
        self.asked = 0
        self.largest = 0
        self.over: dict[str, Any] = {}
        self.slow = 0.0
        self.clock = 0.0

    def page(self, query: SignalQuery, query_digest: str, after: str, limit: int, timeout_s: float) -> SourcePage:
        self.asked += 1
        self.largest = max(self.largest, limit)
        self.clock += self.slow
        first = int(after or 0)
        last = min(self.count, first + limit)
        found = SourcePage(
            query_digest=query_digest,
            snapshot="s1",
            samples=tuple(self.make(number) for number in range(first, last)),
            next=str(last) if last < self.count else "",
        )
        return msgspec.structs.replace(found, **self.over)


def reader(source: Any, authenticator: Any = None, caps: SignalCaps = GLOBAL_CAPS) -> SignalReader:
    return SignalReader(source, authenticator=authenticator, monotonic=lambda: float(source.clock), caps=caps)


def pages(source: Any, asked: SignalQuery, **over: Any) -> Iterator[SignalPage]:
    return reader(source).pages(asked, NOW, Everything(), **over)


def codes(page: SignalPage) -> list[Rejection]:
    return [one.code for one in page.rejections]


def fault(call: Callable[[], object]) -> str:
    with pytest.raises(FleetError) as refused:
        call()
    return refused.value.code


@pytest.mark.req("SIG-3", "SIG-2")
def test_pages_are_walked_in_order_to_the_end_each_of_the_size_that_was_asked_for() -> None:
    source = Catalogue(2_500)
    asked = query()
    found = list(pages(source, asked))
    assert [len(one.samples) for one in found] == [1000, 1000, 500]
    assert [one.number for one in found] == [0, 1, 2]
    assert {one.query_digest for one in found} == {asked.digest()}
    assert [one.service for page in found for one in page.samples] == [f"s{number}" for number in range(2_500)]
    assert found[-1].next_cursor == ""
    assert not found[-1].cut


@pytest.mark.req("SIG-3")
def test_a_read_goes_on_from_a_cursor_as_if_it_had_never_stopped() -> None:
    asked = query(page_size=10)
    whole = list(pages(Catalogue(35), asked))
    again = list(pages(Catalogue(35), asked, cursor=whole[1].next_cursor))
    assert again == whole[2:]


@pytest.mark.req("SIG-5")
def test_missing_data_is_one_empty_page_without_any_value() -> None:
    asked = query()
    [page] = pages(Catalogue(0), asked)
    assert (page.samples, page.rejections, page.next_cursor) == ((), (), "")
    summing = Summing.of(asked)
    summing.add(page)
    summary = summing.summary()
    assert (summary.samples, summary.oldest, summary.newest, summary.complete) == (0, None, None, True)
    assert "value" not in json.dumps(summary.graph_projection())


@pytest.mark.req("SIG-2", "SIG-9")
def test_a_read_ends_at_its_most_items_and_says_that_it_was_cut() -> None:
    asked = query(page_size=10, max_items=25)
    source = Catalogue(100)
    found = list(pages(source, asked))
    assert [len(one.samples) for one in found] == [10, 10, 5]
    assert [one.cut for one in found] == [False, False, True]
    assert found[-1].next_cursor == ""
    resumed = list(pages(source, asked, cursor=found[1].next_cursor))
    assert [len(one.samples) for one in resumed] == [5]  # what was read before the cursor counts
    summing = Summing.of(asked)
    for page in found:
        summing.add(page)
    assert not summing.summary().complete
    [exact] = pages(Catalogue(25), query(max_items=25))
    assert not exact.cut


def grown(count: int) -> tuple[int, Catalogue]:
    """The most memory that a walk over so many resources took beyond what was there, in bytes."""
    source = Catalogue(count)
    asked = query(text=f"{count} resources")
    summing = Summing.of(asked)
    tracemalloc.start()
    try:
        for page in pages(source, asked):
            summing.add(page)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert summing.summary().samples == count
    return most, source


@pytest.mark.req("SIG-3")
def test_memory_is_flat_whatever_the_catalogue_holds() -> None:
    grown(2_000)  # caches of names are filled once
    small, _ = grown(3_000)
    large, source = grown(15_000)
    assert source.largest == 1000
    assert large < small + 128 * 1024


@pytest.mark.slow
@pytest.mark.req("SIG-3", "SIG-9")
@pytest.mark.skipif(not FULL, reason="FLEETWARDEN_TEST_DEPTH=full walks a million")
def test_a_million_resources_take_no_more_memory_than_ten_thousand() -> None:
    process = psutil.Process()

    def walk(count: int) -> int:
        asked = query(text=f"{count} resources")
        summing, most = Summing.of(asked), 0
        for page in pages(Catalogue(count), asked):
            summing.add(page)
            most = max(most, process.memory_info().rss)
        told = summing.summary()
        assert (told.samples, told.complete) == (count, True)
        return most

    walk(10_000)
    small = walk(10_000)
    assert walk(1_000_000) - small < 8 * 1024 * 1024


@pytest.mark.req("SIG-4")
@pytest.mark.parametrize(
    ("over", "expected"),
    [
        ({"value": float("nan")}, Rejection.NOT_FINITE),
        ({"value": -1.0}, Rejection.NEGATIVE),
        ({"sampled_at": NOW - 121 * SECOND}, Rejection.STALE),
        ({"sampled_at": NOW + 31 * SECOND}, Rejection.FUTURE),
        ({"sampled_at": None}, Rejection.MISSING_TIMESTAMP),
        ({"sampled_at": NOW - 61 * SECOND}, Rejection.STALE),  # fresh enough, and not of the window
        ({"source": "shop-9"}, Rejection.SOURCE),
        ({"service": "api"}, Rejection.SCOPE),
        ({"kind": SignalKind.CPU}, Rejection.SCOPE),
        ({"tenant": "other"}, Rejection.SCOPE),
        ({"scale_unit": "other"}, Rejection.SCOPE),
        ({"evidence": ("token=abc",)}, Rejection.CREDENTIALS),
    ],
)
def test_each_sample_that_is_not_believed_has_its_own_code_and_spoils_no_other(
    over: dict[str, Any], expected: Rejection
) -> None:
    good = {"tenant": "shop", "scale_unit": "web"}
    made = [sent(**good), sent(**(good | over)), sent(**good)]
    asked = query(
        window_start=NOW - 60 * SECOND, sources=("shop-1",), services=("web",), kinds=(SignalKind.QUEUE,), **good
    )
    [page] = pages(Catalogue(3, made.__getitem__), asked)
    assert [(one.index, one.code) for one in page.rejections] == [(1, expected)]
    assert page.rejections[0].reason
    assert page.samples == (made[0], made[2])


@pytest.mark.req("SIG-4")
def test_a_sample_of_a_service_that_is_not_there_is_out_of_scope() -> None:
    [page] = reader(Catalogue(1)).pages(query(), NOW, {"web"})
    assert codes(page) == [Rejection.SCOPE]


@pytest.mark.req("SIG-4", "SIG-9")
def test_a_sequence_has_to_grow_and_the_guard_is_bounded() -> None:
    numbers = [("a", 5), ("a", 5), ("a", 4), ("b", 1), ("a", 6), ("c", 1), ("b", 2)]
    made = [sent(source=name, sequence=number) for name, number in numbers]
    caps = SignalCaps(guard_sources=2)
    [page] = reader(Catalogue(len(made), made.__getitem__), caps=caps).pages(query(), NOW, Everything())
    found = [(one.index, one.code) for one in page.rejections]
    assert found == [(1, Rejection.REPLAYED), (2, Rejection.REPLAYED), (5, Rejection.GUARD_FULL)]
    guard = ReplayGuard()
    assert next(pages(Catalogue(3), query(), guard=guard)).rejections == ()
    assert len(guard) == 3
    [again] = pages(Catalogue(3), query(), guard=guard)  # remembered from one read to the next
    assert codes(again) == [Rejection.REPLAYED] * 3


class Checking:
    """An authenticator with keys, in short: what is signed "good" is."""

    fixture = False

    def problem(self, sample: SentSample) -> str | None:
        return None if sample.attestation is not None and sample.attestation.signature == "good" else "not good"


@pytest.mark.req("SIG-4", "SIG-6")
def test_what_nobody_vouches_for_is_not_believed() -> None:
    signatures = [None, Attestation(key_id="k", signature="bad"), Attestation(key_id="k", signature="good")]
    source = Catalogue(3, lambda number: sent(attestation=signatures[number]))
    source.remote = True
    [page] = reader(source, Checking()).pages(query(), NOW, Everything())
    assert codes(page) == [Rejection.UNATTESTED, Rejection.ATTESTATION]
    assert len(page.samples) == 1


@pytest.mark.req("SIG-10")
@pytest.mark.parametrize("authenticator", [None, OpaqueReferenceAuthenticator()])
def test_nothing_remote_is_taken_on_trust(authenticator: Any) -> None:
    source = Catalogue(1)
    reader(source, OpaqueReferenceAuthenticator())  # in this process, for fixtures
    source.remote = True
    with pytest.raises(Misconfigured, match="remote"):
        reader(source, authenticator)


@pytest.mark.req("SIG-2", "SIG-9")
@pytest.mark.parametrize(
    ("over", "expected"),
    [
        ({"timeout_s": 10.001}, SignalFault.OVER_CAPS),
        ({"page_size": 1001}, SignalFault.OVER_CAPS),
        ({"max_items": 1_000_001}, SignalFault.OVER_CAPS),
        ({"window_start": NOW - 86_400 * SECOND - 1}, SignalFault.OVER_CAPS),
        ({"window_start": NOW + 1}, SignalFault.MALFORMED_QUERY),
        ({"window_start": -1}, SignalFault.MALFORMED_QUERY),
        ({"timeout_s": 0.0}, SignalFault.MALFORMED_QUERY),
        ({"timeout_s": float("nan")}, SignalFault.MALFORMED_QUERY),
        ({"page_size": 0}, SignalFault.MALFORMED_QUERY),
        ({"max_items": 0}, SignalFault.MALFORMED_QUERY),
        ({"text": ""}, SignalFault.MALFORMED_QUERY),
        ({"text": "x" * 262_145}, SignalFault.MALFORMED_QUERY),
        ({"snapshot": "x" * 257}, SignalFault.MALFORMED_QUERY),
        ({"services": ("../x",)}, SignalFault.MALFORMED_QUERY),
        ({"services": tuple(f"s{number}" for number in range(1001))}, SignalFault.MALFORMED_QUERY),
        ({"tenant": "a b"}, SignalFault.MALFORMED_QUERY),
        ({"text": 'up{password="x"}'}, SignalFault.CREDENTIALS),
    ],
)
def test_a_query_over_the_caps_or_malformed_is_refused_before_anything_is_asked(
    over: dict[str, Any], expected: SignalFault
) -> None:
    source = Catalogue(1)
    assert fault(lambda: pages(source, query(**over))) == expected
    assert source.asked == 0


@pytest.mark.req("SIG-2", "SIG-9")
def test_the_caps_themselves_can_be_asked_for_and_a_tightened_cap_holds() -> None:
    most = query(window_start=NOW - 86_400 * SECOND, timeout_s=10.0, page_size=1000, max_items=1_000_000)
    assert query_problem(most) is None
    for name, value in (("timeout_s", 9.0), ("window_s", 86_399.0), ("page_size", 999), ("items", 999_999)):
        found = query_problem(most, msgspec.structs.replace(GLOBAL_CAPS, **{name: value}))
        assert found is not None
        assert found[0] is SignalFault.OVER_CAPS


@pytest.mark.req("SIG-4")
@pytest.mark.parametrize(
    "text",
    [
        'up{password="hunter2"}',
        "http://me:hunter2@prometheus/api/v1/query?query=up",
        "sum(jobs) # api_key: abc",
        'jobs{token="abc"}',
        "Authorization: Bearer abcdefghijk",
        "bearer abcdefghijkl",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.x",
        "fw_0123456789abcdef",
        '{"secret":"x"}',
        "-----BEGIN PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_credential_is_refused_without_being_repeated(text: str) -> None:
    told = credential_problem(text)
    assert told is not None
    assert text not in told
    assert fault(lambda: pages(Catalogue(1), query(text=text))) == SignalFault.CREDENTIALS


@pytest.mark.req("SIG-4")
@pytest.mark.parametrize(
    "text",
    [
        "sum by (service) (rate(llm_tokens_total[1m]))",
        "service:token:rate5m",
        'sum by (service) (max_tokens{kind="prompt"})',
        "kube_secret_info",
        'jobs{service=~"web|api", path="/login"} > bool 0',
        'up{instance="http://10.0.0.1:9090"}',
    ],
)
def test_an_ordinary_query_is_none(text: str) -> None:
    assert credential_problem(text) is None


@pytest.mark.req("SIG-2")
@pytest.mark.parametrize(
    "over",
    [
        {"text": "other"},
        {"window_start": NOW - 1},
        {"window_end": NOW + 1},
        {"timeout_s": 9.0},
        {"page_size": 10},
        {"max_items": 10},
        {"snapshot": "s1"},
        {"tenant": "shop"},
        {"scale_unit": "web"},
        {"services": ("web",)},
        {"sources": ("shop-1",)},
        {"kinds": (SignalKind.CPU,)},
    ],
)
def test_the_digest_stands_for_everything_that_is_asked(over: dict[str, Any]) -> None:
    assert query(**over).digest() != query().digest()
    assert set(over) <= set(SignalQuery.__struct_fields__)


@pytest.mark.req("SIG-2", "SIG-4")
def test_a_page_or_a_cursor_of_another_query_is_refused() -> None:
    source = Catalogue(20)
    cursor = next(pages(source, query(page_size=10))).next_cursor
    assert fault(lambda: pages(source, query(page_size=9), cursor=cursor)) == SignalFault.QUERY_DIGEST
    source.over = {"query_digest": query(page_size=9).digest()}
    assert fault(lambda: list(pages(source, query(page_size=10)))) == SignalFault.QUERY_DIGEST


@pytest.mark.req("SIG-3")
def test_a_source_that_changes_repeats_or_answers_too_much_ends_the_read_with_a_reason() -> None:
    source = Catalogue(30)
    walk = pages(source, query(page_size=10))
    cursor = next(walk).next_cursor
    source.over = {"snapshot": "s2"}
    assert fault(lambda: next(walk)) == SignalFault.SNAPSHOT_CHANGED
    assert fault(lambda: list(pages(source, query(page_size=10), cursor=cursor))) == SignalFault.SNAPSHOT_CHANGED
    assert fault(lambda: list(pages(Catalogue(1), query(snapshot="s0")))) == SignalFault.SNAPSHOT_CHANGED
    source.over = {"next": "10"}
    assert fault(lambda: list(pages(source, query(page_size=10)))) == SignalFault.PAGE_REPEATS
    source.over = {"next": "1" * 1025}
    assert fault(lambda: list(pages(source, query(page_size=10)))) == SignalFault.PAGE_REPEATS
    source.over = {"next": "\udc80"}
    assert fault(lambda: list(pages(source, query(page_size=10)))) == SignalFault.PAGE_REPEATS
    source.over = {"snapshot": "x" * 257}
    assert fault(lambda: list(pages(source, query(page_size=10)))) == SignalFault.SNAPSHOT_CHANGED
    source.over = {"samples": (sent(),) * 11}
    assert fault(lambda: list(pages(source, query(page_size=10)))) == SignalFault.PAGE_TOO_LARGE


@pytest.mark.req("SIG-2")
def test_the_time_is_that_of_all_pages_together_and_a_late_page_is_not_used() -> None:
    source = Catalogue(100)
    source.slow = 3.0
    walk = pages(source, query(page_size=10, timeout_s=8.0))
    assert [next(walk).number, next(walk).number] == [0, 1]
    with pytest.raises(Retryable) as late:
        next(walk)
    assert late.value.code == SignalFault.TIMED_OUT


class Broken(Catalogue):
    def page(self, *_: Any) -> SourcePage:
        raise ZeroDivisionError("somebody's fault")


@pytest.mark.req("SIG-4")
def test_a_source_that_breaks_is_a_passing_fault_in_words() -> None:
    with pytest.raises(Retryable, match="ZeroDivisionError"):
        list(pages(Broken(1), query()))


def place(**over: Any) -> Position:
    fields: dict[str, Any] = {"query_digest": query().digest(), "snapshot": "s", "after": "a", "number": 1, "items": 5}
    return Position(**(fields | over))


@pytest.mark.req("SIG-4")
def test_a_cursor_says_what_was_put_in_and_every_change_of_it_is_seen() -> None:
    cursor = cursor_of(place())
    assert position_of(cursor, query().digest()) == place()
    for number in range(len(cursor)):
        for letter in "A9-":
            changed = cursor[:number] + letter + cursor[number + 1 :]
            if changed != cursor:
                assert fault(partial(position_of, changed, query().digest())) == SignalFault.MALFORMED_CURSOR


def forged(body: Any, told: str | None = None) -> str:
    text = canonical_json([body, told if told is not None else "sha256:" + "0" * 64])
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


@pytest.mark.req("SIG-4")
@pytest.mark.parametrize(
    "cursor",
    [
        "=",
        "a b",
        "é",
        "\udc80",
        "AAAA",
        "A" * 17_000,
        base64.urlsafe_b64encode(b"[1, 2]").decode(),
        base64.urlsafe_b64encode(b'[{}, "x"]').decode(),
        forged({"query_digest": "x", "snapshot": "", "after": "", "number": 0, "items": 0}),
        forged({"query_digest": "x"}),
        cursor_of(place(number=-1)),
        cursor_of(place(items=-1)),
        cursor_of(place()) + "=",
        cursor_of(place()) + "\n",
    ],
)
def test_what_is_no_cursor_is_refused_in_words(cursor: str) -> None:
    with pytest.raises(Refused) as refused:
        position_of(cursor, query().digest())
    assert refused.value.code == SignalFault.MALFORMED_CURSOR
    assert refused.value.hint


@pytest.mark.req("SIG-4")
@settings(max_examples=100)
@given(st.text(max_size=200))
def test_no_text_at_all_is_taken_for_a_cursor(text: str) -> None:
    with pytest.raises(Refused):
        position_of(text, query().digest())


@pytest.mark.req("SIG-7")
def test_projections_are_bounded_and_hold_no_value_no_name_and_no_query_text() -> None:
    asked = query(text='sum(jobs{team="of-secrets-nobody-sees"})')
    summing = Summing.of(asked)
    found = list(
        pages(Catalogue(3_000, lambda n: sent(service=f"hidden{n}", value=-1.0 if n % 7 else 987654.0)), asked)
    )
    for page in found:
        summing.add(page)
    summary = summing.summary()
    evidence = SignalDecisionEvidence.of(asked, summary)
    assert evidence.text == asked.text
    assert (evidence.query_digest, evidence.window_start) == (asked.digest(), asked.window_start)
    for told in (found[0].graph_projection(), summary.graph_projection(), evidence.graph_projection()):
        text = json.dumps(told)
        assert len(text) < 2_000
        for hidden in ("hidden", "987654", "of-secrets", "shop-1"):
            assert hidden not in text
        assert told["query_digest"] == asked.digest()
        assert told["rejected"]["negative"] > 0
    assert evidence.graph_projection()["text_digest"] == evidence.text_digest()
    assert summary.graph_projection()["samples"] == 429


@pytest.mark.req("SIG-7")
def test_evidence_and_sums_take_nothing_of_another_read() -> None:
    asked, other = query(), query(text="other")
    [page] = pages(Catalogue(1), asked)
    with pytest.raises(ValueError, match="query_digest"):
        Summing.of(other).add(page)
    summing = Summing.of(asked)
    summing.add(page)
    with pytest.raises(ValueError, match="summary"):
        SignalDecisionEvidence.of(other, summing.summary())
