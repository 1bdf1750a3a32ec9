"""The plane as `up` runs it, every controller on its own thread, killed in the middle; and the command itself."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.acceptance.crash.audit import audit, gather
from tests.acceptance.crash.depth import KINDS, ON_BOTH_IN_FULL, full_only, on
from tests.acceptance.crash.scenarios import QUEUE, SCENARIOS, stage
from tests.acceptance.crash.world import Service, World

SHORT = {"FLEET_LEASE_TTL_S": "3", "FLEET_RECONCILER_INTERVAL": "0.3", "FLEET_EXECUTOR_THREADS": "8"}
DEATHS = (
    ("first start", "call.after#1"),  # while another call is in flight
    ("lost replica", "commit_1.after#1"),
    ("lost replica", "spawn.after#1"),
    ("lost replica", "commit_2.before#1"),
    ("all lost", "slot_spawning.after#2"),
    ("scale down", "sigterm.after#2"),
    ("approval", "admit_grant.after#1"),
    ("approval", "call.after#1"),
)


def deaths() -> list[object]:
    """All on both databases; in the quick depth every second one, on alternating databases."""
    later = full_only("dies each of these deaths on both databases")
    return [
        pytest.param(story, kill, kind, marks=[*on(kind), *([] if number % 4 == 2 * place else [later])])
        for place, kind in enumerate(KINDS)
        for number, (story, kill) in enumerate(DEATHS)
    ]


def findings(world: World, declared: dict[str, int]) -> list[str]:
    """What the auditor says, less what only one thread can promise: that rows are numbered in the order of time."""
    return [found for found in audit(gather(world, declared)) if not found.startswith("time_never_goes_back")]


def findings_of_up(world: World, declared: dict[str, int]) -> list[str]:
    """As above; a notice of the command goes to its own log, which is not read here."""
    return [found for found in findings(world, declared) if not found.startswith("every_notice_reaches_people")]


@pytest.mark.req("AUT-20", "PRO-14", "POL-8", "RUN-2")
@pytest.mark.slow
@pytest.mark.parametrize(("story", "kill", "database"), deaths())
def test_threads_that_die_together_lose_and_double_nothing(
    story: str, kill: str, database: str, make_world: Callable[..., World]
) -> None:
    scenario = next(one for one in SCENARIOS if one.name == story)
    world = make_world(database, **SHORT)
    steps = stage(scenario, world)
    world.run_on(steps, [kill, None], threads=True)
    world.run([["settle"]])  # a plane by hand finds nothing to do, and tells what nobody has told yet
    assert findings(world, dict(scenario.declared)) == []


def avenging(world: World) -> Service:
    """A replica that, while there is a note with a plane's pid, kills that plane first of all: usually before anybody
    could write down that it was made."""
    note = world.folder / "revenge"
    return Service("shop", 2, first=f'[ -e "{note}" ] && read pid < "{note}" && rm "{note}" && kill -9 $pid; ')


@pytest.mark.req("AUT-20", "RUN-1")
@pytest.mark.slow
@ON_BOTH_IN_FULL
def test_up_is_killed_by_what_it_has_just_started_and_goes_on(database: str, make_world: Callable[..., World]) -> None:
    """The command that a person types.  A replica kills the plane that made it, before anybody wrote that down."""
    world = make_world(database, **SHORT)
    world.declare(avenging(world), QUEUE)
    first = world.plane()
    world.wait_for(lambda: len(world.starts()) == 3 and settled(world), "the first start")
    (world.folder / "revenge").write_text(f"{first.pid}\n", encoding="ascii")
    world.lose("shop", 1)
    world.wait_for(lambda: first.poll() is not None, "the plane's death")
    assert first.returncode == -signal.SIGKILL
    world.wait_for(lambda: len(world.starts()) == 4, "the replica's own note")
    world.database.advance(30)  # on a server the dead plane's lease has to lapse first
    second = world.plane()
    world.wait_for(lambda: settled(world), "what the dead plane began is settled", impatient=world.database.advance)
    second.terminate()
    assert second.wait(timeout=60) == 0, world.log()
    world.run([["settle"]])  # a plane by hand finds nothing to do, and says what it counts
    assert len(world.starts()) == 4
    assert findings_of_up(world, {"shop": 2, "queue": 1}) == []


@pytest.mark.req("RUN-1", "PRO-15", "AUT-20")
@pytest.mark.slow
@pytest.mark.needs("postgresql")
def test_of_two_planes_one_dies_and_the_other_takes_over(make_world: Callable[..., World]) -> None:
    """Both share one database and one host; who dies holds the leases and has just started a replica."""
    world = make_world("postgresql", **SHORT)
    world.declare(avenging(world), QUEUE)
    planes = {one.pid: one for one in (world.plane(), world.standby())}
    world.wait_for(lambda: len(world.starts()) == 3 and settled(world), "the first start")
    leader = int(
        world.database.rows("SELECT holder FROM leases WHERE cadence = 'action_executor'")[0]["holder"].split(":")[1]
    )
    (world.folder / "revenge").write_text(f"{leader}\n", encoding="ascii")
    world.lose("shop", 1)
    world.wait_for(lambda: planes[leader].poll() is not None, "the leader's death")
    assert planes.pop(leader).returncode == -signal.SIGKILL
    world.wait_for(lambda: settled(world), "the other one has settled it", impatient=world.database.advance)
    [other] = planes.values()
    other.terminate()
    assert other.wait(timeout=60) == 0, world.log()
    world.run([["settle"]])
    assert findings_of_up(world, {"shop": 2, "queue": 1}) == []


def settled(world: World) -> bool:
    """Nothing is open, and the fleet is as declared."""
    rows = world.database.rows("SELECT state FROM outbox")
    return bool(rows) and all(row["state"] == "succeeded" for row in rows) and len(world.living()) == 3
