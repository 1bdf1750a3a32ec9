"""What happens to a fleet in the matrix, told as steps, and what has to be true at the end of each story.

`steps` of a scenario are run by one plane after the other until they are through: a plane that dies is followed by one
that takes up the step in which it died.  What comes before `arm` is the stage; from there on every step that the plane
takes is a place to die.  `passes` names those steps, so that a step which the product gains is missed here, loudly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.acceptance.crash.world import AUTO, Service, World, registry

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ANYWHERE", "SCENARIOS", "Scenario", "stage"]

Steps = list[list[Any]]
SHOP, QUEUE = Service("shop", 2), Service("queue", stubborn=True)
ASKING = "version: 1\noptions: {approval_expires_s: 600}\n"  # the shipped default, with a shorter wait for a person
# Housekeeping, which happens in many stories and is listed where it is worth a death.
ANYWHERE = frozenset({"fleet_id", "host", "acquire_lease", "report", "release_lease", "notified", "publish"})
CALLED = ("admit", "report", "extend_lease", "commit_1", "call", "commit_2")
SPAWNED = ("slot_spawning", "spawn", "slot_running")
GRANTED = ("grant", "drain", "claim_work", "admit_grant", "settle_work")


@dataclass(frozen=True)
class Scenario:
    """`declared`: what has to live at the end.  `kills`: how earlier planes die before the one that the matrix kills.
    `expects`: how often each outbox state occurs in a run that nobody kills; a killed one may need more.
    """

    name: str
    steps: Callable[[World], Steps]
    declared: Mapping[str, int]
    passes: tuple[str, ...]
    expects: Mapping[str, int]
    stage: tuple[Service, ...] = (SHOP, QUEUE)
    policy: str = AUTO
    kills: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


def stage(scenario: Scenario, world: World) -> Steps:
    """Write the files that the first plane finds; returns the steps."""
    world.declare(*scenario.stage)
    world.write("policy.yml", scenario.policy)
    return scenario.steps(world)


def _text(world: World, *services: Service) -> str:
    return registry(world.starts_file, services)


def _first_start(world: World) -> Steps:
    return [["settle"]]


def _lost_replica(world: World) -> Steps:
    return [["settle"], ["arm"], ["lose", "shop", 1], ["settle"]]


def _all_lost(world: World) -> Steps:
    return [["settle"], ["arm"], ["lose", "shop", 0], ["lose", "shop", 1], ["settle"]]


def _sick_replica(world: World) -> Steps:
    return [["settle"], ["age"], ["arm"], ["sicken", 1], ["settle"]]


def _all_sick(world: World) -> Steps:
    """All at once need one restart of the whole service, which goes from one instance to the next."""
    return [["settle"], ["age"], ["arm"], ["sicken", 0], ["sicken", 1], ["settle"]]


def _scale_up(world: World) -> Steps:
    more = _text(world, Service("shop", 4), QUEUE)
    return [["settle"], ["arm"], ["write", "fleet.yml", more], ["settle"]]


def _scale_down(world: World) -> Steps:
    fewer = _text(world, Service("shop", 2, stubborn=True))
    return [["settle"], ["arm"], ["write", "fleet.yml", fewer], ["settle"]]


def _stop(world: World) -> Steps:
    stopped = _text(world, SHOP, Service("queue", desired="stopped", stubborn=True))
    return [["settle"], ["arm"], ["write", "fleet.yml", stopped], ["settle"]]


def _stop_of_the_willing(world: World) -> Steps:
    """They end by themselves once they were asked to, whether or not a plane is there to see it."""
    stopped = _text(world, Service("shop", 3, desired="stopped"))
    return [["settle"], ["arm"], ["write", "fleet.yml", stopped], ["settle"]]


def _stop_and_start(world: World) -> Steps:
    stopped = _text(world, Service("shop", 2, desired="stopped"), QUEUE)
    started = _text(world, SHOP, QUEUE)
    return [
        ["settle"],
        ["write", "fleet.yml", stopped],
        ["settle"],
        ["arm"],
        ["write", "fleet.yml", started],
        ["settle"],
    ]


def _deploy(world: World) -> Steps:
    """From one version to the next, replica by replica."""
    newer = _text(world, Service("shop", 2, version="1.1"))
    return [["settle"], ["arm"], ["write", "fleet.yml", newer], ["settle"]]


GRANT: Steps = [["grant"], ["settle"]]
ANSWER = [*GRANT, *GRANT]  # a granted action that a crash prevented is asked for again, and granted again


def _approval(world: World) -> Steps:
    return [["settle"], *GRANT, ["arm"], ["lose", "shop", 1], ["settle"], *ANSWER]


def _approval_rejected(world: World) -> Steps:
    """No; the next pass asks again, and then it is granted."""
    return [["settle"], *GRANT, ["arm"], ["lose", "shop", 1], ["settle"], ["reject"], ["settle"], *ANSWER]


def _approval_expires(world: World) -> Steps:
    return [["settle"], *GRANT, ["arm"], ["lose", "shop", 1], ["settle"], ["advance", 700], ["settle"], *ANSWER]


def _frozen_before_the_fence(world: World) -> Steps:
    return [
        ["settle"],
        ["arm"],
        ["lose", "shop", 1],
        ["tick", "fleet_reconciler"],
        ["freeze"],
        ["settle", 60.0],
        ["thaw"],
        ["settle"],
    ]


def _frozen_during_the_call(world: World) -> Steps:
    return [
        ["settle"],
        ["arm"],
        ["lose", "shop", 1],
        ["at", "call.before", "freeze"],
        ["settle", 60.0],
        ["thaw"],
        ["settle"],
    ]


def _frozen_by_a_file(world: World) -> Steps:
    """Somebody touches FREEZE between the fence and the call: it is not made, and nothing else is begun."""
    return [
        ["settle"],
        ["arm"],
        ["lose", "shop", 1],
        ["at", "commit_1.after", "write", "FREEZE", "stop it"],
        ["settle", 60.0],
        ["remove", "FREEZE"],
        ["settle"],
    ]


def _dry_run(world: World) -> Steps:
    return [["settle"]]


def _not_found(world: World) -> Steps:
    """The command is gone when a replica is lost; once it is back, and the budget too, the replica is repaired."""
    broken = _text(world, Service("shop", 2, command="./no-such-command"), QUEUE)
    mended = _text(world, SHOP, QUEUE)
    return [
        ["settle"],
        ["arm"],
        ["write", "fleet.yml", broken],
        ["lose", "shop", 1],
        ["settle"],
        ["write", "fleet.yml", mended],
        ["advance", 3700],
        ["settle"],
    ]


def _cannot_run(world: World) -> Steps:
    """As above, with a file that looks like a command until it is run: its slot is marked as failed."""
    script: Path = world.folder / "broken-command"
    script.write_text("#!/no/such/interpreter\n", encoding="ascii")
    script.chmod(0o755)
    broken = _text(world, Service("shop", 2, command=str(script)), QUEUE)
    mended = _text(world, SHOP, QUEUE)
    return [
        ["settle"],
        ["arm"],
        ["write", "fleet.yml", broken],
        ["lose", "shop", 1],
        ["settle"],
        ["write", "fleet.yml", mended],
        ["advance", 3700],
        ["settle"],
    ]


SCENARIOS = (
    Scenario(
        name="first start",
        steps=_first_start,
        declared={"shop": 2, "queue": 1},
        passes=("fleet_id", "acquire_lease", *CALLED, *SPAWNED, "emptied_removed", "release_lease"),
        expects={"succeeded": 2},
    ),
    Scenario(
        name="lost replica",
        steps=_lost_replica,
        declared={"shop": 2, "queue": 1},
        passes=(*CALLED, *SPAWNED),
        expects={"succeeded": 3},
    ),
    Scenario(
        name="all lost",
        steps=_all_lost,
        declared={"shop": 2, "queue": 1},
        passes=(*CALLED, *SPAWNED),
        expects={"succeeded": 3},
    ),
    Scenario(
        name="sick replica",
        steps=_sick_replica,
        stage=(Service("shop", 2, stubborn=True, curable=True),),
        declared={"shop": 2},
        passes=(*CALLED, "sigterm", "sigkill", *SPAWNED),
        expects={"succeeded": 2},
    ),
    Scenario(
        name="all sick",
        steps=_all_sick,
        stage=(Service("shop", 2, curable=True),),
        declared={"shop": 2},
        passes=(*CALLED, "sigterm", *SPAWNED),
        expects={"succeeded": 2},
    ),
    Scenario(
        name="scale up",
        steps=_scale_up,
        declared={"shop": 4, "queue": 1},
        passes=(*CALLED, *SPAWNED, "emptied_removed"),
        expects={"succeeded": 3},
    ),
    Scenario(
        name="scale down",
        steps=_scale_down,
        stage=(Service("shop", 4, stubborn=True),),
        declared={"shop": 2},
        passes=(*CALLED, "slot_removing", "sigterm", "sigkill", "slot_removed"),
        expects={"succeeded": 2},
    ),
    Scenario(
        name="stop",
        steps=_stop,
        declared={"shop": 2, "queue": 0},
        passes=(*CALLED, "slot_stopping", "sigterm", "sigkill", "emptied", "slot_removed"),
        expects={"succeeded": 3},
    ),
    Scenario(
        name="stop of the willing",
        steps=_stop_of_the_willing,
        stage=(Service("shop", 3),),
        declared={"shop": 0},
        passes=(*CALLED, "slot_stopping", "sigterm", "emptied", "slot_removed"),
        expects={"succeeded": 2},
    ),
    Scenario(
        name="deploy",
        steps=_deploy,
        stage=(Service("shop", 2, version="1.0"),),
        declared={"shop": 2},
        passes=(*CALLED, "sigterm", *SPAWNED),
        expects={"succeeded": 2},
    ),
    Scenario(
        name="recovery of a part of a deploy",
        steps=_deploy,
        kills=("spawn.after#1",),
        stage=(Service("shop", 2, version="1.0"),),
        declared={"shop": 2},
        passes=("acquire_lease", *CALLED, "sigterm", *SPAWNED, "mark_unknown", "settle"),
        expects={"succeeded": 2, "failed": 1},
    ),
    Scenario(
        name="stop and start",
        steps=_stop_and_start,
        declared={"shop": 2, "queue": 1},
        passes=(*CALLED, *SPAWNED, "emptied_removed"),
        expects={"succeeded": 4},
    ),
    Scenario(
        name="approval",
        steps=_approval,
        policy=ASKING,
        declared={"shop": 2, "queue": 1},
        passes=(*CALLED, *SPAWNED, *GRANTED),
        expects={"succeeded": 3},
    ),
    Scenario(
        name="approval rejected",
        steps=_approval_rejected,
        policy=ASKING,
        declared={"shop": 2, "queue": 1},
        passes=(*CALLED, *SPAWNED, *GRANTED, "reject"),
        expects={"succeeded": 3},
    ),
    Scenario(
        name="approval expires",
        steps=_approval_expires,
        policy=ASKING,
        declared={"shop": 2, "queue": 1},
        passes=(*CALLED, *SPAWNED, *GRANTED, "expire", "notified"),
        expects={"succeeded": 3},
    ),
    Scenario(
        name="frozen before the fence",
        steps=_frozen_before_the_fence,
        declared={"shop": 2, "queue": 1},
        passes=(*CALLED, *SPAWNED, "freeze_on", "freeze_off"),
        expects={"succeeded": 3, "abandoned": 1},
    ),
    Scenario(
        name="frozen during the call",
        steps=_frozen_during_the_call,
        declared={"shop": 2, "queue": 1},
        passes=(*CALLED, *SPAWNED, "freeze_on", "freeze_off"),
        expects={"succeeded": 3},
    ),
    Scenario(
        name="frozen by a file",
        steps=_frozen_by_a_file,
        declared={"shop": 2, "queue": 1},
        passes=(*CALLED, *SPAWNED),
        expects={"succeeded": 3, "failed": 1},
    ),
    Scenario(
        name="dry run",
        steps=_dry_run,
        stage=(Service("shop", 2, mode="dry_run"),),
        declared={"shop": 0},
        passes=("acquire_lease", "admit", "report", "extend_lease", "commit_1", "commit_2"),
        expects={"simulated": 1},
    ),
    Scenario(
        name="command not found",
        steps=_not_found,
        declared={"shop": 2, "queue": 1},
        passes=(*CALLED, *SPAWNED),
        expects={"succeeded": 3, "failed": 3},
        facts={"rate_max": 6},
    ),
    Scenario(
        name="command cannot be run",
        steps=_cannot_run,
        declared={"shop": 2, "queue": 1},
        passes=(*CALLED, *SPAWNED, "slot_failed"),
        expects={"succeeded": 3, "failed": 3},
        facts={"rate_max": 6},
    ),
    Scenario(
        name="recovery of what was done",
        steps=_lost_replica,
        kills=("call.after#1",),
        declared={"shop": 2, "queue": 1},
        passes=("acquire_lease", "mark_unknown", "settle"),
        expects={"succeeded": 3},
    ),
    Scenario(
        name="recovery of what nobody wrote down",
        steps=_lost_replica,
        kills=("spawn.after#1",),
        declared={"shop": 2, "queue": 1},
        passes=("acquire_lease", "slot_running", "mark_unknown", "settle"),
        expects={"succeeded": 3},
    ),
    Scenario(
        name="recovery of what was not done",
        steps=_lost_replica,
        kills=("call.before#1",),
        declared={"shop": 2, "queue": 1},
        passes=("acquire_lease", *CALLED, *SPAWNED, "mark_unknown", "settle"),
        expects={"succeeded": 3, "failed": 1},
    ),
    Scenario(
        name="recovery of a part",
        steps=_scale_up,
        kills=("spawn.after#1",),
        declared={"shop": 4, "queue": 1},
        passes=("acquire_lease", *CALLED, *SPAWNED, "emptied_removed", "mark_unknown", "settle"),
        expects={"succeeded": 3, "failed": 1},
    ),
)
