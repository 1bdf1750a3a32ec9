"""The joint rules of the scaling contract, each broken alone."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.domain.contract.authority import (
    Catalogue,
    check,
    domain_problem,
    registrations_for,
    writer_of,
)
from fleetwarden.domain.contract.records import (
    Cadence,
    ControllerRegistration,
    DelegatedController,
    FailureDomain,
    OfflineRecovery,
    RegistrationMode,
    ResourcePool,
    ScaleUnit,
    UnitQuota,
    WorkloadClass,
)


def pool(**over: Any) -> ResourcePool:
    return ResourcePool(**{"name": "edge", "capacity": 20, "headroom": 2, "failure_domain": "hall", **over})


def workload(**over: Any) -> WorkloadClass:
    base = {"name": "api", "tenant": "shop", "workload": "api", "concurrency": 2, "pool": "edge"}
    return WorkloadClass(**{**base, "quota": UnitQuota(max_units=18), **over})


def unit(name: str = "web", **over: Any) -> ScaleUnit:
    base = {"service": name, "workload": "api", "min_replicas": 1, "max_replicas": 6, "failure_domain": "hall"}
    return ScaleUnit(**{"name": name, **base, "quota": UnitQuota(max_units=6), **over})


def catalogue(*units: ScaleUnit, **over: Any) -> Catalogue:
    named = {one.name: one for one in units or (unit(),)}
    base: dict[str, Any] = {
        "pools": {"edge": pool()},
        "workloads": {"api": workload()},
        "domains": {"hall": FailureDomain(name="hall")},
        "units": named,
        "registrations": tuple(made for one in named.values() for made in registrations_for(one)),
    }
    return Catalogue.of(**{**base, **over})


def reasons(one: Catalogue) -> list[str]:
    return [f"{found.code} {found.about}: {found.reason}" for found in check(one)]


def test_records_that_hold_together_have_no_problem() -> None:
    assert reasons(catalogue(unit("web", depends_on=("db",)), unit("db"))) == []


@pytest.mark.req("CON-6")
@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (catalogue(unit(workload="apy")), "reference unit web: workload 'apy' is not declared"),
        (catalogue(unit(failure_domain="cellar")), "reference unit web: failure domain 'cellar' is not declared"),
        (catalogue(unit(depends_on=("db",))), "reference unit web: unit 'db', which it depends on, does not exist"),
        (
            catalogue(workloads={"api": workload(pool="egde")}),
            "reference workload api: pool 'egde' is not declared",
        ),
        (
            catalogue(pools={"edge": pool(failure_domain="cellar")}),
            "reference pool edge: failure domain 'cellar' is not declared",
        ),
        (catalogue(unit(depends_on=("web",))), "cycle unit web: it depends on itself"),
        (
            catalogue(unit("a", depends_on=("b",)), unit("b", depends_on=("c",)), unit("c", depends_on=("a",))),
            "cycle unit a: these depend on each other: a → b → c → a",
        ),
    ],
)
def test_every_reference_resolves_and_nothing_depends_on_itself(broken: Catalogue, told: str) -> None:
    assert told in reasons(broken)


@pytest.mark.req("CON-5")
@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (catalogue(unit(min_replicas=5, quota=UnitQuota(max_units=4))), "its floor of 5 is above its quota of 4 units"),
        (catalogue(unit(quota=UnitQuota(max_units=5))), "its ceiling of 6 is above its quota's max_units, 5"),
        (
            catalogue(unit(quota=UnitQuota(max_units=19))),
            "its quota of 19 units is more than pool edge has to give, 18",
        ),
        (catalogue(unit(headroom=13)), "its ceiling of 6 and headroom of 13 do not fit into pool edge: 20 less 2"),
        (
            catalogue(workloads={"api": workload(quota=UnitQuota(max_units=5))}),
            "its ceiling of 6 is above max_units of workload api, 5",
        ),
        (
            catalogue(unit("a", min_replicas=6), unit("b", min_replicas=6), pools={"edge": pool(quota=11)}),
            "capacity pool edge: its units' floors come to 12, 11 units may be had",
        ),
        (
            catalogue(*(unit(name, min_replicas=6) for name in "abcd")),
            "quota workload api: its units' floors come to 24, its quota is 18 units",
        ),
    ],
)
def test_floors_fit_into_quotas_and_ceilings_into_pools(broken: Catalogue, told: str) -> None:
    assert any(told in one for one in reasons(broken)), reasons(broken)


def test_a_unit_fits_exactly() -> None:
    assert reasons(catalogue(unit(headroom=12))) == []  # 6 and 12 are 20 less 2


@pytest.mark.req("CON-3", "CON-14")
def test_two_writers_none_and_strangers_are_refused() -> None:
    ours = registrations_for(unit())
    theirs = ControllerRegistration(
        unit="web",
        controller="hpa",
        mode=RegistrationMode.DELEGATED,
        delegate=DelegatedController.HPA,
        writes_replicas=True,
    )
    assert reasons(catalogue(registrations=(*ours, theirs))) == [
        "registration unit web: controller hpa is registered as delegated to hpa, the unit is native",
        "writers unit web: exactly one controller may write its replicas, registered are 2 (fleetwarden, hpa)",
    ]
    assert reasons(catalogue(registrations=())) == [
        "writers unit web: exactly one controller may write its replicas, registered are 0 (nobody)"
    ]
    assert writer_of(catalogue(registrations=(*ours, theirs)), "web") is None


@pytest.mark.req("CON-14")
@pytest.mark.parametrize(("mode", "writer"), [("external_hpa", "hpa"), ("external_keda", "keda")])
def test_a_delegated_unit_is_written_by_its_controller_and_watched_by_us(mode: str, writer: str) -> None:
    one = unit(controller_mode=mode)
    made = registrations_for(one)
    assert {(each.controller, each.writes_replicas) for each in made} == {(writer, True), ("fleetwarden", False)}
    assert reasons(catalogue(one)) == []


@pytest.mark.req("CON-7")
@pytest.mark.parametrize("recovery", list(OfflineRecovery))
def test_nothing_new_is_accepted_for_an_offline_domain(recovery: OfflineRecovery) -> None:
    offline = {"hall": FailureDomain(name="hall", offline=True)}
    told = domain_problem(catalogue(domains=offline, pools={"edge": pool(offline_recovery=recovery)}), unit())
    assert told is not None
    assert ("hold" in told) == (recovery is OfflineRecovery.HOLD)
    assert domain_problem(catalogue(), unit()) is None


@pytest.mark.req("CON-6")
@given(st.dictionaries(st.sampled_from("abcdef"), st.frozensets(st.sampled_from("abcdef"), max_size=3)))
def test_a_ring_is_found_exactly_where_there_is_one(edges: dict[str, frozenset[str]]) -> None:
    """Against the plain definition: some unit reaches itself."""
    names = set(edges) | {name for targets in edges.values() for name in targets}

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        ahead = list(edges.get(start, ()))
        while ahead:
            name = ahead.pop()
            if name not in seen:
                seen.add(name)
                ahead += edges.get(name, ())
        return seen

    ringed = {name for name in names if name in reach(name)}
    units = [unit(name, depends_on=tuple(edges.get(name, ()))) for name in names or {"a"}]
    cycles = [one for one in check(catalogue(*units)) if one.code == "cycle"]
    assert bool(cycles) == bool(ringed)
    assert {name for one in cycles for name in one.units} <= ringed
    for one in cycles:
        ring = one.reason.split(": ")[-1].split(" → ")
        if len(ring) > 1:
            assert all(later in edges[earlier] for earlier, later in pairwise(ring))


@pytest.mark.req("CON-1")
def test_records_are_closed_and_cannot_be_changed() -> None:
    body = msgspec.json.encode(unit())
    assert msgspec.json.decode(body, type=ScaleUnit) == unit()
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.json.decode(body[:-1] + b',"colour":"red"}', type=ScaleUnit)
    with pytest.raises(AttributeError):
        unit().headroom = 3  # type: ignore[misc]
    hash(unit())  # only possible where nothing inside can be changed


@pytest.mark.req("CON-1", "CON-4")
@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: unit(min_replicas=7), "min_replicas: 7 is not from 0 to 6"),
        (lambda: unit(max_replicas=100_001), "max_replicas"),
        (lambda: unit(controller_mode="hpa"), "controller_mode"),
        (lambda: unit(schema_version="2"), "schema_version: '2' is not known"),
        (lambda: pool(capacity=-1), "capacity"),
        (lambda: pool(headroom=21), "headroom"),
        (lambda: pool(quota=19), "quota: 19 is not from 0 to 18"),
        (lambda: pool(allocated=21), "allocated"),
        (lambda: workload(cadence=Cadence.ENGINE_LOCAL), "cadence"),
        (lambda: workload(concurrency=0), "concurrency"),
        (lambda: UnitQuota(max_units=3, burst_units=4), "burst_units: 4 is not from 0 to 3"),
        (lambda: FailureDomain(name="two words"), "name"),
    ],
)
def test_a_record_is_valid_or_it_is_not_made(make: Any, told: str) -> None:
    with pytest.raises(ValueError, match="^" + told.split(" ", maxsplit=1)[0]) as caught:
        make()
    assert told in str(caught.value)
