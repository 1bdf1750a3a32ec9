"""The watches of one simulated plane, put together as the product does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetwarden.controllers.deploy_watch import DeployWatches, Terms
from fleetwarden.controllers.intent_desk import IntentDesk
from fleetwarden.controllers.watch_follow_up import WatchFollowUp

if TYPE_CHECKING:
    from tests.simulation.plane import SimPlane

__all__ = ["POLL_S", "watches_of"]

POLL_S = 5.0


def watches_of(plane: SimPlane) -> DeployWatches:
    """Its steps, over the plane's own store, gate and sight."""
    files = plane.history.files
    follow_up = WatchFollowUp(
        plane.store,
        files,
        plane.sightings,
        plane.gate,
        IntentDesk(plane.store, files, plane.wakes, plane.gate.texts),
        acting=frozenset(plane.history.substrates),
        refusal=plane._refusal,
    )
    return DeployWatches(
        plane.store,
        files,
        plane.sightings,
        None,
        follow_up.step,
        holder=plane.name,
        lease_s=30.0,
        terms=Terms(poll_s=POLL_S),
    )
