"""What a scaling decision rests on can be read back: the exact query, of which moment, and what came of it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fleetwarden.controllers.signal_evidence import Evidences, KeptQueries
from fleetwarden.domain.actions import Tier
from fleetwarden.domain.identifiers import SECOND, digest, rfc3339
from fleetwarden.domain.signals import (
    Aggregation,
    Definition,
    NoSample,
    Reading,
    Sample,
    SampleFault,
    SignalKind,
    SignalScope,
)
from fleetwarden.ports.stores import Tx
from fleetwarden.testing import a_policy
from tests.contract.pipeline.conftest import Bench
from tests.contract.pipeline.scaling import Scaling, scaled

QUERY = 'sum by (service) (jobs_waiting{env="live"})'
WAITING = Definition(
    name="q",
    kind=SignalKind.QUEUE,
    unit="items",
    scope=SignalScope.SERVICE,
    aggregation=Aggregation.FLEET_TOTAL,
    source="main",
    query=QUERY,
    by="service",
    age_of="jobs_waiting",
)


def text_of(bench: Bench, named: str) -> str:
    kept = bench.store.read(lambda tx: tx.texts.get(named))
    assert kept is not None
    assert kept.kind == "query"
    return kept.body


def told(bench: Bench) -> dict[str, Any]:
    [decision] = bench.decisions()
    found: dict[str, Any] = decision.request.evidence.facts["scaling"]
    return found


@pytest.mark.req("SIG-7", "CON-12")
def test_a_decision_names_its_query_window_and_moment_and_the_text_is_kept_exactly(bench: Bench) -> None:
    world = Scaling(bench)
    world.declared["q"] = WAITING
    world.load(45, age_s=7.0)
    world.tick()
    [row] = world.intents()
    scaling = told(bench)
    evidence = scaling["evidence"]
    assert evidence["digest"] == row.intent.signal.digest == digest(scaling["signals"])
    assert (evidence["samples"], evidence["kinds"], evidence["rejected"]) == (1, {"queue": 1}, {})
    assert evidence["complete"]
    begin, end = evidence["window"]
    assert end == evidence["snapshot"]
    assert begin < evidence["oldest"] == evidence["newest"] < end
    assert evidence["newest"] == rfc3339(row.intent.signal.window_end)
    [asked] = json.loads(text_of(bench, evidence["text_digest"]))
    assert (asked["query"], asked["source"], asked["age_of"], asked["signal"]) == (QUERY, "main", "jobs_waiting", "q")
    assert QUERY not in json.dumps(scaling)
    bench.look()
    bench.act()
    [execution] = bench.executions()
    assert execution.evidence["before"]["scaling"]["evidence"] == evidence


@pytest.mark.req("SIG-7", "CON-17")
def test_what_is_not_decided_keeps_no_text(bench: Bench) -> None:
    world = Scaling(bench, policy=a_policy(Tier.FORBIDDEN))
    world.declared["q"] = WAITING
    world.load(15)  # fits
    world.tick()
    assert bench.store.read(lambda tx: [one for one in tx.texts.after("", 99) if one.kind == "query"]) == []
    world.load(45)
    world.tick()
    assert len(bench.store.read(lambda tx: [one for one in tx.texts.after("", 99) if one.kind == "query"])) == 1
    world.declared["q"] = msgspec.structs.replace(WAITING, query="jobs_waiting")
    world.tick()  # denied as before: nothing is written
    assert len(bench.store.read(lambda tx: [one for one in tx.texts.after("", 99) if one.kind == "query"])) == 1
    assert "evidence" in told(bench)


@pytest.mark.req("SIG-7")
def test_services_with_the_same_definitions_share_one_text(bench: Bench) -> None:
    world = Scaling(bench, scaled("web"), scaled("api"))
    bench.substrate.boot("api", 2)
    world.declared["q"] = WAITING
    for name in ("web", "api"):
        world.load(45, name)
    world.tick()
    found = [one.request.evidence.facts["scaling"]["evidence"] for one in bench.decisions()]
    assert len(found) == 2
    assert len({one["text_digest"] for one in found}) == len({one["query_digest"] for one in found}) == 1


NOW = 1_800_000_000 * SECOND


def sample(signal: str) -> Sample:
    return Sample(
        service="web",
        signal=signal,
        value=3.0,
        source="main",
        aggregation=Aggregation.FLEET_TOTAL,
        unit="items",
        scope=SignalScope.SERVICE,
        observed_at=NOW - SECOND,
    )


def none(signal: str, fault: SampleFault) -> NoSample:
    return NoSample(service="web", signal=signal, fault=fault, reason="so")


@pytest.mark.req("SIG-5", "SIG-7")
def test_what_was_not_believed_is_counted_by_its_reason_and_an_undeclared_signal_is_named_alone() -> None:
    evidences = Evidences(lambda _service, signal: WAITING if signal == "q" else None, NOW)
    readings: list[Reading] = [
        sample("q"),
        sample("mine"),
        none("x", SampleFault.STALE),
        none("y", SampleFault.NOT_FINITE),
    ]
    made = evidences.of("web", readings, digest("d"))
    assert (made.summary.samples, dict(made.summary.kinds)) == (2, {"queue": 1})
    assert dict(made.summary.rejected) == {"stale": 1, "not_finite": 1}
    assert made.summary.complete
    assert json.loads(made.text)[1:] == [{"signal": "mine"}, {"signal": "x"}, {"signal": "y"}]
    unread = evidences.of("web", [none("x", SampleFault.SOURCE_FAILED)], digest("d"))
    assert (unread.summary.complete, unread.summary.oldest, unread.summary.samples) == (False, None, 0)


@pytest.mark.req("SIG-7")
def test_a_text_that_was_rolled_back_is_kept_by_the_next_decision_that_names_it(bench: Bench) -> None:
    kept = KeptQueries()

    def fail(tx: Tx) -> None:
        kept.keep(tx, ["a"])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        bench.store.transact("t", fail)
    assert bench.store.read(lambda tx: tx.texts.get(digest(b"a"))) is None
    bench.store.transact("t", lambda tx: kept.keep(tx, ["a", "a", ""]))
    assert text_of(bench, digest(b"a")) == "a"
    assert bench.store.read(lambda tx: tx.texts.get(digest(b""))) is None
