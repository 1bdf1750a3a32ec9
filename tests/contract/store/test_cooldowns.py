"""The newest real change of a count, whatever stands beside it in the ledger, on both databases."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.domain.actions import ExecutionState
from fleetwarden.ports.stores import ExecutionDraft, Tx
from tests.contract.store.records import carried_out, request


def ended(tx: Tx, at: int, target: str = "web", **changed: Any) -> None:
    action = carried_out(tx, request(target, "scale_service"))
    values: dict[str, Any] = {
        "kind": "scale_service",
        "source": "autoscaler",
        "state": ExecutionState.EXECUTED,
        "ok": True,
        "dry_run": False,
        **changed,
    }
    tx.executions.append(
        ExecutionDraft(action_seq=action.seq, decision_seq=action.decision_seq, at=at, target=target, **values)
    )


@pytest.mark.req("AUT-13", "AUT-10", "AUT-8")
def test_only_real_successes_of_scaling_count_and_the_newest_time_not_the_newest_row(store):
    def write(tx: Tx) -> None:
        ended(tx, 500)
        ended(tx, 300)  # a later row with an earlier time
        ended(tx, 900, state=ExecutionState.SIMULATED, dry_run=True)
        ended(tx, 901, dry_run=True)
        ended(tx, 902, state=ExecutionState.FAILED, ok=False)
        ended(tx, 903, state=ExecutionState.RECOVERY_PENDING, ok=False)
        ended(tx, 904, kind="restart_service")
        ended(tx, 700, target="api", source="operator")

    store.transact("write", write)
    found = store.read(lambda tx: tx.cooldowns.last_scales(["web", "api", "db"]))
    assert found == {"web": 500, "api": 700}
