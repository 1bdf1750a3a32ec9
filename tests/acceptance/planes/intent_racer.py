"""One of several processes that put the same revision: `python -m tests.acceptance.planes.intent_racer URL COUNT`.

A line of stdin is the revision that everybody has read; the line of stdout says whether this one's intent, for COUNT
replicas, became the next.
"""

from __future__ import annotations

import sys

from fleetwarden.adapters.system import SystemClock
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.contract.lifecycle import IntentOperation, ScaleIntent, SignalSummaryRef, intent_id
from fleetwarden.domain.errors import StaleRevision
from fleetwarden.domain.lifecycles import IntentState
from fleetwarden.ports.stores import Tx
from fleetwarden.store.opening import open_store
from tests.contract.store.records import decide, request

SERVICE = "web"


def wanted(expected: int, count: int, decision: str) -> ScaleIntent:
    name = intent_id(SERVICE, "native", expected, IntentOperation.SCALE.value, count)
    return ScaleIntent(
        service=SERVICE,
        unit=SERVICE,
        controller_mode="native",
        intent_id=name,
        idempotency_key=name,
        expected_revision=expected,
        revision=expected + 1,
        operation=IntentOperation.SCALE,
        desired_replicas=count,
        observed_replicas=1,
        signal=SignalSummaryRef(digest="sha256:0", window_start=1, window_end=2),
        fence=LeaseFence(cadence="fleet_autoscaler", shard="0", holder=str(count), token=1),
        decision_id=decision,
        created_at=1,
    )


def main(url: str, count: int) -> None:
    store = open_store(url, SystemClock())
    print("ready", flush=True)
    for line in sys.stdin:
        expected = int(line)

        def put(tx: Tx, expected: int = expected) -> None:  # no lock is taken: the revision alone decides
            key = f"{expected}-{count}"
            decided = decide(tx, request(SERVICE, "scale_service", key=key, params={"replicas": count}))
            tx.intents.put(
                wanted(expected, count, decided.id), state=IntentState.INTENT_ACCEPTED, decision_seq=decided.seq
            )

        try:
            store.transact("put", put)
        except StaleRevision:
            print("stale", flush=True)
        else:
            print("accepted", flush=True)
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
