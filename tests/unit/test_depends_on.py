"""`depends_on:` which names and rings are refused where, and what a service waits for."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.adapters.files.yaml_tree import parse
from fleetwarden.domain.actions import Kind, OutboxRecord
from fleetwarden.domain.depends_on import DEPENDENCIES_MAX, holds_up, refuse_rings, repairs
from fleetwarden.domain.fleet import DesiredState, Fleet, InstanceStatus, ObservedService, Service, ServiceStatus
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.domain.registry import read_fleet
from fleetwarden.testing import a_request, a_service, an_instance, an_observation

DB = a_service("db", replicas=2, source="fleet.yml:3")
WEB = a_service("web", depends_on=("db",))


def read(*entries: str) -> Fleet:
    text = "version: 1\nservices:\n" + "".join(f"  - {entry}\n" for entry in entries)
    return read_fleet(parse(text, "fleet.yml"), None, "/etc/fleet", "sha256:0")


def told(fleet: Fleet) -> list[str]:
    return [str(one) for one in fleet.problems]


# ------------------------------------------------------------------------------------------------ as declared
@pytest.mark.req("REC-11")
def test_dependencies_are_read_in_their_order() -> None:
    fleet = read("{name: web, depends_on: [db, cache]}", "{name: db}", "{name: cache}")
    assert fleet.problems == ()
    assert fleet.services["web"].depends_on == ("db", "cache")
    assert fleet.services["db"].depends_on == ()


@pytest.mark.req("REC-11", "REC-8")
def test_an_unknown_name_is_refused_at_its_line_and_the_others_stand() -> None:
    fleet = read("{name: web, depends_on: [dbb]}", "{name: db}")
    assert list(fleet.services) == ["db"]
    assert told(fleet) == ["fleet.yml:3  web: depends_on: no service 'dbb' in the registry (did you mean 'db'?)"]


@pytest.mark.req("REC-11", "REC-8")
@pytest.mark.parametrize(
    ("entries", "refused", "ring"),
    [
        (["{name: a, depends_on: [a]}", "{name: b}"], {"a": 3}, "a → a"),
        (["{name: a, depends_on: [b]}", "{name: b, depends_on: [a]}"], {"a": 3, "b": 4}, "a → b → a"),
        (
            ["{name: c, depends_on: [a]}", "{name: a, depends_on: [b]}", "{name: b, depends_on: [c, d]}", "{name: d}"],
            {"c": 3, "a": 4, "b": 5},
            "a → b → c → a",
        ),
    ],
)
def test_services_that_wait_for_each_other_are_refused_with_the_ring(
    entries: list[str], refused: dict[str, int], ring: str
) -> None:
    fleet = read(*entries)
    assert {one.reason.split(":")[0]: one.line for one in fleet.problems} == refused
    assert all(one.reason.endswith(f"these wait for each other: {ring}") for one in fleet.problems)
    assert set(fleet.services) == {entry[7] for entry in entries} - set(refused)


@pytest.mark.req("REC-11", "REC-8")
def test_who_depends_on_a_ring_is_in_none_and_stands() -> None:
    fleet = read("{name: web, depends_on: [a]}", "{name: a, depends_on: [b]}", "{name: b, depends_on: [a]}")
    assert list(fleet.services) == ["web"]
    assert fleet.rejected == ("a", "b")


@pytest.mark.req("REC-11", "REC-8")
def test_a_name_stands_once_and_a_list_has_an_end() -> None:
    assert "'db' stands here twice" in told(read("{name: web, depends_on: [db, db]}", "{name: db}"))[0]
    many = ", ".join(f"s{number}" for number in range(DEPENDENCIES_MAX + 1))
    assert f"at most {DEPENDENCIES_MAX}" in told(read(f"{{name: web, depends_on: [{many}]}}"))[0]


@pytest.mark.req("REC-11")
def test_an_override_cannot_name_dependencies() -> None:
    layer = parse("version: 1\nservices:\n  - {name: web, depends_on: [db]}\n", "desired-state.yml")
    fleet = read_fleet(parse("version: 1\nservices:\n  - {name: web}\n  - {name: db}\n", "f"), layer, "/", "")
    assert "cannot be overridden" in told(fleet)[0]


NAMES = "abcdef"


@pytest.mark.req("REC-11")
@given(st.dictionaries(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), unique=True), min_size=1))
def test_exactly_those_that_reach_themselves_are_refused(needs: dict[str, list[str]]) -> None:
    def reached(name: str) -> set[str]:
        found: set[str] = set()
        ahead = [name]
        while ahead:
            for following in needs.get(ahead.pop(), ()):
                if following not in found and following in needs:
                    found.add(following)
                    ahead.append(following)
        return found

    refused = refuse_rings(needs)
    assert set(refused) == {name for name in needs if name in reached(name)}
    for name, (leads_on, ring) in refused.items():
        assert leads_on in needs[name]
        way = ring.split(" → ")
        assert way[0] == way[-1]
        assert all(after in needs[before] for before, after in pairwise(way))


@pytest.mark.req("REC-11")
def test_a_very_long_chain_is_no_ring_and_needs_no_recursion() -> None:
    needs = {f"s{number}": [f"s{number + 1}"] for number in range(20_000)}
    assert refuse_rings(needs) == {}
    needs["s20000"] = ["s0"]
    refused = refuse_rings(needs)
    assert len(refused) == 20_001
    assert len(refused["s7"][1]) < 100


# ------------------------------------------------------------------------------------------------ what is waited for
def seen(*instances: InstanceStatus, **fields: Any) -> ObservedService:
    made = [an_instance(index, status) for index, status in enumerate(instances)]
    return an_observation(DB, at=5, instances=made, **fields)


def held(
    db: ObservedService | None, *, kind: str = Kind.RESTART, direction: str = "", service: Service = DB
) -> str | None:
    request = a_request(WEB, kind=kind, direction=direction)
    return holds_up(WEB, request, {"db": service, "web": WEB}, {} if db is None else {"db": db}, {})


UP, DOWN, STARTING = InstanceStatus.UP, InstanceStatus.DOWN, InstanceStatus.STARTING


@pytest.mark.req("REC-11")
@pytest.mark.parametrize(
    ("db", "why"),
    [
        (seen(DOWN, DOWN), "which is down"),
        (seen(), "which is not started"),
        (seen(STARTING, STARTING), "none of 2 is ready"),
        (seen(STARTING, DOWN), "none of 2 is ready"),
        (seen(UP, DOWN), None),
        (seen(UP, UP), None),
        (seen(DOWN, DOWN, status=ServiceStatus.UNKNOWN), None),
        (None, None),
    ],
)
def test_it_waits_for_what_is_known_to_be_down_and_not_for_what_nobody_sees(
    db: ObservedService | None, why: str | None
) -> None:
    found = held(db)
    assert (found is None) if why is None else (found is not None and "depends on db" in found and why in found)


@pytest.mark.req("REC-11")
@pytest.mark.parametrize(
    ("kind", "direction", "waits"),
    [
        (Kind.START, "up", True),
        (Kind.RESTART, "", True),
        (Kind.DEPLOY, "", True),
        (Kind.SCALE, "up", True),
        (Kind.SCALE, "down", False),
        (Kind.STOP, "down", False),
        (Kind.ROLLBACK, "", False),
    ],
)
def test_stopping_and_going_back_never_wait(kind: str, direction: str, waits: bool) -> None:
    assert (held(seen(DOWN, DOWN), kind=kind, direction=direction) is not None) is waits


@pytest.mark.req("REC-11")
def test_a_dependency_that_is_declared_stopped_or_rejected_is_named() -> None:
    stopped = a_service("db", replicas=2, desired=DesiredState.STOPPED, source="fleet.yml:3")
    assert "declared stopped (fleet.yml:3)" in str(held(seen(), service=stopped))
    found = holds_up(WEB, a_request(WEB), {"web": WEB}, {}, {})
    assert found is not None
    assert "rejected" in found


@pytest.mark.req("REC-11")
def test_zero_replicas_on_purpose_hold_nobody_up() -> None:
    assert held(an_observation(DB, at=5, instances=[]), service=a_service("db", replicas=0)) is None


@pytest.mark.req("REC-11")
@pytest.mark.parametrize("kind", [Kind.RESTART, Kind.STOP, Kind.START, Kind.SCALE])
def test_what_is_under_repair_is_waited_for(kind: str) -> None:
    record = OutboxRecord(
        seq=4,
        key="k",
        state=OutboxState.RUNNING,
        request=a_request(DB, kind=kind),
        request_digest="d",
        decision_seq=1,
        approval_seq=None,
        policy_digest="p",
        prepared_at=1,
        expires_at=9,
    )
    found = holds_up(WEB, a_request(WEB), {"db": DB, "web": WEB}, {"db": seen(UP, UP)}, repairs([record]))
    assert (found is None) is (kind == Kind.SCALE)
    assert found is None or "under repair (X-4" in found
