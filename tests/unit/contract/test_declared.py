"""What fleet.yml says about the scaling contract, and what is generated where it says nothing."""

from __future__ import annotations

import pytest

from fleetwarden.adapters.files.yaml_tree import parse
from fleetwarden.domain.contract.maintenance import window_of
from fleetwarden.domain.contract.records import OutsideWindow, RegistrationMode
from fleetwarden.domain.fleet import Fleet
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.registry import read_fleet

SCALING = "scaling: {min: 1, max: 6, signal: queue_depth, target: 100}"


def fleet(text: str) -> Fleet:
    return read_fleet(parse(text, "fleet.yml"), None, "/srv/fleet", "sha256:0")


@pytest.mark.req("CON-1")
def test_a_small_fleet_declares_nothing_and_everything_is_generated() -> None:
    found = fleet(f"version: 1\nservices: [{{name: web, {SCALING}}}, {{name: db}}, {{name: api, {SCALING}}}]")
    assert not found.problems
    assert not found.unit_problems
    known = found.catalogue
    assert set(known.units) == {"web", "api"}  # a service that nobody scales is no elastic unit
    assert known.pools["default"].capacity == 12
    assert known.workloads["default"].quota.max_units == 12
    assert [one.mode for one in known.registrations] == [RegistrationMode.NATIVE] * 2


def test_what_is_declared_is_what_counts() -> None:
    found = fleet(
        "version: 1\n"
        "pools: {edge: {capacity: 40, headroom: 4, quota: 30, failure_domain: hall, offline: shed}}\n"
        "workloads: {api: {pool: edge, tenant: shop, max_units: 20, burst_units: 2, concurrency: 5}}\n"
        "failure_domains: {hall: {offline: true}}\n"
        f"services: [{{name: web, {SCALING}, unit: {{workload: api, headroom: 2, max_units: 8, rollback: manual,"
        ' maintenance: {window: {hours: "22:00-04:00", zone: Europe/Berlin, days: [mon]}, outside: deny}}}]'
    )
    assert not found.problems, found.problems
    unit = found.catalogue.units["web"]
    pool = found.catalogue.pool_of(unit)
    assert pool is not None
    assert (pool.name, pool.usable, pool.limit, pool.offline_recovery.value) == ("edge", 36, 30, "shed")
    assert (unit.headroom, unit.quota.max_units, unit.failure_domain, unit.rollback.value) == (2, 8, "hall", "manual")
    assert unit.maintenance is not None
    assert unit.maintenance.outside is OutsideWindow.DENY
    window = window_of(unit.maintenance)
    monday = 1_767_571_200 * SECOND  # 2026-01-05 00:00 UTC
    assert window.is_open(monday + 21 * 3600 * SECOND + 1800 * SECOND)  # 22:30 in Berlin
    assert not window.is_open(monday + 20 * 3600 * SECOND)
    assert not window.is_open(monday + 45 * 3600 * SECOND)  # Tuesday evening


@pytest.mark.req("CON-5", "AUT-25")
def test_a_unit_that_does_not_fit_is_held_and_said_with_its_line_and_the_others_stand() -> None:
    found = fleet(
        "version: 1\n"
        "pools: {small: {capacity: 4}}\n"
        "services:\n"
        f"  - {{name: web, {SCALING}, unit: {{pool: small}}}}\n"
        f"  - {{name: api, {SCALING}}}\n"
    )
    assert set(found.services) == {"web", "api"}
    assert set(found.unit_problems) == {"web"}
    told = [one for one in found.warnings if "scaling contract" in one.reason]
    assert {(one.file, one.line) for one in told} == {("fleet.yml", 4)}
    assert any("do not fit into pool small: 4 less 0 reserved" in one.reason for one in told)


@pytest.mark.req("CON-6")
def test_a_pool_that_nobody_declared_is_never_made_up() -> None:
    found = fleet(f"version: 1\nservices: [{{name: web, {SCALING}, unit: {{pool: egde}}}}]")
    assert "workload 'egde' is not declared" in found.unit_problems["web"]
    assert set(found.catalogue.pools) == set()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pools: {a: {}}", "pools.a: capacity is missing"),
        ("pools: {a: {capacity: -1}}", "pools.a.capacity: -1 is out of range"),
        ("pools: {a: {capacity: 5, headroom: 6}}", "pools.a.headroom: 6 is out of range"),
        ("pools: {a: {capacity: 5, headroom: 2, quota: 4}}", "pools.a.quota: 4 is out of range"),
        ("pools: {a: {capacity: 5, offline: wait}}", "pools.a.offline"),
        ("pools: {a: {capacity: 5, colour: red}}", "unknown key 'colour'"),
        ("pools: [a]", "pools: a list is a list, a mapping of names is needed"),
        ("pools: {a b: {capacity: 5}}", "pools: 'a b' is no name"),
        ("pools: {a: {capacity: 5}, a: {capacity: 6}}", "pools.a stands here twice"),
        ("workloads: {w: {max_units: 5}}", "workloads.w: pool is missing"),
        ("workloads: {w: {pool: a, max_units: 5, burst_units: 6}}", "workloads.w.burst_units: 6 is out of range"),
        ("workloads: {w: {pool: a, max_units: 5, cadence: engine_local}}", "workloads.w.cadence"),
        ("workloads: {default: {pool: a, max_units: 5}}", "named as a pool that it is not in"),
        ("failure_domains: {d: {offline: off}}", 'failure_domains.d.offline: "off" is text, true or false'),
    ],
)
def test_a_wrong_entry_is_left_out_alone_and_named(text: str, told: str) -> None:
    found = fleet(f"version: 1\nservices: [{{name: web}}]\n{text}")
    assert any(told in one.reason and one.line == 3 for one in found.problems), found.problems
    assert "web" in found.services
    assert not found.error
