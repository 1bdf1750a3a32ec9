"""Supervisory health: what makes the whole healthy, partial, degraded or unavailable."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.domain.health import DependencyHealth, HealthStatus, assess, roll_up

H, P, D, U = HealthStatus.HEALTHY, HealthStatus.PARTIAL, HealthStatus.DEGRADED, HealthStatus.UNAVAILABLE


def dependency(name: str, status: HealthStatus, **changes: object) -> DependencyHealth:
    base = DependencyHealth(name=name, status=status, checked_at=100, last_success_at=100, max_age_us=50)
    return msgspec.structs.replace(base, **changes)


@pytest.mark.req("HLT-3")
@pytest.mark.parametrize(
    ("statuses", "rolled"),
    [
        ([], U), ([H], H), ([H, H, D], D), ([H, H, U], P), ([H, P, D], P), ([U, U], U), ([P, D, U], P), ([D, D], D),
        ([H, U, U], P), ([P], P),
    ],
)  # fmt: skip
def test_statuses_roll_up(statuses: list[HealthStatus], rolled: HealthStatus) -> None:
    assert roll_up(statuses) is rolled


@pytest.mark.req("HLT-3")
@given(st.lists(st.sampled_from(list(HealthStatus)), min_size=1, max_size=6))
def test_only_all_healthy_is_healthy(statuses: list[HealthStatus]) -> None:
    assert (roll_up(statuses) is H) == all(one is H for one in statuses)


@pytest.mark.req("HLT-1")
def test_a_failing_authority_makes_the_whole_unavailable() -> None:
    others = [dependency("observer:a", H, observer=True), dependency("store", H, authority=True)]
    evidence = assess([*others, dependency("registry", U, authority=True)], 100)
    assert evidence.status is U
    assert not evidence.ready
    assert not evidence.convergence_ready
    assert not evidence.autoscaling_ready


@pytest.mark.req("HLT-1")
def test_one_of_several_observers_failing_is_partial_and_all_of_them_unavailable() -> None:
    store = dependency("store", H, authority=True)
    a, b = dependency("observer:a", U, observer=True), dependency("observer:b", H, observer=True)
    assert assess([store, a, b], 100).status is P
    assert assess([store, a], 100).status is U


@pytest.mark.req("HLT-3")
def test_evidence_that_is_too_old_counts_as_unavailable() -> None:
    store = dependency("store", H, authority=True)
    assert assess([store], 150).status is H
    late = assess([store], 151)
    assert late.status is U
    assert "too old" in late.dependencies["store"].diagnostics[0]


@pytest.mark.req("HLT-1")
def test_diagnostics_are_bounded_and_the_schema_is_named() -> None:
    loud = dependency("store", H, authority=True, diagnostics=tuple("x" * 500 for _ in range(9)))
    evidence = assess([loud], 100)
    assert evidence.schema_version == "fleet.health.v1"
    assert [len(one) for one in evidence.dependencies["store"].diagnostics] == [192] * 4
    assert evidence.dependencies["store"].freshness_seconds == 0.0
