"""The examples as they are shipped, on other ports: what their pages promise happens."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli.world import PATIENCE_S, World, eventually

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
NEXT = 'version: "1.1"\n    process:\n      command: [python3, web.py'


def free_port(*, also: int = 0) -> int:
    """A free port on loopback whose neighbours up to `also` are free as well."""
    for first in range(21_000 + os.getpid() * 7 % 8_000, 31_000, also + 1):
        with_neighbours = [socket.socket() for _ in range(also + 1)]
        try:
            for offset, one in enumerate(with_neighbours):
                one.bind(("127.0.0.1", first + offset))
        except OSError:
            continue
        else:
            return first
        finally:
            for one in with_neighbours:
                one.close()
    raise AssertionError("no free ports")


def bring(world: World, example: str) -> dict[str, int]:
    """Copy an example into the world's folder and move its ports; returns the first port by its old number."""
    shutil.rmtree(world.config)
    shutil.copytree(EXAMPLES / example, world.config, ignore=shutil.ignore_patterns("data", "__pycache__"))
    settings = (world.config / ".env").read_text()
    settings = re.sub(r"^FLEET_(DATA_DIR|HTTP_PORT)=.*\n", "", settings, flags=re.MULTILINE)
    registry = (world.config / "fleet.yml").read_text()
    ports = re.findall(r"port: (\d+)", registry)
    first = free_port(also=4 * len(ports))
    moved = {old: first + index * 4 for index, old in enumerate(ports)}
    for old, new in moved.items():
        registry = registry.replace(f"port: {old}", f"port: {new}")
    world.write("fleet.yml", registry)
    world.write(".env", settings + "FLEET_DATA_DIR=data\nFLEET_HTTP_PORT=0\n")
    return moved


def hurried(world: World) -> None:
    """One wave of load, and no long pause after a change."""
    registry = (world.config / "fleet.yml").read_text()
    assert "cooldown_s: 20" in registry
    assert '"800", --every, "120"' in registry
    world.write("fleet.yml", registry.replace("cooldown_s: 20", "cooldown_s: 2").replace('"120"', '"600"'))


def follows_its_queue(world: World) -> None:
    """The worker's count goes up with the wave, and down to one again."""
    eventually(lambda: world.ask("/services/worker")["ready"] > 1)
    told = world.run("explain", "worker").out
    assert "jobs in all (target 50 a replica" in told
    assert "count from its last scaling" in told
    eventually(lambda: len(world.pids("worker")) == 1 and world.ask("/services/worker")["status"] == "up")
    counts = [(one["observed"], one["desired"]) for one in world.ask("/intents")["items"]]  # newest first
    assert counts[-1][0] == 1
    assert 1 < max(desired for _, desired in counts) <= 4
    assert counts[0][1] == 1
    [own] = [one for one in world.ask("/tokens")["items"] if one["name"] == "quickstart-load"]
    assert own["roles"] == ["ingest"]


@pytest.mark.req("RUN-1", "RUN-5", "REC-3", "ACT-3", "AUT-2", "ASC-12", "SIG-8")
def test_the_quickstart_starts_from_nothing_repairs_a_killed_replica_and_follows_its_load(world: World) -> None:
    ports = bring(world, "01-quickstart")
    hurried(world)
    assert world.run("policy", "check").code == 0
    world.up(until="Try:")
    eventually(lambda: world.ask("/status")["services_by_status"]["up"] == 4)
    with urllib.request.urlopen(f"http://127.0.0.1:{ports['9100']}/jobs?n=3", timeout=10) as answer:
        assert b'"queued": 3' in answer.read()
    before = world.pids("web")
    assert len(before) == 2
    os.kill(int(world.run("status", "web", "--pid", "0").out), signal.SIGKILL)
    eventually(lambda: len(set(world.pids("web")) - set(before)) == 1)
    eventually(lambda: world.ask("/status")["services_by_status"]["up"] == 4)
    restarts = [one for one in world.ask("/executions")["items"] if one["kind"] == "restart_service"]
    assert len(restarts) == 1
    told = world.run("explain", "web").out
    assert "policy.yml:6" in told
    assert "of 20 used" in told
    assert "SIGKILL" in told
    follows_its_queue(world)
    eventually(lambda: not list((world.config / "data" / "queue").glob("*.json")))
    down = world.run("down", "--services")
    assert down.code == 0
    assert [world.pids(name) for name in ("web", "worker", "load", "clumsy")] == [[], [], [], []]


def deploys(world: World) -> list[dict[str, Any]]:
    """Deploys that ended well."""
    return [one for one in world.ask("/executions")["items"] if one["kind"] == "deploy_service" and one["ok"]]


@pytest.mark.req("REC-3", "ACT-1", "ACT-3", "ACT-6")
def test_the_quickstart_deploys_its_second_version_once_granted_and_rolls_back(world: World) -> None:
    ports = bring(world, "01-quickstart")
    world.up(until="Try:")
    eventually(lambda: world.ask("/status")["services_by_status"]["up"] == 4)
    before = world.pids("web")
    registry = (world.config / "fleet.yml").read_text()
    world.write("fleet.yml", registry.replace('version: "1.0"\n    process:\n      command: [python3, web.py', NEXT, 1))
    eventually(lambda: world.ask("/approvals?status=pending")["items"])
    [asked] = world.ask("/approvals?status=pending")["items"]
    assert (asked["kind"], asked["params"]) == ("deploy_service", {"version": "1.1"})
    assert world.pids("web") == before
    assert world.run("approvals", "grant", asked["short_id"], "--reason", "go").code == 0
    eventually(lambda: world.ask("/services/web/versions")["running"] == ["1.1"])
    with urllib.request.urlopen(f"http://127.0.0.1:{ports['9100']}/", timeout=10) as answer:
        assert b'"version": "1.1"' in answer.read()
    assert not set(world.pids("web")) & set(before)
    eventually(lambda: deploys(world))
    [done] = deploys(world)
    told = world.run("executions", "show", done["id"]).out
    assert "web 1.0 #1 listens on" in told
    rolled = world.run("action", "propose", "rollback", "web", "--version", "1.0", "--reason", "no", "--wait")
    assert rolled.code == 0, rolled
    eventually(lambda: world.ask("/services/web/versions")["running"] == ["1.0"])
    eventually(lambda: "was rolled back to 1.0" in world.ask("/services/web")["reason"])
    told = world.run("versions", "web").out
    assert "web: version 1.1 is declared, running: 1.0" in told
    assert "was rolled back to 1.0" in told
    assert world.run("down", "--services").code == 0


@pytest.mark.req("RUN-1", "RUN-5", "RUN-15")
def test_make_up_runs_it_and_what_it_prints_works_as_pasted_into_another_terminal(world: World) -> None:
    bring(world, "01-quickstart")
    ours = Path(sys.executable).parent
    world.env["PATH"] = os.pathsep.join(one for one in world.env["PATH"].split(os.pathsep) if Path(one) != ours)
    world.env = {name: value for name, value in world.env.items() if not name.startswith("MAKE")}
    make = ["make", "--no-print-directory", "-C", str(ROOT), f"CONFIG={world.config}"]
    plane = world.start([*make, "up"], until="by which rule")
    kill, *others = plane.tries()
    assert len(others) == 4
    before = world.pids("web")
    assert world.shell(f"cd {ROOT} && {kill}").code == 0
    eventually(lambda: len(set(world.pids("web")) - set(before)) == 1)
    for typed in others:
        ran = world.shell(f"cd {ROOT} && {typed}")
        assert ran.code == 0, ran
    frozen = others[1]
    assert "freeze on" in frozen
    assert world.shell(f"cd {ROOT} && {frozen.partition(' on ')[0]} off").code == 0
    down = world.shell(shlex.join([*make, "down"]))
    assert down.code == 0, down
    assert plane.process.wait(PATIENCE_S) == 0
    assert [world.pids(name) for name in ("web", "worker", "load", "clumsy")] == [[], [], [], []]


@pytest.mark.req("POL-4", "POL-7", "POL-8")
def test_the_approvals_example_asks_once_and_restarts_once(world: World) -> None:
    bring(world, "02-approvals")
    world.up(until="Try:")
    assert world.run("approvals", "grant", "A-1", "--reason", "first start").code == 0
    eventually(lambda: world.ask("/services/hello")["status"] == "up")
    os.kill(int(world.run("status", "hello", "--pid", "0").out), signal.SIGKILL)
    eventually(lambda: world.ask("/approvals?status=pending")["items"])
    [asked] = world.ask("/approvals?status=pending")["items"]
    assert world.run("approvals", "grant", asked["short_id"]).code == 0
    eventually(lambda: world.ask("/services/hello")["status"] == "up")
    assert world.run("approvals", "grant", asked["short_id"]).code == 1
    done = [one for one in world.ask("/executions")["items"] if one["state"] == "executed"]
    assert [one["kind"] for one in done] == ["restart_service", "start_service"]
