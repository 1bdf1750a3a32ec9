"""A fleet of sleeping processes under one real plane, on either database, that is killed and started again."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.acceptance.cli.world import Running, World
from tests.acceptance.crash.databases import PostgresqlDatabase, SqliteDatabase
from tests.prometheus import free_port

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = """\
FLEET_RECONCILER=true
FLEET_RECONCILER_INTERVAL={interval}
FLEET_RECONCILER_MAX_ACTIONS=100
FLEET_CONFIG_POLL_S=0.3
FLEET_ACTUATOR=process
FLEET_DATA_DIR=data
FLEET_HTTP_PORT={port}
FLEET_STORE_URL={store}
"""
Database = SqliteDatabase | PostgresqlDatabase


class Stormy:
    """The world, and the commands that drive its plane."""

    def __init__(self, world: World, database: Database, *, interval_s: float = 0.5) -> None:
        self.world, self.database = world, database
        self.port = free_port()
        self.world.env["PYTHONPATH"] = str(ROOT)
        self.write(".env", SETTINGS.format(interval=interval_s, port=self.port, store=database.url))

    def write(self, name: str, text: str) -> None:
        self.world.write(name, text)

    def declare(self, names: Sequence[str]) -> None:
        """Services that sleep."""
        services = [{"name": one, "process": {"command": ["sleep", "1000"], "stop_grace_s": 1}} for one in names]
        self.write("fleet.yml", json.dumps({"version": 1, "services": services}))

    def up(self, *, until: str = "Console ", **env: str) -> Running:
        return self.world.start([sys.executable, "-m", "tests.acceptance.storm.launcher", "up"], until=until, **env)

    @property
    def token(self) -> str:
        """The admin's, who may send events, too."""
        return (self.world.data / "admin.token").read_text(encoding="utf-8").strip()

    def kill(self) -> None:
        """SIGKILL to the plane."""
        plane = self.world.planes[-1].process
        plane.kill()
        plane.wait()

    def fell(self, names: Sequence[str]) -> None:
        """SIGKILL to every process of these services."""
        for name in names:
            for pid in self.world.pids(name):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """What stands in the ledger, by a plain driver."""
        return self.database.rows(sql)

    def events(self) -> dict[str, dict[str, Any]]:
        """What was kept, by fingerprint.  No fingerprint twice."""
        found = self.rows("SELECT seq, body, repeats, service, repeat_of FROM events")
        by = {json.loads(one["body"])["fingerprint"]: one for one in found}
        assert len(by) == len(found)
        return by
