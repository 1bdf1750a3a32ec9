"""One person and two teams, configured from the pages alone, at a terminal against a real plane."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.acceptance.cli.test_examples import bring
from tests.acceptance.cli.world import Ran, World, eventually

ROOT = Path(__file__).resolve().parents[3]


def configure(world: World, page: str) -> None:
    """Write the files that a how-to page shows: indented blocks that begin with the file's name in a comment."""
    text = (ROOT / "docs" / "how-to" / page).read_text(encoding="utf-8")
    found = re.findall(r"^( +)# (\S+)\n((?:\1.*\n)+)", text, re.MULTILINE)
    files = {name: "".join(line[len(indent) :] for line in body.splitlines(True)) for indent, name, body in found}
    assert {"fleet.yml", "policy.yml"} <= set(files), page
    if ".env" in files:  # as the page says it, but where this world looks for its data
        kept = re.sub(r"^FLEET_DATA_DIR=.*\n", "", files[".env"], flags=re.MULTILINE)
        files[".env"] = f"{kept}FLEET_DATA_DIR=data\nFLEET_HTTP_PORT=0\n"
    for name, body in files.items():
        world.write(name, body)


def tokens(world: World, text: str) -> dict[str, str]:
    """Make every token that a page makes; secrets by name."""
    made = {}
    for line in re.findall(r"^ +fleetwarden (token create .*)$", text, re.MULTILINE):
        words = line.split()
        made[words[2]] = str(world.json(*words)["secret"])
    return made


def as_(world: World, secret: str, *words: str) -> Ran:
    return world.run(*words, FLEET_TOKEN=secret)


@pytest.mark.req("POL-18", "RUN-5", "POL-11")
def test_one_person_runs_a_fleet_from_the_page_alone(world: World) -> None:
    configure(world, "one-person-fleet.md")
    assert world.run("policy", "check").code == 0
    world.up()
    eventually(lambda: world.ask("/services/hello")["status"] == "up")
    assert "approve their own requests" in world.run("status").out
    [before] = world.pids("hello")
    asked = world.run("action", "propose", "stop", "hello", "--reason", "maintenance")
    assert (asked.code, "waits for approval" in asked.out, "A-1" in asked.out) == (0, True, True)
    assert world.run("approvals", "grant", "A-1").code == 0
    eventually(lambda: world.pids("hello") == [])
    eventually(lambda: "override" in world.ask("/services/hello")["desired"]["source"])
    passes = world.ask("/status")["controllers"]["fleet_reconciler"]["passes"]
    eventually(lambda: world.ask("/status")["controllers"]["fleet_reconciler"]["passes"] > passes + 3)
    assert world.pids("hello") == [], before


@pytest.mark.req("POL-18", "POL-7", "POL-12", "RUN-14")
def test_two_teams_each_answer_for_their_own(world: World) -> None:
    bring(world, "03-two-teams")
    readme = (ROOT / "examples" / "03-two-teams" / "README.md").read_text(encoding="utf-8")
    assert world.run("policy", "check").code == 0
    world.up()
    people = tokens(world, readme)
    assert set(people) == {"wendy", "wim", "dora", "dirk", "dan"}
    eventually(lambda: world.ask("/status")["services_by_status"]["up"] == 2)

    asked = as_(world, people["wendy"], "action", "propose", "stop", "shop", "--reason", "new shelves")
    assert (asked.code, "A-1" in asked.out) == (0, True), asked
    assert "needs 1 of team web" in world.run("approvals", "list").out
    refused = as_(world, people["dora"], "approvals", "grant", "A-1")
    assert (refused.code, "group front" in refused.err) == (1, True), refused
    own = as_(world, people["wendy"], "approvals", "grant", "A-1")
    assert (own.code, "cannot approve it" in own.err) == (1, True), own
    assert len(world.pids("shop")) == 2
    assert as_(world, people["wim"], "approvals", "grant", "A-1").code == 0
    eventually(lambda: world.pids("shop") == [])

    asked = as_(world, people["dora"], "action", "propose", "restart", "db", "--reason", "new settings")
    assert asked.code == 0, asked
    [db] = world.pids("db")
    first = as_(world, people["dirk"], "approvals", "grant", "A-2")
    assert (first.code, "1 of 2 needed have granted A-2" in first.out) == (0, True), first
    twice = as_(world, people["dirk"], "approvals", "grant", "A-2")
    assert (twice.code, "dirk has answered A-2 already" in twice.err) == (1, True), twice
    assert world.pids("db") == [db]
    assert as_(world, people["dan"], "approvals", "grant", "A-2").code == 0
    eventually(lambda: world.pids("db") not in ([], [db]))
    again = as_(world, people["dan"], "approvals", "grant", "A-2")
    assert again.code == 1, again

    denied = world.run("action", "propose", "scale", "db", "--replicas", "2", "--reason", "more")
    assert (denied.code, "forbidden" in denied.out) == (1, True), denied
    frozen = as_(world, people["wendy"], "freeze", "on", "--group", "front", "--reason", "sale", "--for", "2h")
    assert (frozen.code, "group front" in frozen.out) == (0, True), frozen
    assert as_(world, people["wendy"], "freeze", "on", "--group", "data").code == 1
    assert "group front" in world.run("freeze", "status").out
    held = world.run("action", "propose", "restart", "shop", "--reason", "x")
    assert (held.code, "frozen by wendy (group front): sale" in held.out) == (1, True), held
    assert as_(world, people["wendy"], "freeze", "off", "--group", "front").code == 0


@pytest.mark.req("POL-18", "RUN-14")
def test_the_page_about_two_teams_configures_them(world: World) -> None:
    configure(world, "two-teams.md")
    assert world.run("policy", "check").code == 0
    world.up()
    text = (ROOT / "docs" / "how-to" / "two-teams.md").read_text(encoding="utf-8")
    people = tokens(world, text)
    eventually(lambda: world.ask("/status")["services_by_status"]["up"] == 2)
    assert as_(world, people["wendy"], "action", "propose", "restart", "db", "--reason", "x").code == 1
    asked = as_(world, people["dora"], "action", "propose", "restart", "db", "--reason", "x")
    assert "A-1" in asked.out, asked
    assert "needs 2 of team dba" in world.run("approvals", "show", "A-1").out


@pytest.mark.req("RUN-5", "POL-11")
def test_waiting_ends_with_the_outcome_and_a_repeated_key_changes_nothing(world: World) -> None:
    world.up()
    eventually(lambda: world.ask("/status")["services_by_status"]["up"] == 2)
    words = ("action", "propose", "restart_service", "worker", "--reason", "stuck", "--wait", "--key", "k-1")
    [before] = world.pids("worker")
    done = world.run(*words)
    assert (done.code, "succeeded" in done.out or "done" in done.out) == (0, True), done
    after = world.pids("worker")
    assert after not in ([], [before])
    assert world.run(*words).code == 0
    assert world.pids("worker") == after
    assert world.run("action", "propose", "restart", "worker", "--reason", "other", "--key", "k-1").code == 1
    wrong = world.run("action", "propose", "merge", "worker", "--reason", "x")
    assert (wrong.code, "restart_service" in wrong.err) == (2, True), wrong
