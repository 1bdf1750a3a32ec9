"""One of two processes that race for a budget: `python -m tests.acceptance.planes.racer URL NAME`.

A line of stdin names a target; the answer of the gate is the line of stdout.
"""

from __future__ import annotations

import sys

from fleetwarden.adapters.system import SystemClock, SystemIds
from fleetwarden.controllers.gate import Gate
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.domain.actions import Tier
from fleetwarden.store.opening import open_store
from fleetwarden.testing import FakeConfiguration, a_fleet, a_policy, a_request, a_service

TARGETS = ("left", "right")


def main(url: str, name: str) -> None:
    services = [a_service(target) for target in TARGETS]
    files = FakeConfiguration()
    files.declare(fleet=a_fleet(*services), policy=a_policy(Tier.AUTO, rate=(1_000_000, 3600), blast=(1, 3600)))
    store, ids = open_store(url, SystemClock()), SystemIds()
    gate = Gate(store, files, Wakes(), prepared_ttl_s=3600)
    print("ready", flush=True)
    for line in sys.stdin:
        service = next(one for one in services if one.name == line.strip())
        [answer] = gate.admit([a_request(service, key=ids.new(), requested_by=name)], fence=None)
        print(answer.answer.value, flush=True)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
