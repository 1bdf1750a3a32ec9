"""A real process is killed under a plane that runs on threads: it comes back long before the next whole pass."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fleetwarden.app.bootstrap import Plane
from fleetwarden.app.identity import local_admin
from fleetwarden.app.settings import load_settings
from fleetwarden.domain.fleet import Service
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.ports.stores import Page

REGISTRY = """version: 1
services:
  - name: web
    replicas: 2
    process: {{command: [{python}, -c, "import time; time.sleep(600)"]}}
  - name: other
    process: {{command: [{python}, -c, "import time; time.sleep(600)"]}}
"""
POLICY = (
    "version: 1\ndefaults: {rate_limit: {max: 100, window_s: 60}, blast_radius: {max_targets: 100, window_s: 60}}\n"
    "rules:\n  - {kind: '*_service', target: '*', tier: auto}\n"
)
PATIENCE_S = 60.0  # how long a test waits for what has to happen; never how long it may take


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.01)


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    """A running plane whose whole passes come once an hour, unless something wakes them."""
    (tmp_path / "fleet.yml").write_text(REGISTRY.format(python=sys.executable))
    (tmp_path / "policy.yml").write_text(POLICY)
    environment = {
        "FLEET_DATA_DIR": str(tmp_path / "data"),
        "FLEET_RECONCILER": "1",
        "FLEET_RECONCILER_INTERVAL": "3600",
        "FLEET_ACTUATOR": "process",
    }
    (tmp_path / "data").mkdir()
    made = Plane(load_settings(tmp_path, environment))
    made.start()
    try:
        eventually(lambda: alive(made) == {"other": 1, "web": 2})
        yield made
    finally:
        made.stop()
        for one in made._substrates.observers[0].observe(_services(made), 0).values():
            for instance in one.instances:
                if instance.pid is not None:
                    os.kill(instance.pid, signal.SIGKILL)


def _services(plane: Plane) -> list[Service]:
    return list(plane.configuration.current().fleet.services.values())


def alive(plane: Plane) -> dict[str, int]:
    look = plane.sightings.look(_services(plane))
    return {name: sum(one.pid is not None for one in seen.instances) for name, seen in look.seen.items()}


def pids(plane: Plane, name: str) -> dict[str, int | None]:
    look = plane.sightings.look(_services(plane))
    return {one.id: one.pid for one in look.seen[name].instances}


def at_rest(plane: Plane) -> bool:
    """No record is open, and no pass was begun since."""
    open_ones = plane.store.read(
        lambda tx: tx.outbox.in_state(OutboxState.PREPARED, OutboxState.RUNNING, OutboxState.RECOVERY_PENDING)
    )
    return not open_ones


def is_anew(plane: Plane, killed: int) -> bool:
    """Whether the second replica is another process by now."""
    return pids(plane, "web").get("1") not in (None, killed)


@pytest.mark.req("REC-7", "REC-10")
def test_a_killed_replica_is_repaired_by_a_targeted_pass_of_its_service_alone(plane: Plane) -> None:
    mine: Mapping[str, Any] = {}
    for _ in range(3):  # a pass over everything that was due just then may have come first
        eventually(lambda: at_rest(plane))
        before = pids(plane, "web")
        killed = before["1"]
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        eventually(partial(is_anew, plane, killed))
        eventually(lambda: at_rest(plane))
        assert pids(plane, "web")["0"] == before["0"]
        record = plane.store.read(lambda tx: tx.outbox.list(Page(target="web")))[0]
        assert (record.request.kind, dict(record.request.params)) == ("restart_service", {"replica": 1})
        reports = plane.store.read(lambda tx: tx.reports.list(Page(limit=100)))
        [mine] = [one.body for one in reports if record.id in one.body["prepared"]]
        if mine["targets"]:
            break
    assert list(mine["targets"]) == ["web"]


@pytest.mark.req("REC-7", "HLT-1")
def test_without_a_reconciler_services_are_still_seen_and_nothing_is_done(tmp_path: Path) -> None:
    (tmp_path / "fleet.yml").write_text(REGISTRY.format(python=sys.executable))
    (tmp_path / "policy.yml").write_text(POLICY)
    (tmp_path / "data").mkdir()
    made = Plane(load_settings(tmp_path, {"FLEET_DATA_DIR": str(tmp_path / "data"), "FLEET_ACTUATOR": "process"}))
    try:
        made.tick("observation")
        item = made.fleet.service(local_admin(), "web")
        assert item["observed"]["presence"] == "never_started"
        assert item["reason"] == "the reconciler is off"
        told = made.explaining.explain(local_admin(), "web")
        assert told["would_change_if"][0] == "the reconciler is on (FLEET_RECONCILER=1)"
        assert made.supervision.evidence().dependencies["observer:process"].status == "healthy"
        assert made.store.read(lambda tx: tx.decisions.list(Page())) == []
    finally:
        made.stop()
