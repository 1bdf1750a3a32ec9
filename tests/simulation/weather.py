"""What some histories have besides: voters, versions, a sealer.  Each has chances of its own.

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
from fleetwarden.testing import a_service

if TYPE_CHECKING:
    from tests.simulation.plan import Plan

__all__ = ["NO_WEATHER", "VERSIONS", "prepared", "weather_of"]

NO_WEATHER = {"voters": False, "deploys": False, "seals": False}
EVERY = 12
DEPLOYS_TURN, VOTERS_TURN, SEALS_TURN = 1, 9, 5
SHORTER = 0.8  # more happens in each step, and each history costs the same
VERSIONS = ("1", "2", "3")


def weather_of(seed: int) -> dict[str, Any]:
    """Which of them the history of this seed has."""
    return {
        "voters": seed % EVERY == VOTERS_TURN,
        "deploys": seed % EVERY == DEPLOYS_TURN,
        "seals": seed % EVERY == SEALS_TURN,
    }


def prepared(plan: Plan) -> Plan:
    """The plan with what its weather needs."""
    if plan.voters:
        plan = _with_voters(plan)
    if plan.deploys:
        plan = _with_versions(plan)
    return plan


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
        rough_steps=int(plan.rough_steps * SHORTER),
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
        rough_steps=int(plan.rough_steps * SHORTER),
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
    if service.process is not None:
        return service
    return msgspec.structs.replace(service, process=a_service(service.name, process=True).process)
