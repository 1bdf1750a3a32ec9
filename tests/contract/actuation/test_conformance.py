"""What every actuator promises, asked of each of them against its real substrate."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fleetwarden.domain.actions import ACTUATED_KINDS, KNOWN_KINDS, Kind, Outcome
from fleetwarden.domain.errors import NotCalled
from fleetwarden.domain.fleet import ObservedService, Presence, Service, ServiceStatus
from tests.contract.actuation.benches import Bench

pytestmark = pytest.mark.req("ACT-4")
ASKED: Mapping[str, Mapping[str, Any]] = {
    Kind.START: {"replicas": 3},
    Kind.STOP: {},
    Kind.RESTART: {},
    Kind.SCALE: {"replicas": 3},
    Kind.DEPLOY: {"version": "1.1"},
    Kind.ROLLBACK: {"version": "1.1"},
}
EACH_KIND = pytest.mark.parametrize("kind", list(ASKED))


def well_formed(outcome: Outcome, bench: Bench) -> Outcome:
    """The shape of a result, whatever it says."""
    assert outcome.dry_run == bench.actuator.simulates
    assert not (outcome.ok and outcome.unknown_outcome)
    assert bool(outcome.code) is not outcome.ok, "a code if and only if it is not ok"
    assert len(outcome.code) <= 64
    assert outcome.code == outcome.code.lower().replace(" ", "_"), "a machine word"
    assert outcome.detail, "in words as well"
    return outcome


def traces(seen: ObservedService) -> list[tuple[str, str, str]]:
    """What tells these very instances from any others."""
    return [(one.id, one.identity, one.key) for one in seen.instances]


@pytest.mark.req("ACT-1")
def test_it_says_what_it_is(bench: Bench) -> None:
    actuator = bench.actuator
    assert actuator.substrate
    assert actuator.kinds
    assert actuator.kinds <= ACTUATED_KINDS
    assert isinstance(actuator.simulates, bool)
    assert isinstance(actuator.acknowledged_is_final, bool)
    assert actuator.lateness_s is None or 0 <= actuator.lateness_s <= 600


@EACH_KIND
def test_its_calls_are_bounded(bench: Bench, kind: str) -> None:
    for replicas in (0, 1, 3, 500):
        service = bench.service(replicas=replicas)
        bound = bench.actuator.deadline_s(bench.call(kind, service, **ASKED[kind]).request, service)
        assert 0 < bound <= 600


@EACH_KIND
def test_it_does_not_refuse_what_it_serves(bench: Bench, kind: str) -> None:
    service = bench.running()
    assert bench.actuator.refusal(bench.call(kind, service, **ASKED[kind]).request, service) is None


@pytest.mark.parametrize("kind", sorted(KNOWN_KINDS - ACTUATED_KINDS | {"make_coffee"}))
def test_what_it_does_not_serve_is_refused_beforehand_and_changes_nothing(bench: Bench, kind: str) -> None:
    service = bench.running()
    before = traces(bench.see(service))
    call = bench.call(kind, service)
    assert bench.actuator.refusal(call.request, service)
    outcome = well_formed(bench.actuator.actuate(call), bench)
    assert (outcome.ok, outcome.unknown_outcome) == (False, False)
    assert traces(bench.see(service)) == before


@EACH_KIND
@pytest.mark.req("ACT-1", "ACT-2", "AUT-8")
def test_an_outcome_is_ok_and_true(bench: Bench, kind: str) -> None:
    service = bench.running() if kind != Kind.START else bench.service(replicas=2)
    before = bench.see(service)
    outcome = well_formed(bench.act(kind, service, key="this-action", **ASKED[kind]), bench)
    assert outcome.ok, outcome
    after = bench.see(service)
    if bench.actuator.simulates:
        assert outcome.detail.startswith("would ")
        assert traces(after) == traces(before)
        assert after.presence is before.presence
        return
    made = [one for one in after.instances if one.key == "this-action" and one.identity]
    if kind == Kind.STOP:
        assert (after.existing, after.presence, after.stop_key) == (0, Presence.STOPPED_BY_US, "this-action")
    elif kind == Kind.SCALE:
        assert (after.total, after.ready, len(made)) == (3, 3, 1)
        assert traces(after)[:2] == traces(before)
    elif kind in (Kind.RESTART, Kind.DEPLOY, Kind.ROLLBACK):
        assert len(made) == 2
        assert after.version == ("1.0" if kind == Kind.RESTART else "1.1")
        assert not {one.identity for one in after.instances} & {one.identity for one in before.instances}
    else:
        assert (after.total, after.status, len(made)) == (3, ServiceStatus.UP, 3)


@EACH_KIND
def test_one_key_has_one_effect(bench: Bench, kind: str) -> None:
    service = bench.running() if kind != Kind.START else bench.service(replicas=2)
    well_formed(bench.act(kind, service, key="once", **ASKED[kind]), bench)
    after = bench.see(service)
    well_formed(bench.act(kind, service, key="once", **ASKED[kind]), bench)
    again = bench.see(service)
    assert traces(again) == traces(after)
    assert (again.presence, again.stop_key) == (after.presence, after.stop_key)


@EACH_KIND
def test_nothing_is_begun_once_the_deadline_has_passed(bench: Bench, kind: str) -> None:
    service = bench.running()
    before = bench.see(service)
    for left_s in (0.0, -1.0):
        with pytest.raises(NotCalled):
            bench.act(kind, service, left_s=left_s, **ASKED[kind])
    after = bench.see(service)
    assert traces(after) == traces(before)
    assert after.presence is before.presence


@EACH_KIND
def test_other_targets_are_not_touched(bench: Bench, kind: str) -> None:
    service, others = bench.running(), [bench.running(name, replicas=1) for name in ("web-1", "we", "web.x")]
    before = [traces(bench.see(one)) for one in others]
    well_formed(bench.act(kind, service, **ASKED[kind]), bench)
    assert [traces(bench.see(one)) for one in others] == before


def test_calls_for_different_targets_run_side_by_side(bench: Bench) -> None:
    services = [bench.service(f"s{number}", replicas=1) for number in range(6)]

    def restart(service: Service) -> list[Outcome]:
        return [bench.act(kind, service) for kind in (Kind.START, Kind.RESTART, Kind.STOP)]

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(restart, services))
    assert all(well_formed(outcome, bench).ok for outcomes in found for outcome in outcomes)


def test_declared_parameters_are_what_counts(bench: Bench) -> None:
    """The count of the request is carried out, also where the registry says another by now."""
    service = bench.running(replicas=2)
    outcome = well_formed(bench.act(Kind.SCALE, service, replicas=1), bench)
    assert outcome.ok
    assert bench.see(service).total == (2 if bench.actuator.simulates else 1)
