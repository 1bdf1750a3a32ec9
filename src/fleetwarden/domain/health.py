"""Supervisory health: whether the plane may trust what it knows (schema `fleet.health.v1`).

Evidence comes per dependency, each with its age and what went wrong; the roll-up is a pure function.  Only `healthy`
permits convergence.  Evidence that is too old is no evidence: it counts as unavailable.  No secret and no unbounded
text may enter a diagnostic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import Micros, seconds

__all__ = [
    "SCHEMA",
    "DependencyEvidence",
    "DependencyHealth",
    "FleetHealthEvidence",
    "HealthStatus",
    "assess",
    "in_scope",
    "roll_up",
    "trouble",
]

SCHEMA = "fleet.health.v1"
DIAGNOSTICS_MAX = 4
DIAGNOSTIC_LENGTH_MAX = 192


class HealthStatus(StrEnum):
    HEALTHY = "healthy"
    PARTIAL = "partial"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"


class DependencyHealth(Record):
    """What the plane last learned of one dependency.  `max_age_us`: older than this it counts as unavailable.

    `substrates`: the scope of an observer, None for what every service needs.  `error_class`: the kind of trouble in a
    word, "" while there is none.
    """

    name: str
    status: HealthStatus
    checked_at: Micros
    last_success_at: Micros | None = None
    max_age_us: Micros
    authority: bool = False  # store, policy, registry: failing makes the whole unavailable
    observer: bool = False
    signals: bool = False  # a source of scaling signals: it lowers `autoscaling_ready` and nothing else
    substrates: frozenset[str] | None = None
    error_class: str = ""
    diagnostics: tuple[str, ...] = ()


class DependencyEvidence(Record):
    """One dependency in an envelope.  `freshness_seconds`: age of the last success, None if there was none."""

    status: HealthStatus
    checked_at: Micros
    last_success_at: Micros | None
    freshness_seconds: float | None
    error_class: str = ""
    diagnostics: tuple[str, ...] = ()


class FleetHealthEvidence(Record):
    """The envelope.  `ready`: the plane serves; `convergence_ready` and `autoscaling_ready`: it may act on evidence."""

    schema_version: str = SCHEMA
    status: HealthStatus
    ready: bool
    convergence_ready: bool
    autoscaling_ready: bool
    generated_at: Micros
    dependencies: Mapping[str, DependencyEvidence]


def roll_up(statuses: Sequence[HealthStatus]) -> HealthStatus:
    """One status from many: none or all unavailable → unavailable; any partial or unavailable → partial; any degraded
    → degraded; else healthy."""
    if all(status is HealthStatus.UNAVAILABLE for status in statuses):
        return HealthStatus.UNAVAILABLE
    if any(status in (HealthStatus.PARTIAL, HealthStatus.UNAVAILABLE) for status in statuses):
        return HealthStatus.PARTIAL
    return HealthStatus.DEGRADED if HealthStatus.DEGRADED in statuses else HealthStatus.HEALTHY


def in_scope(dependencies: Sequence[DependencyHealth], substrate: str) -> list[DependencyHealth]:
    """What a service on that substrate rests on: everything but the observers of other substrates."""
    return [one for one in dependencies if one.substrates is None or substrate in one.substrates]


def trouble(evidence: FleetHealthEvidence) -> str:
    """Why an envelope is not healthy, in words; "" if it is."""
    if evidence.status is HealthStatus.HEALTHY:
        return ""
    bad = [f"{name} is {one.status.value}" for name, one in evidence.dependencies.items() if not _well(one)]
    return f"the plane's health is {evidence.status.value}" + (f" ({', '.join(bad[:3])})" if bad else "")


def _well(one: DependencyEvidence) -> bool:
    return one.status is HealthStatus.HEALTHY


def assess(dependencies: Sequence[DependencyHealth], now: Micros) -> FleetHealthEvidence:
    """Age the evidence and roll it up.

    A failing authority, or every observer failing, makes the whole unavailable before the roll-up is asked; one of
    several observers failing is partial.
    """
    aged = {one.name: (_aged(one, now), one) for one in dependencies if not one.signals}
    sources = {one.name: (_aged(one, now), one) for one in dependencies if one.signals}
    heard = all(status is HealthStatus.HEALTHY for status, _ in sources.values())
    authority_lost = any(d.authority and s is HealthStatus.UNAVAILABLE for s, d in aged.values())
    observers = [s for s, d in aged.values() if d.observer]
    blind = bool(observers) and all(s is HealthStatus.UNAVAILABLE for s in observers)
    lost = authority_lost or blind
    status = HealthStatus.UNAVAILABLE if lost else roll_up([s for s, _ in aged.values()])
    return FleetHealthEvidence(
        status=status,
        ready=status is not HealthStatus.UNAVAILABLE,
        convergence_ready=status is HealthStatus.HEALTHY,
        autoscaling_ready=status is HealthStatus.HEALTHY and heard,
        generated_at=now,
        dependencies={name: _evidence(one, s, now) for name, (s, one) in sorted((aged | sources).items())},
    )


def _aged(one: DependencyHealth, now: Micros) -> HealthStatus:
    return HealthStatus.UNAVAILABLE if now - one.checked_at > one.max_age_us else one.status


def _evidence(one: DependencyHealth, status: HealthStatus, now: Micros) -> DependencyEvidence:
    stale = ("evidence is too old",) if status is not one.status else ()
    fresh = None if one.last_success_at is None else max(0.0, seconds(now - one.last_success_at))
    kept = tuple(text[:DIAGNOSTIC_LENGTH_MAX] for text in (*stale, *one.diagnostics)[:DIAGNOSTICS_MAX])
    return DependencyEvidence(
        status=status,
        checked_at=one.checked_at,
        last_success_at=one.last_success_at,
        freshness_seconds=fresh,
        error_class="stale" if stale and not one.error_class else one.error_class,
        diagnostics=kept,
    )
