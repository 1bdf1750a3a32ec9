"""A version that comes up and falls over, under the real program: seen by its watch, taken back, and kept away."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.cli.world import World, eventually

REGISTRY = """\
version: 1
services:
  - name: web
    replicas: 2
    version: "{version}"
    process:
      command: [sleep, "1000"]
      stop_grace_s: 2
      versions:
        "1.0": {{}}
        "2.0": {{command: [sh, -c, "until test -e {trigger}; do sleep 0.1; done; exit 3"]}}
        "3.0": {{command: ["false"]}}
    watch: {{window_s: {window}, poll_s: 1, grace_s: 1}}
  - name: worker
    process: {{command: [sleep, "1000"], stop_grace_s: 2}}
"""
ROLLBACK_ASKS = """\
version: 1
rules:
  - {kind: rollback_service, target: "*", tier: approval_required}
  - {kind: "*_service", target: "*", tier: auto, rate_limit: {max: 20, window_s: 3600},
     blast_radius: {max_targets: 10, window_s: 3600}}
"""


class Broken:
    """`web` in version 1.0, and a version 2.0 that runs until a file says that it ends."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.trigger = world.folder / "trigger"
        self.window_s = 8
        self.declare("1.0")

    def declare(self, version: str) -> None:
        text = REGISTRY.format(version=version, trigger=self.trigger, window=self.window_s)
        self.world.write("fleet.yml", text)

    def watches(self) -> list[dict[str, Any]]:
        """Those of `web`, newest first."""
        return [one for one in self.world.ask("/watches")["items"] if one["service"] == "web"]

    def verified(self) -> None:
        """1.0 is deployed, watched to its end, and found well."""
        self.world.up()
        eventually(lambda: any(one["status"] == "success" for one in self.watches()))

    def breaks(self) -> None:
        """2.0 is declared, comes up everywhere, and falls over."""
        self.declare("2.0")
        eventually(lambda: any(one["version"] == "2.0" for one in self.watches()))
        self.trigger.touch()
        eventually(lambda: any(one["status"] == "failed" for one in self.watches()))

    def running(self) -> list[str]:
        """The versions of `web` that run, as the plane sees them."""
        found: list[str] = self.world.ask("/services/web/versions")["running"]
        return found

    def asked(self, kind: str) -> list[dict[str, Any]]:
        """Decisions of one kind about `web`."""
        found: list[dict[str, Any]] = self.world.ask("/decisions?target=web&limit=200")["items"]
        return [one for one in found if one["kind"] == kind]


@pytest.fixture
def broken(world: World) -> Broken:
    return Broken(world)


@pytest.mark.req("DWH-2", "DWH-6", "REC-6")
def test_a_broken_version_goes_back_to_the_verified_one_and_stays_away(broken: Broken, world: World) -> None:
    broken.verified()
    others = world.pids("worker")
    broken.breaks()
    eventually(lambda: broken.running() == ["1.0"] and len(world.pids("web")) == 2)
    shown = world.run("quarantine", "list")
    assert (shown.code, "web" in shown.out, "2.0" in shown.out) == (0, True, True), shown
    eventually(lambda: broken.watches()[0]["status"] == "success")
    assert (broken.running(), world.pids("worker")) == (["1.0"], others)
    assert (len(broken.asked("deploy_service")), len(broken.asked("rollback_service"))) == (1, 1)
    assert "quarantine" in world.run("explain", "web").out


@pytest.mark.req("DWH-2", "DWH-7")
def test_a_version_that_never_comes_up_stops_at_its_first_replica_and_goes_back(broken: Broken, world: World) -> None:
    broken.verified()
    kept = world.pids("web")
    broken.declare("3.0")
    eventually(lambda: broken.asked("rollback_service"))
    eventually(lambda: broken.running() == ["1.0"] and len(world.pids("web")) == 2)
    assert len(set(kept) & set(world.pids("web"))) == 1
    assert "web 3.0" in world.run("quarantine", "list").out
    assert (len(broken.asked("deploy_service")), len(broken.asked("rollback_service"))) == (1, 1)


@pytest.mark.req("DWH-2", "DWH-6", "REC-12")
def test_a_rollback_that_policy_asks_about_waits_and_people_are_told(broken: Broken, world: World) -> None:
    world.write("policy.yml", ROLLBACK_ASKS)
    broken.verified()
    broken.breaks()
    eventually(lambda: broken.asked("rollback_service"))
    [waiting] = [one for one in world.json("approvals", "list")["items"] if one["kind"] == "rollback_service"]
    assert (waiting["status"], "1.0" not in broken.running()) == ("pending", True)
    eventually(lambda: f"rollback of web to 1.0 waits for approval {waiting['short_id']}" in world.run("journal").out)
    granted = world.run("approvals", "grant", waiting["short_id"], "--reason", "looked")
    assert granted.code == 0, granted
    eventually(lambda: broken.running() == ["1.0"] and len(world.pids("web")) == 2)
    done = [one for one in world.ask("/actions?target=web&limit=200")["items"] if one["kind"] == "rollback_service"]
    assert [one["approval_id"] for one in done] == [waiting["short_id"]]


@pytest.mark.req("DWH-2", "DWH-6")
def test_without_a_verified_version_nothing_is_rolled_back_and_people_are_told(broken: Broken, world: World) -> None:
    broken.window_s = 300  # 2.0 comes before anybody could say that 1.0 is good
    broken.declare("1.0")
    world.up()
    eventually(lambda: broken.running() == ["1.0"])
    broken.breaks()
    eventually(
        lambda: "no other version of web was verified" in world.run("journal", "list").out, world.run("journal", "list")
    )
    assert broken.asked("rollback_service") == []


@pytest.mark.req("DWH-5", "RUN-5")
def test_a_person_who_names_no_version_goes_back_to_the_verified_one_and_no_further(
    broken: Broken, world: World
) -> None:
    broken.verified()
    nowhere = world.run("action", "propose", "rollback", "web", "--reason", "orders fail")
    assert nowhere.code == 1
    assert "nothing was proposed: no other version of web was verified healthy here" in nowhere.err
    assert "fleetwarden versions web lists them" in nowhere.err
    broken.declare("2.0")
    eventually(lambda: any((one["version"], one["status"]) == ("2.0", "running") for one in broken.watches()))
    propose = ("action", "propose", "rollback", "web", "--reason", "orders fail", "--key", "once")
    asked = world.run(*propose, "--wait")
    assert asked.code == 0, asked
    assert broken.running() == ["1.0"]
    [decided] = broken.asked("rollback_service")
    assert decided["params"] == {"version": "1.0"}
    assert world.run(*propose).code == 0  # the same request, answered as before
    further = world.run("action", "propose", "rollback", "web", "--reason", "still")
    assert (further.code, "a rollback is not rolled back" in further.err) == (1, True), further
    assert broken.asked("rollback_service") == [decided]
