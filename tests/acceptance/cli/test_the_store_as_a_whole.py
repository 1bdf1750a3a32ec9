"""Backup, restore and move at a terminal, with real planes and processes: nothing is lost and nothing happens twice."""

from __future__ import annotations

import os
import signal

import pytest

from tests.acceptance.cli.world import SETTINGS, World, eventually
from tests.postgresql import Cluster


def ended(world: World, pid: int) -> bool:
    return pid not in world.pids("web")


@pytest.mark.req("RUN-13")
def test_a_restored_plane_touches_nothing_until_an_admin_releases_it(world: World) -> None:
    plane = world.up(until="Try:")
    eventually(lambda: len(world.pids("web")) == 2)
    assert world.run("db", "backup", "one.backup").code == 0  # while it runs
    refused = world.run("db", "restore", "one.backup", "--replace")
    assert refused.code == 2
    assert "is in use by process" in refused.err

    os.kill(world.pids("web")[0], signal.SIGKILL)  # repaired after the backup: the backup knows nothing of it
    eventually(lambda: len(world.pids("web")) == 2 and len(world.ask("/executions")["items"]) == 3)
    lost = {one["id"] for one in world.ask("/actions")["items"]}
    assert plane.ends(signal.SIGTERM) == 0
    before = world.pids("web"), world.pids("worker")

    not_empty = world.run("db", "restore", "one.backup")
    assert not_empty.code == 1
    assert "--replace" in not_empty.err
    restored = world.run("db", "restore", "one.backup", "--replace")
    assert restored.code == 0, restored
    assert "the store is frozen" in restored.out

    world.up(until="Try:")
    assert "frozen" in world.run("status").out
    victim = world.pids("web")[0]
    os.kill(victim, signal.SIGKILL)
    passes = world.ask("/status")["controllers"]["fleet_reconciler"]["passes"]
    eventually(lambda: world.ask("/status")["controllers"]["fleet_reconciler"]["passes"] > passes + 3)
    world.run("freeze", "off", "--reason", "in a hurry")
    still = world.json("freeze", "status")
    assert [one["owner"] for one in still["freezes"]] == ["restore"]
    assert ended(world, victim)
    assert len(world.pids("web")) == 1
    assert world.pids("worker") == before[1]

    released = world.run("db", "release", "--reason", "looked at every host")
    assert released.code == 0, released
    eventually(lambda: len(world.pids("web")) == 2)
    fresh = {one["id"] for one in world.ask("/actions")["items"]} - lost
    assert len(fresh) == 1  # one repair, under a number that the lost part never used
    assert world.pids("worker") == before[1]
    assert world.run("db", "release", "--reason", "again").code == 1
    assert world.run("ledger", "verify").code == 0  # the chain goes on over the restore


@pytest.mark.req("RUN-13")
@pytest.mark.needs("postgresql")
def test_a_plane_moves_to_postgresql_and_repeats_nothing(world: World, postgresql: Cluster) -> None:
    url = postgresql.url(postgresql.empty_database())
    plane = world.up(until="Try:")
    eventually(lambda: len(world.pids("web")) == 2 and len(world.pids("worker")) == 1)
    assert world.run("db", "copy", "--to", url).code == 2  # a plane holds it
    assert plane.ends(signal.SIGTERM) == 0
    before, executions = world.pids("web") + world.pids("worker"), world.json("executions")["items"]

    (world.folder / "to").write_text(f"{url}\n")
    copied = world.json("db", "copy", "--to", "@to")
    assert copied["tables"]["executions"]["rows"] == len(executions)
    old = world.run("status")
    assert old.code != 0
    refused = world.run("up")
    assert refused.code == 2
    assert "was copied to PostgreSQL" in refused.err

    world.write(".env", f"{SETTINGS}FLEET_STORE_URL={url}\n")
    world.up(until="Try:")
    eventually(lambda: world.ask("/status")["controllers"]["fleet_reconciler"]["passes"] > 3)
    assert world.pids("web") + world.pids("worker") == before
    assert [one["id"] for one in world.ask("/executions")["items"]] == [one["id"] for one in executions]
    assert world.ask("/status")["freezes"] == []
    eventually(lambda: world.ask("/status")["controllers"]["ledger_sealer"]["passes"] > 3)
    assert world.run("ledger", "verify").code == 0  # what was sealed on the old store, and what is on the new one
    assert world.run("db", "backup", "server.backup").code == 0
    assert world.run("db", "migrate", "--check").code == 0
