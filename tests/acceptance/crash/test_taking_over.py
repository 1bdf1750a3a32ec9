"""How soon the next plane goes on where a dead one stopped, what it must not do yet, and what only a person can end."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from tests.acceptance.crash.audit import audit, gather
from tests.acceptance.crash.depth import ON_BOTH, ON_BOTH_IN_FULL
from tests.acceptance.crash.scenarios import ASKING, QUEUE, SCENARIOS, SHOP, Steps, stage
from tests.acceptance.crash.world import AUTO, World

AT_ONCE = {
    "lost replica": ("admit.after#1", "commit_1.before#1", "call.after#1", "commit_2.before#1", "commit_2.after#1"),
    "approval": (
        "grant.after#1",
        "drain.after#1",
        "claim_work.after#1",
        "admit_grant.before#1",
        "admit_grant.after#1",
        "commit_2.before#1",
    ),
}
IMPATIENT: Steps = [["settle", 0.0]]
PATIENT: Steps = [["settle"]]


def slots(world: World) -> list[tuple[str, int]]:
    return [(one.service, one.index) for one in world.living()]


def outbox(world: World) -> list[str]:
    """The state of each action, oldest first."""
    return [row["state"] for row in world.database.rows("SELECT state FROM outbox ORDER BY seq")]


def approvals(world: World) -> list[str]:
    return [row["status"] for row in world.database.rows("SELECT status FROM approvals ORDER BY seq")]


@pytest.mark.req("RUN-2", "AUT-20", "PRO-14")
@pytest.mark.parametrize(("story", "kill"), [(story, kill) for story, kills in AT_ONCE.items() for kill in kills])
def test_on_sqlite_nobody_waits_for_what_a_dead_plane_held(
    story: str, kill: str, make_world: Callable[..., World]
) -> None:
    scenario = next(one for one in SCENARIOS if one.name == story)
    world = make_world("sqlite")
    steps = stage(scenario, world)
    assert world.run(steps, kill=kill)
    impatient = [[verb, 0.0] if verb == "settle" else [verb, *rest] for verb, *rest in steps]
    world.run(impatient, start=world.killed_in)
    assert set(outbox(world)) == {"succeeded"}
    assert slots(world) == [("queue", 0), ("shop", 0), ("shop", 1)]


@pytest.mark.req("PRO-6", "PRO-8", "AUT-10", "AUT-14")
@ON_BOTH
def test_what_may_still_land_is_neither_repeated_nor_called_a_failure(
    database: str, make_world: Callable[..., World]
) -> None:
    world = make_world(database)
    world.declare(SHOP, QUEUE)
    assert world.run([*PATIENT, ["arm"], ["lose", "shop", 1], *PATIENT], kill="call.before#1")
    for _ in range(3):  # however often it is started again
        world.run(IMPATIENT)
        assert outbox(world)[2:] in (["running"], ["recovery_pending"])
        assert slots(world) == [("queue", 0), ("shop", 0)]
    world.run(PATIENT)
    assert outbox(world)[2:] == ["failed", "succeeded"]
    assert audit(gather(world, {"shop": 2, "queue": 1})) == []


def killed_in_a_granted_restart(world: World, kill: str) -> int:
    """The plane dies in a restart that was granted; then the registry does not name the service any more, so that no
    observation can tell.  Returns the number of the action."""
    world.write("policy.yml", ASKING)
    world.declare(SHOP, QUEUE)
    start = [["settle"], ["grant"], ["settle"]]
    assert world.run([*start, ["arm"], ["lose", "shop", 1], ["settle"], ["grant"], ["settle"]], kill=kill)
    world.declare(QUEUE)
    assert outbox(world) == ["succeeded", "succeeded", "running"]
    newest: int = world.database.rows("SELECT max(seq) AS seq FROM outbox")[0]["seq"]
    return newest


def command(world: World, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of the product, while no plane runs."""
    process = world.command(*words)
    said, _ = process.communicate(timeout=60)
    return subprocess.CompletedProcess(words, process.returncode, said)


@pytest.mark.req("PRO-7", "PRO-11", "PRO-12", "AUT-10", "AUT-15")
@ON_BOTH_IN_FULL
def test_a_person_says_that_it_was_done(database: str, make_world: Callable[..., World]) -> None:
    world = make_world(database)
    action = killed_in_a_granted_restart(world, "call.after#1")
    world.run(PATIENT)
    assert outbox(world)[2] == "recovery_pending"
    assert approvals(world)[2] == "granted", "an approval whose action is open neither ends nor expires"
    listed = json.loads(command(world, "recover", "list", "--json").stdout)
    assert [item["id"] for item in listed["items"]] == [f"X-{action}"]
    told = command(world, "recover", "settle", f"X-{action}", "--as", "succeeded", "--reason", "I saw it run")
    assert told.returncode == 0, told.stdout
    again = command(world, "recover", "settle", f"X-{action}", "--as", "failed", "--reason", "or not")
    assert again.returncode == 1, again.stdout
    world.declare(SHOP, QUEUE)
    world.run(PATIENT)
    assert outbox(world) == ["succeeded", "succeeded", "succeeded"]
    assert audit(gather(world, {"shop": 2, "queue": 1}, persons=frozenset({action}))) == []


@pytest.mark.req("PRO-7", "PRO-11", "AUT-10", "AUT-15")
@ON_BOTH_IN_FULL
def test_a_person_says_that_it_was_not_done(database: str, make_world: Callable[..., World]) -> None:
    world = make_world(database)
    action = killed_in_a_granted_restart(world, "call.before#1")
    early = command(world, "recover", "settle", f"X-{action}", "--as", "failed", "--reason", "nothing runs")
    assert (early.returncode, outbox(world)[2]) == (1, "running"), early.stdout
    world.run([*PATIENT, ["say_failed", f"X-{action}"]])
    assert approvals(world) == ["closed", "closed", "closed"]
    world.declare(SHOP, QUEUE)
    world.run([["settle"], ["grant"], ["settle"]])
    assert outbox(world) == ["succeeded", "succeeded", "failed", "succeeded"]
    assert audit(gather(world, {"shop": 2, "queue": 1}, persons=frozenset({action}))) == []


@pytest.mark.req("PRO-7")
def test_a_person_cannot_call_a_failure_what_may_still_land(make_world: Callable[..., World]) -> None:
    world = make_world("sqlite", FLEET_FENCE_GAP_MAX_S="60", FLEET_LEASE_TTL_S="90")  # it may land for over a minute
    action = killed_in_a_granted_restart(world, "call.before#1")
    world.run([["mark"]])
    assert outbox(world)[2] == "recovery_pending"
    early = command(world, "recover", "settle", f"X-{action}", "--as", "failed", "--reason", "nothing runs")
    assert (early.returncode, outbox(world)[2]) == (1, "recovery_pending"), early.stdout
    assert "may still land" in early.stdout


@pytest.mark.req("POL-12", "PRO-1", "AUT-20")
@ON_BOTH
def test_a_freeze_names_what_is_in_flight_and_outlives_the_plane(
    database: str, make_world: Callable[..., World]
) -> None:
    world = make_world(database)
    world.declare(SHOP, QUEUE)
    frozen: Steps = [["lose", "shop", 1], ["at", "call.before", "freeze"], *PATIENT]
    assert world.run([*PATIENT, ["arm"], *frozen], kill="call.after#1")
    [row] = world.database.rows("SELECT seq FROM outbox WHERE state = 'running'")
    assert json.loads((world.folder / "in_flight.json").read_text(encoding="utf-8")) == [f"X-{row['seq']}"]
    later: Steps = [*PATIENT, ["lose", "queue", 0], ["settle", 60.0]]
    world.run(later)
    assert outbox(world) == ["succeeded", "succeeded", "succeeded"], "what was in flight is settled, nothing is begun"
    assert slots(world) == [("shop", 0), ("shop", 1)]
    world.run([["thaw"], *PATIENT])
    assert audit(gather(world, {"shop": 2, "queue": 1})) == []


@pytest.mark.req("POL-6", "POL-21")
@ON_BOTH
def test_an_authorisation_that_lapsed_while_no_plane_ran_gives_its_slot_back(
    database: str, make_world: Callable[..., World]
) -> None:
    """The budget has one slot; the repair that took it was never begun."""
    world = make_world(database)
    world.write("policy.yml", AUTO.replace("max: 3", "max: 1"))
    world.declare(SHOP, QUEUE)
    assert world.run([*PATIENT, ["arm"], ["lose", "shop", 1], *PATIENT], kill="admit.after#1")
    assert outbox(world)[2] == "prepared"
    world.run([["advance", 200], *PATIENT])
    assert outbox(world)[2:] == ["abandoned", "succeeded"]
    assert audit(gather(world, {"shop": 2, "queue": 1}, rate_max=1)) == []


@pytest.mark.req("AUT-20", "POL-6")
@pytest.mark.parametrize("kill", ["commit_1.before#1", "call.after#1", "commit_2.after#1"])
def test_a_clock_that_was_set_back_while_no_plane_ran_opens_nothing(
    kill: str, make_world: Callable[..., World]
) -> None:
    """SQLite has no clock of its own: its time is never less than what the ledger has seen."""
    world = make_world("sqlite")
    world.write("policy.yml", AUTO.replace("max: 3", "max: 1"))
    world.declare(SHOP, QUEUE)
    assert world.run([["advance", 7200], *PATIENT, ["arm"], ["lose", "shop", 1], *PATIENT], kill=kill)
    world.set_clock(0.0)
    world.run(IMPATIENT)
    assert outbox(world) == ["succeeded"] * 3
    assert audit(gather(world, {"shop": 2, "queue": 1}, rate_max=1)) == []
    world.run([["lose", "shop", 0], *IMPATIENT])
    assert slots(world) == [("queue", 0), ("shop", 1)], "the only slot of the budget was used"
