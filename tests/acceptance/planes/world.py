"""A fleet on two hosts: real `fleetwarden up` processes over one PostgreSQL, each host with a data folder of its own.

A host here is a name and a folder; what runs on it inherits its folder's marker, so that the kernel says on which host
a process is.  The database is asked directly what was decided, fenced and done.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg

from tests.acceptance.cli.world import PATIENCE_S, Running, World

TOKEN = "fw_the-token-of-both-hosts-0123456789"
LEASE_S = 3.0
SLEEPS = '{command: [sleep, "1000"], stop_grace_s: 2}'
STUBBORN = """{command: [sh, -c, "trap '' TERM; exec sleep 1000"], stop_grace_s: 4}"""
REGISTRY = f"""\
version: 1
services:
  - {{name: web, replicas: 2, process: {SLEEPS}}}
  - {{name: far, process: {SLEEPS.replace("{", "{host: h2, ", 1)}}}
"""
POLICY = """\
version: 1
rules:
  - {kind: "*_service", target: "*", tier: auto, rate_limit: {max: 50, window_s: 3600},
     blast_radius: {max_targets: 10, window_s: 3600}}
"""


class Host:
    """One host: its data folder, its planes, its processes.  The configuration is the same, at the same path."""

    def __init__(self, name: str, folder: Path, configuration: Path, within: Sequence[str] = ()) -> None:
        self.name = name
        self._within = list(within)
        folder.mkdir()
        self.data = folder / "data"
        self.world = World(folder)
        self.world.env |= {"FLEET_CONFIG": str(configuration), "FLEET_DATA_DIR": str(self.data), "FLEET_HOST": name}

    def up(self, until: str = "Try:") -> Running:
        return self.world.start([*self._within, "fleetwarden", "up"], until=until)

    def pids(self, service: str) -> list[int]:
        return self.world.pids(service)

    def plane(self) -> Running:
        return self.world.planes[-1]

    def ask(self, path: str, plane: Running | None = None, *, body: Any = None, token: str = TOKEN) -> Any:
        """What a plane answers; with a body it is posted."""
        asked = urllib.request.Request(
            f"{(plane or self.plane()).url}/api/fleet{path}",
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            data=None if body is None else json.dumps(body).encode(),
        )
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def services(self, plane: Running | None = None) -> dict[str, Any]:
        return {one["name"]: one for one in self.ask("/services", plane)["items"]}

    def log(self) -> str:
        return (self.data / "plane.log").read_text(encoding="utf-8")


class Hosts:
    """Two hosts, their configuration, and the database between them."""

    def __init__(
        self,
        folder: Path,
        store_url: str,
        *,
        interval_s: float = 0.4,
        registry: str = REGISTRY,
        within: Mapping[str, Sequence[str]] = {"h1": (), "h2": ()},
    ) -> None:
        """`within`: the hosts, and the command that another one is run by on each."""
        self.url = store_url
        self._configuration = folder / "fleet"
        self._configuration.mkdir()
        self.write("policy.yml", POLICY)
        self.write("fleet.yml", registry)
        self.write(
            ".env",
            "FLEET_RECONCILER=true\n"
            f"FLEET_RECONCILER_INTERVAL={interval_s}\n"
            "FLEET_CONFIG_POLL_S=0.3\n"
            "FLEET_ACTUATOR=process\n"
            "FLEET_HTTP_PORT=0\n"
            f"FLEET_LEASE_TTL_S={LEASE_S}\n"
            f"FLEET_ADMIN_TOKEN={TOKEN}\n"
            f"FLEET_STORE_URL={store_url}\n",
        )
        self.all = [Host(name, folder / name, self._configuration, before) for name, before in within.items()]
        self.h1, self.h2 = self.all[:2]

    def write(self, name: str, text: str) -> None:
        """A file of the configuration, replaced at once as an editor does."""
        fresh = self._configuration / f"{name}.new"
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(self._configuration / name)

    def rows(self, question: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(question.encode(), values).fetchall()

    def lease(self, cadence: str = "fleet_reconciler", shard: str = "0") -> tuple[str, int, int, int]:
        """Holder's host, token, since when and until when, as the database has it."""
        [(holder, token, acquired_at, expires_at)] = self.rows(
            "SELECT holder, token, acquired_at, expires_at FROM leases WHERE cadence = %s AND shard = %s",
            [cadence, shard],
        )
        return holder.partition(":")[0], token, acquired_at, expires_at

    def leader(self) -> Host:
        found = self.lease()[0]
        return next(host for host in self.all if host.name == found)

    def done(self) -> list[tuple[str, str, str]]:
        """Every action that was begun: kind, target, state."""
        return self.rows("SELECT kind, target, state FROM outbox WHERE started_at IS NOT NULL ORDER BY seq")

    def both_up(self) -> None:
        """h1 leads and starts `web`; h2 stands by and is given `far`."""
        self.h1.up()
        self.h2.up()
        eventually(lambda: self.as_declared(self.h1) and self.as_declared(self.h2), self.told)

    @staticmethod
    def as_declared(host: Host) -> bool:
        services = host.services()
        return all(one["status"] == "up" and one["ready"] == one["desired"]["replicas"] for one in services.values())

    def told(self) -> str:
        """What a failing test needs to know."""
        return json.dumps(
            {"done": self.done(), "logs": [host.log()[-3000:] for host in self.all if host.world.planes]}, indent=1
        )

    def close(self) -> None:
        for host in self.all:
            for plane in host.world.planes:
                if plane.process.poll() is None:
                    plane.process.send_signal(signal.SIGCONT)
            host.world.close()


class Racer:
    """A process of its own over the database, told round by round what to ask for; by default with a gate."""

    def __init__(self, url: str, name: str, module: str = "racer") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"tests.acceptance.planes.{module}", url, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.answer() == "ready"

    def ask(self, target: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{target}\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(PATIENCE_S)


def eventually(holds: Callable[[], object], told: Callable[[], str]) -> None:
    """Wait until something holds; fails after a long while, with what is told then."""
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, told()
        time.sleep(0.1)


def holds_for(seconds: float) -> None:
    """Let the planes do what they might do wrongly."""
    time.sleep(seconds)
