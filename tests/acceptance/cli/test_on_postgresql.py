"""The same at a terminal where the store is a server: the data folder's own lock says which plane answers for it."""

from __future__ import annotations

import signal

import pytest

from tests.acceptance.cli.world import SETTINGS, World
from tests.postgresql import Cluster


@pytest.mark.req("RUN-1", "RUN-5")
@pytest.mark.needs("postgresql")
def test_commands_find_the_plane_and_the_store_of_a_data_folder(world: World, postgresql: Cluster) -> None:
    url = postgresql.url(postgresql.empty_database())
    world.write(".env", f"{SETTINGS}FLEET_STORE_URL={url}\n")
    plane = world.up(until="Try:")
    assert "PostgreSQL  ·  acting on: process" in plane.text
    assert world.run("status").lines[0].startswith("2 services · 2 up")
    second = world.up(until="Try:")
    assert f"! another plane answers for this data folder; this one: --url {second.url}" in second.text
    assert world.run("status", "--url", second.url, FLEET_TOKEN=plane.token).code == 0
    assert second.ends(signal.SIGTERM) == 0

    assert world.run("down").code == 0
    assert plane.process.wait(30) == 0
    assert world.run("status").code == 1
    assert len(world.json("decisions")["items"]) == 2  # from the store itself
    assert world.run("freeze", "on", "--reason", "lunch").code == 0
    frozen = world.up(until="Try:")
    assert "! frozen: nothing acts" in frozen.text
    assert world.run("down", "--services").code == 1
    assert world.run("freeze", "off").code == 0
    assert world.run("down", "--services").lines[-1] == "the plane has ended"
    assert world.pids("web") == []
