"""A small plane in a process of its own, to be killed.

`python plane.py FOLDER FLEET WHEN KIND SERVICE-AS-JSON KEY [VERSION]`, VERSION: where a rollout goes.
WHEN: `never` (waits until it is killed), `becomes a bad parent`, or the point at which it kills itself with SIGKILL:
`before spawn`, `after spawn`, `after SIGTERM`, `after SIGKILL`, `after all`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import msgspec

from fleetwarden.adapters.substrates.process import PosixSignaller, PosixSpawner, ProcessSubstrate, SpawnOrder
from fleetwarden.adapters.substrates.process.proc import Stat
from fleetwarden.adapters.system import SystemClock
from fleetwarden.domain.actions import ActionRequest
from fleetwarden.domain.fleet import Service
from fleetwarden.ports.actuation import ActuationCall

FOLDER, FLEET, WHEN, KIND, SERVICE, KEY = sys.argv[1:7]
PARAMS = {"version": sys.argv[7]} if len(sys.argv) > 7 else {}


def point(name: str) -> None:
    if name == WHEN:
        os.kill(os.getpid(), signal.SIGKILL)


class DyingSpawner(PosixSpawner):
    def spawn(self, order: SpawnOrder) -> int:
        point("before spawn")
        pid = super().spawn(order)
        point("after spawn")
        return pid


class DyingSignaller(PosixSignaller):
    def send(self, process: Stat, number: int, *, group: bool) -> bool:
        sent = super().send(process, number, group=group)
        point(f"after {signal.Signals(number).name}")
        return sent


def main() -> None:
    clock = SystemClock()
    substrate = ProcessSubstrate(
        clock,
        fleet=FLEET,
        host="h1",
        data=Path(FOLDER),
        spawner=DyingSpawner(),
        signaller=DyingSignaller(),
        log_bytes_max=16 * 1024,
        logs_kept=100,
    )
    service = msgspec.json.decode(SERVICE, type=Service)
    request = ActionRequest(
        kind=KIND, target=service.name, params=PARAMS, source="operator", requested_by="test", key=KEY
    )
    call = ActuationCall(key=KEY, request=request, service=service, observed=None, deadline=clock.monotonic() + 30)
    outcome = substrate.actuator.actuate(call)
    point("after all")
    print(msgspec.json.encode(outcome).decode(), flush=True)
    if WHEN == "becomes a bad parent":  # which does not know that it has children, and waits for none
        os.execvp("sleep", ["sleep", "600"])
    while True:
        time.sleep(1)


main()
