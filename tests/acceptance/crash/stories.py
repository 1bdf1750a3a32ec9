"""What follows an alert, a deploy that fails, another system's request and a load, told as the matrix tells them.

`deaths` of a story are the places that are its own; what every action passes is died at in `scenarios` already.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.acceptance.crash.scenarios import CALLED, SPAWNED, Scenario, Steps
from tests.acceptance.crash.world import AUTO, Service, World, registry

__all__ = ["STORIES", "Story"]

WINDOW_S = 60.0
WATCHED: list[Any] = ["settle", 600.0, "deploy_watch"]
WATCHING = {"DEPLOY_WATCH_WINDOW": f"{WINDOW_S:g}", "DEPLOY_WATCH_POLL": "15"}
WATCH = ("claim_watches", "watch_steps")
SHOP = Service("shop", 2)
LOADED = Service("shop", scaling={"min": 1, "max": 4, "signal": "backlog", "target": 100, "scale_up_step": 4})
SIGNALS = """\
version: 1
signals:
  backlog: {source: pushed, kind: queue, aggregation: fleet_total, unit: messages}
"""
MERGES_ASK = AUTO + '  - {kind: merge_promotion, target: "*", tier: approval_required}\n'


@dataclass(frozen=True, kw_only=True)
class Story(Scenario):
    """`deaths`: the places at which a plane dies; the first passing of a step unless `#` and a number say which."""

    deaths: tuple[str, ...] = ()


def _alert(world: World) -> Steps:
    """Nobody but the playbook repairs.  What a crash prevented is put before a person, who does it instead."""
    said = datetime.now(UTC).isoformat()
    to_the_end = [*WATCHED, "supervision"]  # where no reconciler looks, health rests on this pass
    return [
        ["look"],
        ["ask", "start_service", "shop"],
        to_the_end,
        ["lose", "shop", 1],
        ["arm"],
        ["alert", "shop", said],
        to_the_end,
        ["take_over"],
        to_the_end,
    ]


def _failing_deploy(world: World) -> Steps:
    """1.0 has been verified; 1.1 comes up, and goes down once its watch is past its grace period."""
    newer = registry(world.starts_file, [Service("shop", 2, version="1.1")])
    return [
        WATCHED,
        ["write", "fleet.yml", newer],
        ["settle"],
        ["tick", "deploy_watch"],
        ["advance", 20],
        ["age"],
        ["spoil", "1.1"],
        ["arm"],
        WATCHED,
    ]


def _outside(world: World) -> Steps:
    """One says in time how it ended, the other so late that its outcome had become unknown."""
    steps: Steps = [["settle"], ["arm"]]
    for target in ("model-7", "model-8"):
        steps += [["outside_ask", target], ["grant"], ["outside_claim", target], ["outside_deed", target]]
        if target == "model-8":
            steps += [["advance", 4000], ["settle", 60.0, "outside_claims"]]
        steps += [["outside_result", target]]
    return [*steps, ["settle"]]


def _load(world: World) -> Steps:
    """Four times what one replica is meant to carry; said once more, in case the first answer was prevented."""
    world.write("signals.yml", SIGNALS)
    grown: list[Any] = ["settle", 600.0, "fleet_autoscaler", "deploy_watch"]
    return [WATCHED, ["arm"], ["load", "shop", 400], grown, ["load", "shop", 400], grown]


STORIES = (
    Story(
        name="alert",
        steps=_alert,
        stage=(SHOP,),
        declared={"shop": 2},
        passes=(
            "events", "claim_work", "triage", "playbook_step", "playbook_end", "settle_work", "admit", "extend_lease",
            "commit_1", "call", "commit_2", *SPAWNED, *WATCH,
        ),
        expects={"succeeded": 2},
        settings={**WATCHING, "FLEET_RECONCILER": "false"},
        facts={"watch_window_s": WINDOW_S, "alerts": 1},
        deaths=(
            "events", "triage", "playbook_step#1", "playbook_step#2", "playbook_step#3", "playbook_step#4",
            "playbook_end", "settle_work", "admit", "call", "watch_steps#1", "watch_steps#2",
        ),
    ),
    Story(
        name="failing deploy",
        steps=_failing_deploy,
        stage=(Service("shop", 2, version="1.0"),),
        declared={"shop": 2},
        passes=(*CALLED, "sigterm", *SPAWNED, *WATCH, "watch_followed"),
        expects={"succeeded": 3},
        settings=WATCHING,
        facts={"watch_window_s": WINDOW_S},
        deaths=("watch_steps#1", "admit", "watch_followed", "call", "commit_2"),
    ),
    Story(
        name="outside action",
        steps=_outside,
        stage=(SHOP,),
        policy=MERGES_ASK,
        declared={"shop": 2},
        passes=("admit", "grant", "claim", "report", "mark_late"),
        expects={"succeeded": 3},
        deaths=("admit", "grant", "claim", "report#1", "mark_late", "report#2"),
    ),
    Story(
        name="load",
        steps=_load,
        stage=(LOADED,),
        declared={"shop": 4},
        passes=(
            "pushed_samples", "autoscale_rows", "autoscale_report", "put_intents", "authorise_intents", "report",
            "extend_lease", "commit_1", "call", "commit_2", *SPAWNED, "emptied_removed", "convergence", *WATCH,
        ),
        expects={"succeeded": 2},
        settings={**WATCHING, "FLEET_AUTOSCALER": "true"},
        facts={"watch_window_s": WINDOW_S},
        deaths=("put_intents", "authorise_intents", "call", "commit_2", "convergence#1", "convergence#2"),
    ),
)  # fmt: skip
