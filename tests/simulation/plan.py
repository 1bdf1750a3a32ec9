"""What a seed decides before anything runs: the fleet, its rules, how the substrates behave, how rough it gets."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from fleetwarden.domain.actions import Tier
from fleetwarden.domain.fleet import DesiredState, Mode, Service
from fleetwarden.testing import a_service
from tests.simulation.load import with_load
from tests.simulation.weather import weather_of

__all__ = ["Nature", "Plan", "draw"]

TIERS = (Tier.AUTO, Tier.AUTO, Tier.AUTO_NOTIFY, Tier.APPROVAL_REQUIRED, Tier.APPROVAL_REQUIRED)


ALERTS_EVERY, ALERTS_TURN = 6, 2
OUTSIDERS_EVERY = 6


@dataclass(frozen=True, slots=True)
class Nature:
    """What one substrate declares.  `in_process`: a call dies with its plane; else its request travels on."""

    in_process: bool
    lateness_s: float | None
    final: bool
    start_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that does not change in a history, and where it begins.  Chances are per step of the baton."""

    seed: int
    planes: int
    lease_ttl_s: float
    poll_s: float  # how often executor and worker look without being woken
    services: tuple[Service, ...]
    started: tuple[int, ...]  # how many instances of each service run at first; 0: it was never started
    natures: dict[str, Nature]
    tier: Tier
    rate: tuple[int, int]
    blast: tuple[int, int]
    approval_s: int  # how long an approval waits for a person
    rough_steps: int
    world: float  # something happens to an instance
    people: float  # a person does something
    people_share: float  # … and of what happens while all wait, how much is their doing
    crash: float  # a plane is killed
    stall: float  # the thread that runs stands still for a while
    trouble: float  # per call: it does not simply go well
    store_fault: float  # per transaction
    clock_steps: bool
    last_tier: Tier  # the rule in the end
    stubborn: str  # a service whose first calls are refused one after the other, or ""
    alerts: bool  # monitoring systems send alerts, and playbooks answer them
    event_age_s: int  # how old an event may be and still lead to an action
    storm_least: int  # how many sick services open the breaker
    outsiders: bool  # other systems ask for actions of their own
    voters: bool  # rules name how many people of which teams have to say yes
    deploys: bool  # services have versions, and not each of them is any good
    seals: bool  # the ledger is sealed while all this happens


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    rng = Random(seed)
    names = ("api", "db", "web", "work")[: rng.randint(1, 4)]
    services = tuple(_service(rng, name) for name in names)
    calm_people = rng.random() < 0.2
    planes = rng.choice((1,) * 10 + (2,) * 7 + (3,) * 3)
    return Plan(
        seed=seed,
        planes=planes,
        lease_ttl_s=15.0 if planes > 1 else 600.0,  # nobody takes over a single plane's lease but its successor
        poll_s=rng.choice((6.0, 30.0, 30.0)),
        services=with_load(seed, services),
        started=tuple(rng.choice((0, one.replicas, one.replicas, one.replicas + 1)) for one in services),
        natures={
            "process": Nature(in_process=True, lateness_s=0.0, final=True, start_s=rng.choice((0.0, 1.0, 4.0))),
            "": rng.choice(
                (
                    Nature(in_process=False, lateness_s=20.0, final=False, start_s=1.0),
                    Nature(in_process=False, lateness_s=10.0, final=True, start_s=1.0),
                    Nature(in_process=False, lateness_s=None, final=True, start_s=1.0),
                )
            ),
        },
        tier=rng.choice(TIERS),
        rate=(rng.choice((1, 2, 3, 5)), rng.choice((30, 60, 90))),
        blast=(rng.choice((1, 2, 3, 9)), rng.choice((30, 60, 90))),
        approval_s=rng.choice((40, 120, 120, 300)),
        rough_steps=rng.randint(80, 260),
        world=rng.uniform(0.01, 0.08),
        people=0.0 if calm_people else rng.uniform(0.01, 0.1),
        people_share=0.0 if calm_people else rng.uniform(0.2, 0.7),
        crash=rng.choice((0.0, 0.002, 0.006, 0.015)),
        stall=rng.choice((0.0, 0.005, 0.02)),
        trouble=rng.choice((0.1, 0.3, 0.6)),
        store_fault=rng.choice((0.0, 0.0, 0.01, 0.05)),
        clock_steps=rng.random() < 0.3,
        last_tier=rng.choice((Tier.AUTO, Tier.AUTO, Tier.AUTO_NOTIFY, Tier.APPROVAL_REQUIRED, Tier.FORBIDDEN)),
        stubborn=rng.choice(("", "", *names)),
        **_weather_of_alerts(seed),
        outsiders=seed % OUTSIDERS_EVERY == 0,
        **weather_of(seed),
    )


def _weather_of_alerts(seed: int) -> dict[str, Any]:
    """In every sixth history, with chances of its own, so that the others stay what they were."""
    if seed % ALERTS_EVERY != ALERTS_TURN:
        return {"alerts": False, "event_age_s": 900, "storm_least": 3}
    rng = Random(seed ^ 0xA1E27)
    return {"alerts": True, "event_age_s": rng.choice((60, 120, 900)), "storm_least": rng.choice((2, 3, 3))}


def _service(rng: Random, name: str) -> Service:
    return a_service(
        name,
        process=rng.random() < 0.55,
        replicas=rng.choice((1, 1, 2, 3)),
        desired=DesiredState.STOPPED if rng.random() < 0.1 else DesiredState.RUNNING,
        mode=rng.choice((Mode.LIVE,) * 8 + (Mode.DRY_RUN, Mode.OBSERVE)),
    )
