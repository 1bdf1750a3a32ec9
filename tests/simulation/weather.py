"""What some histories have besides: voters, versions, hosts, a sealer.  Each has chances of its own.

Which seeds have which is said here, so that the other histories stay what they were, and what each needs of a plan.  A
planted fault has none of them unless it is about them.
"""

from __future__ import annotations

import dataclasses
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from fleetwarden.domain.actions import Tier
from fleetwarden.domain.fleet import DesiredState, Mode, Service, VersionSpec

if TYPE_CHECKING:
    from tests.simulation.plan import Plan

__all__ = ["HOSTS", "NO_WEATHER", "VERSIONS", "prepared", "weather_of"]

NO_WEATHER = {"voters": False, "deploys": False, "hosts": False, "seals": False}
EVERY = 6
DEPLOYS_TURN, VOTERS_TURN, SEALS_TURN = 1, 3, 5
HOSTS_EVERY, HOSTS_TURN = 12, 5
VERSIONS = ("1", "2", "3")
HOSTS = ("h1", "h2")


def weather_of(seed: int) -> dict[str, Any]:
    """Which of them the history of this seed has."""
    return {
        "voters": seed % EVERY == VOTERS_TURN,
        "deploys": seed % EVERY == DEPLOYS_TURN,
        "hosts": seed % HOSTS_EVERY == HOSTS_TURN,
        "seals": seed % EVERY == SEALS_TURN,
    }


def prepared(plan: Plan) -> Plan:
    """The plan with what its weather needs."""
    if plan.voters:
        plan = _with_voters(plan)
    if plan.deploys:
        plan = _with_versions(plan)
    return _with_hosts(plan) if plan.hosts else plan


def _with_voters(plan: Plan) -> Plan:
    """People are asked about everything, and some services have a team that owns them."""
    rng = Random(plan.seed ^ 0x407E)
    owned = [msgspec.structs.replace(one, owner=rng.choice(("", "blue", "green"))) for one in plan.services]
    return dataclasses.replace(
        plan,
        services=tuple(owned),
        tier=rng.choice((Tier.APPROVAL_REQUIRED,) * 4 + (plan.tier,)),
        people=max(plan.people, 0.04),
        people_share=max(plan.people_share, 0.4),
    )


def _with_versions(plan: Plan) -> Plan:
    """Some services are local processes of which three versions are listed; the others stay what they were."""
    rng = Random(plan.seed ^ 0xDE9)
    chosen = set(rng.sample([one.name for one in plan.services], rng.randint(1, len(plan.services))))
    return dataclasses.replace(
        plan,
        services=tuple(_versioned(one, rng) if one.name in chosen else one for one in plan.services),
        tier=rng.choice((Tier.AUTO, Tier.AUTO, Tier.AUTO, plan.tier)),
        rate=(5, 30),
        blast=(9, 30),
    )


def _versioned(service: Service, rng: Random) -> Service:
    final = rng.choice(("", "", "3"))
    listed = {one: VersionSpec(irreversible=one == final) for one in VERSIONS}
    made = a_process(service)
    assert made.process is not None
    return msgspec.structs.replace(
        made,
        version="1",
        mode=Mode.LIVE,
        desired=DesiredState.RUNNING,
        process=msgspec.structs.replace(made.process, versions=listed),
    )


def a_process(service: Service) -> Service:
    """The same service as a local process."""
    from fleetwarden.testing import a_service

    if service.process is not None:
        return service
    return msgspec.structs.replace(service, process=a_service(service.name, process=True).process)


def _with_hosts(plan: Plan) -> Plan:
    """Two hosts and a plane on each; local processes belong to a declared one, or to that which first starts them."""
    rng = Random(plan.seed ^ 0x4057)
    services = [plan.services[0], *plan.services[1:]]
    services[0] = a_process(services[0])
    placed = []
    for one in services:
        if one.process is not None:
            host = rng.choice(("", "", *HOSTS))
            one = msgspec.structs.replace(one, process=msgspec.structs.replace(one.process, host=host))
        placed.append(one)
    return dataclasses.replace(
        plan, services=tuple(placed), planes=max(plan.planes, len(HOSTS)), lease_ttl_s=min(plan.lease_ttl_s, 15.0)
    )
