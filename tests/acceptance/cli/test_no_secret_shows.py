"""Canaries: secrets that a plane was given stand in no log, ledger, answer, page, screen, backup or child."""

from __future__ import annotations

import signal
import sqlite3
import urllib.request
from pathlib import Path

import pytest

from tests.acceptance.cli.world import SETTINGS, World, eventually
from tests.postgresql import Cluster

ADMIN = "canary-admin-0123456789"
SECOND = "canary-second-0123456789"
PASSWORD = "canary-password-0123456789"
CANARIES = (ADMIN, SECOND, PASSWORD)


def answer(url: str, path: str, token: str) -> str:
    asked = urllib.request.Request(f"{url}{path}", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=60) as body:
        return str(body.read().decode())


@pytest.mark.req("RUN-14")
@pytest.mark.needs("postgresql")
def test_a_canary_shows_nowhere(world: World, postgresql: Cluster) -> None:
    url = postgresql.url(postgresql.empty_database()).replace("postgres@", f"postgres:{PASSWORD}@")
    secrets = world.folder / "secrets"
    secrets.mkdir()
    (secrets / "store").write_text(f"{url}\n")
    (secrets / "admin").write_text(f"{ADMIN}\n")
    world.write(".env", f"{SETTINGS}FLEET_STORE_URL_FILE=../secrets/store\nFLEET_ADMIN_TOKEN_FILE=../secrets/admin\n")
    plane = world.up(until="Try:")
    shown = [plane.text, world.run("status").out, world.run("doctor").out, world.run("doctor", "--json").out]
    (secrets / "admin").write_text(f"{SECOND}\n")  # exchanged while it runs
    eventually(lambda: world.run("status").code == 0)
    topics = ("journal", "decisions", "executions", "actions", "tokens", "status", "policy", "doctor", "reports")
    shown += [answer(plane.url, path, SECOND) for path in ("/readyz", "/", *(f"/api/fleet/{one}" for one in topics))]
    refused = world.run("status", "--token", f"{ADMIN}x")
    shown += [refused.out, refused.err]
    environments = [Path(f"/proc/{pid}/environ").read_bytes().decode() for pid in world.pids("web")]
    assert len(environments) == 2
    assert world.run("db", "backup", "fleet.backup").code == 0
    postgresql_gone = world.run("db", "copy", "--to", f"postgresql://x:{PASSWORD}@127.0.0.1:1/none")
    shown += [postgresql_gone.out, postgresql_gone.err]
    assert plane.ends(signal.SIGTERM) == 0
    shown += [plane.text, *environments]

    files = [path for path in world.folder.rglob("*") if path.is_file() and secrets not in path.parents]
    assert world.folder / "fleet.backup" in files
    assert any(path.name == "plane.log" for path in files)
    for canary in CANARIES:
        for text in shown:
            assert canary not in text
        for path in files:
            assert canary.encode() not in path.read_bytes(), path
    with sqlite3.connect(world.folder / "fleet.backup") as connection:
        dumped = "\n".join(connection.iterdump())
    connection.close()
    assert not [canary for canary in CANARIES if canary in dumped]
    assert "token" in dumped
