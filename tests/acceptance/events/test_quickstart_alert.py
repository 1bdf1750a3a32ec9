"""The quickstart under a real Prometheus and Alertmanager, with the files that it ships: from alert to remedy."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from scripts.components import COMPONENTS
from tests.acceptance.cli.test_examples import bring
from tests.acceptance.cli.world import World, eventually, world_in
from tests.prometheus import free_port

pytestmark = [pytest.mark.needs("prometheus"), pytest.mark.needs("alertmanager")]
QUICK_WATCH = (
    'watch: {window_s: 4, poll_s: 1, grace_s: 1}\n    version: "1.0"\n    process:\n      command: [python3, web.py'
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_in(tmp_path) as made:
        yield made


def moved(world: World, name: str, ports: dict[str, str]) -> Path:
    """A shipped file with other ports in place of its own."""
    path = world.config / "monitoring" / name
    text = path.read_text(encoding="utf-8")
    for old, new in ports.items():
        assert f":{old}" in text
        text = text.replace(f":{old}", f":{new}")
    path.write_text(text, encoding="utf-8")
    return path


@contextmanager
def running(name: str, config: Path, storage: str, port: int, *more: str) -> Iterator[None]:
    binary = COMPONENTS[name].find()
    assert binary is not None
    command = [str(binary), f"--config.file={config}", storage, f"--web.listen-address=127.0.0.1:{port}", *more]
    server = subprocess.Popen([*command, "--log.level=error"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        server.kill()
        server.wait()


@contextmanager
def monitored(world: World, web: int) -> Iterator[None]:
    """Prometheus and Alertmanager as the README says, on other ports."""
    data, alerts, port = world.config / "data", free_port(), free_port()
    made = json.loads(world.run("token", "create", "alerts", "--role", "ingest", "--json").out)
    (data / "alerts.token").write_text(made["secret"])
    plane = re.findall(r":(\d+)", world.planes[-1].url)[0]
    told = moved(world, "alertmanager.yml", {"8800": plane})
    asked = moved(world, "prometheus.yml", {"9093": str(alerts), "9100": str(web), "9101": str(web + 1)})
    with ExitStack() as stack:
        storage = f"--storage.path={data / 'alertmanager'}"
        stack.enter_context(running("alertmanager", told, storage, alerts, "--cluster.listen-address="))
        stack.enter_context(running("prometheus", asked, f"--storage.tsdb.path={data / 'prometheus'}", port))
        yield


def posted(url: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=10) as answer:
        assert answer.status == 200


@pytest.mark.req("EVT-1", "EVT-2", "EVT-4", "PLB-1", "PLB-4", "RUN-1")
def test_a_broken_health_endpoint_is_reported_restarted_watched_and_its_end_closes_the_alert(world: World) -> None:
    first = bring(world, "01-quickstart")["9100"]
    registry = (world.config / "fleet.yml").read_text()
    hurried = registry.replace('version: "1.0"\n    process:\n      command: [python3, web.py', QUICK_WATCH, 1)
    assert hurried != registry
    world.write("fleet.yml", hurried)
    before = world.up(until="Try:")
    eventually(lambda: world.ask("/services/web")["status"] == "up")
    assert before.ends(signal.SIGINT) == 0  # the services stay
    pids = world.pids("web")
    assert len(pids) == 2
    world.up(FLEET_RECONCILER="false")  # nothing is repaired that nobody reports

    def of(state: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = world.ask(f"/events?state={state}&target=web")["items"]
        return found

    with monitored(world, first):
        posted(f"http://127.0.0.1:{first}/break")
        eventually(lambda: of("firing"))
        eventually(lambda: of("firing")[0]["remediation_status"] == "succeeded", lambda: of("firing"))
        eventually(lambda: of("resolved"))
    [fired], [over] = of("firing"), of("resolved")
    assert (fired["source"], fired["severity"], fired["service"]) == ("alertmanager", "critical", "web")
    log = fired["remediation_log"]
    assert [one["kind"] for one in log if one.get("step") is not None] == ["confirm", "decide", "act", "watch"]
    assert all(one["ok"] for one in log if one.get("step") is not None)
    assert (fired["open"], fired["ended_by"]) == (False, over["id"])
    assert len(set(world.pids("web")) & set(pids)) == 1  # the broken one was restarted, the other was left alone
    [done] = [one for one in world.ask("/executions")["items"] if one["kind"] == "restart_service"]
    assert (done["target"], done["ok"]) == ("web", True)
    assert "watch" in world.run("events", "show", fired["id"]).out
    assert world.run("down", "--services").code == 0
