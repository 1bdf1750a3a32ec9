"""The container image, built by the recipe and run as the Compose file runs it, by an engine that is there.

Without an engine the tests are skipped and say so.  Where no image can be pulled, import one that has Python and the
locked packages, and name it in FLEETWARDEN_TEST_IMAGE_BASE: then nothing is asked of a network.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.postgresql import Cluster

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = ROOT / "deploy" / "compose.yml"
BASE = os.environ.get("FLEETWARDEN_TEST_IMAGE_BASE", "")
TOKEN = "fw_the-token-of-the-container-0123456789"
PATIENCE_S = 90.0
SOCKETS = "/run/postgresql"
REGISTRY = """\
version: 1
services:
  - {name: web, replicas: 2, process: {command: [sleep, "1000"], stop_grace_s: 2}}
"""
POLICY = 'version: 1\nrules:\n  - {kind: "*_service", target: "*", tier: auto}\n'
SETTINGS = "FLEET_RECONCILER=true\nFLEET_RECONCILER_INTERVAL=1\nFLEET_ACTUATOR=process\n"


def engine() -> bool:
    """Whether an engine answers."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=30).returncode == 0


pytestmark = [
    pytest.mark.needs("postgresql"),
    pytest.mark.skipif(not engine(), reason="no container engine answers; DOCKER_HOST says where one is"),
]


def docker(*words: str, must: bool = True) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False, timeout=600, cwd=ROOT)
    assert done.returncode == 0 or not must, f"docker {' '.join(words)}: {done.stdout[-2000:]} {done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    name = f"fleetwarden-test:{uuid.uuid4().hex[:12]}"
    without_network = ["--network", "none", "--build-arg", f"PYTHON={BASE}"] if BASE else []
    docker("build", "-f", "deploy/Containerfile", "-t", name, *without_network, ".")
    yield name
    docker("rmi", "-f", name, must=False)


class Container:
    """A plane, run with what the Compose file says of it, over a database whose socket is put into it."""

    def __init__(self, image: str, folder: Path, cluster: Cluster) -> None:
        self.name = f"fleetwarden-{uuid.uuid4().hex[:12]}"
        database = cluster.empty_database()
        with cluster.connect() as connection:
            [[sockets]] = connection.execute("SHOW unix_socket_directories").fetchall()
        Path(sockets).chmod(0o711)  # whoever the container runs as may reach the socket, and nothing else there
        url = f"postgresql://postgres@/{database}?host={SOCKETS}&port={cluster.port}"
        fleet, secrets = folder / "fleet", folder / "secrets"
        for place, texts in (
            (fleet, {"fleet.yml": REGISTRY, "policy.yml": POLICY, ".env": SETTINGS}),
            (secrets, {"store_url": url, "admin_token": TOKEN}),
        ):
            place.mkdir()
            for name, text in texts.items():
                (place / name).write_text(text, encoding="utf-8")
        for one in (folder, *folder.parents[:2]):
            one.chmod(0o755)
        plane: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]["plane"]
        assert (plane["read_only"], plane["init"]) == (True, True)
        words = ["--read-only", "--init", *(f"--tmpfs={one}" for one in plane["tmpfs"])]
        words += [f"--cap-drop={one}" for one in plane["cap_drop"]]
        words += [f"--security-opt={one}" for one in plane["security_opt"]]
        words += [f"--env={name}={value}" for name, value in plane["environment"].items()]
        words += [f"--volume={fleet}:/etc/fleetwarden:ro", f"--volume={secrets}:/run/secrets:ro"]
        words += [f"--volume={self.name}:/var/lib/fleetwarden", f"--volume={sockets}:{SOCKETS}"]
        docker("run", "--detach", "--name", self.name, "--network", "none", *words, image)

    def told(self) -> str:
        done = subprocess.run(["docker", "logs", self.name], capture_output=True, text=True, check=False, timeout=60)
        return done.stdout + done.stderr

    def state(self) -> dict[str, Any]:
        found: list[dict[str, Any]] = json.loads(docker("inspect", self.name))
        state: dict[str, Any] = found[0]["State"]
        return state

    def run(self, *words: str) -> str:
        return docker("exec", "--env", f"FLEET_TOKEN={TOKEN}", self.name, *words, must=False)

    def eventually(self, holds: Any) -> None:
        until = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < until, self.told()
            time.sleep(0.5)

    def ready(self) -> int:
        """How many instances of `web` the plane says are ready."""
        out = self.run("fleetwarden", "status", "--url", "http://127.0.0.1:8800", "--json")
        try:
            return sum(one["ready"] for one in json.loads(out)["services"])
        except (ValueError, KeyError, TypeError):
            return 0

    def processes(self) -> set[int]:
        """The pids of `web` in the container, as its kernel has them."""
        code = "import psutil; print(*(p.pid for p in psutil.process_iter() if p.name() == 'sleep'))"
        return set(map(int, self.run("python", "-c", code).split()))

    def close(self) -> None:
        docker("rm", "-f", self.name, must=False)
        docker("volume", "rm", "-f", self.name, must=False)


@pytest.fixture
def container(image: str, tmp_path: Path, postgresql: Cluster) -> Iterator[Container]:
    made = Container(image, tmp_path, postgresql)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.req("RUN-15")
def test_the_image_runs_as_the_compose_file_says_heals_its_processes_and_ends_when_told(container: Container) -> None:
    container.eventually(lambda: container.state()["Health"]["Status"] == "healthy")
    assert container.run("id", "-u").strip() == "10001"
    assert container.run("sh", "-c", "touch /etc/x /opt/x 2>/dev/null; ls /etc/x /opt/x 2>/dev/null") == ""
    container.eventually(lambda: container.ready() == 2)
    before = container.processes()
    assert len(before) == 2
    container.run("python", "-c", f"import os; os.kill({min(before)}, 9)")
    container.eventually(lambda: len(container.processes() - {min(before)}) == 2)
    container.eventually(lambda: container.ready() == 2)
    assert TOKEN not in container.told()
    docker("stop", "--time", "60", container.name)
    assert container.state()["ExitCode"] == 0, container.told()
