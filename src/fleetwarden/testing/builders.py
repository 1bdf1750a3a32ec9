"""Builders of records with sane defaults: a test names only what it is about.

`a_service(replicas=3)` is a complete valid service; every keyword is a field of the record.  They build what the
product itself would build and check nothing away: a builder must not make a record that no file and no observer could
yield.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleetwarden.domain.actions import ActionRequest, Evidence, Kind, Source, Tier
from fleetwarden.domain.budgets import BlastRadius, RateLimit
from fleetwarden.domain.convergence import identity
from fleetwarden.domain.fleet import (
    Fleet,
    InstanceStatus,
    Mode,
    ObservedInstance,
    ObservedService,
    Presence,
    ProcessSpec,
    Service,
    ServiceStatus,
)
from fleetwarden.domain.identifiers import Micros, digest
from fleetwarden.domain.policy import Options, Policy
from fleetwarden.domain.policy_rules import Defaults, Rule
from fleetwarden.ports.configuration import Configuration

__all__ = [
    "a_configuration",
    "a_fleet",
    "a_policy",
    "a_request",
    "a_service",
    "an_instance",
    "an_observation",
]


def a_service(name: str = "web", *, process: bool = False, **fields: Any) -> Service:
    """A live service with one replica.  `process`: as local processes; else an injected substrate serves it."""
    if process:
        fields.setdefault("process", ProcessSpec(command=(f"/srv/{name}",), host="h1"))
    return Service(name=name, **fields)


def a_fleet(*services: Service, **fields: Any) -> Fleet:
    """A fleet of these services; none given: one `web`."""
    known = services or (a_service(),)
    fields.setdefault("digest", digest(list(known)))
    return Fleet(services={one.name: one for one in known}, **fields)


def a_policy(
    tier: Tier = Tier.AUTO,
    *rules: Rule,
    rate: tuple[int, int] = (1000, 3600),
    blast: tuple[int, int] = (1000, 3600),
    approval_expires_s: int = 86_400,
    allow_self_approval: bool = False,
    name: str = "policy.yml",
) -> Policy:
    """A policy whose default is `tier` with wide limits.  `rate` and `blast` are (how many, in how many seconds)."""
    options = Options(approval_expires_s=approval_expires_s, allow_self_approval=allow_self_approval)
    defaults = Defaults(
        tier=tier,
        rate_limit=RateLimit(max=rate[0], window_s=rate[1]),
        blast_radius=BlastRadius(max_targets=blast[0], window_s=blast[1]),
        where=name,
        shipped=frozenset(),
    )
    written = [tier, rate, blast, [rule.plain() for rule in rules], options]
    return Policy(rules=rules, defaults=defaults, options=options, digest=digest(written), source=name)


def a_configuration(fleet: Fleet | None = None, policy: Policy | None = None) -> Configuration:
    """A snapshot with one service `web` and a policy that allows everything, unless given."""
    fleet = a_fleet() if fleet is None else fleet
    return Configuration(fleet=fleet, last_good_fleet=fleet, policy=a_policy() if policy is None else policy)


def a_request(
    service: Service | None = None, *, kind: str = Kind.RESTART, observed_at: Micros | None = None, **fields: Any
) -> ActionRequest:
    """A request of the reconciler for `service` (default: `web`), bound to it as it is declared.

    `observed_at` dates its evidence.  The key is made from kind, target and parameters: give another for another wish.
    """
    service = a_service() if service is None else service
    fields.setdefault("key", digest([kind, service.name, fields.get("params", {})])[7:23])
    fields.setdefault("evidence", Evidence(observed_at=observed_at))
    fields.setdefault("dry_run", service.mode is Mode.DRY_RUN)
    return ActionRequest(
        kind=kind,
        **{
            "target": service.name,
            "source": Source.RECONCILER,
            "requested_by": "reconciler",
            "reason": f"{service.name} is down",
            "group": service.group,
            "substrate": service.substrate,
            "identity": identity(service),
            **fields,
        },
    )


def an_instance(index: int = 0, status: InstanceStatus = InstanceStatus.UP, **fields: Any) -> ObservedInstance:
    """One slot of a service."""
    fields.setdefault("identity", f"i-{index}")
    return ObservedInstance(id=str(index), status=status, **fields)


def an_observation(
    service: Service | None = None,
    *,
    at: Micros,
    instances: Sequence[ObservedInstance] | None = None,
    **fields: Any,
) -> ObservedService:
    """What an observer saw of `service` at `at`: by default all declared replicas up.

    Counts and status follow from the instances unless they are given.
    """
    service = a_service() if service is None else service
    seen = tuple(an_instance(index) for index in range(service.replicas)) if instances is None else tuple(instances)
    ready = sum(one.status is InstanceStatus.UP for one in seen)
    starting = any(one.status is InstanceStatus.STARTING for one in seen)
    if seen and ready == len(seen):
        status = ServiceStatus.UP
    else:
        status = ServiceStatus.DEGRADED if ready or starting else ServiceStatus.DOWN
    return ObservedService(
        **{
            "name": service.name,
            "observed_at": at,
            "source": "fake",
            "status": status,
            "presence": Presence.STARTED if seen else Presence.NEVER_STARTED,
            "ready": ready,
            "existing": sum(one.status is not InstanceStatus.DOWN for one in seen),
            "total": len(seen),
            "instances": seen,
            **fields,
        }
    )
