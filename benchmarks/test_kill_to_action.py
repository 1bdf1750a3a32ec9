"""How long it takes from the death of a process until its repair has begun, in a plane that runs on threads.

Beside each other: the targeted pass that an exit wakes, and what it replaces, an exit that wakes the whole pass, in a
small fleet and in one of a thousand services.  `extra_info` splits the way: kill → told, → decided, → begun (commit 1),
p50 and p95 in milliseconds.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fleetwarden.app.bootstrap import Plane
from fleetwarden.app.identity import local_admin
from fleetwarden.app.settings import load_settings
from fleetwarden.domain.actions import OutboxRecord
from fleetwarden.domain.lifecycles import OPEN_RECORDS
from fleetwarden.ports.stores import Page

ROUNDS = 20
# Each dies once: after a second exit the next look would be put off, and a third in a row is told to people instead.
DYING = [f"web-{number}" for number in range(ROUNDS)]
WEB = """  - name: {name}
    process: {{command: [{python}, -c, "import time; time.sleep(600)"]}}
"""
QUIET = "  - {{name: quiet-{number}, replicas: 0, process: {{command: [sleep, '600']}}}}\n"
POLICY = (
    "version: 1\n"
    "defaults: {rate_limit: {max: 1000, window_s: 60}, blast_radius: {max_targets: 1000, window_s: 60}}\n"
    "rules:\n  - {kind: '*_service', target: '*', tier: auto}\n"
)


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.002)


@pytest.fixture(params=[ROUNDS, 1_000], ids=[f"{ROUNDS} services", "1000 services"])
def plane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Plane]:
    dying = "".join(WEB.format(name=name, python=sys.executable) for name in DYING)
    quiet = "".join(QUIET.format(number=number) for number in range(request.param - ROUNDS))
    (tmp_path / "fleet.yml").write_text("version: 1\nservices:\n" + dying + quiet)
    (tmp_path / "policy.yml").write_text(POLICY)
    (tmp_path / "data").mkdir()
    environment = {
        "FLEET_DATA_DIR": str(tmp_path / "data"),
        "FLEET_RECONCILER": "1",
        "FLEET_RECONCILER_INTERVAL": "3600",
        "FLEET_ACTUATOR": "process",
        "FLEET_RECONCILER_MAX_ACTIONS": "100",
        "FLEET_STORM_MIN": "1000",
    }
    made = Plane(load_settings(tmp_path, environment))
    made.start()
    until(lambda: all(pid_of(made, name) is not None for name in DYING))
    yield made
    last = [pid_of(made, name) for name in DYING]
    made.stop()
    for pid in last:
        if pid is not None:
            os.kill(pid, signal.SIGKILL)


def pid_of(plane: Plane, name: str) -> int | None:
    """Of the instance that was up when anybody looked last."""
    instances = plane.fleet.service(local_admin(), name)["instances"]
    return next((one["pid"] for one in instances if one["status"] == "up"), None)


def at_rest(plane: Plane) -> bool:
    idle = plane.loop.states["fleet_reconciler"].last_ended
    return not plane.store.read(lambda tx: tx.outbox.in_state(*OPEN_RECORDS)) and idle is not None


@pytest.mark.parametrize("how", ["targeted pass", "whole pass"])
def test_kill_to_action_begun(benchmark: BenchmarkFixture, plane: Plane, how: str) -> None:
    assert plane.push is not None
    told: list[float] = []
    ended = plane.push.ended

    def hear(service: str) -> None:
        told.append(time.time())
        if how == "targeted pass":
            ended(service)
        else:
            plane.wakes.wake("fleet_reconciler")

    plane.push.ended = hear  # type: ignore[method-assign]
    stages: dict[str, list[float]] = {"told": [], "decided": [], "begun": []}

    left = iter(DYING)

    def newest() -> OutboxRecord:
        return plane.store.read(lambda tx: tx.outbox.list(Page(limit=1)))[0]

    def settle() -> tuple[tuple[int, int], dict[str, object]]:
        until(lambda: at_rest(plane))
        time.sleep(0.2)  # the whole pass that a success wakes
        pid = pid_of(plane, next(left))
        assert pid is not None
        return (pid, newest().seq), {}

    def kill(pid: int, before: int) -> None:
        told.clear()
        killed = time.time()
        os.kill(pid, signal.SIGKILL)
        until(lambda: newest().seq > before and newest().started_at is not None)
        record = newest()
        decision = plane.store.read(lambda tx: tx.decisions.get(record.decision_seq))
        assert record.started_at is not None
        for name, at in (("told", told[0]), ("decided", decision.at / 1e6), ("begun", record.started_at / 1e6)):
            stages[name].append(1000 * (at - killed))

    benchmark.pedantic(kill, setup=settle, rounds=ROUNDS)
    for name, values in stages.items():
        ordered = sorted(values)
        benchmark.extra_info[f"{name}_ms_p50"] = round(statistics.median(ordered), 1)
        benchmark.extra_info[f"{name}_ms_p95"] = round(ordered[int(0.95 * (len(ordered) - 1))], 1)
    print(how, dict(benchmark.extra_info))
    assert len(stages["begun"]) == ROUNDS
