"""One test world: a configuration folder, a database, real processes, and planes that are run and killed in it.

A service of a world is a shell that notes its own start with its marker in `starts` and then becomes `sleep`; what it
notes is evidence that no plane and no database had a hand in.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from tests.acceptance.crash import processes
from tests.acceptance.crash.processes import Instance

__all__ = ["AUTO", "Database", "Server", "Service", "World", "registry", "server"]

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = {
    "FLEET_RECONCILER": "true",
    "FLEET_REJECTED_HOLD_S": "0",  # what is rejected is asked again within the story
    "FLEET_STORM_MIN": "100",  # everything may fall at once here
    "FLEET_RECONCILER_INTERVAL": "1",
    "FLEET_CONFIG_POLL_S": "0.2",
    "FLEET_ACTUATOR": "process",
    "FLEET_HOST": "h1",
    "FLEET_EXECUTOR_THREADS": "1",  # one call after the other: a kill point is the same place in every run
    "FLEET_LOG_LEVEL": "warning",
}
AUTO = """\
version: 1
rules:
  - {kind: "*_service", target: "*", tier: auto, rate_limit: {max: 3, window_s: 3600},
     blast_radius: {max_targets: 9, window_s: 3600}}
"""
POLL_S, IMPATIENT_AFTER, POLLS_MAX = 0.05, 40, 2400
STUBBORN = "trap '' TERM; "
KEPT = ("deploy_watches", "intents")  # what a death must not change is read after each


class Database(Protocol):
    """Where a world's store is."""

    url: str

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """What a plain driver reads; nothing while there are no tables."""

    def advance(self, seconds: float) -> None:
        """Let time pass where the database has the time."""

    def let_go(self) -> None:
        """The world is gone."""


@dataclass(frozen=True)
class Service:
    """One service of the registry.

    `stubborn`: it ignores SIGTERM.  `curable`: an instance is sick while there is a file `sick-<index>`, and takes the
    file away when it starts.  `first`: shell words before it notes its start.  `version`: 1.0 or 1.1, which differ by
    name; each is sick wherever it runs while there is a file `spoilt-<version>`.  `scaling`: its block.
    """

    name: str
    replicas: int = 1
    desired: str = "running"
    mode: str = "live"
    command: str = ""
    stubborn: bool = False
    curable: bool = False
    first: str = ""
    version: str = ""
    scaling: Mapping[str, Any] = field(default_factory=dict)

    def entry(self, starts: Path) -> dict[str, Any]:
        trap = STUBBORN if self.stubborn else ""
        sick = starts.with_name("sick-{index}")
        cure = f'rm -f "{sick}"; ' if self.curable else ""
        noted = f'{trap}{cure}{self.first}echo "$FLEETWARDEN_INSTANCE $$" >> "{starts}"; exec sleep 900'
        command = [self.command] if self.command else ["/bin/sh", "-c", noted]
        process: dict[str, Any] = {"command": command, "stop_grace_s": 0.2}
        if self.curable:
            looked = ["/bin/sh", "-c", f'test ! -e "{sick}"']
            process["health"] = {"command": looked, "failures": 1, "timeout_s": 30, "start_grace_s": 0.5}
        if self.version:
            process["versions"] = {"1.0": {}, "1.1": {}}
            looked = ["/bin/sh", "-c", f'test ! -e "{starts.with_name("spoilt-{version}")}"']
            process["health"] = {"command": looked, "failures": 1, "timeout_s": 30, "start_grace_s": 0.5}
        return {
            "name": self.name,
            **({"version": self.version} if self.version else {}),
            "replicas": self.replicas,
            "desired": self.desired,
            "mode": self.mode,
            **({"scaling": dict(self.scaling)} if self.scaling else {}),
            "process": process,
        }


def registry(starts: Path, services: Sequence[Service]) -> str:
    """The text of fleet.yml; JSON is YAML."""
    return json.dumps({"version": 1, "services": [one.entry(starts) for one in services]})


class Server:
    """The process that forks a plane for each plan."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.acceptance.crash.runner"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, plan: Mapping[str, Any]) -> int:
        """The exit code; -9 if it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(plan) + "\n")
        self._process.stdin.flush()
        return int(json.loads(self._process.stdout.readline())["code"])

    def close(self) -> None:
        self._process.communicate()


@contextlib.contextmanager
def server() -> Iterator[Server]:
    made = Server()
    try:
        yield made
    finally:
        made.close()


@dataclass
class World:
    """`run` runs steps until they end or the plane is dead; `killed_in` is the step in which it died.

    `kept`: what the database said after each death.
    """

    folder: Path
    database: Database
    server: Server
    settings: dict[str, str] = field(default_factory=dict)
    name: str = field(default_factory=lambda: secrets.token_hex(6))
    runs: int = 0
    killed_in: int = 0
    closed: bool = False
    kept: list[dict[str, list[dict[str, Any]]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.config.mkdir(parents=True)
        self.data.mkdir()
        self.write("policy.yml", AUTO)

    @property
    def config(self) -> Path:
        return self.folder / "fleet"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def starts_file(self) -> Path:
        return self.folder / "starts"

    def write(self, name: str, text: str) -> None:
        (self.config / name).write_text(text, encoding="utf-8")

    def declare(self, *services: Service) -> None:
        self.write("fleet.yml", registry(self.starts_file, services))

    @property
    def environment(self) -> dict[str, str]:
        places = {"FLEET_DATA_DIR": str(self.data), "FLEET_STORE_URL": self.database.url}
        return SETTINGS | places | self.settings

    def plan(self, steps: Sequence[Sequence[Any]], *, kill: str | None, start: int, **more: Any) -> dict[str, Any]:
        self.runs += 1
        return {
            "world": self.name,
            "folder": str(self.folder),
            "config": str(self.config),
            "database": self.database.url,
            "environment": self.environment,
            "trace": f"trace.{self.runs}",
            "steps": steps,
            "from": start,
            "kill": kill,
            "armed": start > 0 or "arm" not in {step[0] for step in steps},
            "threads": False,
        } | more

    def run(self, steps: Sequence[Sequence[Any]], *, kill: str | None = None, start: int = 0, **more: Any) -> bool:
        """One plane.  Returns whether it was killed; anything but that and a clean end is an error of the test."""
        code = self.server.run(self.plan(steps, kill=kill, start=start, **more))
        self.killed_in = int((self.folder / "progress").read_text(encoding="ascii"))
        if code not in (0, -signal.SIGKILL):
            raise AssertionError(f"the plane ended with {code}:\n{self.log()}")
        if code == 0 and kill is not None:
            raise AssertionError(f"the plane never came to {kill}; it passed:\n{' '.join(self.trace(self.runs))}")
        if code != 0:
            self.kept.append({name: self.database.rows(f"SELECT * FROM {name} ORDER BY seq") for name in KEPT})
        return code != 0

    def run_on(self, steps: Sequence[Sequence[Any]], kills: Sequence[str | None], **more: Any) -> None:
        """A plane for each kill, each taking up what the one before was doing; the last kill is None: it ends."""
        start = 0
        for kill in kills:
            if self.run(steps, kill=kill, start=start, **more):
                start = self.killed_in

    def trace(self, run: int) -> list[str]:
        """The steps that a run passed, in order."""
        path = self.folder / f"trace.{run}"
        return path.read_text(encoding="ascii").split() if path.exists() else []

    def log(self) -> str:
        path = self.folder / "plane.log"
        return path.read_text(encoding="utf-8", errors="replace")[-6000:] if path.exists() else "(no log)"

    def set_clock(self, ahead_s: float) -> None:
        """How far the next plane's clock is ahead of this machine's."""
        (self.folder / "clock.offset").write_text(str(ahead_s), encoding="ascii")

    # --- evidence

    def living(self) -> list[Instance]:
        return processes.instances(self.name)

    def starts(self) -> list[tuple[str, int, str]]:
        """Every start that a service noted itself: service, index, key."""
        return _noted(self.starts_file)

    def settle(self) -> None:
        """Wait until what lives has noted its start: before that its shell may still run another command as a child."""
        until = time.monotonic() + processes.PATIENCE_S
        while Counter(one.start for one in self.living()) - Counter(self.starts()) and time.monotonic() < until:
            time.sleep(0.05)

    def lost(self) -> list[tuple[str, int, str]]:
        """What the test killed itself."""
        return _noted(self.folder / "lost")

    def told(self) -> list[str]:
        """The notices that people got."""
        path = self.folder / "told"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def deeds(self) -> list[str]:
        """What other systems did under a claim: kind and target."""
        path = self.folder / "deeds"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def uses(self) -> dict[str, int]:
        found: dict[str, int] = json.loads((self.folder / "uses.json").read_text(encoding="utf-8"))
        return found

    def lose(self, service: str, index: int) -> None:
        """kill -9 of one instance."""
        processes.lose(self.name, service, index, self.folder / "lost")

    def wait_for(self, true: Callable[[], bool], what: str, impatient: Callable[[float], None] | None = None) -> None:
        """Wait; `impatient` is called with seconds now and then, to let time pass."""
        for poll in range(1, POLLS_MAX):
            if true():
                return
            if impatient is not None and poll % IMPATIENT_AFTER == 0:
                impatient(10.0)
            time.sleep(POLL_S)
        raise AssertionError(f"in vain waited for: {what}\n{self.log()}")

    def close(self) -> None:
        """End every process of this world, and remove what it wrote.  Once is enough; again does nothing."""
        if self.closed:
            return
        self.closed = True
        processes.end_all(self.name)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.database.let_go()

    def command(self, *words: str) -> subprocess.Popen[str]:
        """The product's own command in this world; read what it says, or let `plane` write it to the log."""
        return self._started(words, subprocess.PIPE)

    def plane(self) -> subprocess.Popen[str]:
        """`up`, once it answers and has looked at the fleet."""
        greeted = self.greetings()
        started = self.standby()
        self.wait_for(lambda: self.greetings() > greeted or started.poll() is not None, "a plane that answers")
        assert started.poll() is None, self.log()
        return started

    def greetings(self) -> int:
        """How many planes have said where they answer."""
        path = self.folder / "plane.log"
        return path.read_text(encoding="utf-8", errors="replace").count("Console  http") if path.exists() else 0

    def standby(self) -> subprocess.Popen[str]:
        """`up`, not waited for: a plane that another one keeps from acting has nothing to look at."""
        with (self.folder / "plane.log").open("ab") as log:
            return self._started(("up", "--port", "0"), log)

    def _started(self, words: Sequence[str], output: int | IO[bytes]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "fleetwarden", *words, "--config", str(self.config)],
            cwd=self.folder,
            env={**os.environ, **self.environment, processes.WORLD: self.name},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


def _noted(path: Path) -> list[tuple[str, int, str]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = []
    for line in lines:
        marker = line.partition(" ")[0].split("/")
        service, index, key = marker[-3:]
        found.append((service, int(index), key))
    return found
