"""The scaling contract holds whoever asks: a person's count is held to quota, pool and window as load following is."""

from __future__ import annotations

import pytest

from fleetwarden.adapters.files.yaml_tree import parse
from fleetwarden.controllers.gate import Admission, Answer
from fleetwarden.domain.actions import Evidence, Kind, Source
from fleetwarden.domain.fleet import Fleet
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.domain.registry import read_fleet
from fleetwarden.testing import a_policy
from fleetwarden.testing.builders import a_request
from tests.contract.pipeline.conftest import Bench

FLEET = """\
version: 1
pools: {edge: {capacity: 9}}
services:
  - {name: web, replicas: 2, scaling: {min: 1, max: 6, signal: q, target: 10}, unit: {pool: edge%s}}
  - {name: api, replicas: 5, scaling: {min: 1, max: 6, signal: q, target: 10}, unit: {pool: edge}}
"""
CLOSED = ", maintenance: {window: '%s', outside: queue}"


def fleet(more: str = "") -> Fleet:
    made = read_fleet(parse(FLEET % more, "fleet.yml"), None, "/srv/fleet", "sha256:0")
    assert (made.error, made.unit_problems) == ("", {})
    return made


@pytest.fixture
def full(bench: Bench) -> Bench:
    """Seven of the nine units of a pool are taken."""
    bench.files.declare(fleet=fleet(), policy=a_policy())
    bench.substrate.boot("web", 2)
    bench.substrate.boot("api", 5)
    return bench


def ask(bench: Bench, name: str, replicas: int, *, total: int, glass: bool = False) -> Admission:
    request = a_request(
        bench.files.current().fleet.services[name],
        kind=Kind.SCALE,
        params={"replicas": replicas},
        key=f"{name}-{replicas}",
        evidence=Evidence(observed_at=bench.store.read(lambda tx: tx.now()), facts={"total": total}),
        source=Source.OPERATOR,
        requested_by="ada",
        break_glass=glass,
    )
    [answer] = bench.gate.admit([request], fence=None)
    return answer


@pytest.mark.req("CON-5", "CON-16")
@pytest.mark.parametrize("glass", [False, True])
def test_a_person_cannot_fill_a_pool_past_its_capacity(full: Bench, glass: bool) -> None:
    refused = ask(full, "web", 5, total=2, glass=glass)
    assert refused.answer is Answer.DENIED
    assert "workload edge may have 9 units: others take 5" in refused.reason
    assert refused.decision is not None
    assert (refused.decision.code, refused.decision.rule) == ("quota", "scaling contract")
    assert ask(full, "web", 4, total=2, glass=glass).answer is Answer.PREPARED


@pytest.mark.req("CON-5")
def test_a_person_cannot_pass_a_quota_and_can_always_shrink(full: Bench) -> None:
    refused = ask(full, "web", 7, total=2)
    assert refused.answer is Answer.DENIED
    assert "more than its quota of 6 units" in refused.reason
    assert ask(full, "api", 1, total=5).answer is Answer.PREPARED


@pytest.mark.req("CON-11", "CON-16")
def test_of_two_that_fit_one_by_one_the_second_is_refused_right_before_its_call(full: Bench) -> None:
    first, second = ask(full, "web", 4, total=2), ask(full, "api", 6, total=5)
    assert (first.answer, second.answer) == (Answer.PREPARED, Answer.PREPARED)
    full.act()
    states = {one.request.target: one.state for one in full.records()}
    assert sorted(states.values()) == [OutboxState.ABANDONED, OutboxState.SUCCEEDED]
    taken = len(full.substrate.instances("web")) + len(full.substrate.instances("api"))
    assert taken <= 9


@pytest.mark.req("CON-8", "CON-11")
def test_outside_its_window_a_person_is_refused_and_told_when_it_opens(bench: Bench) -> None:
    hour = bench.store.read(lambda tx: tx.now()) // (3600 * SECOND) % 24
    later = f"{(hour + 6) % 24:02}:00-{(hour + 7) % 24:02}:00"
    bench.files.declare(fleet=fleet(CLOSED % later), policy=a_policy())
    bench.substrate.boot("web", 2)
    refused = ask(bench, "web", 3, total=2)
    assert refused.answer is Answer.DENIED
    assert "which opens" in refused.reason
    assert ask(bench, "web", 4, total=2, glass=True).answer is Answer.PREPARED
