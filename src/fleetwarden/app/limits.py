"""What a plane is built with that follows from its settings alone, or from what the store has kept of its fleet."""

from __future__ import annotations

from fleetwarden.app.autoscaling import intent_limits
from fleetwarden.app.settings import Settings
from fleetwarden.controllers.executor import ExecutorLimits
from fleetwarden.ports.stores import Store, Tx
from fleetwarden.ports.system import IdSource

__all__ = ["executor_limits", "fleet_id"]


def executor_limits(settings: Settings) -> ExecutorLimits:
    """The executor's limits."""
    return ExecutorLimits(
        fence_gap_max_s=settings.fence_gap_max_s,
        lease_ttl_s=settings.fleet_lease_ttl_s,
        watch_window_s=settings.deploy_watch_window,
        parallel_max=settings.fleet_executor_threads,
        converge_s=settings.intent_converge_s,
        intents=intent_limits(settings),
    )


def fleet_id(settings: Settings, store: Store, ids: IdSource) -> str:
    """The fleet's name in instance markers: the setting, or one that is made once and stored."""
    if settings.fleet_id:
        return settings.fleet_id
    fresh = ids.new()

    def run(tx: Tx) -> str:
        known = tx.facts.get("fleet_id")
        if known is None:
            tx.facts.put("fleet_id", fresh)
        return str(known or fresh)

    return store.transact("fleet_id", run)
