"""A fleet on loopback with the real `fleetwarden` in subprocesses, as a person at a terminal has it.

Everything that a world starts inherits `CLI_WORLD=<name>`, so that exactly its own processes are found and ended.  Only
the kernel and the command line are asked what is true; nothing of the product is imported.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

PATIENCE_S = 60.0  # a busy machine is no failure
WORLD = "CLI_WORLD"
MARKER = "FLEETWARDEN_INSTANCE"
OURS = ("FLEET", "ACTION_POLICY", "DEPLOY_WATCH", "SCALING")

SETTINGS = """\
FLEET_RECONCILER=true
FLEET_RECONCILER_INTERVAL=0.3
FLEET_CONFIG_POLL_S=0.3
FLEET_ACTUATOR=process
FLEET_DATA_DIR=data
FLEET_HTTP_PORT=0
"""
REGISTRY = """\
version: 1
services:
  - name: web
    replicas: 2
    version: "1.0"
    process: {command: [sleep, "1000"], stop_grace_s: 2}
  - name: worker
    process: {command: [sleep, "1000"], stop_grace_s: 2}
"""
AUTO = """\
version: 1
rules:
  - {kind: "*_service", target: "*", tier: auto, rate_limit: {max: 20, window_s: 3600},
     blast_radius: {max_targets: 10, window_s: 3600}}
"""
ASKS = "version: 1\n"


class Ran(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Running:
    """A `fleetwarden up` in the foreground of somebody else's terminal."""

    def __init__(self, process: subprocess.Popen[bytes], screen: Path) -> None:
        self.process = process
        self._screen = screen

    @property
    def text(self) -> str:
        return self._screen.read_text(encoding="utf-8")

    @property
    def url(self) -> str:
        found = re.search(r"^Console +(http://\S+)", self.text, re.MULTILINE)
        assert found is not None, self.text
        return found[1]

    @property
    def token(self) -> str:
        found = re.search(r"token (fw_\S+)", self.text)
        assert found is not None, self.text
        return found[1]

    def tries(self) -> list[str]:
        """The commands under "Try:", as printed."""
        lines = self.text.partition("Try:")[2].splitlines()[:5]
        return [re.split(r"  +", line.strip())[0] for line in lines]

    def ends(self, number: int) -> int:
        """Send a signal and wait for the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


class World:
    """A folder, its settings, and a shell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = uuid.uuid4().hex
        self.config = folder / "fleet"
        self.config.mkdir()
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        self.env |= {WORLD: self.name, "TZ": "UTC", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        self.planes: list[Running] = []
        self.write(".env", SETTINGS)
        self.write("fleet.yml", REGISTRY)
        self.write("policy.yml", AUTO)

    def write(self, name: str, text: str) -> None:
        """A file of the configuration, replaced at once as an editor does."""
        fresh = self.config / f"{name}.new"
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(self.config / name)

    @property
    def data(self) -> Path:
        return self.config / "data"

    def run(self, *words: str, **env: str) -> Ran:
        """One command, to its end."""
        ended = subprocess.run(
            ["fleetwarden", *words],
            cwd=self.folder,
            env=self.env | env,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_S,
            check=False,
        )
        assert "Traceback" not in ended.stderr, ended.stderr
        return Ran(ended.returncode, ended.stdout, ended.stderr)

    def json(self, *words: str, **env: str) -> Any:
        """The JSON that a command answers with."""
        ran = self.run(*words, "--json", **env)
        assert ran.code == 0, ran
        return json.loads(ran.out)

    def ask(self, path: str, plane: Running | None = None) -> Any:
        """What a plane (the last one) answers over HTTP to its admin: for waiting, where a command would cost more."""
        token = (self.data / "admin.token").read_text().strip()
        url = (plane or self.planes[-1]).url
        asked = urllib.request.Request(f"{url}/api/fleet{path}", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def shell(self, line: str) -> Ran:
        """A line typed into a shell."""
        ended = subprocess.run(
            ["sh", "-c", line],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        return Ran(ended.returncode, ended.stdout, ended.stderr)

    def up(self, *words: str, until: str = "Console ", **env: str) -> Running:
        """Start a plane and wait until its screen shows `until`."""
        return self.start(["fleetwarden", "up", *words], until=until, **env)

    def start(self, command: list[str], *, until: str, **env: str) -> Running:
        """The same with another command that runs a plane in the foreground."""
        screen = self.folder / f"screen-{len(self.planes)}"
        with screen.open("wb") as out:
            process = subprocess.Popen(
                command, cwd=self.folder, env=self.env | env, stdout=out, stderr=subprocess.STDOUT
            )
        plane = Running(process, screen)
        self.planes.append(plane)
        eventually(lambda: until in plane.text or process.poll() is not None, plane.text)
        assert process.poll() is None, plane.text
        return plane

    def pids(self, service: str) -> list[int]:
        """Live processes of a service, as the kernel knows them."""
        found = []
        for pid, environment in self._processes():
            parts = environment.get(MARKER, "").split("/")
            if len(parts) == 4 and parts[1] == service:
                found.append(pid)
        return sorted(found)

    def _processes(self) -> Iterator[tuple[int, dict[str, str]]]:
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                raw = (entry / "environ").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            environment = dict(part.split("=", 1) for part in raw.decode(errors="replace").split("\0") if "=" in part)
            if environment.get(WORLD) == self.name and state != "Z":
                yield int(entry.name), environment

    def close(self) -> None:
        """End every process of this world, by its number."""
        for plane in self.planes:
            if plane.process.poll() is None:
                plane.process.kill()
                plane.process.wait()
        for pid, _ in list(self._processes()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def world_in(folder: Path) -> Iterator[World]:
    made = World(folder)
    try:
        yield made
    finally:
        made.close()


def eventually(holds: Callable[[], object], told: object = "") -> None:
    """Wait until something holds; fails after a long while."""
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, told
        time.sleep(0.1)
